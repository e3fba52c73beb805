//! Under BSP the same job gives the same bits, whatever the order of messages and workers; and so does a job that goes on from a snapshot on another
//! number of shards.

use crate::model::Dice;
use crate::net::Net;
use half::bf16;
use hemiola_core::WorkerId;
use hemiola_tables_proto::number::Cell;
use hemiola_tables_proto::procedure::{AdaGrad, AdaRevision, Adam, Add, Sgd};
use hemiola_tables_proto::server::snapshot::{Piece, Summary};
use hemiola_tables_proto::{Cells, Clock, Defaults, Ids, Procedure, Server, ShardId, Spec};
use std::sync::Arc;

const ROWS: u64 = 11;
const WIDTH: usize = 5;
const CLIENTS: usize = 3;
const WORKERS: usize = 2;
const CLOCKS: u64 = 6;

fn spec(shards: usize) -> Spec {
    let defaults = Defaults::Normal { seed: 7, mean: 0.0, deviation: 0.3 };
    Spec { shards, clients: CLIENTS, defaults, cache_rows: 2, ..Spec::new("bits", Ids::Growing, WIDTH) }
}

/// What one worker has still to do: its clock, and whether it has read.
#[derive(Clone, Copy)]
struct Step {
    clock: u64,
    done: bool,
}

/// Runs a program whose updates depend on every bit it reads, from `start` to the end. Takes a snapshot at `save`, if asked to.
fn train<C: Cell<Wide = f32>>(
    net: &mut Net<C>,
    start: u64,
    save: Option<u64>,
    seed: u64,
) -> Vec<(Summary, Vec<Piece<C>>)> {
    let mut dice = Dice::new(seed);
    let mut steps = [[Step { clock: start, done: false }; WORKERS]; CLIENTS];
    let mut saved: Vec<(Option<Summary>, Vec<Piece<C>>)> = net.servers.iter().map(|_| (None, Vec::new())).collect();
    if let Some(at) = save {
        net.servers.iter_mut().for_each(|server| server.begin_snapshot(Clock::new(at)).unwrap());
    }
    loop {
        let moved = net.deliver(&mut dice).unwrap();
        for ((summary, pieces), server) in saved.iter_mut().zip(&mut net.servers) {
            if let Some(piece) = server.next_piece(30) {
                pieces.push(piece);
                *summary = summary.take().or(server.end_snapshot());
            }
        }
        let (client, worker) = (dice.below(CLIENTS), dice.below(WORKERS));
        let number = (client * WORKERS + worker) as u64;
        let step = &mut steps[client][worker];
        let id = WorkerId::new(worker as u32);
        if step.done {
            if !moved && steps.iter().flatten().all(|step| step.done) {
                break;
            }
            continue;
        }
        let clock = step.clock;
        let keys = [(number + clock) % ROWS, (number * 3 + clock * 7 + 1) % ROWS];
        if !net.ask(client, id, &keys) {
            continue;
        }
        for (at, key) in keys.into_iter().enumerate() {
            let machine = net.machine(client, key);
            for again in 0..2 {
                let reading = machine.get(id, key).unwrap().expect("it was asked for");
                let target = ((number * 31 + clock * 17 + at as u64 + again) as f32).sin();
                let gradient: Vec<f32> = reading.cells.values().iter().map(|value| 0.1 * (value - target)).collect();
                let version = reading.version;
                machine.update(id, key, &Cells::Dense(&gradient), version).unwrap();
            }
        }
        step.clock += 1;
        step.done = step.clock == CLOCKS;
        let done = step.done;
        net.clock(client, id, done);
    }
    saved.into_iter().filter_map(|(summary, pieces)| summary.map(|summary| (summary, pieces))).collect()
}

fn bits<C: Cell<Wide = f32>>(net: &Net<C>) -> Vec<Vec<u32>> {
    (0..ROWS).map(|row| net.row(row).iter().map(|cell| cell.widen().to_bits()).collect()).collect()
}

type Make = Box<dyn Fn() -> Box<dyn Procedure<f32>>>;

fn procedures() -> Vec<Make> {
    vec![
        Box::new(|| Box::new(Add)),
        Box::new(|| Box::new(Sgd::new(0.5))),
        Box::new(|| Box::new(AdaGrad::new(0.2))),
        Box::new(|| Box::new(Adam::new(0.05))),
        Box::new(|| Box::new(AdaRevision::new(0.2))),
        Box::new(|| Box::new(AdaRevision::with_snapshots(0.2, 5))),
    ]
}

fn repeats<C: Cell<Wide = f32>>() {
    for procedure in procedures() {
        let mut expected = None;
        for seed in 0..8 {
            let shards = 1 + seed as usize % 3;
            let mut net = Net::<C>::new(spec(shards), WORKERS, Clock::ZERO, &procedure);
            let save = (seed % 2 == 0).then_some(seed / 2 % CLOCKS);
            let saved = train(&mut net, 0, save, seed);
            let end = bits(&net);
            assert!(end.iter().flatten().any(|bits| *bits != 0));
            assert_eq!(*expected.get_or_insert_with(|| end.clone()), end, "{:?} with seed {seed}", procedure());
            if let Some(at) = save {
                assert_eq!(saved.len(), shards, "every shard was saved");
                let spec = Arc::new(spec(4 - shards));
                let all = || saved.iter().flat_map(|(_, pieces)| pieces.clone());
                let restore = |shard| {
                    let summary = saved[0].0.clone();
                    assert_eq!(summary.at, Clock::new(at));
                    Server::restore(&spec, ShardId::new(shard as u32), procedure(), summary, all()).unwrap()
                };
                let servers = (0..spec.shards).map(restore).collect();
                let mut net = Net::with_servers(&spec, WORKERS, Clock::new(at), &procedure, servers);
                train(&mut net, at, None, seed + 100);
                assert_eq!(bits(&net), end, "{:?} restored at clock {at}", procedure());
            }
        }
    }
}

#[test]
fn the_same_job_gives_the_same_bits_also_from_a_snapshot_on_other_shards() {
    repeats::<f32>();
}

#[test]
fn stochastic_rounding_repeats_too() {
    repeats::<bf16>();
}
