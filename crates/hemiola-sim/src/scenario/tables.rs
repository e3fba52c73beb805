//! A table on a random cluster, checked against the guarantees of bounded staleness.

use super::counting_worker::{CountingWorker, CountingWorkload, UpdateHistory, sums};
use super::{MAX_EVENTS, Scenario, random_cluster, require_nonzero};
use crate::actors::tables::{TableActor, TableActorSetup, TableFaultInjector, TableProgram, TableRows, TableWork};
use crate::cluster_spec::ClusterSpec;
use crate::sampling;
use crate::simulation::{RunSummary, Simulation};
use crate::units::{DataRate, SimDuration};
use hemiola_core::Rank;
use hemiola_core::rng::SplitMix64;
use hemiola_tables_proto::batch::RowBatch;
use hemiola_tables_proto::dtype::StorageType;
use hemiola_tables_proto::message::{ClientMessage, ServerMessage};
use hemiola_tables_proto::stream::Sequenced;
use hemiola_tables_proto::update_rule::Addition;
use hemiola_tables_proto::{
    Clock, CommPolicy, Consistency, KeySpace, PriorityPolicy, RowDelivery, RowInitializer, RowSelection, ShardServer,
    TableSpec,
};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};

/// Injected fault, which the check must detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TableFault {
    /// A request needs a later clock, as if that of a faster worker were sent for a slower one.
    NeedTooLate,
    /// A clock message precedes the updates of its clock.
    EarlyClock,
    /// Rows claim to be fresher than they are.
    TooFresh,
    /// Rows claim to include updates that they lack.
    IncludedTooMuch,
    /// An update is applied twice.
    Doubled,
    /// Changed rows are not pushed.
    NotPushed,
}

impl TableFault {
    /// All faults, for tests.
    pub const ALL: [Self; 6] =
        [Self::NeedTooLate, Self::EarlyClock, Self::TooFresh, Self::IncludedTooMuch, Self::Doubled, Self::NotPushed];
}

/// A table on a random cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableScenario {
    /// Random seed of workload and cluster.
    pub seed: u64,
    /// Cluster on which it runs.
    pub cluster: ClusterSpec,
    /// Number of workers per peer.
    pub workers: usize,
    /// Number of shards of the table.
    pub shards: usize,
    /// Clocks of each worker.
    pub clocks: u64,
    /// Some workers finish early.
    pub uneven: bool,
    /// Number of rows of the table.
    pub rows: u64,
    /// Staleness bound of reads.
    pub consistency: Consistency,
    /// Delivery of rows: pull or push.
    pub delivery: RowDelivery,
    /// Cached rows per client and shard.
    pub cache_rows: usize,
    /// Bandwidth for eager sending; `None` disables it.
    pub budget: Option<DataRate>,
    /// Workers declare the rows that they are going to use.
    pub intents: bool,
    /// Injected fault; `None` in regular runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<TableFault>,
}

/// A worker whose updates depend on every bit that it reads.
struct BitSensitiveWorker {
    number: u64,
    clocks: u64,
    rows: u64,
}

impl TableProgram<f32> for BitSensitiveWorker {
    fn reads(&mut self, clock: u64) -> Option<Vec<u64>> {
        let keys = [(self.number + clock) % self.rows, (3 * self.number + 7 * clock + 1) % self.rows];
        (clock < self.clocks).then(|| keys.to_vec())
    }

    fn work(&mut self, clock: u64, rows: &mut TableRows<'_, f32>) -> Result<TableWork<f32>, String> {
        let keys = self.reads(clock).unwrap_or_default();
        let mut updates = Vec::new();
        for key in keys {
            let target = 1.0 / (3.0 + self.number as f32 + 5.0 * clock as f32);
            let pull = |value: &f32| 0.3 * (target - value);
            let change = rows.read(key, |cells, _| cells.values().iter().map(pull).collect::<Vec<f32>>())?;
            updates.push((key, change, 0));
        }
        Ok(TableWork { span: SimDuration::from_micros(100), updates })
    }
}

/// Injects a fault into random messages.
#[derive(Debug)]
struct TableFaults {
    fault: TableFault,
    random: SplitMix64,
}

impl<C: StorageType> TableFaultInjector<C> for TableFaults {
    fn to_shard(&mut self, message: &mut Sequenced<ClientMessage<C::Compute>>) {
        let (Some(body), 0) = (&mut message.body, self.random.below(3)) else { return };
        match (self.fault, body) {
            (TableFault::NeedTooLate, ClientMessage::Get { need: clock, .. })
            | (TableFault::EarlyClock, ClientMessage::Clock(clock)) => *clock = clock.next(),
            (TableFault::Doubled, ClientMessage::Update { batch, .. }) => {
                let mut doubled = RowBatch::new();
                for row in batch.iter().chain(batch.iter()) {
                    doubled.push(row.key, row.version, &row.cells);
                }
                *batch = doubled;
            }
            _ => {}
        }
    }

