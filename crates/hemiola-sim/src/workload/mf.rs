//! Matrix factorization on a parameter server: ratings are divided by users, user factors stay with
//! their worker, and item factors are in the table.
//!
//! In each clock, a worker processes its next ratings: it reads the rows of their items, makes a
//! gradient step for each rating, and adds the changes. The arithmetic is real, so a simulated
//! training has a loss; the time per rating is given.

use super::learning_curve::{ClockLosses, learning_curve};
use crate::actors::tables::{TableActor, TableActorSetup, TableProgram, TableRows, TableWork};
use crate::cluster_spec::ClusterSpec;
use crate::sampling;
use crate::simulation::{PeerUsage, RunSummary, Simulation};
use crate::trace::SimTrace;
use crate::units::{DataRate, SimDuration};
use hemiola_tables_proto::update_rule::{AdaRevision, Addition};
use hemiola_tables_proto::{
    CommPolicy, Consistency, KeySpace, PriorityPolicy, RowDelivery, RowInitializer, TableSpec, UpdateRule,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A matrix factorization and its table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MfWorkload {
    /// Random seed of the ratings.
    pub seed: u64,
    /// Number of users with ratings.
    pub users: usize,
    /// Number of items with ratings.
    pub items: usize,
    /// Number of ratings per user.
    pub per_user: usize,
    /// Rank of the factorization.
    pub rank: usize,
    /// Learning rate of SGD.
    pub learning_rate: f32,
    /// Workers send gradients, and shards apply `AdaRevision` (initial learning rate 0.08). User
    /// factors are then in the table, too, after those of items. Workers see the effect of their
    /// gradients only when rows come back.
    pub adaptive_revision: bool,
    /// L2 regularization of the factors.
    pub l2: f32,
    /// Clocks of each worker.
    pub clocks: u64,
    /// Clocks per epoch of a worker.
    pub clocks_per_epoch: u64,
    /// Number of mini-batches per clock, each with a read and an update of rows; updates that
    /// arrive in between count.
    pub batches_per_clock: u64,
    /// Number of workers per peer.
    pub workers: usize,
    /// Number of shards of the table.
    pub shards: usize,
    /// Staleness bound of reads.
    pub consistency: Consistency,
    /// Delivery of rows: pull or push.
    pub delivery: RowDelivery,
    /// Bandwidth of a peer for eager sending, in each direction; `None` disables it.
    pub budget: Option<DataRate>,
    /// Prioritization policy of eager sending.
    pub priority: PriorityPolicy,
    /// Compute time per rating.
    pub rating_time: SimDuration,
}

impl Default for MfWorkload {
    fn default() -> Self {
        Self {
            seed: 1,
            users: 1024,
            items: 1000,
            per_user: 100,
            rank: 16,
            learning_rate: 0.02,
            adaptive_revision: false,
            l2: 0.01,
            clocks: 20,
            clocks_per_epoch: 10,
            batches_per_clock: 1,
            workers: 1,
            shards: 8,
            consistency: Consistency::Ssp(2),
            delivery: RowDelivery::Push,
            budget: None,
            priority: PriorityPolicy::RelativeMagnitude,
            rating_time: SimDuration::from_nanos(100),
        }
    }
}

/// User, item and rating.
type MfRating = (u32, u32, f32);

/// Outcome of a simulated training.
#[derive(Clone, Debug)]
pub struct MfOutcome {
    /// Summary of the run.
    pub ended: RunSummary,
    /// Root mean squared error over all ratings, before and after.
    pub rmse: (f64, f64),
    /// By clock: end time of the last worker, and the mean squared error of ratings when they were
    /// processed.
    pub curve: Vec<(SimDuration, f64)>,
    /// Time and traffic of each peer.
    pub usage: Vec<PeerUsage>,
    /// Bytes sent eagerly by all peers.
    pub eager_bytes: u64,
    /// Trace of the run, if requested.
    pub trace: Option<SimTrace>,
}

/// Ratings of a user: products of random factors, plus noise.
fn ratings_of(job: &MfWorkload, user: usize) -> Vec<MfRating> {
    let factor = |of: u64, number: usize| -> Vec<f64> {
        let mut random = sampling::generator(job.seed ^ of, number as u64);
        (0..4).map(|_| sampling::normal(&mut random)).collect()
    };
    let own = factor(0x1111, user);
    let random = &mut sampling::generator(job.seed ^ 0x3333, user as u64);
    let mut entries: Vec<MfRating> = (0..job.per_user)
        .map(|_| {
            let item = random.below(job.items);
            let product: f64 = own.iter().zip(factor(0x2222, item)).map(|(a, b)| a * b).sum();
            (user as u32, item as u32, (0.5 * product + 0.1 * sampling::normal(random)) as f32)
        })
        .collect();
    entries.sort_by_key(|(_, item, _)| *item);
    entries.dedup_by_key(|(_, item, _)| *item);
    random.shuffle(&mut entries);
    entries
}

/// Worker of a matrix factorization.
#[derive(Debug)]
pub struct MfWorker {
    job: Arc<MfWorkload>,
    entries: Vec<MfRating>,
    /// User factors of this worker.
    factors: BTreeMap<u32, Vec<f32>>,
    /// Index of the mini-batch in the current clock.
    batch_index: u64,
    losses: ClockLosses,
}

/// Row as read, its version, and its gradient so far.
type ReadRow = (Vec<f32>, u64, Vec<f32>);

impl MfWorker {
    /// Computes the gradients of a mini-batch at the rows as read.
    fn gradients(&mut self, clock: u64, rows: &mut TableRows<'_, f32>) -> Result<TableWork<f32>, String> {
        let (batch, l2) = (self.batch(clock).to_vec(), self.job.l2);
        let mut read: BTreeMap<u64, ReadRow> = BTreeMap::new();
        for key in self.reads(clock).unwrap_or_default() {
            let (cells, version) = rows.read(key, |cells, version| (cells.values().to_vec(), version))?;
            read.insert(key, (cells, version, vec![0.0; self.job.rank]));
        }
        for (user, item, rating) in &batch {
            let keys = [self.job.row_of(*user), u64::from(*item)];
            let [own, theirs] = keys.map(|key| read[&key].0.clone());
            let error = rating - product(&own, &theirs);
            self.losses.add(clock, f64::from(error * error));
            for (key, at, other) in [(keys[0], &own, &theirs), (keys[1], &theirs, &own)] {
                let (_, _, gradient) = read.get_mut(&key).ok_or("the row was just read")?;
                let both = at.iter().zip(other).zip(gradient);
                both.for_each(|((at, other), gradient)| *gradient += l2 * at - error * other);
            }
        }
        let span = SimDuration::from_nanos(self.job.rating_time.nanos() * batch.len() as u64);
        let updates = read.into_iter().map(|(key, (_, version, gradient))| (key, gradient, version)).collect();
        Ok(TableWork { span, updates })
    }

    fn new(job: &Arc<MfWorkload>, number: usize, workers: usize) -> Self {
        let users = job.users * number / workers..job.users * (number + 1) / workers;
        let mut entries: Vec<MfRating> = users.clone().flat_map(|user| ratings_of(job, user)).collect();
        sampling::generator(job.seed, 5 + number as u64).shuffle(&mut entries);
        let factor = |user: usize| {
            let mut random = sampling::generator(job.seed ^ 0x4444, user as u64);
            (user as u32, (0..job.rank).map(|_| 0.3 * random.symmetric() as f32).collect())
        };
        Self {
            job: job.clone(),
            entries,
            factors: users.map(factor).collect(),
            batch_index: 0,
            losses: ClockLosses::default(),
        }
    }

    /// Ratings of the current mini-batch.
    fn batch(&self, clock: u64) -> &[MfRating] {
        let MfWorkload { clocks_per_epoch, batches_per_clock, .. } = *self.job;
        let at = (clock % clocks_per_epoch * batches_per_clock + self.batch_index) as usize;
        let of = (clocks_per_epoch * batches_per_clock) as usize;
        let share = |at: usize| self.entries.len() * at / of;
        &self.entries[share(at)..share(at + 1)]
    }
}

fn product(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

impl TableProgram<f32> for MfWorker {
    fn reads(&mut self, clock: u64) -> Option<Vec<u64>> {
        if clock >= self.job.clocks {
            return None;
        }
        let batch = self.batch(clock);
        let items = batch.iter().map(|(_, item, _)| u64::from(*item));
        let users = batch.iter().filter(|_| self.job.adaptive_revision).map(|(user, _, _)| self.job.row_of(*user));
        let mut keys: Vec<u64> = items.chain(users).collect();
        keys.sort_unstable();
        keys.dedup();
        Some(keys)
    }

    fn work(&mut self, clock: u64, rows: &mut TableRows<'_, f32>) -> Result<TableWork<f32>, String> {
        if self.job.adaptive_revision {
            return self.gradients(clock, rows);
        }
        let MfWorkload { learning_rate, l2, .. } = *self.job;
        let batch = self.batch(clock).to_vec();
        // Item rows as read, and after the steps of this mini-batch.
        let mut items: BTreeMap<u32, (Vec<f32>, Vec<f32>)> = BTreeMap::new();
        for (user, item, rating) in &batch {
            if !items.contains_key(item) {
                let read = rows.read(u64::from(*item), |cells, _| cells.values().to_vec())?;
                items.insert(*item, (read.clone(), read));
            }
            let (_, theirs) = items.get_mut(item).ok_or("the row was just read")?;
            let own = self.factors.get_mut(user).ok_or("the user belongs to another worker")?;
            let error = rating - product(own, theirs);
            self.losses.add(clock, f64::from(error * error));
            for (a, b) in own.iter_mut().zip(theirs) {
                (*a, *b) = (*a + learning_rate * (error * *b - l2 * *a), *b + learning_rate * (error * *a - l2 * *b));
            }
        }
        let change = |(item, (before, after)): (u32, (Vec<f32>, Vec<f32>))| {
            (u64::from(item), after.iter().zip(&before).map(|(after, before)| after - before).collect(), 0)
        };
        let span = SimDuration::from_nanos(self.job.rating_time.nanos() * batch.len() as u64);
        Ok(TableWork { span, updates: items.into_iter().map(change).collect() })
    }

    fn repeats_clock(&mut self, _: u64) -> bool {
        self.batch_index = (self.batch_index + 1) % self.job.batches_per_clock;
        self.batch_index > 0
    }
}

impl MfWorkload {
    fn spec(&self, peers: usize) -> TableSpec {
        TableSpec {
            consistency: self.consistency,
            delivery: self.delivery,
            shards: self.shards,
            clients: peers,
            initializer: RowInitializer::Uniform { seed: self.seed, low: -0.3, high: 0.3 },
            comm_policy: self.budget.map(|_| CommPolicy { priority: self.priority, ..CommPolicy::default() }),
            ..TableSpec::new("items", KeySpace::Fixed(self.rows() as u64), self.rank)
        }
    }

    /// Number of rows of the table.
    fn rows(&self) -> usize {
        self.items + if self.adaptive_revision { self.users } else { 0 }
    }

    /// Row of a user, if users are in the table.
    fn row_of(&self, user: u32) -> u64 {
        self.items as u64 + u64::from(user)
    }

    /// Refuses sizes that are zero.
    fn check(&self) -> Result<(), String> {
        let numbers = [
            ("users", self.users),
            ("items", self.items),
            ("per_user", self.per_user),
            ("rank", self.rank),
            ("workers", self.workers),
            ("shards", self.shards),
            ("clocks_per_epoch", self.clocks_per_epoch as usize),
            ("batches_per_clock", self.batches_per_clock as usize),
        ];
        match numbers.into_iter().find(|(_, number)| *number == 0) {
            Some((what, _)) => Err(format!("`{what}` is 0; use at least 1")),
            None => Ok(()),
        }
    }

    /// Returns the ratings per block, with users cut into parts and items into time blocks; by
    /// part, then by time block.
    pub fn counts(&self, parts: usize, times: usize) -> Result<Vec<u64>, String> {
        self.check()?;
        let mut counts = vec![0; parts * times];
        let block_of = |index: usize, of: usize, cuts: usize| ((index + 1) * cuts).div_ceil(of) - 1;
        for user in 0..self.users {
            let part = block_of(user, self.users, parts).min(parts - 1);
            for (_, item, _) in ratings_of(self, user) {
                counts[part * times + block_of(item as usize, self.items, times).min(times - 1)] += 1;
            }
        }
        Ok(counts)
    }

    /// Number of ratings of all users.
    #[must_use]
    pub fn ratings(&self) -> usize {
        (0..self.users).map(|user| ratings_of(self, user).len()).sum()
    }

    /// Runs the training on a simulated cluster.
    pub fn run(&self, cluster: &ClusterSpec, seed: u64, traced: bool) -> Result<MfOutcome, String> {
        self.check()?;
        let (job, spec, peers) = (Arc::new(self.clone()), Arc::new(self.spec(cluster.peers)), cluster.peers);
        let all = peers * self.workers;
        let mut failed = None;
        let simulation = Simulation::new(cluster, seed, |me| {
            let worker = |local: usize| MfWorker::new(&job, me.index() * self.workers + local, all);
            let programs = (0..self.workers).map(worker).collect();
            let budget = self.budget;
            let procedure: fn() -> Box<dyn UpdateRule<f32>> =
                if self.adaptive_revision { || Box::new(AdaRevision::new(0.08)) } else { || Box::new(Addition) };
            let setup = TableActorSetup { spec: spec.clone(), procedure, programs, budget };
            TableActor::new(me, peers, setup).inspect_err(|problem| failed = Some(problem.clone())).ok()
        });
        let mut simulation = simulation.map_err(|error| error.to_string())?;
        if let Some(problem) = failed {
            return Err(problem);
        }
        if traced {
            simulation = simulation.with_trace();
        }
        let initial = |item: u64| -> Vec<f32> {
            (0..self.rank).map(|column| spec.initializer.value(item, column) as f32).collect()
        };
        let before: Vec<Vec<f32>> = (0..self.rows() as u64).map(initial).collect();
        let first = rmse(simulation.actors(), &before);
        let ended = simulation.run().map_err(|trouble| trouble.to_string())?;
        let mut rows = before;
        for (item, row) in rows.iter_mut().enumerate() {
            let shard = spec.shard_of(item as u64).index();
            let server = simulation.actors()[shard % peers].as_ref().and_then(|actor| actor.shard(shard));
            if let Some((server, slot)) = server.and_then(|server| Some((server, server.rows().find(item as u64)?))) {
                *row = server.rows().cells(slot).values().to_vec();
            }
        }
        Ok(MfOutcome {
            ended,
            rmse: (first, rmse(simulation.actors(), &rows)),
            curve: learning_curve(&simulation.actors().iter().flatten(), |worker| &worker.losses),
            usage: simulation.usage().to_vec(),
            eager_bytes: simulation.actors().iter().flatten().map(TableActor::eager_bytes).sum(),
            trace: simulation.trace().cloned(),
        })
    }
}

/// Root mean squared error over all ratings.
fn rmse(actors: &[Option<TableActor<f32, MfWorker>>], items: &[Vec<f32>]) -> f64 {
    let (mut sum, mut count) = (0.0, 0_u64);
    for worker in actors.iter().flatten().flat_map(TableActor::programs) {
        for (user, item, rating) in &worker.entries {
            let served = worker.job.adaptive_revision.then(|| &items[worker.job.row_of(*user) as usize]);
            let error = rating - product(served.unwrap_or(&worker.factors[user]), &items[*item as usize]);
            sum += f64::from(error * error);
            count += 1;
        }
    }
    (sum / count.max(1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> MfWorkload {
        let rating = SimDuration::from_micros(10);
        MfWorkload {
            users: 64,
            items: 50,
            per_user: 30,
            clocks: 200,
            shards: 3,
            learning_rate: 0.05,
            rating_time: rating,
            ..MfWorkload::default()
        }
    }

    #[test]
    fn training_learns_and_repeats() {
        let outcome = |seed| small().run(&ClusterSpec::new(4), seed, false).unwrap();
        let (a, b) = (outcome(1), outcome(1));
        assert_eq!(a.ended, b.ended);
        assert!(a.rmse.1 < 0.5 * a.rmse.0, "{:?}", a.rmse);
        assert!(a.usage.iter().all(|account| account.computing > 0 && account.sent_bytes > 0));
    }

    #[test]
    fn bsp_gives_the_same_bits_on_any_network() {
        let job = MfWorkload { consistency: Consistency::Bsp, ..small() };
        let calm = job.run(&ClusterSpec::new(4), 1, false).unwrap();
        let mut cluster = ClusterSpec::new(4);
        cluster.link.jitter = SimDuration::from_millis(2);
        cluster.compute = vec![crate::cluster_spec::ComputeModel::Jitter { deviation: 1.0 }];
        let rough = job.run(&cluster, 7, false).unwrap();
        assert_eq!(calm.rmse.1.to_bits(), rough.rmse.1.to_bits());
        assert!(rough.ended.end_time > calm.ended.end_time);
    }

    #[test]
    fn a_slower_network_takes_longer_and_a_straggler_is_waited_for() {
        let time = |change: &dyn Fn(&mut ClusterSpec)| {
            let mut cluster = ClusterSpec::new(4);
            change(&mut cluster);
            small().run(&cluster, 1, false).unwrap()
        };
        let fast = time(&|_| {});
        let narrow = time(&|cluster| cluster.link.bandwidth = DataRate::from_bits(10_000_000));
        assert!(narrow.ended.end_time > fast.ended.end_time);
        let one = crate::cluster_spec::SlowPeers { peers: vec![0], factor: 50.0 };
        let straggler = time(&|cluster| cluster.slow_peers = vec![one.clone()]);
        assert!(straggler.usage[1].waiting > 10 * fast.usage[1].waiting);
    }

    #[test]
    fn zero_sizes_are_refused() {
        let job = MfWorkload { rank: 0, ..small() };
        assert_eq!(job.run(&ClusterSpec::new(1), 1, false).unwrap_err(), "`rank` is 0; use at least 1");
    }
}
