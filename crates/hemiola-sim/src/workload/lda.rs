//! Topic model by Gibbs sampling on a parameter server: documents are divided over workers, and
//! word-topic counts are in the table.
//!
//! In each clock, a worker samples all its documents once. The sampling is real; the time per token
//! is given. A row of the table is a word; the last row has the topic totals.

use super::learning_curve::{ClockLosses, learning_curve};
use crate::actors::tables::{TableActor, TableActorSetup, TableProgram, TableRows, TableWork};
use crate::cluster_spec::ClusterSpec;
use crate::sampling;
use crate::simulation::{PeerUsage, Simulation};
use crate::units::{DataRate, SimDuration};
use hemiola_core::rng::SplitMix64;
use hemiola_tables_proto::update_rule::Addition;
use hemiola_tables_proto::{CommPolicy, Consistency, KeySpace, PriorityPolicy, TableSpec};
use std::collections::BTreeMap;
use std::sync::Arc;

const ALPHA: f64 = 0.1;
const BETA: f64 = 0.1;

/// A topic model and its table.
#[derive(Clone, Debug, PartialEq)]
pub struct LdaWorkload {
    /// Random seed of the documents.
    pub seed: u64,
    /// Number of documents in the corpus.
    pub documents: usize,
    /// Number of tokens per document.
    pub length: usize,
    /// Number of words in the vocabulary.
    pub words: usize,
    /// Number of topics of the model.
    pub topics: usize,
    /// Clocks of each worker; a clock is an epoch.
    pub clocks: u64,
    /// Number of mini-batches per clock, each with a read and an update of rows.
    pub batches_per_clock: u64,
    /// Number of workers per peer.
    pub workers: usize,
    /// Number of shards of the table.
    pub shards: usize,
    /// Staleness bound of reads.
    pub consistency: Consistency,
    /// Bandwidth of a peer for eager sending, in each direction; `None` disables it.
    pub budget: Option<DataRate>,
    /// Prioritization policy of eager sending.
    pub priority: PriorityPolicy,
    /// Compute time per token.
    pub token_time: SimDuration,
}

/// Outcome of a simulated training.
#[derive(Clone, Debug)]
pub struct LdaOutcome {
    /// By clock: end time of the last worker, and the mean negative log likelihood of tokens when
    /// they were sampled.
    pub curve: Vec<(SimDuration, f64)>,
    /// Time and traffic of each peer.
    pub usage: Vec<PeerUsage>,
}

#[derive(Debug)]
struct LdaWorker {
    job: Arc<LdaWorkload>,
    /// Tokens of each document with their topics.
    documents: Vec<Vec<(u32, u32)>>,
    initialized: bool,
    batch_index: u64,
    random: SplitMix64,
    losses: ClockLosses,
}

impl LdaWorker {
    fn new(job: &Arc<LdaWorkload>, number: usize, workers: usize) -> Self {
        let document = |number: usize| {
            let random = &mut sampling::generator(job.seed, 1000 + number as u64);
            // Each topic prefers a range of words, and ranges overlap; each document has two
            // topics.
            let own = [random.below(job.topics), random.below(job.topics)];
            let token = |random: &mut SplitMix64| {
                let middle = own[random.below(2)] as f64 * job.words as f64 / job.topics as f64;
                let word = (middle + job.words as f64 / 16.0 * sampling::normal(random)).rem_euclid(job.words as f64);
                (word as u32 % job.words as u32, random.below(job.topics) as u32)
            };
            (0..job.length).map(|_| token(random)).collect()
        };
        let share = job.documents * number / workers..job.documents * (number + 1) / workers;
        Self {
            job: job.clone(),
            documents: share.map(document).collect(),
            initialized: false,
            batch_index: 0,
            random: sampling::generator(job.seed, 77 + number as u64),
            losses: ClockLosses::default(),
        }
    }

    /// Documents of the current mini-batch.
    fn batch(&self) -> std::ops::Range<usize> {
        let share = |at: u64| self.documents.len() * at as usize / self.job.batches_per_clock as usize;
        share(self.batch_index)..share(self.batch_index + 1)
    }

    fn totals(&self) -> u64 {
        self.job.words as u64
    }

    /// Initial word-topic counts of this worker.
    fn initial(&self) -> CountChanges {
        let mut changes = CountChanges::default();
        for (word, topic) in self.documents.iter().flatten() {
            changes.add(u64::from(*word), *topic, 1);
            changes.add(self.totals(), *topic, 1);
        }
        changes
    }
}