    fn to_client(&mut self, message: &mut Sequenced<ServerMessage<C, C::Compute>>) {
        let (Some(ServerMessage::Rows { fresh, included, reply, batch, attachment }), 0) =
            (&mut message.body, self.random.below(3))
        else {
            return;
        };
        match self.fault {
            TableFault::TooFresh => *fresh = fresh.next(),
            TableFault::IncludedTooMuch => *included += 1,
            TableFault::NotPushed if !*reply => (*batch, *attachment) = (RowBatch::new(), Vec::new()),
            _ => {}
        }
    }
}

/// Returns the shard of a row and the slot of the row, if it has been touched.
fn find<'a, C: StorageType, P: TableProgram<C>>(
    actors: &'a [TableActor<C, P>],
    key: u64,
    spec: &TableSpec,
) -> Option<(&'a ShardServer<C>, u32)> {
    let shard = spec.shard_of(key).index();
    let server = actors[shard % actors.len()].shard(shard)?;
    Some((server, server.rows().find(key)?))
}

impl TableScenario {
    /// Returns the scenario with an injected fault.
    #[must_use]
    pub fn with_fault(mut self, fault: TableFault) -> Self {
        self.fault = Some(fault);
        self
    }

    fn spec(&self, width: usize) -> TableSpec {
        let comm_policy =
            CommPolicy { priority: PriorityPolicy::RelativeMagnitude, selection: RowSelection::Sampled(5) };
        TableSpec {
            consistency: self.consistency,
            delivery: self.delivery,
            shards: self.shards,
            clients: self.cluster.peers,
            cache_rows: self.cache_rows,
            comm_policy: self.budget.map(|_| comm_policy),
            ..TableSpec::new("scenario", KeySpace::Fixed(self.rows), width)
        }
    }

    pub(super) fn counting(&self) -> CountingWorkload {
        CountingWorkload {
            seed: self.seed,
            workers: self.cluster.peers * self.workers,
            rows: self.rows,
            clocks: self.clocks,
            uneven: self.uneven,
            consistency: self.consistency,
            intents: self.intents,
        }
    }

    /// Refuses a hand-written scenario with zero sizes.
    pub(super) fn require_sizes(&self) -> Result<(), String> {
        require_nonzero(&[
            ("workers", self.workers),
            ("shards", self.shards),
            ("rows", self.rows as usize),
            ("peers", self.cluster.peers),
        ])
    }

    /// Creates a simulation of counting workers that start at a clock.
    pub(super) fn counters(
        &self,
        cluster: &ClusterSpec,
        history: &Arc<Mutex<UpdateHistory>>,
        start: u64,
    ) -> Result<Simulation<TableActor<i32, CountingWorker>>, String> {
        let counting = self.counting();
        let counter = |worker: usize| counting.worker(worker, start, history);
        self.simulation::<i32, _>(cluster, self.spec(counting.workers), || Box::new(Addition), counter)
    }

    /// Checks that all shards have seen all workers finish, and that every update is in the rows
    /// once.
    pub(super) fn check_final_rows(
        &self,
        counting: &CountingWorkload,
        actors: &[TableActor<i32, CountingWorker>],
    ) -> Result<(), String> {
        for server in actors.iter().flat_map(TableActor::shards) {
            if server.min() != Clock::INFINITE {
                return Err(format!("a shard does not know that all workers have finished: {:?}", server.clocks()));
            }
        }
        let history = counting.history_at(u64::MAX);
        let history = history.lock().map_err(|_| "another run panicked")?;
        for (key, histories) in history.iter().enumerate() {
            let sums = sums(histories, u64::MAX);
            let mut values = vec![0; counting.workers];
            if let Some((server, slot)) = find(actors, key as u64, &self.spec(counting.workers)) {
                server.rows().cells(slot).add_to(&mut values, None);
            }
            if values != sums {
                return Err(format!("at the end row {key} is {values:?} instead of {sums:?}"));
            }
        }
        Ok(())
    }

    fn simulation<C: StorageType, P: TableProgram<C>>(
        &self,
        cluster: &ClusterSpec,
        spec: TableSpec,
        procedure: fn() -> Box<dyn hemiola_tables_proto::UpdateRule<C::Compute>>,
        mut program: impl FnMut(usize) -> P,
    ) -> Result<Simulation<TableActor<C, P>>, String> {
        let spec = Arc::new(spec);
        let mut failed = None;
        let simulation = Simulation::new(cluster, self.seed, |me| {
            let programs = (0..self.workers).map(|worker| program(me.index() * self.workers + worker)).collect();
            let setup = TableActorSetup { spec: spec.clone(), procedure, programs, budget: self.budget };
            let made = TableActor::new(me, cluster.peers, setup);
            made.unwrap_or_else(|problem| {
                failed = Some(problem);
                // An invalid table fails on all peers alike, before the run.
                let spec =
                    Arc::new(TableSpec { clients: cluster.peers, ..TableSpec::new("none", KeySpace::Fixed(1), 1) });
                let setup = TableActorSetup { spec, procedure, programs: Vec::new(), budget: None };
                TableActor::new(me, cluster.peers, setup).expect("a valid table")
            })
        });
        let simulation = simulation.map_err(|error| error.to_string())?.event_limit(MAX_EVENTS);
        failed.map_or(Ok(simulation), Err)
    }

