//! Optimization of the priors: Minka's fixed point (*Estimating a Dirichlet distribution*, 2000),
//! one `alpha` for each topic and one `beta` for all words.
//!
//! ```text
//! alpha_k <- alpha_k Σ_d [ψ(alpha_k + n_dk) - ψ(alpha_k)] / Σ_d [ψ(A + n_d) - ψ(A)]
//! beta    <- beta Σ_k Σ_w [ψ(beta + n_wk) - ψ(beta)] / (V Σ_k [ψ(V beta + n_k) - ψ(V beta)])
//! ```
//!
//! `ψ(x + n) - ψ(x)` is `Σ_{j<n} 1 / (x + j)`, so it suffices to know how many counts are above
//! each `j`: a histogram, whatever the number of documents. Counts above [`MAX_HISTOGRAM_COUNT`]
//! are rare and kept individually.
//!
//! **Invariant:** histograms are integers and the individual counts are sorted, so the bits do not
//! depend on which worker counted what.

use super::block::WordBlock;
use super::partition::DocumentPartition;
use super::special::digamma;
use serde::{Deserialize, Serialize};

/// Largest count in the histogram.
const MAX_HISTOGRAM_COUNT: usize = 255;
/// Iterations of the fixed point.
const FIXED_POINT_ITERATIONS: usize = 10;
/// Lower bound of priors: unused topics could not recover from 0.
const MIN_PRIOR: f64 = 1e-5;

/// Histogram of token counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CountHistogram {
    /// Number of occurrences by count, from 1.
    small: Vec<u64>,
    large: Vec<u64>,
}

impl CountHistogram {
    #[inline]
    fn add(&mut self, count: u64) {
        if count as usize > MAX_HISTOGRAM_COUNT {
            self.large.push(count);
        } else if count > 0 {
            let index = count as usize - 1;
            if self.small.len() <= index {
                self.small.resize(index + 1, 0);
            }
            self.small[index] += 1;
        }
    }

    fn join(&mut self, other: &Self) {
        if self.small.len() < other.small.len() {
            self.small.resize(other.small.len(), 0);
        }
        self.small.iter_mut().zip(&other.small).for_each(|(sum, more)| *sum += more);
        self.large.extend(&other.large);
    }

    /// Returns the number of counts above each value, from 0.
    fn above(mut self) -> TailCounts {
        for index in (1..self.small.len()).rev() {
            self.small[index - 1] += self.small[index];
        }
        self.large.sort_unstable();
        TailCounts(self)
    }
}

struct TailCounts(CountHistogram);

impl TailCounts {
    /// Computes `Σ [ψ(x + n) - ψ(x)]` over all counts.
    fn sum(&self, x: f64) -> f64 {
        let small: f64 = self.0.small.iter().enumerate().map(|(at, count)| *count as f64 / (x + at as f64)).sum();
        if self.0.large.is_empty() {
            return small;
        }
        let base = digamma(x);
        small + self.0.large.iter().map(|count| digamma(x + *count as f64) - base).sum::<f64>()
    }
}

/// Sufficient statistics of the priors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PriorStatistics {
    /// Counts of each topic in documents.
    topics: Vec<CountHistogram>,
    lengths: CountHistogram,
    /// Counts of words in topics.
    words: CountHistogram,
}

impl PriorStatistics {
    pub(super) fn new(topics: usize) -> Self {
        Self {
            topics: vec![CountHistogram::default(); topics],
            lengths: CountHistogram::default(),
            words: CountHistogram::default(),
        }
    }

    pub(super) fn add_part(&mut self, part: &DocumentPartition) {
        for (document, length) in part.lengths.iter().enumerate() {
            self.lengths.add(u64::from(*length));
            part.counts.each(document, |topic, count| self.topics[topic].add(u64::from(count)));
        }
    }

    pub(super) fn add_block(&mut self, block: &WordBlock) {
        for word in 0..block.words() {
            block.each(word, |_, count| self.words.add(u64::from(count)));
        }
    }

    pub(super) fn join(&mut self, other: &Self) {
        self.topics.iter_mut().zip(&other.topics).for_each(|(own, other)| own.join(other));
        self.lengths.join(&other.lengths);
        self.words.join(&other.words);
    }

    /// Optimizes `alpha` in place.
    pub(super) fn learn_alpha(&mut self, alpha: &mut [f64]) {
        let topics: Vec<TailCounts> = std::mem::take(&mut self.topics).into_iter().map(CountHistogram::above).collect();
        let lengths = std::mem::take(&mut self.lengths).above();
        for _ in 0..FIXED_POINT_ITERATIONS {
            let all = lengths.sum(alpha.iter().sum());
            for (alpha, counts) in alpha.iter_mut().zip(&topics) {
                *alpha = (*alpha * counts.sum(*alpha) / all).max(MIN_PRIOR);
            }
        }
    }

    /// Returns the optimized `beta`.
    pub(super) fn learn_beta(&mut self, mut beta: f64, totals: &[i32], occurring: usize) -> f64 {
        let words = std::mem::take(&mut self.words).above();
        let mut of_topics = CountHistogram::default();
        for total in totals {
            of_topics.add(u64::from(total.cast_unsigned()));
        }
        let of_topics = of_topics.above();
        let occurring = occurring as f64;
        for _ in 0..FIXED_POINT_ITERATIONS {
            beta = (beta * words.sum(beta) / (occurring * of_topics.sum(occurring * beta))).clamp(MIN_PRIOR, 1e3);
        }
        beta
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histogram_sums_match_direct_sums() {
        let counts = [0, 1, 1, 3, 255, 256, 1000, 70_000];
        let (mut left, mut right) = (CountHistogram::default(), CountHistogram::default());
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
    fn a_larger_topic_gets_a_larger_prior() {
        // A hundred documents of ten tokens: eight of the first topic, two of the second, none of
        // the third.
        let mut statistics = PriorStatistics::new(3);
        for _ in 0..100 {
            statistics.lengths.add(10);
            statistics.topics[0].add(8);
            statistics.topics[1].add(2);
        }
        let mut alpha = vec![0.1; 3];
        statistics.learn_alpha(&mut alpha);
        assert!(alpha[0] > 2.0 * alpha[1] && alpha[1] > 0.1 && alpha[2] <= MIN_PRIOR, "{alpha:?}");
    }
}
