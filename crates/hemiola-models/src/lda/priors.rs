//! Priors that fit the counts: Minka's fixed point (*Estimating a Dirichlet distribution*, 2000), one `alpha` for each topic and one `beta` for all words.
//!
//! ```text
//! alpha_k <- alpha_k Σ_d [ψ(alpha_k + n_dk) - ψ(alpha_k)] / Σ_d [ψ(A + n_d) - ψ(A)]
//! beta    <- beta Σ_k Σ_w [ψ(beta + n_wk) - ψ(beta)] / (V Σ_k [ψ(V beta + n_k) - ψ(V beta)])
//! ```
//!
//! `ψ(x + n) - ψ(x)` is `Σ_{j<n} 1 / (x + j)`, so it is enough to know how many counts are above each `j`: a histogram, whatever the number of documents. Counts above [`KEPT`] are few and kept one by one.
//!
//! **Invariant:** histograms are integers and what is kept beside them is sorted, so the bits do not depend on who counted what.

use super::block::Block;
use super::part::Part;
use super::special::digamma;
use serde::{Deserialize, Serialize};

/// Counts up to this are in the histogram.
const KEPT: usize = 255;
/// Rounds of the fixed point.
const ROUNDS: usize = 10;
/// No prior becomes smaller: topics that nobody has could not come back.
const LEAST: f64 = 1e-5;

/// How often each count occurs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Histogram {
    /// By count, from 1.
    small: Vec<u64>,
    large: Vec<u64>,
}

impl Histogram {
    #[inline]
    fn add(&mut self, count: u64) {
        if count as usize > KEPT {
            self.large.push(count);
        } else if count > 0 {
            let place = count as usize - 1;
            if self.small.len() <= place {
                self.small.resize(place + 1, 0);
            }
            self.small[place] += 1;
        }
    }

    fn join(&mut self, other: &Self) {
        if self.small.len() < other.small.len() {
            self.small.resize(other.small.len(), 0);
        }
        self.small.iter_mut().zip(&other.small).for_each(|(sum, more)| *sum += more);
        self.large.extend(&other.large);
    }

    /// How many counts are above each number, from 0.
    fn above(mut self) -> Above {
        for place in (1..self.small.len()).rev() {
            self.small[place - 1] += self.small[place];
        }
        self.large.sort_unstable();
        Above(self)
    }
}

struct Above(Histogram);

impl Above {
    /// `Σ [ψ(x + n) - ψ(x)]` over all counts.
    fn sum(&self, x: f64) -> f64 {
        let small: f64 = self.0.small.iter().enumerate().map(|(at, count)| *count as f64 / (x + at as f64)).sum();
        if self.0.large.is_empty() {
            return small;
        }
        let base = digamma(x);
        small + self.0.large.iter().map(|count| digamma(x + *count as f64) - base).sum::<f64>()
    }
}

/// What priors are learned from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Statistics {
    /// By topic: its counts in documents.
    topics: Vec<Histogram>,
    lengths: Histogram,
    /// Counts of words in topics.
    words: Histogram,
}

impl Statistics {
    pub(super) fn new(topics: usize) -> Self {
        Self { topics: vec![Histogram::default(); topics], lengths: Histogram::default(), words: Histogram::default() }
    }

    pub(super) fn add_part(&mut self, part: &Part) {
        for (document, length) in part.lengths.iter().enumerate() {
            self.lengths.add(u64::from(*length));
            part.counts.each(document, |topic, count| self.topics[topic].add(u64::from(count)));
        }
    }

    pub(super) fn add_block(&mut self, block: &Block) {
        for word in 0..block.words() {
            block.each(word, |_, count| self.words.add(u64::from(count)));
        }
    }

    pub(super) fn join(&mut self, other: &Self) {
        self.topics.iter_mut().zip(&other.topics).for_each(|(own, other)| own.join(other));
        self.lengths.join(&other.lengths);
        self.words.join(&other.words);
    }

    /// Makes `alpha` fit.
    pub(super) fn learn_alpha(&mut self, alpha: &mut [f64]) {
        let topics: Vec<Above> = std::mem::take(&mut self.topics).into_iter().map(Histogram::above).collect();
        let lengths = std::mem::take(&mut self.lengths).above();
        for _ in 0..ROUNDS {
            let all = lengths.sum(alpha.iter().sum());
            for (alpha, counts) in alpha.iter_mut().zip(&topics) {
                *alpha = (*alpha * counts.sum(*alpha) / all).max(LEAST);
            }
        }
    }

    /// What `beta` becomes.
    pub(super) fn learn_beta(&mut self, mut beta: f64, totals: &[i32], occurring: usize) -> f64 {
        let words = std::mem::take(&mut self.words).above();
        let mut of_topics = Histogram::default();
        for total in totals {
            of_topics.add(u64::from(total.cast_unsigned()));
        }
        let of_topics = of_topics.above();
        let occurring = occurring as f64;
        for _ in 0..ROUNDS {
            beta = (beta * words.sum(beta) / (occurring * of_topics.sum(occurring * beta))).clamp(LEAST, 1e3);
        }
        beta
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_sum_what_counts_would() {
        let counts = [0, 1, 1, 3, 255, 256, 1000, 70_000];
        let (mut left, mut right) = (Histogram::default(), Histogram::default());
        counts[..5].iter().for_each(|count| left.add(*count));
        counts[5..].iter().for_each(|count| right.add(*count));
        let mut other = right.clone();
        other.join(&left);
        left.join(&right);
        let sum = left.above().sum(0.3);
        assert_eq!(sum.to_bits(), other.above().sum(0.3).to_bits());
        let plain: f64 = counts.iter().map(|count| digamma(0.3 + *count as f64) - digamma(0.3)).sum();
        assert!((sum - plain).abs() < 1e-9 * plain, "{sum} {plain}");
    }

    #[test]
    fn a_larger_share_gets_a_larger_prior() {
        // A hundred documents of ten tokens: eight of the first topic, two of the second, none of the third.
        let mut statistics = Statistics::new(3);
        for _ in 0..100 {
            statistics.lengths.add(10);
            statistics.topics[0].add(8);
            statistics.topics[1].add(2);
        }
        let mut alpha = vec![0.1; 3];
        statistics.learn_alpha(&mut alpha);
        assert!(alpha[0] > 2.0 * alpha[1] && alpha[1] > 0.1 && alpha[2] <= LEAST, "{alpha:?}");
    }
}
