//! Topic model by collapsed Gibbs sampling. Each worker owns the topic assignments of its
//! documents; the word-topic counts are the shared model, which updates reach with delay.

use super::learner::{LearnerSettings, ModelUpdate, StudyLearner};
use crate::sampling;
use hemiola_core::rng::SplitMix64;
use std::collections::BTreeMap;

const TOPICS: usize = 10;
/// Vocabulary size. Many words are rare, as in natural language: a word with three occurrences is
/// most sensitive to stale counts.
const WORDS: usize = 3000;
const DOCUMENTS: usize = 320;
const LENGTH: usize = 40;
const ALPHA: f64 = 0.1;
const BETA: f64 = 0.1;
/// Number of iterations in which all documents are sampled once.
const BATCHES: usize = 10;

pub(super) struct LdaLearner {
    initial: Vec<f32>,
    workers: Vec<LdaLearnerWorker>,
}

struct LdaLearnerWorker {
    /// Tokens of each document with their topics.
    documents: Vec<Vec<(u32, u8)>>,
    at: usize,
    random: SplitMix64,
}

/// Index of a word-topic count in the model; the topic totals follow all words.
fn count_index(word: usize, topic: usize) -> usize {
    word * TOPICS + topic
}

impl LdaLearner {
    pub(super) fn new(settings: &LearnerSettings) -> Self {
        let random = &mut sampling::generator(settings.seed, 21);
        // Each topic prefers a range of words, and ranges overlap; each document has two topics.
        let word_of = |topic: usize, random: &mut SplitMix64| {
            let middle = topic as f64 * WORDS as f64 / TOPICS as f64;
            (middle + WORDS as f64 / 16.0 * sampling::normal(random)).rem_euclid(WORDS as f64) as usize % WORDS
        };
        let mut initial = vec![0.0; (WORDS + 1) * TOPICS];
        let mut workers: Vec<LdaLearnerWorker> = (0..settings.workers)
            .map(|number| LdaLearnerWorker {
                documents: Vec::new(),
                at: 0,
                random: sampling::generator(settings.seed, 300 + number as u64),
            })
            .collect();
        for number in 0..DOCUMENTS {
            let own = [random.below(TOPICS), random.below(TOPICS)];
            let document: Vec<(u32, u8)> = (0..LENGTH)
                .map(|_| {
                    let word = word_of(own[random.below(2)], random);
                    let topic = random.below(TOPICS);
                    initial[count_index(word, topic)] += 1.0;
                    initial[count_index(WORDS, topic)] += 1.0;
                    (word as u32, topic as u8)
                })
                .collect();
            workers[number % settings.workers].documents.push(document);
        }
        Self { initial, workers }
    }
}

impl StudyLearner for LdaLearner {
    fn initial(&self) -> Vec<f32> {
        self.initial.clone()
    }

    fn update(&mut self, worker: usize, copy: &[f32]) -> ModelUpdate {
        let LdaLearnerWorker { documents, at, random } = &mut self.workers[worker];
        let count = documents.len().div_ceil(BATCHES);
        let mut changes: BTreeMap<u32, f32> = BTreeMap::new();
        for _ in 0..count {
            let length = documents.len();
            let document = &mut documents[*at % length];
            *at += 1;
            let mut own = [0.0; TOPICS];
            for (_, topic) in document.iter() {
                own[usize::from(*topic)] += 1.0;
            }
            for (word, topic) in document {
                let old = usize::from(*topic);
                own[old] -= 1.0;
                let mut sums = [0.0; TOPICS];
                let mut total = 0.0;
                for k in 0..TOPICS {
                    // A stale copy may lack this worker's updates and include removed counts.
                    let mine = f64::from(u8::from(k == old));
                    let with = (f64::from(copy[count_index(*word as usize, k)]) - mine).max(0.0);
                    let all = (f64::from(copy[count_index(WORDS, k)]) - mine).max(0.0);
                    total += (own[k] + ALPHA) * (with + BETA) / (all + WORDS as f64 * BETA);
                    sums[k] = total;
                }
                let drawn = sampling::uniform(random) * total;
                let new = sums.iter().position(|sum| drawn < *sum).unwrap_or(TOPICS - 1);
                own[new] += 1.0;
                if new != old {
                    *topic = new as u8;
                    for (at, change) in [(old, -1.0), (new, 1.0)] {
                        *changes.entry(count_index(*word as usize, at) as u32).or_default() += change;
                        *changes.entry(count_index(WORDS, at) as u32).or_default() += change;
                    }
                }
            }
        }
        ModelUpdate::Sparse(changes.into_iter().filter(|(_, change)| *change != 0.0).collect())
    }

    /// Log likelihood of words given topics, per word.
    fn evaluate(&self, copy: &[f32]) -> f64 {
        let words = WORDS as f64;
        let mut sum = TOPICS as f64 * (libm::lgamma(words * BETA) - words * libm::lgamma(BETA));
        for topic in 0..TOPICS {
            let mut all = 0.0;
            for word in 0..WORDS {
                let count = f64::from(copy[count_index(word, topic)]).max(0.0);
                all += count;
                sum += libm::lgamma(count + BETA);
            }
            sum -= libm::lgamma(all + words * BETA);
        }
        sum / (DOCUMENTS * LENGTH) as f64
    }
}
