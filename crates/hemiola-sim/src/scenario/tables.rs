//! Tables on an uneven cluster, compared with what bounded staleness allows.

use super::counter::{Counter, Counting, Truth, sums};
use super::{EVENTS, Scenario, some, weather};
use crate::actors::tables::{Program, Rows, Setup, Spoil, Tables, Work};
use crate::chance;
use crate::describe::Description;
use crate::units::{Rate, Span};
use crate::world::{Ended, World};
use hemiola_collective_proto::Random;
use hemiola_core::Rank;
use hemiola_tables_proto::batch::Batch;
use hemiola_tables_proto::message::{ToClient, ToShard};
use hemiola_tables_proto::number::Cell;
use hemiola_tables_proto::procedure::Add;
use hemiola_tables_proto::stream::Envelope;
use hemiola_tables_proto::{Choice, Clock, Consistency, Defaults, Delivery, Ids, Managed, Priority, Server, Spec};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};

/// A fault to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TablePlant {
    /// Requests carry a need that only a clock further on can satisfy, as if that of a faster worker were sent for a slower one.
    NeedOfTheFastest,
    /// A clock is told before the updates that belong to it.
    EarlyClock,
    /// Rows are said to be fresher than they are.
    TooFresh,
    /// Updates are said to be in rows that are not.
    IncludedTooMuch,
    /// An update is applied twice.
    Doubled,
    /// Changed rows are not pushed.
    NotPushed,
}

impl TablePlant {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::NeedOfTheFastest,
        Self::EarlyClock,
        Self::TooFresh,
        Self::IncludedTooMuch,
        Self::Doubled,
        Self::NotPushed,
    ];
}

/// A table on a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableScenario {
    /// Of work and weather.
    pub seed: u64,
    /// Where it runs.
    pub cluster: Description,
    /// Workers of each peer.
    pub workers: usize,
    /// Shards.
    pub shards: usize,
    /// Clocks of each worker.
    pub clocks: u64,
    /// Whether some workers end early.
    pub uneven: bool,
    /// Rows.
    pub rows: u64,
    /// How fresh reads are.
    pub consistency: Consistency,
    /// How rows travel.
    pub delivery: Delivery,
    /// Rows that a client keeps of each shard.
    pub cache_rows: usize,
    /// What may be sent ahead of need.
    pub budget: Option<Rate>,
    /// Whether workers say what they are going to use.
    pub intents: bool,
    /// A fault to be found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plant: Option<TablePlant>,
}

/// A worker whose updates depend on every bit it reads.
struct Follower {
    number: u64,
    clocks: u64,
    rows: u64,
}

impl Program<f32> for Follower {
    fn reads(&mut self, clock: u64) -> Option<Vec<u64>> {
        let keys = [(self.number + clock) % self.rows, (3 * self.number + 7 * clock + 1) % self.rows];
        (clock < self.clocks).then(|| keys.to_vec())
    }

    fn work(&mut self, clock: u64, rows: &mut Rows<'_, f32>) -> Result<Work<f32>, String> {
        let keys = self.reads(clock).unwrap_or_default();
        let mut updates = Vec::new();
        for key in keys {
            let target = 1.0 / (3.0 + self.number as f32 + 5.0 * clock as f32);
            let pull = |value: &f32| 0.3 * (target - value);
            let change = rows.read(key, |cells, _| cells.values().iter().map(pull).collect::<Vec<f32>>())?;
            updates.push((key, change, 0));
        }
        Ok(Work { span: Span::from_micros(100), updates })
    }
}

/// Spoils messages.
#[derive(Debug)]
struct Planted {
    plant: TablePlant,
    random: Random,
}

impl<C: Cell> Spoil<C> for Planted {
    fn to_shard(&mut self, envelope: &mut Envelope<ToShard<C::Wide>>) {
        let (Some(body), 0) = (&mut envelope.body, self.random.below(3)) else { return };
        match (self.plant, body) {
            (TablePlant::NeedOfTheFastest, ToShard::Get { need: clock, .. })
            | (TablePlant::EarlyClock, ToShard::Clock(clock)) => *clock = clock.next(),
            (TablePlant::Doubled, ToShard::Update { batch, .. }) => {
                let mut doubled = Batch::new();
                for row in batch.iter().chain(batch.iter()) {
                    doubled.push(row.key, row.version, &row.cells);
                }
                *batch = doubled;
            }
            _ => {}
        }
    }

