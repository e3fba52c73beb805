//! Matrix factorization on a table: ratings are divided by users, rows of users stay with their worker, rows of items are in the table.
//!
//! In each clock a worker goes through its next ratings: it reads the rows of their items, takes a gradient step for each rating, and adds what has changed. The mathematics is real, so a simulated training has a loss; the time of a rating is given.

use super::course::{Seen, burst, course};
use crate::actors::tables::{Program, Rows, Setup, Tables, Work};
use crate::chance;
use crate::describe::Description;
use crate::trace::Trace;
use crate::units::{Rate, Span};
use crate::world::{Account, Ended, World};
use hemiola_tables_proto::procedure::{AdaRevision, Add};
use hemiola_tables_proto::{Consistency, Defaults, Delivery, Ids, Managed, Priority, Procedure, Spec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A matrix factorization.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Job {
    /// Of the ratings.
    pub seed: u64,
    /// Rows of ratings.
    pub users: usize,
    /// Columns of ratings.
    pub items: usize,
    /// Ratings of each user.
    pub per_user: usize,
    /// Numbers of a factor.
    pub rank: usize,
    /// The length of a gradient step.
    pub step: f32,
    /// Whether workers tell gradients, and shards make steps of them, as late as they are (`AdaRevision`, with 0.08 at first). Rows of users are in the table then, too, behind those of items, and all are read-only to workers: they see what they have told when it has come back.
    pub revised: bool,
    /// How much factors are drawn to zero.
    pub lambda: f32,
    /// Clocks of each worker.
    pub clocks: u64,
    /// Clocks in which a worker goes through its ratings once.
    pub clocks_per_pass: u64,
    /// How often a worker reads rows in a clock, and adds to them: what has come meanwhile counts.
    pub parts: u64,
    /// Workers of each peer.
    pub workers: usize,
    /// Shards of the table.
    pub shards: usize,
    /// How fresh reads are.
    pub consistency: Consistency,
    /// How rows travel.
    pub delivery: Delivery,
    /// What may be sent ahead of need by a peer, in each direction.
    pub budget: Option<Rate>,
    /// Which rows go first then.
    pub priority: Priority,
    /// How long one rating takes.
    pub rating: Span,
}

impl Default for Job {
    fn default() -> Self {
        Self {
            seed: 1,
            users: 1024,
            items: 1000,
            per_user: 100,
            rank: 16,
            step: 0.02,
            revised: false,
            lambda: 0.01,
            clocks: 20,
            clocks_per_pass: 10,
            parts: 1,
            workers: 1,
            shards: 8,
            consistency: Consistency::Ssp(2),
            delivery: Delivery::Push,
            budget: None,
            priority: Priority::RelativeMagnitude,
            rating: Span::from_nanos(100),
        }
    }
}

/// A rating.
type Entry = (u32, u32, f32);

/// What came of a simulated training.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How the run ended.
    pub ended: Ended,
    /// The root of the mean squared error over all ratings, before and after.
    pub rmse: (f64, f64),
    /// By clock: when the last worker ended it, and the mean squared error of ratings as workers came by them.
    pub course: Vec<(Span, f64)>,
    /// What each peer has spent.
    pub accounts: Vec<Account>,
    /// Bytes sent ahead of need.
    pub ahead_bytes: u64,
    /// What happened when, if asked for.
    pub trace: Option<Trace>,
}

/// Ratings of a user: the product of two random factors, and noise.
fn ratings_of(job: &Job, user: usize) -> Vec<Entry> {
    let factor = |of: u64, number: usize| -> Vec<f64> {
        let mut random = chance::generator(job.seed ^ of, number as u64);
        (0..4).map(|_| chance::normal(&mut random)).collect()
    };
    let own = factor(0x1111, user);
    let random = &mut chance::generator(job.seed ^ 0x3333, user as u64);
    let mut entries: Vec<Entry> = (0..job.per_user)
        .map(|_| {
            let item = random.below(job.items);
            let product: f64 = own.iter().zip(factor(0x2222, item)).map(|(a, b)| a * b).sum();
            (user as u32, item as u32, (0.5 * product + 0.1 * chance::normal(random)) as f32)
        })
        .collect();
    entries.sort_by_key(|(_, item, _)| *item);
    entries.dedup_by_key(|(_, item, _)| *item);
    random.shuffle(&mut entries);
    entries
}

