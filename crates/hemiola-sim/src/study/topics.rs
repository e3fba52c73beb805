//! Topics of documents by collapsed Gibbs sampling. Topics of words belong to their worker; how often each word has each topic is the shared model, and late.

use super::learner::{Change, Learner, Settings};
use crate::chance;
use hemiola_collective_proto::Random;
use std::collections::BTreeMap;

const TOPICS: usize = 10;
/// Many of them are rare, as in any language: a word that comes three times is most sensitive to a count that is old.
const WORDS: usize = 3000;
const DOCUMENTS: usize = 320;
const LENGTH: usize = 40;
const ALPHA: f64 = 0.1;
const BETA: f64 = 0.1;
/// Iterations in which all documents are sampled once.
const BATCHES: usize = 10;

pub(super) struct Topics {
    initial: Vec<f32>,
    workers: Vec<Worker>,
}

struct Worker {
    /// Words and their topics.
    documents: Vec<Vec<(u32, u8)>>,
    at: usize,
    random: Random,
}

/// Where the model counts a word with a topic; behind all words are the sums of each topic.
fn place(word: usize, topic: usize) -> usize {
    word * TOPICS + topic
}

impl Topics {
    pub(super) fn new(settings: &Settings) -> Self {
        let random = &mut chance::generator(settings.seed, 21);
        // Each topic prefers a range of words, and ranges overlap; each document has few topics.
        let word_of = |topic: usize, random: &mut Random| {
            let middle = topic as f64 * WORDS as f64 / TOPICS as f64;
            (middle + WORDS as f64 / 16.0 * chance::normal(random)).rem_euclid(WORDS as f64) as usize % WORDS
        };
        let mut initial = vec![0.0; (WORDS + 1) * TOPICS];
        let mut workers: Vec<Worker> = (0..settings.workers)
            .map(|number| Worker {
                documents: Vec::new(),
                at: 0,
                random: chance::generator(settings.seed, 300 + number as u64),
            })
            .collect();
        for number in 0..DOCUMENTS {
            let own = [random.below(TOPICS), random.below(TOPICS)];
            let document: Vec<(u32, u8)> = (0..LENGTH)
                .map(|_| {
                    let word = word_of(own[random.below(2)], random);
                    let topic = random.below(TOPICS);
                    initial[place(word, topic)] += 1.0;
                    initial[place(WORDS, topic)] += 1.0;
                    (word as u32, topic as u8)
                })
                .collect();
            workers[number % settings.workers].documents.push(document);
        }
        Self { initial, workers }
    }
}

impl Learner for Topics {
    fn initial(&self) -> Vec<f32> {
        self.initial.clone()
    }

    fn update(&mut self, worker: usize, copy: &[f32]) -> Change {
        let Worker { documents, at, random } = &mut self.workers[worker];
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
                    // The copy may lack what this worker has changed, and count what is gone.
                    let mine = f64::from(u8::from(k == old));
                    let with = (f64::from(copy[place(*word as usize, k)]) - mine).max(0.0);
                    let all = (f64::from(copy[place(WORDS, k)]) - mine).max(0.0);
                    total += (own[k] + ALPHA) * (with + BETA) / (all + WORDS as f64 * BETA);
                    sums[k] = total;
                }
                let drawn = chance::unit(random) * total;
                let new = sums.iter().position(|sum| drawn < *sum).unwrap_or(TOPICS - 1);
                own[new] += 1.0;
                if new != old {
                    *topic = new as u8;
                    for (at, change) in [(old, -1.0), (new, 1.0)] {
                        *changes.entry(place(*word as usize, at) as u32).or_default() += change;
                        *changes.entry(place(WORDS, at) as u32).or_default() += change;
                    }
                }
            }
        }
        Change::Sparse(changes.into_iter().filter(|(_, change)| *change != 0.0).collect())
    }

    /// How likely the words are, given their topics, for each word.
    fn quality(&self, copy: &[f32]) -> f64 {
        let words = WORDS as f64;
        let mut sum = TOPICS as f64 * (libm::lgamma(words * BETA) - words * libm::lgamma(BETA));
        for topic in 0..TOPICS {
            let mut all = 0.0;
            for word in 0..WORDS {
                let count = f64::from(copy[place(word, topic)]).max(0.0);
                all += count;
                sum += libm::lgamma(count + BETA);
            }
            sum -= libm::lgamma(all + words * BETA);
        }
        sum / (DOCUMENTS * LENGTH) as f64
    }
}
