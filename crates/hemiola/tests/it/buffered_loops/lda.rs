//! Latent Dirichlet allocation by collapsed Gibbs sampling: rotation with buffered totals.
//!
//! Documents stay with their workers, words rotate. The topic totals are read by all workers and
//! written through a buffer, and a worker sees its own changes at once by reading `totals[k] +
//! changes[k]`. Random numbers are functions of sweep, document, word and token.

use crate::with_watchdog;
use hemiola::core::rng::PhiloxRng;
use hemiola::loops::plan::LoopSchedule;
use hemiola::loops::{LoopPlan, LoopReport};
use hemiola::prelude::*;

const TOPICS: usize = 8;
const ALPHA: f64 = 0.5;
const BETA: f64 = 0.1;

/// Sampler state: the topic of every token, and the topic counts.
struct LdaSampler {
    tokens: DistArray<Vec<u16>, 2>,
    doc_topics: DistArray<u32, 2>,
    word_topics: DistArray<u32, 2>,
    totals: DistArray<i64, 1>,
}

impl LdaSampler {
    /// Assigns a random topic to every token and counts the topics.
    fn new(cluster: &Cluster, counts: &DistArray<u32, 2>) -> hemiola::Result<Self> {
        let [docs, words] = counts.shape().extents();
        let random = PhiloxRng::new(1);
        let topic =
            |[d, w]: [usize; 2], n: u32| random.random_below((d * words + w) as u64, n.into(), TOPICS as u64) as u16;
        let assign = |key: [usize; 2], count: u32| (0..count).map(|n| topic(key, n)).collect::<Vec<_>>();
        let tokens = counts.entries().map(assign).materialize()?;
        let mut doc_topics = cluster.zeros([docs, TOPICS])?;
        let mut word_topics = cluster.zeros([words, TOPICS])?;
        let totals = cluster.zeros([TOPICS])?;
        let changes = totals.buffered(|total: &mut i64, change: i64| *total += change);
        parallel_for!(
            cluster,
            for ([d, w], topics) in &tokens {
                for &topic in topics {
                    doc_topics[d][topic as usize] += 1;
                    word_topics[w][topic as usize] += 1;
                    changes[topic as usize] += 1;
                }
            }
        )?;
        Ok(Self { tokens, doc_topics, word_topics, totals })
    }

    /// One Gibbs sweep over all tokens. Returns the log-likelihood: the sum of the
    /// log-probabilities of all tokens, each taken before the token is resampled.
    fn sweep(&mut self, cluster: &Cluster, sweep: u64) -> hemiola::Result<(f64, LoopReport)> {
        let words = self.word_topics.shape().extent(0);
        let (random, log_likelihood) = (PhiloxRng::new(2), cluster.accumulator::<f64>());
        let Self { tokens, doc_topics, word_topics, totals } = self;
        let changes = totals.buffered(|total, change: i64| *total += change);
        let run = parallel_for!(
            cluster,
            for ([d, w], topics) in &mut *tokens {
                let (of_doc, of_word) = (&mut doc_topics[d], &mut word_topics[w]);
                for (n, topic) in topics.iter_mut().enumerate() {
                    let old = *topic as usize;
                    of_doc[old] -= 1;
                    of_word[old] -= 1;
                    changes[old] -= 1;
                    let weights: [f64; TOPICS] =
                        std::array::from_fn(|k| weight(of_doc[k], of_word[k], totals[k] + changes[k], words));
                    let new = sample(&weights, random.random_f64((d * words + w) as u64, sweep << 32 | n as u64));
                    *topic = new as u16;
                    of_doc[new] += 1;
                    of_word[new] += 1;
                    changes[new] += 1;
                    let length = f64::from(of_doc.iter().sum::<u32>() - 1);
                    log_likelihood += (weights.iter().sum::<f64>() / (length + TOPICS as f64 * ALPHA)).ln();
                }
            }
        )?;
        Ok((log_likelihood.take()?, run))
    }
}

/// Unnormalized probability of a topic, given its counts in the document, with the word, and
/// overall.
fn weight(of_doc: u32, of_word: u32, total: i64, words: usize) -> f64 {
    (f64::from(of_doc) + ALPHA) * (f64::from(of_word) + BETA) / (total as f64 + words as f64 * BETA)
}

/// Samples an index in proportion to `weights`, from a uniform random number `unit` in 0..1.
fn sample(weights: &[f64], unit: f64) -> usize {
    let mut left = unit * weights.iter().sum::<f64>();
    let found = weights.iter().position(|weight| {
        left -= weight;
        left < 0.0
    });
    found.unwrap_or(weights.len() - 1)
}