    fn to_client(&mut self, envelope: &mut Envelope<ToClient<C, C::Wide>>) {
        let (Some(ToClient::Rows { fresh, included, reply, batch, carried }), 0) =
            (&mut envelope.body, self.random.below(3))
        else {
            return;
        };
        match self.plant {
            TablePlant::TooFresh => *fresh = fresh.next(),
            TablePlant::IncludedTooMuch => *included += 1,
            TablePlant::NotPushed if !*reply => (*batch, *carried) = (Batch::new(), Vec::new()),
            _ => {}
        }
    }
}

/// The shard that has a row, and where, if the row has been touched.
fn find<'a, C: Cell, P: Program<C>>(actors: &'a [Tables<C, P>], key: u64, spec: &Spec) -> Option<(&'a Server<C>, u32)> {
    let shard = spec.shard_of(key).index();
    let server = actors[shard % actors.len()].shard(shard)?;
    Some((server, server.rows().find(key)?))
}

impl TableScenario {
    /// With a fault to be found.
    #[must_use]
    pub fn planted(mut self, plant: TablePlant) -> Self {
        self.plant = Some(plant);
        self
    }

    fn spec(&self, width: usize) -> Spec {
        let managed = Managed { priority: Priority::RelativeMagnitude, choice: Choice::Sampled(5) };
        Spec {
            consistency: self.consistency,
            delivery: self.delivery,
            shards: self.shards,
            clients: self.cluster.peers,
            cache_rows: self.cache_rows,
            managed: self.budget.map(|_| managed),
            ..Spec::new("scenario", Ids::Fixed(self.rows), width)
        }
    }

    pub(super) fn counting(&self) -> Counting {
        Counting {
            seed: self.seed,
            workers: self.cluster.peers * self.workers,
            rows: self.rows,
            clocks: self.clocks,
            uneven: self.uneven,
            consistency: self.consistency,
            intents: self.intents,
        }
    }

    /// Refuses numbers that cannot be.
    pub(super) fn possible(&self) -> Result<(), String> {
        some(&[
            ("workers", self.workers),
            ("shards", self.shards),
            ("rows", self.rows as usize),
            ("peers", self.cluster.peers),
        ])
    }

    /// A cluster of workers that count, and begin at a clock.
    pub(super) fn counters(
        &self,
        cluster: &Description,
        truth: &Arc<Mutex<Truth>>,
        start: u64,
    ) -> Result<World<Tables<i32, Counter>>, String> {
        let counting = self.counting();
        let counter = |worker: usize| counting.worker(worker, start, truth);
        self.world::<i32, _>(cluster, self.spec(counting.workers), || Box::new(Add), counter)
    }

    /// In the end all shards know that all have finished, and every update is in the rows once.
    pub(super) fn all_there(&self, counting: &Counting, actors: &[Tables<i32, Counter>]) -> Result<(), String> {
        for server in actors.iter().flat_map(Tables::shards) {
            if server.min() != Clock::INFINITE {
                return Err(format!("a shard has not heard that all have finished: {:?}", server.clocks()));
            }
        }
        let truth = counting.truth(u64::MAX);
        let truth = truth.lock().map_err(|_| "another run has panicked")?;
        for (key, histories) in truth.iter().enumerate() {
            let sums = sums(histories, u64::MAX);
            let mut values = vec![0; counting.workers];
            if let Some((server, slot)) = find(actors, key as u64, &self.spec(counting.workers)) {
                server.rows().cells(slot).add_to(&mut values, None);
            }
            if values != sums {
                return Err(format!("in the end row {key} is {values:?}, and {sums:?} were added"));
            }
        }
        Ok(())
    }

