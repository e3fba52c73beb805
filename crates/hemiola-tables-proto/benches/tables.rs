//! How fast rows are found, read and changed on one thread: rows of 64 `f32`, chosen by chance from 256 MiB of them.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hemiola_core::WorkerId;
use hemiola_tables_proto::server::rows::RowWrite;
use hemiola_tables_proto::update_rule::Addition;
use hemiola_tables_proto::{
    ClientId, Clock, Consistency, KeySpace, RowCells, SelectionRng, ShardClient, ShardId, ShardServer, TableSpec,
};
use std::hint::black_box;
use std::sync::Arc;

const ROWS: u64 = 1 << 20;
const WIDTH: usize = 64;
const BATCH: usize = 10_000;

fn spec(ids: KeySpace, consistency: Consistency) -> Arc<TableSpec> {
    Arc::new(TableSpec { consistency, ..TableSpec::new("bench", ids, WIDTH) })
}

fn keys() -> Vec<u64> {
    let mut random = SelectionRng::new(5);
    (0..1 << 18).map(|_| random.below(ROWS as usize) as u64).collect()
}

fn in_place(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("in place");
    group.throughput(Throughput::Elements(BATCH as u64));
    let (keys, change) = (keys(), [0.5_f32; WIDTH]);
    for (name, ids) in [("fixed ids", KeySpace::Fixed(ROWS)), ("growing ids", KeySpace::Growing)] {
        let spec = spec(ids, Consistency::Ssp(1));
        let mut server =
            ShardServer::<f32>::new(spec, ShardId::new(0), Box::new(Addition), Clock::ZERO, SelectionRng::new(0))
                .unwrap();
        let write = RowWrite { version: 0, cells: RowCells::Dense(&change), attachment: &[] };
        for key in 0..ROWS {
            server.update_in_place(ClientId::new(0), Clock::ZERO, key, &write).unwrap();
        }
        let mut at = 0;
        group.bench_function(format!("update, {name}"), |bencher| {
            bencher.iter(|| {
                for _ in 0..BATCH {
                    at = (at + 1) % keys.len();
                    server.update_in_place(ClientId::new(0), Clock::ZERO, keys[at], &write).unwrap();
                }
            });
        });
        let (many, positions) = (vec![0.5_f32; BATCH * WIDTH], (0..BATCH).collect::<Vec<_>>());
        group.bench_function(format!("update many, {name}"), |bencher| {
            bencher.iter(|| {
                at = (at + BATCH) % (keys.len() - BATCH);
                server
                    .update_many_in_place(ClientId::new(0), Clock::ZERO, &keys[at..at + BATCH], &positions, &many)
                    .unwrap();
            });
        });
        group.bench_function(format!("read, {name}"), |bencher| {
            bencher.iter(|| {
                for _ in 0..BATCH {
                    at = (at + 1) % keys.len();
                    let row = server.read_in_place(Clock::ZERO, keys[at]).unwrap().unwrap();
                    black_box(row.cells.values().iter().sum::<f32>());
                }
            });
        });
    }
}

fn cached(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cache");
    group.throughput(Throughput::Elements(BATCH as u64));
    let worker = WorkerId::new(0);
    let change = [0.5_f32; WIDTH];
    for (name, consistency, rows) in [
        ("ssp, 256 MiB", Consistency::Ssp(1), ROWS),
        ("ssp, 1 MiB", Consistency::Ssp(1), 4096),
        ("bsp, 1 MiB", Consistency::Bsp, 4096),
    ] {
        let spec = spec(KeySpace::Growing, consistency);
        let mut client =
            ShardClient::<f32>::new(spec.clone(), ClientId::new(0), ShardId::new(0), &Addition, 1, Clock::ZERO);
        let mut server =
            ShardServer::<f32>::new(spec, ShardId::new(0), Box::new(Addition), Clock::ZERO, SelectionRng::new(0))
                .unwrap();
        let keys: Vec<u64> = keys().into_iter().map(|key| key % rows).collect();
        client.fetch(worker, &(0..rows).collect::<Vec<_>>()).unwrap();
        exchange_messages(&mut client, &mut server);
        let mut at = 0;
        group.bench_function(format!("hit, {name}"), |bencher| {
            bencher.iter(|| {
                for _ in 0..BATCH {
                    at = (at + 1) % keys.len();
                    let row = client.get(worker, keys[at]).unwrap().unwrap();
                    black_box(row.cells.values().iter().sum::<f32>());
                }
            });
        });
        group.bench_function(format!("update, {name}"), |bencher| {
            bencher.iter(|| {
                for _ in 0..BATCH {
                    at = (at + 1) % keys.len();
                    client.update(worker, keys[at], &RowCells::Dense(&change), 0).unwrap();
                }
            });
        });
        group.bench_function(format!("{BATCH} updates, clock and push, {name}"), |bencher| {
            bencher.iter(|| {
                for _ in 0..BATCH {
                    at = (at + 1) % keys.len();
                    client.update(worker, keys[at], &RowCells::Dense(&change), 0).unwrap();
                }
                client.clock(worker).unwrap();
                while client.close_some() {}
                exchange_messages(&mut client, &mut server);
            });
        });
    }
}

/// Hands messages over until there are none.
fn exchange_messages(client: &mut ShardClient<f32>, server: &mut ShardServer<f32>) {
    loop {
        let (up, down) = (client.take_outgoing(), server.take_outgoing());
        if up.is_empty() && down.is_empty() {
            return;
        }
        for sent in up {
            server.receive(ClientId::new(0), sent.message).unwrap();
        }
        for sent in down {
            client.receive(sent.message).unwrap();
        }
    }
}

criterion_group!(benches, in_place, cached);
criterion_main!(benches);