/// Synthetic word counts. A document has two topics, a word has one; one token in ten is noise.
fn synthetic_counts(cluster: &Cluster, shape: [usize; 2]) -> hemiola::Result<DistArray<u32, 2>> {
    let random = PhiloxRng::new(3);
    let all = cluster.from_fn(shape, |[d, w]| {
        let on_topic = [d % TOPICS, d / TOPICS % TOPICS].contains(&(w % TOPICS));
        let mean = if on_topic { 0.5 } else { 0.02 };
        let key = (d * shape[1] + w) as u64;
        (random.random_f64(key, 0) * 2.0 * mean + 0.5) as u32 + u32::from(random.random_f64(key, 1) < mean)
    })?;
    Ok(all.entries().filter(|_, count| *count > 0).materialize()?)
}

#[derive(Clone, Debug, PartialEq)]
struct SerialLda {
    tokens: Vec<([usize; 2], Vec<u16>)>,
    doc_topics: Vec<u32>,
    word_topics: Vec<u32>,
    totals: Vec<i64>,
}

fn values<T: hemiola::array::Element, const N: usize>(array: &DistArray<T, N>) -> hemiola::Result<Vec<T>> {
    Ok(array.collect()?.into_iter().map(|(_, value)| value).collect())
}

impl SerialLda {
    fn of(model: &LdaSampler) -> hemiola::Result<Self> {
        Ok(Self {
            tokens: model.tokens.collect()?,
            doc_topics: values(&model.doc_topics)?,
            word_topics: values(&model.word_topics)?,
            totals: values(&model.totals)?,
        })
    }

    /// Serial reference in plain Rust. Parts of one step do not see each other's changes of the
    /// totals.
    fn sweep(&mut self, plan: &LoopPlan, sweep: u64) {
        let (random, words) = (PhiloxRng::new(2), self.word_topics.len() / TOPICS);
        let mut sampled = Vec::new();
        for parts in plan.in_steps(std::mem::take(&mut self.tokens)) {
            let mut sum = vec![0; TOPICS];
            for part in parts {
                let mut changes = [0; TOPICS];
                for ([d, w], mut topics) in part {
                    let (doc, word) = (d * TOPICS, w * TOPICS);
                    for (n, topic) in topics.iter_mut().enumerate() {
                        let old = *topic as usize;
                        self.doc_topics[doc + old] -= 1;
                        self.word_topics[word + old] -= 1;
                        changes[old] -= 1;
                        let weights: [f64; TOPICS] = std::array::from_fn(|k| {
                            let total = self.totals[k] + changes[k];
                            weight(self.doc_topics[doc + k], self.word_topics[word + k], total, words)
                        });
                        let unit = random.random_f64((d * words + w) as u64, sweep << 32 | n as u64);
                        let new = sample(&weights, unit);
                        *topic = new as u16;
                        self.doc_topics[doc + new] += 1;
                        self.word_topics[word + new] += 1;
                        changes[new] += 1;
                    }
                    sampled.push(([d, w], topics));
                }
                sum.iter_mut().zip(changes).for_each(|(sum, change)| *sum += change);
            }
            self.totals.iter_mut().zip(sum).for_each(|(total, change)| *total += change);
        }
        sampled.sort_by_key(|(key, _)| *key);
        self.tokens = sampled;
    }
}

#[test]
fn equals_a_serial_sampler_with_equally_stale_totals() {
    for (peers, workers) in (1..=3).flat_map(|peers| (1..=4).map(move |workers| (peers, workers))) {
        let program = |cluster: &Cluster| {
            let mut model = LdaSampler::new(cluster, &synthetic_counts(cluster, [80, 120])?)?;
            let mut expected = SerialLda::of(&model)?;
            for sweep in 0..2 {
                let (log_likelihood, run) = model.sweep(cluster, sweep)?;
                assert!(log_likelihood < 0.0);
                let rotates = matches!(run.plan().cuts.schedule, LoopSchedule::Rotation { .. });
                assert!(rotates || workers * peers == 1, "{}", run.plan());
                if cluster.is_root() {
                    expected.sweep(run.plan(), sweep);
                }
            }
            Ok(SerialLda::of(&model)? == expected)
        };
        let equal = with_watchdog(|| hemiola::standalone(peers).workers(workers).run(program)).expect("it runs");
        assert!(equal[0], "not the same bits on {peers} peers with {workers} workers");
    }
}
