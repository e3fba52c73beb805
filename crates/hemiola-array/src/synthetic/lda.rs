//! Documents drawn from the model of latent Dirichlet allocation (Blei, Ng, Jordan 2003).
//!
//! Each topic is a distribution over words drawn from a Dirichlet distribution, each document a mixture of topics drawn from
//! another. The truth, topics by words, is kept as cumulative sums; a document costs two binary searches per token.

use super::zipf::draw;
use super::{Part, values};
use crate::random::Values;
use std::collections::BTreeMap;

/// The parameters and the topics of a set of documents.
#[derive(Clone, Debug)]
pub struct Lda {
    documents: u64,
    words: u64,
    length: u64,
    alpha: f64,
    seed: u64,
    /// For each topic, ascending sums of word probabilities, the last one 1.
    topics: Vec<Vec<f64>>,
}

impl Lda {
    /// Documents of about `length` tokens over `words` words and `topics` topics, with Dirichlet parameters 0.1 for
    /// topics in a document and 0.05 for words in a topic.
    #[must_use]
    pub fn new(documents: u64, words: u64, topics: u64, length: u64, seed: u64) -> Self {
        let truth = values(seed, Part::Truth);
        let topics = (0..topics).map(|topic| dirichlet(truth, topic, words, 0.05)).collect();
        Self { documents, words, length, alpha: 0.1, seed, topics }
    }

    /// The Dirichlet parameter of topics in a document. Default: 0.1.
    #[must_use]
    pub fn alpha(mut self, alpha: f64) -> Self {
        self.alpha = alpha;
        self
    }

    /// The number of documents.
    #[must_use]
    pub fn documents(&self) -> u64 {
        self.documents
    }

    /// The number of words.
    #[must_use]
    pub fn words(&self) -> u64 {
        self.words
    }

    /// The true probabilities of all words in a topic.
    ///
    /// # Panics
    /// If there is no such topic.
    #[must_use]
    pub fn topic(&self, topic: usize) -> Vec<f64> {
        let sums = &self.topics[topic];
        (0..sums.len()).map(|word| sums[word] - if word == 0 { 0.0 } else { sums[word - 1] }).collect()
    }

    /// The true mixture of topics of a document.
    #[must_use]
    pub fn mixture(&self, document: u64) -> Vec<f64> {
        let sums = self.mixture_sums(document);
        (0..sums.len()).map(|topic| sums[topic] - if topic == 0 { 0.0 } else { sums[topic - 1] }).collect()
    }

    fn mixture_sums(&self, document: u64) -> Vec<f64> {
        dirichlet(values(self.seed, Part::OtherTruth), document, self.topics.len() as u64, self.alpha)
    }

    /// The words of a document in ascending order, with their counts.
    #[must_use]
    pub fn row(&self, document: u64) -> Vec<(u64, u32)> {
        let mixture = self.mixture_sums(document);
        // Lengths vary by a factor of three, evenly.
        let length = self.length / 2 + values(self.seed, Part::Count).below(document, 0, self.length + 1);
        let choice = values(self.seed, Part::Choice);
        let mut counts = BTreeMap::new();
        for token in 0..length {
            let topic = draw(&mixture, choice.unit(document, 2 * token));
            let word = draw(&self.topics[topic as usize], choice.unit(document, 2 * token + 1));
            *counts.entry(word).or_insert(0) += 1;
        }
        counts.into_iter().collect()
    }

    /// All documents in order.
    pub fn rows(&self) -> impl Iterator<Item = Vec<(u64, u32)>> + '_ {
        (0..self.documents).map(|document| self.row(document))
    }
}

/// Ascending sums of a draw from a symmetric Dirichlet distribution: gamma variates, normalized.
fn dirichlet(values: Values, row: u64, extent: u64, parameter: f64) -> Vec<f64> {
    let mut sum = 0.0;
    let mut sums: Vec<f64> = (0..extent)
        .map(|column| {
            sum += gamma(values, row, column, parameter);
            sum
        })
        .collect();
    if sum > 0.0 {
        for value in &mut sums {
            *value /= sum;
        }
    } else {
        // All variates underflowed, as they may for tiny parameters: the limit puts all weight on one.
        let one = values.below(row, u64::MAX, extent) as usize;
        sums[one..].fill(1.0);
    }
    sums
}

/// A gamma variate, by the method of Marsaglia and Tsang (2000); each try takes the next two draws of the cell.
fn gamma(values: Values, row: u64, column: u64, shape: f64) -> f64 {
    // Up to 64 draws per cell; a try fails about one time in twenty.
    let draws = column * 64;
    if shape < 1.0 {
        let boost = libm::pow(1.0 - values.unit(row, draws + 63), 1.0 / shape);
        return boost * gamma_above_one(values, row, draws, shape + 1.0);
    }
    gamma_above_one(values, row, draws, shape)
}

fn gamma_above_one(values: Values, row: u64, draws: u64, shape: f64) -> f64 {
    let center = shape - 1.0 / 3.0;
    let spread = 1.0 / libm::sqrt(9.0 * center);
    for attempt in 0..30 {
        let normal = values.normal(row, draws + 2 * attempt, 0.0, 1.0);
        let root = 1.0 + spread * normal;
        let cube = root * root * root;
        let unit = 1.0 - values.unit(row, draws + 2 * attempt + 1);
        let bound = 0.5 * normal * normal + center - center * cube + center * libm::log(cube);
        if cube > 0.0 && libm::log(unit) < bound {
            return center * cube;
        }
    }
    center // Thirty failures in a row have probability 1e-39.
}