/// Changes of word-topic counts.
#[derive(Debug, Default)]
struct CountChanges(BTreeMap<(u64, u32), i32>);

impl CountChanges {
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

impl TableProgram<i32> for LdaWorker {
    fn reads(&mut self, clock: u64) -> Option<Vec<u64>> {
        if clock > self.job.clocks {
            return None;
        }
        if !self.initialized {
            return Some(Vec::new());
        }
        let words = self.documents[self.batch()].iter().flatten().map(|(word, _)| u64::from(*word));
        let mut keys: Vec<u64> = words.chain([self.totals()]).collect();
        keys.sort_unstable();
        keys.dedup();
        Some(keys)
    }

    /// The first clock adds the initial counts; later clocks sample documents.
    fn work(&mut self, clock: u64, rows: &mut TableRows<'_, i32>) -> Result<TableWork<i32>, String> {
        let topics = self.job.topics;
        if !self.initialized {
            self.initialized = true;
            return Ok(TableWork { span: self.job.token_time, updates: self.initial().rows(topics) });
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
        let mut all = counts.remove(&self.totals()).ok_or("the topic totals were read")?;
        let (batch, width) = (self.batch(), self.job.words as f64 * BETA);
        let (mut changes, mut tokens) = (CountChanges::default(), 0);
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
                self.losses.add(clock - 1, -libm::log(total / length));
                let mut left = sampling::uniform(&mut self.random) * total;
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
        Ok(TableWork {
            span: SimDuration::from_nanos(self.job.token_time.nanos() * tokens),
            updates: changes.rows(topics),
        })
    }

    fn repeats_clock(&mut self, clock: u64) -> bool {
        if clock == 0 {
            return false;
        }
        self.batch_index = (self.batch_index + 1) % self.job.batches_per_clock;
        self.batch_index > 0
    }
}

impl LdaWorkload {
    /// Runs the training on a simulated cluster.
    pub fn run(&self, cluster: &ClusterSpec, seed: u64) -> Result<LdaOutcome, String> {
        let peers = cluster.peers;
        let spec = Arc::new(TableSpec {
            consistency: self.consistency,
            shards: self.shards,
            clients: peers,
            comm_policy: self.budget.map(|_| CommPolicy { priority: self.priority, ..CommPolicy::default() }),
            ..TableSpec::new("words", KeySpace::Fixed(self.words as u64 + 1), self.topics)
        });
        let job = Arc::new(self.clone());
        let mut actors = Vec::new();
        for me in hemiola_core::Rank::all(peers) {
            let worker = |local: usize| LdaWorker::new(&job, me.index() * self.workers + local, peers * self.workers);
            let programs = (0..self.workers).map(worker).collect();
            let budget = self.budget;
            let setup = TableActorSetup { spec: spec.clone(), procedure: || Box::new(Addition), programs, budget };
            actors.push(TableActor::<i32, LdaWorker>::new(me, peers, setup)?);
        }
        let mut actors = actors.into_iter();
        let simulation = Simulation::new(cluster, seed, |_| actors.next());
        let mut simulation = simulation.map_err(|error| error.to_string())?;
        simulation.run().map_err(|trouble| trouble.to_string())?;
        let mut curve = learning_curve(&simulation.actors().iter().flatten(), |worker| &worker.losses);
        // The first clock only adds counts, so losses are recorded from the second clock on.
        let ends: Vec<SimDuration> = curve.iter().skip(1).map(|(end, _)| *end).collect();
        curve.pop();
        curve.iter_mut().zip(ends).for_each(|(one, end)| one.0 = end);
        Ok(LdaOutcome { curve, usage: simulation.usage().to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_likelihood_improves() {
        let job = LdaWorkload {
            seed: 1,
            documents: 64,
            length: 30,
            words: 100,
            topics: 5,
            clocks: 30,
            batches_per_clock: 3,
            workers: 2,
            shards: 4,
            consistency: Consistency::Ssp(1),
            budget: None,
            priority: PriorityPolicy::Random,
            token_time: SimDuration::from_micros(1),
        };
        let curve = job.run(&ClusterSpec::new(4), 1).unwrap().curve;
        assert_eq!(curve.len(), 30);
        assert!(curve[29].1 < curve[0].1 - 0.3, "{curve:?}");
        assert!(curve.windows(2).all(|pair| pair[0].0 < pair[1].0), "{curve:?}");
    }
}
