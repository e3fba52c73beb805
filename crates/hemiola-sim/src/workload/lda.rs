//! Topics of documents by Gibbs sampling on a table: documents are divided, how often each word has each topic is in the table.
//!
//! In each clock a worker samples all its documents once. The mathematics is real; how long a token takes is given. A row of the table is a word, and the last one sums all words up.

use super::course::{Seen, burst, course};
use crate::actors::tables::{Program, Rows, Setup, Tables, Work};
use crate::chance;
use crate::describe::Description;
use crate::units::{Rate, Span};
use crate::world::{Account, World};
use hemiola_collective_proto::Random;
use hemiola_tables_proto::procedure::Add;
use hemiola_tables_proto::{Consistency, Ids, Managed, Priority, Spec};
use std::collections::BTreeMap;
use std::sync::Arc;

const ALPHA: f64 = 0.1;
const BETA: f64 = 0.1;

/// A topic model.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Of the documents.
    pub seed: u64,
    /// Documents, words of each, and words there are.
    pub documents: usize,
    /// See [`Job::documents`].
    pub length: usize,
    /// See [`Job::documents`].
    pub words: usize,
    /// Topics.
    pub topics: usize,
    /// Clocks of each worker: each is a pass.
    pub clocks: u64,
    /// How often a worker reads rows in a clock, and adds to them.
    pub parts: u64,
    /// Workers of each peer.
    pub workers: usize,
    /// Shards of the table.
    pub shards: usize,
    /// How fresh reads are.
    pub consistency: Consistency,
    /// What may be sent ahead of need by a peer, in each direction.
    pub budget: Option<Rate>,
    /// Which rows go first then.
    pub priority: Priority,
    /// How long one token takes.
    pub token: Span,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// By clock: when the last worker ended it, and the mean negative logarithm of how likely tokens were as workers came by them.
    pub course: Vec<(Span, f64)>,
    /// What each peer has spent.
    pub accounts: Vec<Account>,
}

#[derive(Debug)]
struct Worker {
    job: Arc<Job>,
    /// Words and their topics.
    documents: Vec<Vec<(u32, u32)>>,
    begun: bool,
    part: u64,
    random: Random,
    seen: Seen,
}

impl Worker {
    fn new(job: &Arc<Job>, number: usize, workers: usize) -> Self {
        let document = |number: usize| {
            let random = &mut chance::generator(job.seed, 1000 + number as u64);
            // Each topic prefers a range of words, and ranges overlap; each document has two topics.
            let own = [random.below(job.topics), random.below(job.topics)];
            let token = |random: &mut Random| {
                let middle = own[random.below(2)] as f64 * job.words as f64 / job.topics as f64;
                let word = (middle + job.words as f64 / 16.0 * chance::normal(random)).rem_euclid(job.words as f64);
                (word as u32 % job.words as u32, random.below(job.topics) as u32)
            };
            (0..job.length).map(|_| token(random)).collect()
        };
        let share = job.documents * number / workers..job.documents * (number + 1) / workers;
        Self {
            job: job.clone(),
            documents: share.map(document).collect(),
            begun: false,
            part: 0,
            random: chance::generator(job.seed, 77 + number as u64),
            seen: Seen::default(),
        }
    }

    /// The documents of this part of a clock.
    fn batch(&self) -> std::ops::Range<usize> {
        let share = |at: u64| self.documents.len() * at as usize / self.job.parts as usize;
        share(self.part)..share(self.part + 1)
    }

    fn totals(&self) -> u64 {
        self.job.words as u64
    }

    /// How often each word here has each topic at the beginning.
    fn initial(&self) -> Changes {
        let mut changes = Changes::default();
        for (word, topic) in self.documents.iter().flatten() {
            changes.add(u64::from(*word), *topic, 1);
            changes.add(self.totals(), *topic, 1);
        }
        changes
    }
}

/// What is to be added to rows.
#[derive(Debug, Default)]
struct Changes(BTreeMap<(u64, u32), i32>);

impl Changes {
    fn add(&mut self, row: u64, topic: u32, change: i32) {
        *self.0.entry((row, topic)).or_insert(0) += change;
    }

    fn rows(self, topics: usize) -> Vec<(u64, Vec<i32>, u64)> {
        let mut rows: BTreeMap<u64, Vec<i32>> = BTreeMap::new();
        for ((row, topic), change) in self.0.into_iter().filter(|(_, change)| *change != 0) {
            rows.entry(row).or_insert_with(|| vec![0; topics])[topic as usize] += change;
        }
        rows.into_iter().map(|(row, cells)| (row, cells, 0)).collect()
    }
}

impl Program<i32> for Worker {
    fn reads(&mut self, clock: u64) -> Option<Vec<u64>> {
        if clock > self.job.clocks {
            return None;
        }
        if !self.begun {
            return Some(Vec::new());
        }
        let words = self.documents[self.batch()].iter().flatten().map(|(word, _)| u64::from(*word));
        let mut keys: Vec<u64> = words.chain([self.totals()]).collect();
        keys.sort_unstable();
        keys.dedup();
        Some(keys)
    }

