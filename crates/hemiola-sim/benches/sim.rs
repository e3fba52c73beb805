//! How fast clusters in virtual time run: events of each protocol. `hemiola bench sim` has the same and a training, with a report.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hemiola_sim::workload::speed::Talk;

fn events(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("events");
    group.sample_size(10);
    for (talk, peers, times) in
        [(Talk::AllReduce, 128, 2), (Talk::Barrier, 1024, 10), (Talk::Mixing, 256, 10), (Talk::Tables, 32, 40)]
    {
        let events = talk.run(peers, times).expect("it comes to an end").events;
        group.throughput(Throughput::Elements(events));
        group.bench_function(talk.name(), |bencher| bencher.iter(|| talk.run(peers, times)));
    }
    group.finish();
}

criterion_group!(benches, events);
criterion_main!(benches);