/// One worker.
#[derive(Debug)]
pub struct Worker {
    job: Arc<Job>,
    entries: Vec<Entry>,
    /// By user.
    factors: BTreeMap<u32, Vec<f32>>,
    /// The part of its clock that it is at.
    part: u64,
    seen: Seen,
}

/// A row as it was read, its version, and the gradient so far.
type Read = (Vec<f32>, u64, Vec<f32>);

impl Worker {
    /// The gradients of this part of a clock, all at rows as they were read.
    fn gradients(&mut self, clock: u64, rows: &mut Rows<'_, f32>) -> Result<Work<f32>, String> {
        let (batch, lambda) = (self.batch(clock).to_vec(), self.job.lambda);
        let mut read: BTreeMap<u64, Read> = BTreeMap::new();
        for key in self.reads(clock).unwrap_or_default() {
            let (cells, version) = rows.read(key, |cells, version| (cells.values().to_vec(), version))?;
            read.insert(key, (cells, version, vec![0.0; self.job.rank]));
        }
        for (user, item, rating) in &batch {
            let keys = [self.job.row_of(*user), u64::from(*item)];
            let [own, theirs] = keys.map(|key| read[&key].0.clone());
            let error = rating - product(&own, &theirs);
            self.seen.add(clock, f64::from(error * error));
            for (key, at, other) in [(keys[0], &own, &theirs), (keys[1], &theirs, &own)] {
                let (_, _, gradient) = read.get_mut(&key).ok_or("the row was just read")?;
                let both = at.iter().zip(other).zip(gradient);
                both.for_each(|((at, other), gradient)| *gradient += lambda * at - error * other);
            }
        }
        let span = Span::from_nanos(self.job.rating.nanos() * batch.len() as u64);
        let updates = read.into_iter().map(|(key, (_, version, gradient))| (key, gradient, version)).collect();
        Ok(Work { span, updates })
    }

    fn new(job: &Arc<Job>, number: usize, workers: usize) -> Self {
        let users = job.users * number / workers..job.users * (number + 1) / workers;
        let mut entries: Vec<Entry> = users.clone().flat_map(|user| ratings_of(job, user)).collect();
        chance::generator(job.seed, 5 + number as u64).shuffle(&mut entries);
        let factor = |user: usize| {
            let mut random = chance::generator(job.seed ^ 0x4444, user as u64);
            (user as u32, (0..job.rank).map(|_| 0.3 * random.symmetric() as f32).collect())
        };
        Self { job: job.clone(), entries, factors: users.map(factor).collect(), part: 0, seen: Seen::default() }
    }

    /// The ratings of this part of a clock.
    fn batch(&self, clock: u64) -> &[Entry] {
        let Job { clocks_per_pass, parts, .. } = *self.job;
        let at = (clock % clocks_per_pass * parts + self.part) as usize;
        let of = (clocks_per_pass * parts) as usize;
        let share = |at: usize| self.entries.len() * at / of;
        &self.entries[share(at)..share(at + 1)]
    }
}