    /// Returns the final rows of a run of bit-sensitive workers.
    fn bits(&self, cluster: &ClusterSpec) -> Result<Vec<Vec<u32>>, String> {
        let initializer = RowInitializer::Normal { seed: 3, mean: 0.0, std_dev: 0.5 };
        let spec = TableSpec { initializer, ..self.spec(3) };
        let follower = |worker| BitSensitiveWorker {
            number: worker as u64,
            clocks: self.counting().clocks_of(worker),
            rows: self.rows,
        };
        let mut simulation = self.simulation::<f32, _>(cluster, spec, || Box::new(Addition), follower)?;
        simulation.run().map_err(|trouble| trouble.to_string())?;
        let mut rows = vec![Vec::new(); self.rows as usize];
        for (key, row) in rows.iter_mut().enumerate() {
            if let Some((server, slot)) = find(simulation.actors(), key as u64, &self.spec(3)) {
                *row = server.rows().cells(slot).values().iter().map(|value| value.to_bits()).collect();
            }
        }
        Ok(rows)
    }
}

impl Scenario for TableScenario {
    fn from_seed(seed: u64) -> Self {
        let random = &mut sampling::generator(seed, 0);
        let peers = 1 + random.below(5);
        let consistency = match random.below(6) {
            0 | 1 => Consistency::Bsp,
            2 => Consistency::Ssp(0),
            3 => Consistency::Ssp(1),
            4 => Consistency::Ssp(3),
            _ => Consistency::Async,
        };
        Self {
            seed,
            cluster: random_cluster::draw(peers, random),
            workers: 1 + random.below(3),
            shards: 1 + random.below(4),
            clocks: 1 + random.below(8) as u64,
            uneven: random.below(3) == 0,
            rows: 1 + random.below(8) as u64,
            consistency,
            delivery: if random.below(3) == 0 { RowDelivery::Pull } else { RowDelivery::Push },
            cache_rows: [1, 2, 1 << 20][random.below(3)],
            budget: (random.below(2) == 0).then(|| DataRate::from_bits([1_000_000, 100_000_000][random.below(2)])),
            intents: random.below(3) == 0,
            fault: None,
        }
    }

    fn check(&self) -> Result<RunSummary, String> {
        self.require_sizes()?;
        let counting = self.counting();
        let simulation = self.counters(&self.cluster, &counting.history_at(0), 0)?;
        let mut simulation = simulation.with_actors(|me: Rank, actor: TableActor<i32, CountingWorker>| {
            let random = sampling::generator(self.seed, 1000 + me.index() as u64);
            actor.with_faults(
                self.fault.map(|fault| Box::new(TableFaults { fault, random }) as Box<dyn TableFaultInjector<i32>>),
            )
        });
        let ended = simulation.run().map_err(|trouble| trouble.to_string())?;
        self.check_final_rows(&counting, simulation.actors())?;
        if self.consistency == Consistency::Bsp && self.fault.is_none() {
            let calm = ClusterSpec::new(self.cluster.peers);
            if self.bits(&self.cluster)? != self.bits(&calm)? {
                return Err("under BSP, rows differ in bits from those on an undisturbed cluster".to_owned());
            }
        }
        Ok(ended)
    }

    fn shrink(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for peers in random_cluster::smaller_numbers(self.cluster.peers, 1) {
            all.push(Self { cluster: random_cluster::with_fewer_peers(&self.cluster, peers), ..self.clone() });
        }
        for clocks in random_cluster::smaller_numbers(self.clocks as usize, 1) {
            all.push(Self { clocks: clocks as u64, ..self.clone() });
        }
        for workers in random_cluster::smaller_numbers(self.workers, 1) {
            all.push(Self { workers, ..self.clone() });
        }
        for shards in random_cluster::smaller_numbers(self.shards, 1) {
            all.push(Self { shards, ..self.clone() });
        }
        let mut simpler = |change: &dyn Fn(&mut Self)| {
            let mut simple = self.clone();
            change(&mut simple);
            if simple != *self {
                all.push(simple);
            }
        };
        simpler(&|simple| simple.uneven = false);
        simpler(&|simple| simple.budget = None);
        simpler(&|simple| simple.intents = false);
        simpler(&|simple| simple.cache_rows = 1 << 20);
        for rows in random_cluster::smaller_numbers(self.rows as usize, 1) {
            all.push(Self { rows: rows as u64, ..self.clone() });
        }
        all.extend(random_cluster::calmer(&self.cluster).into_iter().map(|cluster| Self { cluster, ..self.clone() }));
        all
    }
}
