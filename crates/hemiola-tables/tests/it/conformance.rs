//! Conformance: one program on threads, on processes with TCP, and on the simulator.
//!
//! All three run the node of `hemiola-tables-proto`. The program checks every value that it reads.
//! In the end all updates are in the table once; under BSP the rows are equal bit for bit.

#![expect(clippy::print_stdout, reason = "how a peer process tells what it found")]

use crate::support::with_watchdog;
use hemiola_cluster::{Cluster, Result, standalone};
use hemiola_sim::actors::tables::{TableActor, TableActorSetup, TableProgram, TableRows, TableWork};
use hemiola_sim::{ClusterSpec, DataRate, SimDuration, Simulation};
use hemiola_tables::{Addition, Bandwidth, Consistency, TableExt};
use hemiola_tables_proto::{CommPolicy, KeySpace, TableSpec};
use hemiola_testkit::PeerProcesses;
use std::collections::BTreeMap;
use std::sync::Arc;

const PEERS: usize = 2;
const WORKERS: usize = 2;
const SHARDS: usize = 4;
const ROWS: u64 = 24;
const CLOCKS: u64 = 12;
/// Bandwidth of eager sending, in tables with a budget.
const BUDGET: u64 = 1_000_000;
/// A column for the updates of each worker, and one whose values depend on what was read.
const WIDTH: usize = PEERS * WORKERS + 1;

/// Rows of a table, by key.
type Rows = BTreeMap<u64, Vec<f32>>;

/// Kind of table that the program uses.
#[derive(Clone, Copy, Debug)]
struct TableKind {
    staleness: u64,
    budget: bool,
}

const KINDS: [TableKind; 4] = [
    TableKind { staleness: 0, budget: false },
    TableKind { staleness: 1, budget: false },
    TableKind { staleness: 3, budget: false },
    TableKind { staleness: 2, budget: true },
];

/// Program of one worker, clock by clock.
#[derive(Clone, Debug)]
struct WorkerProgram {
    kind: TableKind,
    /// Number of the worker among those of all peers.
    number: usize,
}

/// Rows that a worker reads and updates in a clock.
fn keys(worker: usize, clock: u64) -> [u64; 3] {
    let first = (5 * worker as u64 + 7 * clock) % ROWS;
    [first, (first + 1) % ROWS, (first + 9 + clock) % ROWS]
}

/// Number of a worker's updates to a row in the clocks before `end`.
fn updates(worker: usize, key: u64, end: u64) -> usize {
    (0..end.min(CLOCKS)).map(|clock| keys(worker, clock).iter().filter(|other| **other == key).count()).sum()
}

impl WorkerProgram {
    /// Checks a row that was read in a clock, and returns the update of the row.
    fn update(&self, clock: u64, key: u64, row: &[f32]) -> Vec<f32> {
        let staleness = self.kind.staleness;
        for (writer, value) in row[..WIDTH - 1].iter().enumerate() {
            let own = writer == self.number;
            let exact = own || staleness == 0;
            let least = updates(writer, key, if exact { clock } else { clock.saturating_sub(staleness) });
            let most = if exact { least } else { updates(writer, key, clock + staleness + 2) };
            let seen = *value as usize;
            assert!(
                (least..=most).contains(&seen),
                "{self:?} at clock {clock} saw {seen} updates of worker {writer} to row {key}, not {least} to {most}"
            );
        }
        let mut update = vec![0.0; WIDTH];
        update[self.number] = 1.0;
        let target = 1.0 / (3.0 + self.number as f32 + clock as f32);
        update[WIDTH - 1] = 0.3 * (target - row[WIDTH - 1]);
        update
    }

    /// Reads all rows of a clock before it updates them.
    fn updates(&self, clock: u64, mut read: impl FnMut(u64) -> Vec<f32>) -> Vec<(u64, Vec<f32>)> {
        let rows: Vec<(u64, Vec<f32>)> = keys(self.number, clock).map(|key| (key, read(key))).to_vec();
        rows.into_iter().map(|(key, row)| (key, self.update(clock, key, &row))).collect()
    }
}

