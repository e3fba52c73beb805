//! BSP results are bit-identical whatever the order of messages and workers, also for a job
//! restored from a snapshot on another number of shards.

use crate::model::TestRng;
use crate::test_network::TestNetwork;
use half::bf16;
use hemiola_core::WorkerId;
use hemiola_tables_proto::dtype::StorageType;
use hemiola_tables_proto::server::snapshot::{SnapshotChunk, SnapshotSummary};
use hemiola_tables_proto::update_rule::{AdaGrad, AdaRevision, Adam, Addition, Sgd, SnapshotAdaRevision};
use hemiola_tables_proto::{Clock, KeySpace, RowCells, RowInitializer, ShardId, ShardServer, TableSpec, UpdateRule};
use std::sync::Arc;

const ROWS: u64 = 11;
const WIDTH: usize = 5;
const CLIENTS: usize = 3;
const WORKERS: usize = 2;
const CLOCKS: u64 = 6;

fn spec(shards: usize) -> TableSpec {
    let initializer = RowInitializer::Normal { seed: 7, mean: 0.0, std_dev: 0.3 };
    TableSpec {
        shards,
        clients: CLIENTS,
        initializer,
        cache_rows: 2,
        ..TableSpec::new("bits", KeySpace::Growing, WIDTH)
    }
}

/// Progress of one worker.
#[derive(Clone, Copy)]
struct WorkerProgress {
    clock: u64,
    done: bool,
}

/// Trains from `start` to the end; updates depend on every bit that is read. Takes a snapshot at
/// clock `save`, if given.
fn train<C: StorageType<Compute = f32>>(
    net: &mut TestNetwork<C>,
    start: u64,
    save: Option<u64>,
    seed: u64,
) -> Vec<(SnapshotSummary, Vec<SnapshotChunk<C>>)> {
    let mut rng = TestRng::new(seed);
    let mut steps = [[WorkerProgress { clock: start, done: false }; WORKERS]; CLIENTS];
    let mut saved: Vec<(Option<SnapshotSummary>, Vec<SnapshotChunk<C>>)> =
        net.servers.iter().map(|_| (None, Vec::new())).collect();
    if let Some(at) = save {
        net.servers.iter_mut().for_each(|server| server.begin_snapshot(Clock::new(at)).unwrap());
    }
    loop {
        let moved = net.deliver(&mut rng).unwrap();
        for ((summary, chunks), server) in saved.iter_mut().zip(&mut net.servers) {
            if let Some(chunk) = server.next_chunk(30) {
                chunks.push(chunk);
                *summary = summary.take().or(server.end_snapshot());
            }
        }
        let (client, worker) = (rng.below(CLIENTS), rng.below(WORKERS));
        let number = (client * WORKERS + worker) as u64;
        let progress = &mut steps[client][worker];
        let id = WorkerId::new(worker as u32);
        if progress.done {
            if !moved && steps.iter().flatten().all(|progress| progress.done) {
                break;
            }
            continue;
        }
        let clock = progress.clock;
        let keys = [(number + clock) % ROWS, (number * 3 + clock * 7 + 1) % ROWS];
        if !net.fetch(client, id, &keys) {
            continue;
        }
        for (at, key) in keys.into_iter().enumerate() {
            let client = net.client_for(client, key);
            for again in 0..2 {
                let reading = client.get(id, key).unwrap().expect("it was asked for");
                let target = ((number * 31 + clock * 17 + at as u64 + again) as f32).sin();
                let gradient: Vec<f32> = reading.cells.values().iter().map(|value| 0.1 * (value - target)).collect();
                let version = reading.version;
                client.update(id, key, &RowCells::Dense(&gradient), version).unwrap();
            }
        }
        progress.clock += 1;
        progress.done = progress.clock == CLOCKS;
        let done = progress.done;
        net.clock(client, id, done);
    }
    saved.into_iter().filter_map(|(summary, chunks)| summary.map(|summary| (summary, chunks))).collect()
}

fn bits<C: StorageType<Compute = f32>>(net: &TestNetwork<C>) -> Vec<Vec<u32>> {
    (0..ROWS).map(|row| net.row(row).iter().map(|cell| cell.to_compute().to_bits()).collect()).collect()
}

type RuleFactory = Box<dyn Fn() -> Box<dyn UpdateRule<f32>>>;

fn rules() -> Vec<RuleFactory> {
    vec![
        Box::new(|| Box::new(Addition)),
        Box::new(|| Box::new(Sgd::new(0.5))),
        Box::new(|| Box::new(AdaGrad::new(0.2))),
        Box::new(|| Box::new(Adam::new(0.05))),
        Box::new(|| Box::new(AdaRevision::new(0.2))),
        Box::new(|| Box::new(SnapshotAdaRevision::new(0.2, 5))),
    ]
}

fn repeats<C: StorageType<Compute = f32>>() {
    for rule in rules() {
        let mut expected = None;
        for seed in 0..8 {
            let shards = 1 + seed as usize % 3;
            let mut net = TestNetwork::<C>::new(spec(shards), WORKERS, Clock::ZERO, &rule);
            let save = (seed % 2 == 0).then_some(seed / 2 % CLOCKS);
            let saved = train(&mut net, 0, save, seed);
            let end = bits(&net);
            assert!(end.iter().flatten().any(|bits| *bits != 0));
            assert_eq!(*expected.get_or_insert_with(|| end.clone()), end, "{:?} with seed {seed}", rule());
            if let Some(at) = save {
                assert_eq!(saved.len(), shards, "every shard was saved");
                let spec = Arc::new(spec(4 - shards));
                let all = || saved.iter().flat_map(|(_, chunks)| chunks.clone());
                let restore = |shard| {
                    let summary = saved[0].0.clone();
                    assert_eq!(summary.at, Clock::new(at));
                    ShardServer::restore(&spec, ShardId::new(shard as u32), rule(), summary, all()).unwrap()
                };
                let servers = (0..spec.shards).map(restore).collect();
                let mut net = TestNetwork::with_servers(&spec, WORKERS, Clock::new(at), &rule, servers);
                train(&mut net, at, None, seed + 100);
                assert_eq!(bits(&net), end, "{:?} restored at clock {at}", rule());
            }
        }
    }
}

#[test]
fn bsp_is_bit_identical_also_when_restored_on_other_shards() {
    repeats::<f32>();
}

#[test]
fn stochastic_rounding_is_bit_identical_too() {
    repeats::<bf16>();
}
