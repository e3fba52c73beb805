//! Distribution of examples over steps and peers.
//!
//! An epoch is a random order of all examples, cut into batches; the last batch has the remainder.
//! Each batch is divided over the peers.
//!
//! **Invariant:** order and batches depend on seed and epoch only, not on the peers, so any number
//! of peers takes the same steps. Every example belongs to one peer in one step of an epoch. If a
//! batch has fewer examples than there are peers, some get none.

use hemiola_core::Seed;
use hemiola_core::rng::{Permutation, PhiloxRng};
use std::ops::Range;

/// Sampler of the mini-batches of every peer, as PyTorch's `DistributedSampler`.
///
/// ```
/// use hemiola_core::Seed;
/// use hemiola_nn::data::BatchSampler;
/// let batches = BatchSampler::new(10, 4, 2, Seed(7));
/// assert_eq!(batches.steps(), 3);
/// let mut seen = Vec::new();
/// for step in 0..batches.steps() {
///     for rank in 0..2 {
///         seen.extend(batches.examples_of(0, step, rank));
///     }
/// }
/// seen.sort_unstable();
/// assert!(seen.into_iter().eq(0..10));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct BatchSampler {
    examples: usize,
    batch_size: usize,
    seed: u64,
    /// Cumulative weights of the peers, from 0 to the total.
    cumulative_weights: Vec<u64>,
}

impl BatchSampler {
    /// Divides `examples` into batches of `batch` examples, and each batch evenly over `peers`.
    ///
    /// # Panics
    /// If `batch` or `peers` is 0.
    pub fn new(examples: usize, batch: usize, peers: usize, Seed(seed): Seed) -> Self {
        assert!(batch > 0 && peers > 0, "batch size and number of peers are positive");
        Self { examples, batch_size: batch, seed, cumulative_weights: (0..=peers as u64).collect() }
    }

    /// Divides each batch in proportion to these weights, so that faster peers get more.
    ///
    /// # Panics
    /// If all weights are 0.
    pub fn weighted(mut self, weights: &[u32]) -> Self {
        let mut sum = 0;
        self.cumulative_weights = std::iter::once(0)
            .chain(weights.iter().map(|weight| {
                sum += u64::from(*weight);
                sum
            }))
            .collect();
        assert!(sum > 0, "at least one weight is positive");
        self
    }

    /// Number of steps of an epoch.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.examples.div_ceil(self.batch_size)
    }

    /// Number of examples of all peers in a step.
    #[must_use]
    pub fn batch_len(&self, step: usize) -> usize {
        self.step_range(step).len()
    }

    /// Maximum batch size of a peer.
    #[must_use]
    pub fn max_examples_of(&self, rank: usize) -> usize {
        self.rank_range(self.batch_size.min(self.examples), rank).len()
    }

    /// Returns the examples of a peer in a step of an epoch; may be empty.
    #[must_use]
    pub fn examples_of(&self, epoch: u32, step: usize, rank: usize) -> Vec<usize> {
        let range = self.step_range(step);
        let own = self.rank_range(range.len(), rank);
        let seed = PhiloxRng::new(self.seed).random_u64(u64::from(epoch), 0);
        let order = Permutation::new(self.examples as u64, Seed(seed));
        (range.start + own.start..range.start + own.end).map(|index| order.apply(index as u64) as usize).collect()
    }

    /// Returns a peer's share of all examples in their stored order, in batches of at most the
    /// batch size. For evaluation.
    pub fn in_order(&self, rank: usize) -> impl Iterator<Item = Vec<usize>> + use<> {
        let (all, batch) = (self.rank_range(self.examples, rank), self.batch_size);
        all.clone().step_by(batch).map(move |start| (start..(start + batch).min(all.end)).collect())
    }

    fn step_range(&self, step: usize) -> Range<usize> {
        let at = |step: usize| (step * self.batch_size).min(self.examples);
        at(step)..at(step + 1)
    }

    /// Range of a peer within `count` items.
    fn rank_range(&self, count: usize, rank: usize) -> Range<usize> {
        let all = u128::from(self.cumulative_weights[self.cumulative_weights.len() - 1]);
        let at = |rank: usize| (count as u128 * u128::from(self.cumulative_weights[rank]) / all) as usize;
        at(rank)..at(rank + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(batches: &BatchSampler, peers: usize, epoch: u32, step: usize) -> Vec<usize> {
        (0..peers).flat_map(|rank| batches.examples_of(epoch, step, rank)).collect()
    }

    #[test]
    fn every_number_of_peers_takes_the_same_steps() {
        for peers in [2, 3, 5] {
            let (one, many) = (BatchSampler::new(23, 7, 1, Seed(3)), BatchSampler::new(23, 7, peers, Seed(3)));
            for number in 0..4 {
                assert_eq!(step(&one, 1, 2, number), step(&many, peers, 2, number));
                assert_eq!(step(&one, 1, 2, number).len(), one.batch_len(number));
            }
        }
    }

    #[test]
    fn epochs_and_seeds_give_other_orders() {
        let batches = BatchSampler::new(100, 100, 1, Seed(3));
        let first = batches.examples_of(0, 0, 0);
        assert_eq!(first, BatchSampler::new(100, 100, 1, Seed(3)).examples_of(0, 0, 0));
        assert_ne!(first, batches.examples_of(1, 0, 0));
        assert_ne!(first, BatchSampler::new(100, 100, 1, Seed(4)).examples_of(0, 0, 0));
        let mut sorted = first;
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..100));
    }

    #[test]
    fn a_batch_smaller_than_the_peers_leaves_some_empty() {
        let batches = BatchSampler::new(9, 2, 4, Seed(1));
        let sizes = |step| (0..4).map(|rank| batches.examples_of(0, step, rank).len()).collect::<Vec<_>>();
        assert_eq!((sizes(0).iter().sum::<usize>(), sizes(4).iter().sum::<usize>()), (2, 1));
        assert!(sizes(0).iter().all(|size| *size <= 1));
        assert!((0..4).all(|rank| batches.max_examples_of(rank) <= 1));
    }

    #[test]
    fn shares_may_be_uneven() {
        let batches = BatchSampler::new(40, 10, 3, Seed(1)).weighted(&[3, 0, 2]);
        let sizes: Vec<usize> = (0..3).map(|rank| batches.examples_of(0, 1, rank).len()).collect();
        assert_eq!(sizes, [6, 0, 4]);
        assert_eq!(step(&batches, 3, 0, 1), BatchSampler::new(40, 10, 1, Seed(1)).examples_of(0, 1, 0));
    }

    #[test]
    fn evaluation_covers_every_example_once() {
        let batches = BatchSampler::new(11, 3, 2, Seed(1));
        let all: Vec<Vec<usize>> = (0..2).flat_map(|rank| batches.in_order(rank)).collect();
        assert!(all.iter().all(|batch| !batch.is_empty() && batch.len() <= 3));
        assert!(all.into_iter().flatten().eq(0..11));
        assert_eq!(BatchSampler::new(1, 8, 2, Seed(1)).in_order(0).count(), 0);
    }
}