/// Runs the program on a cluster: threads or processes.
fn on_cluster(cluster: &Cluster, kind: TableKind) -> Result<Rows> {
    let table = cluster.table::<f32>("conformance").rows(ROWS).width(WIDTH).shards_per_peer(SHARDS / PEERS);
    let table = table.staleness(kind.staleness);
    let table = if kind.budget { table.budget(Bandwidth::bytes_per_second(BUDGET)) } else { table };
    let table = table.build()?;
    let peer = cluster.rank().index();
    table.each_worker(|worker| {
        let program = WorkerProgram { kind, number: peer * WORKERS + worker.id().index() };
        for clock in 0..CLOCKS {
            let mut failed = None;
            let updates = program.updates(clock, |key| {
                worker.get(key, |row| row.to_vec()).unwrap_or_else(|error| {
                    failed.get_or_insert(error);
                    vec![0.0; WIDTH]
                })
            });
            if let Some(error) = failed {
                return Err(error);
            }
            updates.iter().try_for_each(|(key, update)| worker.inc(*key, update))?;
            worker.clock()?;
        }
        Ok(())
    })?;
    table.collect()
}

impl TableProgram<f32> for WorkerProgram {
    fn reads(&mut self, clock: u64) -> Option<Vec<u64>> {
        (clock < CLOCKS).then(|| keys(self.number, clock).to_vec())
    }

    fn work(&mut self, clock: u64, rows: &mut TableRows<'_, f32>) -> std::result::Result<TableWork<f32>, String> {
        let updates = self.updates(clock, |key| rows.read(key, |cells, _| cells.values().to_vec()).unwrap());
        let updates = updates.into_iter().map(|(key, update)| (key, update, 0)).collect();
        Ok(TableWork { span: SimDuration::from_micros(700 + 300 * self.number as u64), updates })
    }
}

/// Runs the program on a simulated cluster.
fn on_simulator(kind: TableKind, seed: u64) -> Rows {
    let consistency = if kind.staleness == 0 { Consistency::Bsp } else { Consistency::Ssp(kind.staleness) };
    let spec = Arc::new(TableSpec {
        consistency,
        shards: SHARDS,
        clients: PEERS,
        comm_policy: kind.budget.then(CommPolicy::default),
        ..TableSpec::new("conformance", KeySpace::Fixed(ROWS), WIDTH)
    });
    let mut simulation = Simulation::new(&ClusterSpec::new(PEERS), seed, |me| {
        let program = |local| WorkerProgram { kind, number: me.index() * WORKERS + local };
        let setup = TableActorSetup {
            spec: spec.clone(),
            procedure: || Box::new(Addition),
            programs: (0..WORKERS).map(program).collect(),
            budget: kind.budget.then(|| DataRate::from_bits(8 * BUDGET)),
        };
        TableActor::<f32, WorkerProgram>::new(me, PEERS, setup).unwrap()
    })
    .unwrap();
    simulation.run().unwrap();
    let shards = simulation.actors().iter().flat_map(TableActor::shards);
    let rows = shards.flat_map(|shard| {
        let rows = shard.rows();
        (0..rows.len() as u32).map(|slot| (rows.key(slot), rows.cells(slot).values().to_vec()))
    });
    rows.collect()
}

/// Checks that every update is in the rows once, and returns what must be equal on all drivers.
fn checked(kind: TableKind, rows: &Rows) -> String {
    for (key, row) in rows {
        let counts: Vec<f32> = (0..WIDTH - 1).map(|worker| updates(worker, *key, CLOCKS) as f32).collect();
        assert_eq!(row[..WIDTH - 1], counts, "row {key} with {kind:?}");
    }
    // The last column depends on the timing of reads, except under BSP.
    let columns = if kind.staleness == 0 { WIDTH } else { WIDTH - 1 };
    let bits = |row: &Vec<f32>| row[..columns].iter().map(|value| value.to_bits()).collect();
    let rows: BTreeMap<u64, Vec<u32>> = rows.iter().map(|(key, row)| (*key, bits(row))).collect();
    format!("{kind:?}: {rows:x?}")
}

#[test]
#[ignore = "entry point of a child process"]
fn the_conforming_peer() {
    hemiola_cluster::run(|cluster| {
        for kind in KINDS {
            println!("said: {}", checked(kind, &on_cluster(cluster, kind)?));
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn threads_processes_and_simulator_agree() {
    with_watchdog(|| {
        let mut expected = Vec::new();
        for kind in KINDS {
            let threads = standalone(PEERS).workers(WORKERS).run(|cluster| on_cluster(cluster, kind)).unwrap();
            expected.push(checked(kind, &threads[0]));
            for seed in 0..20 {
                assert_eq!(expected.last(), Some(&checked(kind, &on_simulator(kind, seed))), "seed {seed}");
            }
        }
        for said in PeerProcesses::start(PEERS as u32, "conformance::the_conforming_peer", |_, _| {}).finish() {
            for line in &expected {
                assert!(said.contains(line), "{said}\nexpected {line}");
            }
        }
    });
}
