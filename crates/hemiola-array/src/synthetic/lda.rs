//! Documents drawn from the generative model of latent Dirichlet allocation (Blei, Ng, Jordan
//! 2003).
//!
//! Each topic is a distribution over words, drawn from a Dirichlet distribution; each document is a
//! mixture of topics, drawn from another. The true topic-word distributions are kept as cumulative
//! sums; a document costs two binary searches per token.

use super::zipf::sample_cumulative;
use super::{RandomStream, stream_rng};
use hemiola_core::rng::PhiloxRng;
use std::collections::BTreeMap;

/// Dirichlet parameter of words in a topic.
const BETA: f64 = 0.05;

/// Parameters of a synthetic corpus.
///
/// ```
/// use hemiola_array::synthetic::SyntheticLda;
/// let corpus = SyntheticLda { documents: 30, topics: 4, seed: 3, ..SyntheticLda::default() };
/// assert_eq!(corpus.generator().rows().count(), 30);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SyntheticLda {
    /// Number of documents in the corpus.
    pub documents: usize,
    /// Size of the vocabulary.
    pub words: usize,
    /// Number of topics of the corpus.
    pub topics: usize,
    /// Mean number of tokens of a document.
    pub length: usize,
    /// Dirichlet parameter of topics in a document.
    pub alpha: f64,
    /// Random seed of topics, mixtures and tokens.
    pub seed: u64,
}

impl Default for SyntheticLda {
    /// 1,000 documents of about 100 tokens, over 500 words and 10 topics.
    fn default() -> Self {
        Self { documents: 1000, words: 500, topics: 10, length: 100, alpha: 0.1, seed: 0 }
    }
}

impl SyntheticLda {
    /// Draws the topics and returns the generator of the documents.
    #[must_use]
    pub fn generator(self) -> LdaGenerator {
        let truth = stream_rng(self.seed, RandomStream::Truth);
        let topics = (0..self.topics).map(|topic| dirichlet(truth, topic, self.words, BETA)).collect();
        LdaGenerator { set: self, topics }
    }
}

/// Topics of a [`SyntheticLda`], and generator of its documents.
#[derive(Clone, Debug)]
pub struct LdaGenerator {
    set: SyntheticLda,
    /// Cumulative word probabilities of each topic; the last one is 1.
    topics: Vec<Vec<f64>>,
}

impl LdaGenerator {
    /// Returns the parameters of the set.
    #[must_use]
    pub fn set(&self) -> &SyntheticLda {
        &self.set
    }

    /// True probabilities of all words in a topic.
    ///
    /// # Panics
    /// Panics if there is no such topic.
    #[must_use]
    pub fn topic(&self, topic: usize) -> Vec<f64> {
        let sums = &self.topics[topic];
        (0..sums.len()).map(|word| sums[word] - if word == 0 { 0.0 } else { sums[word - 1] }).collect()
    }

    /// True topic mixture of a document.
    #[must_use]
    pub fn mixture(&self, document: usize) -> Vec<f64> {
        let sums = self.mixture_sums(document);
        (0..sums.len()).map(|topic| sums[topic] - if topic == 0 { 0.0 } else { sums[topic - 1] }).collect()
    }

    fn mixture_sums(&self, document: usize) -> Vec<f64> {
        let rng = stream_rng(self.set.seed, RandomStream::OtherTruth);
        dirichlet(rng, document, self.topics.len(), self.set.alpha)
    }

    /// Generates a document: its words in ascending order, with their counts.
    #[must_use]
    pub fn row(&self, document: usize) -> Vec<(usize, u32)> {
        let mixture = self.mixture_sums(document);
        let (document, seed, mean) = (document as u64, self.set.seed, self.set.length as u64);
        // Lengths are uniform between 1/2 and 3/2 of the mean.
        let length = mean / 2 + stream_rng(seed, RandomStream::Count).random_below(document, 0, mean + 1);
        let choice = stream_rng(seed, RandomStream::Choice);
        let mut counts = BTreeMap::new();
        for token in 0..length {
            let topic = sample_cumulative(&mixture, choice.random_f64(document, 2 * token));
            let word = sample_cumulative(&self.topics[topic], choice.random_f64(document, 2 * token + 1));
            *counts.entry(word).or_insert(0) += 1;
        }
        counts.into_iter().collect()
    }

    /// Generates all documents in order.
    pub fn rows(&self) -> impl Iterator<Item = Vec<(usize, u32)>> + '_ {
        (0..self.set.documents).map(|document| self.row(document))
    }
}

/// Cumulative sums of a draw from a symmetric Dirichlet distribution: normalized gamma variates.
fn dirichlet(rng: PhiloxRng, row: usize, extent: usize, parameter: f64) -> Vec<f64> {
    let row = row as u64;
    let mut sum = 0.0;
    let mut sums: Vec<f64> = (0..extent as u64)
        .map(|column| {
            sum += gamma(rng, row, column, parameter);
            sum
        })
        .collect();
    if sum > 0.0 {
        for value in &mut sums {
            *value /= sum;
        }
    } else {
        // All variates underflowed, as they may for tiny parameters: the limit puts all weight on
        // one.
        let one = rng.random_below(row, u64::MAX, extent as u64) as usize;
        sums[one..].fill(1.0);
    }
    sums
}

/// Gamma variate, by the method of Marsaglia and Tsang (2000); each attempt takes the next two
/// draws of the cell.
fn gamma(rng: PhiloxRng, row: u64, column: u64, shape: f64) -> f64 {
    // Up to 64 draws per cell; an attempt fails about one time in twenty.
    let draws = column * 64;
    if shape < 1.0 {
        let boost = libm::pow(1.0 - rng.random_f64(row, draws + 63), 1.0 / shape);
        return boost * gamma_above_one(rng, row, draws, shape + 1.0);
    }
    gamma_above_one(rng, row, draws, shape)
}

fn gamma_above_one(rng: PhiloxRng, row: u64, draws: u64, shape: f64) -> f64 {
    let center = shape - 1.0 / 3.0;
    let spread = 1.0 / libm::sqrt(9.0 * center);
    for attempt in 0..30 {
        let normal = rng.normal(row, draws + 2 * attempt, 0.0, 1.0);
        let root = 1.0 + spread * normal;
        let cube = root * root * root;
        let unit = 1.0 - rng.random_f64(row, draws + 2 * attempt + 1);
        let bound = 0.5 * normal * normal + center - center * cube + center * libm::log(cube);
        if cube > 0.0 && libm::log(unit) < bound {
            return center * cube;
        }
    }
    center // thirty failures in a row have probability 1e-39
}
