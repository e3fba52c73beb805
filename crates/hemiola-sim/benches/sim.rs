//! Speed of the simulator: events per second of each protocol. `hemiola bench sim` has the same
//! benchmarks and a training, with a report.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hemiola_sim::workload::protocol_speed::ProtocolBenchmark;

fn events(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("events");
    group.sample_size(10);
    for (benchmark, peers, times) in [
        (ProtocolBenchmark::AllReduce, 128, 2),
        (ProtocolBenchmark::Barrier, 1024, 10),
        (ProtocolBenchmark::Gossip, 256, 10),
        (ProtocolBenchmark::Tables, 32, 40),
    ] {
        let events = benchmark.run(peers, times).expect("the benchmark ends").events;
        group.throughput(Throughput::Elements(events));
        group.bench_function(benchmark.name(), |bencher| bencher.iter(|| benchmark.run(peers, times)));
    }
    group.finish();
}

criterion_group!(benches, events);
criterion_main!(benches);
