//! Which peer takes which examples at which step.
//!
//! An epoch is a random order of all examples, cut into batches; the last one has what is left. A batch is cut again, into a share for each peer. **Invariant:** order and batches depend on seed and epoch alone and not on the peers, so that any number of them takes
//! the same steps; every example is in one share of one step of an epoch. Where a batch has fewer examples than there are peers, some get none.

use hemiola_array::random::{Permutation, Values};
use std::ops::Range;

/// The division of examples over steps and peers.
///
/// ```
/// use hemiola_nn::data::Batches;
/// let batches = Batches::new(10, 4, 2, 7);
/// assert_eq!(batches.steps(), 3);
/// let mut seen = Vec::new();
/// for step in 0..batches.steps() {
///     for rank in 0..2 {
///         seen.extend(batches.share(0, step, rank));
///     }
/// }
/// seen.sort_unstable();
/// assert!(seen.into_iter().eq(0..10));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Batches {
    examples: usize,
    batch: usize,
    seed: u64,
    /// What the peers before one take of a batch, and all of them: of as many as the last says.
    bounds: Vec<u64>,
}

impl Batches {
    /// `examples` in batches of `batch`, each divided over `peers`; the same of each.
    ///
    /// # Panics
    /// If a batch has no example, or there is no peer.
    pub fn new(examples: usize, batch: usize, peers: usize, seed: u64) -> Self {
        assert!(batch > 0 && peers > 0, "a batch has an example and a peer");
        Self { examples, batch, seed, bounds: (0..=peers as u64).collect() }
    }

    /// Peers take shares of these sizes, relative to each other: more for faster ones.
    ///
    /// # Panics
    /// If all of them are 0.
    pub fn weighted(mut self, weights: &[u32]) -> Self {
        let mut sum = 0;
        self.bounds = std::iter::once(0)
            .chain(weights.iter().map(|weight| {
                sum += u64::from(*weight);
                sum
            }))
            .collect();
        assert!(sum > 0, "somebody takes examples");
        self
    }

    /// Steps of an epoch.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.examples.div_ceil(self.batch)
    }

    /// Examples of a step, of all peers.
    #[must_use]
    pub fn size(&self, step: usize) -> usize {
        self.places(step).len()
    }

    /// The most examples that a peer has at a step.
    #[must_use]
    pub fn most(&self, rank: usize) -> usize {
        self.cut(self.batch.min(self.examples), rank).len()
    }

    /// The examples of a peer at a step of an epoch, by number; maybe none.
    #[must_use]
    pub fn share(&self, epoch: u32, step: usize, rank: usize) -> Vec<usize> {
        let places = self.places(step);
        let cut = self.cut(places.len(), rank);
        let order = Permutation::new(self.examples as u64, Values::new(self.seed).bits(u64::from(epoch), 0));
        (places.start + cut.start..places.start + cut.end).map(|place| order.apply(place as u64) as usize).collect()
    }

    /// A peer's share of all examples in their own order, in batches no larger than any: for evaluation.
    pub fn in_order(&self, rank: usize) -> impl Iterator<Item = Vec<usize>> + use<> {
        let (all, batch) = (self.cut(self.examples, rank), self.batch);
        all.clone().step_by(batch).map(move |start| (start..(start + batch).min(all.end)).collect())
    }

    fn places(&self, step: usize) -> Range<usize> {
        let at = |step: usize| (step * self.batch).min(self.examples);
        at(step)..at(step + 1)
    }

    /// A peer's part of `count` things.
    fn cut(&self, count: usize, rank: usize) -> Range<usize> {
        let all = u128::from(self.bounds[self.bounds.len() - 1]);
        let at = |rank: usize| (count as u128 * u128::from(self.bounds[rank]) / all) as usize;
        at(rank)..at(rank + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(batches: &Batches, peers: usize, epoch: u32, step: usize) -> Vec<usize> {
        (0..peers).flat_map(|rank| batches.share(epoch, step, rank)).collect()
    }

    #[test]
    fn every_number_of_peers_takes_the_same_steps() {
        for peers in [2, 3, 5] {
            let (one, many) = (Batches::new(23, 7, 1, 3), Batches::new(23, 7, peers, 3));
            for number in 0..4 {
                assert_eq!(step(&one, 1, 2, number), step(&many, peers, 2, number));
                assert_eq!(step(&one, 1, 2, number).len(), one.size(number));
            }
        }
    }

    #[test]
    fn epochs_are_other_orders_and_seeds_are_too() {
        let batches = Batches::new(100, 100, 1, 3);
        let first = batches.share(0, 0, 0);
        assert_eq!(first, Batches::new(100, 100, 1, 3).share(0, 0, 0));
        assert_ne!(first, batches.share(1, 0, 0));
        assert_ne!(first, Batches::new(100, 100, 1, 4).share(0, 0, 0));
        let mut sorted = first;
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..100));
    }

    #[test]
    fn a_batch_smaller_than_the_peers_leaves_some_without() {
        let batches = Batches::new(9, 2, 4, 1);
        let sizes = |step| (0..4).map(|rank| batches.share(0, step, rank).len()).collect::<Vec<_>>();
        assert_eq!((sizes(0).iter().sum::<usize>(), sizes(4).iter().sum::<usize>()), (2, 1));
        assert!(sizes(0).iter().all(|size| *size <= 1));
        assert!((0..4).all(|rank| batches.most(rank) <= 1));
    }

    #[test]
    fn shares_may_be_uneven() {
        let batches = Batches::new(40, 10, 3, 1).weighted(&[3, 0, 2]);
        let sizes: Vec<usize> = (0..3).map(|rank| batches.share(0, 1, rank).len()).collect();
        assert_eq!(sizes, [6, 0, 4]);
        assert_eq!(step(&batches, 3, 0, 1), Batches::new(40, 10, 1, 1).share(0, 1, 0));
    }

    #[test]
    fn evaluation_sees_everything_once() {
        let batches = Batches::new(11, 3, 2, 1);
        let all: Vec<Vec<usize>> = (0..2).flat_map(|rank| batches.in_order(rank)).collect();
        assert!(all.iter().all(|batch| !batch.is_empty() && batch.len() <= 3));
        assert!(all.into_iter().flatten().eq(0..11));
        assert_eq!(Batches::new(1, 8, 2, 1).in_order(0).count(), 0);
    }
}