    /// The first clock tells the topics that tokens begin with; then documents are sampled.
    fn work(&mut self, clock: u64, rows: &mut Rows<'_, i32>) -> Result<Work<i32>, String> {
        let topics = self.job.topics;
        if !self.begun {
            self.begun = true;
            return Ok(Work { span: self.job.token, updates: self.initial().rows(topics) });
        }
        let mut counts: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for key in self.reads(clock).unwrap_or_default() {
            let values = rows.read(key, |cells, _| {
                let mut values = vec![0; topics];
                cells.add_to(&mut values, None);
                values.into_iter().map(f64::from).collect::<Vec<f64>>()
            })?;
            counts.insert(key, values);
        }
        let mut all = counts.remove(&self.totals()).ok_or("the sums were read")?;
        let (batch, width) = (self.batch(), self.job.words as f64 * BETA);
        let (mut changes, mut tokens) = (Changes::default(), 0);
        for document in &mut self.documents[batch] {
            let mut own = vec![0.0; topics];
            for (_, topic) in document.iter() {
                own[*topic as usize] += 1.0;
            }
            let length = document.len() as f64 - 1.0 + topics as f64 * ALPHA;
            for (word, topic) in document.iter_mut() {
                let of = counts.get_mut(&u64::from(*word)).ok_or("the row was read")?;
                let old = *topic as usize;
                (own[old], of[old], all[old]) = (own[old] - 1.0, of[old] - 1.0, all[old] - 1.0);
                let weight = |k: usize| (own[k] + ALPHA) * (of[k].max(0.0) + BETA) / (all[k].max(0.0) + width);
                let total: f64 = (0..topics).map(weight).sum();
                self.seen.add(clock - 1, -libm::log(total / length));
                let mut left = chance::unit(&mut self.random) * total;
                let drawn = (0..topics).position(|k| {
                    left -= weight(k);
                    left < 0.0
                });
                let new = drawn.unwrap_or(topics - 1);
                (own[new], of[new], all[new]) = (own[new] + 1.0, of[new] + 1.0, all[new] + 1.0);
                tokens += 1;
                if new != old {
                    *topic = new as u32;
                    for (row, topic, change) in [(u64::from(*word), old, -1), (u64::from(*word), new, 1)] {
                        changes.add(row, topic as u32, change);
                        changes.add(self.job.words as u64, topic as u32, change);
                    }
                }
            }
        }
        Ok(Work { span: Span::from_nanos(self.job.token.nanos() * tokens), updates: changes.rows(topics) })
    }

    fn stays(&mut self, clock: u64) -> bool {
        if clock == 0 {
            return false;
        }
        self.part = (self.part + 1) % self.job.parts;
        self.part > 0
    }
}

impl Job {
    /// Samples on a simulated cluster.
    pub fn run(&self, cluster: &Description, seed: u64) -> Result<Outcome, String> {
        let peers = cluster.peers;
        let spec = Arc::new(Spec {
            consistency: self.consistency,
            shards: self.shards,
            clients: peers,
            managed: self.budget.map(|_| Managed { priority: self.priority, ..Managed::default() }),
            ..Spec::new("words", Ids::Fixed(self.words as u64 + 1), self.topics)
        });
        let job = Arc::new(self.clone());
        let mut actors = Vec::new();
        for me in hemiola_core::Rank::all(peers) {
            let worker = |local: usize| Worker::new(&job, me.index() * self.workers + local, peers * self.workers);
            let programs = (0..self.workers).map(worker).collect();
            let budget = self.budget.map(|rate| (rate, burst(rate)));
            let setup = Setup { spec: spec.clone(), procedure: || Box::new(Add), programs, budget };
            actors.push(Tables::<i32, Worker>::new(me, peers, setup)?);
        }
        let mut actors = actors.into_iter();
        let world = World::new(cluster, seed, |_| actors.next());
        let mut world = world.map_err(|error| error.to_string())?;
        world.run().map_err(|trouble| trouble.to_string())?;
        let mut course = course(&world.actors().iter().flatten(), |worker| &worker.seen);
        // The first clock only tells what is there; what was seen in a pass counts from zero.
        let ends: Vec<Span> = course.iter().skip(1).map(|(end, _)| *end).collect();
        course.pop();
        course.iter_mut().zip(ends).for_each(|(one, end)| one.0 = end);
        Ok(Outcome { course, accounts: world.accounts().to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_become_likelier() {
        let job = Job {
            seed: 1,
            documents: 64,
            length: 30,
            words: 100,
            topics: 5,
            clocks: 30,
            parts: 3,
            workers: 2,
            shards: 4,
            consistency: Consistency::Ssp(1),
            budget: None,
            priority: Priority::Random,
            token: Span::from_micros(1),
        };
        let course = job.run(&Description::new(4), 1).unwrap().course;
        assert_eq!(course.len(), 30);
        assert!(course[29].1 < course[0].1 - 0.3, "{course:?}");
        assert!(course.windows(2).all(|pair| pair[0].0 < pair[1].0), "{course:?}");
    }
}