fn product(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

impl Program<f32> for Worker {
    fn reads(&mut self, clock: u64) -> Option<Vec<u64>> {
        if clock >= self.job.clocks {
            return None;
        }
        let batch = self.batch(clock);
        let items = batch.iter().map(|(_, item, _)| u64::from(*item));
        let users = batch.iter().filter(|_| self.job.revised).map(|(user, _, _)| self.job.row_of(*user));
        let mut keys: Vec<u64> = items.chain(users).collect();
        keys.sort_unstable();
        keys.dedup();
        Some(keys)
    }

    fn work(&mut self, clock: u64, rows: &mut Rows<'_, f32>) -> Result<Work<f32>, String> {
        if self.job.revised {
            return self.gradients(clock, rows);
        }
        let Job { step, lambda, .. } = *self.job;
        let batch = self.batch(clock).to_vec();
        // Rows as they were read, and as they have become.
        let mut items: BTreeMap<u32, (Vec<f32>, Vec<f32>)> = BTreeMap::new();
        for (user, item, rating) in &batch {
            if !items.contains_key(item) {
                let read = rows.read(u64::from(*item), |cells, _| cells.values().to_vec())?;
                items.insert(*item, (read.clone(), read));
            }
            let (_, theirs) = items.get_mut(item).ok_or("the row was just read")?;
            let own = self.factors.get_mut(user).ok_or("a rating of another worker's user")?;
            let error = rating - product(own, theirs);
            self.seen.add(clock, f64::from(error * error));
            for (a, b) in own.iter_mut().zip(theirs) {
                (*a, *b) = (*a + step * (error * *b - lambda * *a), *b + step * (error * *a - lambda * *b));
            }
        }
        let change = |(item, (before, after)): (u32, (Vec<f32>, Vec<f32>))| {
            (u64::from(item), after.iter().zip(&before).map(|(after, before)| after - before).collect(), 0)
        };
        let span = Span::from_nanos(self.job.rating.nanos() * batch.len() as u64);
        Ok(Work { span, updates: items.into_iter().map(change).collect() })
    }

    fn stays(&mut self, _: u64) -> bool {
        self.part = (self.part + 1) % self.job.parts;
        self.part > 0
    }
}

impl Job {
    fn spec(&self, peers: usize) -> Spec {
        Spec {
            consistency: self.consistency,
            delivery: self.delivery,
            shards: self.shards,
            clients: peers,
            defaults: Defaults::Uniform { seed: self.seed, low: -0.3, high: 0.3 },
            managed: self.budget.map(|_| Managed { priority: self.priority, ..Managed::default() }),
            ..Spec::new("items", Ids::Fixed(self.rows() as u64), self.rank)
        }
    }

    /// Rows of the table.
    fn rows(&self) -> usize {
        self.items + if self.revised { self.users } else { 0 }
    }

    /// Where the row of a user is, if it is in the table.
    fn row_of(&self, user: u32) -> u64 {
        self.items as u64 + u64::from(user)
    }

    /// Refuses numbers that no training can have.
    fn check(&self) -> Result<(), String> {
        let numbers = [
            ("users", self.users),
            ("items", self.items),
            ("per_user", self.per_user),
            ("rank", self.rank),
            ("workers", self.workers),
            ("shards", self.shards),
            ("clocks_per_pass", self.clocks_per_pass as usize),
            ("parts", self.parts as usize),
        ];
        match numbers.into_iter().find(|(_, number)| *number == 0) {
            Some((what, _)) => Err(format!("a matrix factorization needs some {what}")),
            None => Ok(()),
        }
    }

    /// How many ratings each block has, if users are cut into parts and items into times; by part, then by time.
    pub fn counts(&self, parts: usize, times: usize) -> Result<Vec<u64>, String> {
        self.check()?;
        let mut counts = vec![0; parts * times];
        let place = |index: usize, of: usize, cuts: usize| ((index + 1) * cuts).div_ceil(of) - 1;
        for user in 0..self.users {
            let part = place(user, self.users, parts).min(parts - 1);
            for (_, item, _) in ratings_of(self, user) {
                counts[part * times + place(item as usize, self.items, times).min(times - 1)] += 1;
            }
        }
        Ok(counts)
    }

    /// How many ratings there are.
    #[must_use]
    pub fn ratings(&self) -> usize {
        (0..self.users).map(|user| ratings_of(self, user).len()).sum()
    }

    /// Trains on a simulated cluster.
    pub fn run(&self, cluster: &Description, seed: u64, traced: bool) -> Result<Outcome, String> {
        self.check()?;
        let (job, spec, peers) = (Arc::new(self.clone()), Arc::new(self.spec(cluster.peers)), cluster.peers);
        let all = peers * self.workers;
        let mut failed = None;
        let world = World::new(cluster, seed, |me| {
            let worker = |local: usize| Worker::new(&job, me.index() * self.workers + local, all);
            let programs = (0..self.workers).map(worker).collect();
            let budget = self.budget.map(|rate| (rate, burst(rate)));
            let procedure: fn() -> Box<dyn Procedure<f32>> =
                if self.revised { || Box::new(AdaRevision::new(0.08)) } else { || Box::new(Add) };
            let setup = Setup { spec: spec.clone(), procedure, programs, budget };
            Tables::new(me, peers, setup).inspect_err(|problem| failed = Some(problem.clone())).ok()
        });
        let mut world = world.map_err(|error| error.to_string())?;
        if let Some(problem) = failed {
            return Err(problem);
        }
        if traced {
            world = world.traced();
        }
        let initial =
            |item: u64| -> Vec<f32> { (0..self.rank).map(|column| spec.defaults.value(item, column) as f32).collect() };
        let before: Vec<Vec<f32>> = (0..self.rows() as u64).map(initial).collect();
        let first = rmse(world.actors(), &before);
        let ended = world.run().map_err(|trouble| trouble.to_string())?;
        let mut rows = before;
        for (item, row) in rows.iter_mut().enumerate() {
            let shard = spec.shard_of(item as u64).index();
            let server = world.actors()[shard % peers].as_ref().and_then(|actor| actor.shard(shard));
            if let Some((server, slot)) = server.and_then(|server| Some((server, server.rows().find(item as u64)?))) {
                *row = server.rows().cells(slot).values().to_vec();
            }
        }
        Ok(Outcome {
            ended,
            rmse: (first, rmse(world.actors(), &rows)),
            course: course(&world.actors().iter().flatten(), |worker| &worker.seen),
            accounts: world.accounts().to_vec(),
            ahead_bytes: world.actors().iter().flatten().map(Tables::ahead_bytes).sum(),
            trace: world.trace().cloned(),
        })
    }
}

/// The root of the mean squared error over all ratings.
fn rmse(actors: &[Option<Tables<f32, Worker>>], items: &[Vec<f32>]) -> f64 {
    let (mut sum, mut count) = (0.0, 0_u64);
    for worker in actors.iter().flatten().flat_map(Tables::programs) {
        for (user, item, rating) in &worker.entries {
            let served = worker.job.revised.then(|| &items[worker.job.row_of(*user) as usize]);
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

    fn small() -> Job {
        let rating = Span::from_micros(10);
        Job { users: 64, items: 50, per_user: 30, clocks: 200, shards: 3, step: 0.05, rating, ..Job::default() }
    }

    #[test]
    fn it_learns_and_repeats() {
        let outcome = |seed| small().run(&Description::new(4), seed, false).unwrap();
        let (a, b) = (outcome(1), outcome(1));
        assert_eq!(a.ended, b.ended);
        assert!(a.rmse.1 < 0.5 * a.rmse.0, "{:?}", a.rmse);
        assert!(a.accounts.iter().all(|account| account.computing > 0 && account.sent_bytes > 0));
    }

    #[test]
    fn bsp_learns_the_same_bits_on_any_network() {
        let job = Job { consistency: Consistency::Bsp, ..small() };
        let calm = job.run(&Description::new(4), 1, false).unwrap();
        let mut cluster = Description::new(4);
        cluster.link.jitter = Span::from_millis(2);
        cluster.compute = vec![crate::describe::Compute::Jitter { deviation: 1.0 }];
        let rough = job.run(&cluster, 7, false).unwrap();
        assert_eq!(calm.rmse.1.to_bits(), rough.rmse.1.to_bits());
        assert!(rough.ended.at > calm.ended.at);
    }

    #[test]
    fn a_slower_network_takes_longer_and_a_straggler_is_waited_for() {
        let time = |change: &dyn Fn(&mut Description)| {
            let mut cluster = Description::new(4);
            change(&mut cluster);
            small().run(&cluster, 1, false).unwrap()
        };
        let fast = time(&|_| {});
        let narrow = time(&|cluster| cluster.link.bandwidth = Rate::from_bits(10_000_000));
        assert!(narrow.ended.at > fast.ended.at);
        let one = crate::describe::Slower { peers: vec![0], factor: 50.0 };
        let straggler = time(&|cluster| cluster.slower = vec![one.clone()]);
        assert!(straggler.accounts[1].waiting > 10 * fast.accounts[1].waiting);
    }

    #[test]
    fn what_no_training_can_have_is_refused() {
        let job = Job { rank: 0, ..small() };
        assert_eq!(job.run(&Description::new(1), 1, false).unwrap_err(), "a matrix factorization needs some rank");
    }
}