    fn world<C: Cell, P: Program<C>>(
        &self,
        cluster: &Description,
        spec: Spec,
        procedure: fn() -> Box<dyn hemiola_tables_proto::Procedure<C::Wide>>,
        mut program: impl FnMut(usize) -> P,
    ) -> Result<World<Tables<C, P>>, String> {
        let spec = Arc::new(spec);
        let mut failed = None;
        let world = World::new(cluster, self.seed, |me| {
            let programs = (0..self.workers).map(|worker| program(me.index() * self.workers + worker)).collect();
            let budget = self.budget.map(|rate| (rate, 2000));
            let setup = Setup { spec: spec.clone(), procedure, programs, budget };
            let made = Tables::new(me, cluster.peers, setup);
            made.unwrap_or_else(|problem| {
                failed = Some(problem);
                // A table that cannot be fails for all peers alike, before anything runs.
                let spec = Arc::new(Spec { clients: cluster.peers, ..Spec::new("none", Ids::Fixed(1), 1) });
                let setup = Setup { spec, procedure, programs: Vec::new(), budget: None };
                Tables::new(me, cluster.peers, setup).expect("this table can be")
            })
        });
        let world = world.map_err(|error| error.to_string())?.limit(EVENTS);
        failed.map_or(Ok(world), Err)
    }

    /// The rows that a run of followers ends with.
    fn bits(&self, cluster: &Description) -> Result<Vec<Vec<u32>>, String> {
        let defaults = Defaults::Normal { seed: 3, mean: 0.0, deviation: 0.5 };
        let spec = Spec { defaults, ..self.spec(3) };
        let follower =
            |worker| Follower { number: worker as u64, clocks: self.counting().clocks_of(worker), rows: self.rows };
        let mut world = self.world::<f32, _>(cluster, spec, || Box::new(Add), follower)?;
        world.run().map_err(|trouble| trouble.to_string())?;
        let mut rows = vec![Vec::new(); self.rows as usize];
        for (key, row) in rows.iter_mut().enumerate() {
            if let Some((server, slot)) = find(world.actors(), key as u64, &self.spec(3)) {
                *row = server.rows().cells(slot).values().iter().map(|value| value.to_bits()).collect();
            }
        }
        Ok(rows)
    }
}

impl Scenario for TableScenario {
    fn from_seed(seed: u64) -> Self {
        let random = &mut chance::generator(seed, 0);
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
            cluster: weather::draw(peers, random),
            workers: 1 + random.below(3),
            shards: 1 + random.below(4),
            clocks: 1 + random.below(8) as u64,
            uneven: random.below(3) == 0,
            rows: 1 + random.below(8) as u64,
            consistency,
            delivery: if random.below(3) == 0 { Delivery::Pull } else { Delivery::Push },
            cache_rows: [1, 2, 1 << 20][random.below(3)],
            budget: (random.below(2) == 0).then(|| Rate::from_bits([1_000_000, 100_000_000][random.below(2)])),
            intents: random.below(3) == 0,
            plant: None,
        }
    }

    fn check(&self) -> Result<Ended, String> {
        self.possible()?;
        let counting = self.counting();
        let world = self.counters(&self.cluster, &counting.truth(0), 0)?;
        let mut world = world.with_actors(|me: Rank, actor: Tables<i32, Counter>| {
            let random = chance::generator(self.seed, 1000 + me.index() as u64);
            actor.spoiled(self.plant.map(|plant| Box::new(Planted { plant, random }) as Box<dyn Spoil<i32>>))
        });
        let ended = world.run().map_err(|trouble| trouble.to_string())?;
        self.all_there(&counting, world.actors())?;
        if self.consistency == Consistency::Bsp && self.plant.is_none() {
            let calm = Description::new(self.cluster.peers);
            if self.bits(&self.cluster)? != self.bits(&calm)? {
                return Err("under BSP, rows have other bits than on a calm cluster".to_owned());
            }
        }
        Ok(ended)
    }

    fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for peers in weather::less(self.cluster.peers, 1) {
            all.push(Self { cluster: weather::fewer(&self.cluster, peers), ..self.clone() });
        }
        for clocks in weather::less(self.clocks as usize, 1) {
            all.push(Self { clocks: clocks as u64, ..self.clone() });
        }
        for workers in weather::less(self.workers, 1) {
            all.push(Self { workers, ..self.clone() });
        }
        for shards in weather::less(self.shards, 1) {
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
        for rows in weather::less(self.rows as usize, 1) {
            all.push(Self { rows: rows as u64, ..self.clone() });
        }
        all.extend(weather::calmer(&self.cluster).into_iter().map(|cluster| Self { cluster, ..self.clone() }));
        all
    }
}
