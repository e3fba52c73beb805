//! Partitioning of one dimension: the part of an index, and the indices of a part.
//!
//! There are three kinds. *Equal* ranges need only the extent. *Balanced* ranges come from a
//! [`Histogram`]: their parts have nearly equal numbers of entries, which decides how long the
//! slowest worker takes. *Hashed* parts spread clustered indices without a look at the data; the
//! price is that a part is not a range.
//!
//! **Invariant:** every index of the dimension belongs to exactly one part. Range parts are
//! ascending and adjacent. A partitioner is plain data that depends only on its arguments, so every
//! peer computes the same one.
//!
//! With an exact histogram, no other partition into ranges has a smaller heaviest part. The
//! algorithm is that of the linear partitioning problem: a binary search over the prefix sums for
//! the smallest capacity for which greedy filling needs at most `parts` parts. Greedy filling alone
//! leaves the last parts light. Boundaries are therefore first put where the prefix sum is nearest
//! to `total * k / parts`, and greedy filling is used only where that is worse. With bins wider
//! than one index, the weight of a bin counts as spread evenly over it (interpolation), and the
//! heaviest part exceeds the optimum by at most the weight of two bins.

use crate::Histogram;
use hemiola_core::Seed;
use hemiola_core::rng::{GOLDEN_GAMMA, mix64};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Partition of the indices `0..extent` of one dimension into parts, as Spark's `Partitioner`.
///
/// ```
/// use hemiola_array::{Partitioner, Histogram};
/// let equal = Partitioner::equal(10, 3);
/// assert_eq!(equal.ranges().collect::<Vec<_>>(), [0..4, 4..7, 7..10]);
///
/// let mut histogram = Histogram::new(10, 10);
/// histogram.add_weight(0, 100);
/// (1..10).for_each(|index| histogram.add_weight(index, 10));
/// let balanced = Partitioner::balanced(&histogram, 2);
/// assert_eq!(balanced.ranges().collect::<Vec<_>>(), [0..1, 1..10]);
/// assert_eq!(balanced.part_of(5), 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partitioner {
    extent: usize,
    parts: u32,
    rule: PartitionRule,
}

/// Rule that maps an index to its part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum PartitionRule {
    Equal,
    /// `parts + 1` ascending bounds, from 0 to the extent.
    Bounds(Vec<usize>),
    Hash {
        seed: u64,
    },
}

impl Partitioner {
    /// Ranges whose lengths differ by at most one.
    ///
    /// # Panics
    /// Panics if `parts` is 0.
    #[must_use]
    pub fn equal(extent: usize, parts: usize) -> Self {
        Self { extent, parts: checked_parts(parts), rule: PartitionRule::Equal }
    }

    /// Ranges between the given bounds: `parts + 1` ascending numbers from 0 to the extent.
    ///
    /// # Panics
    /// Panics if the bounds are not ascending, do not begin with 0, or are fewer than two.
    #[must_use]
    pub fn from_bounds(bounds: Vec<usize>) -> Self {
        assert!(bounds.len() >= 2 && bounds[0] == 0 && bounds.is_sorted(), "bounds must ascend from 0");
        let extent = bounds[bounds.len() - 1];
        Self { extent, parts: checked_parts(bounds.len() - 1), rule: PartitionRule::Bounds(bounds) }
    }

    /// Ranges of nearly equal weight under `histogram`.
    ///
    /// # Panics
    /// Panics if `parts` is 0.
    #[must_use]
    pub fn balanced(histogram: &Histogram, parts: usize) -> Self {
        let parts_u32 = checked_parts(parts);
        let mut prefix = Vec::with_capacity(histogram.counts().len() + 1);
        prefix.push(0_u64);
        for count in histogram.counts() {
            prefix.push(prefix[prefix.len() - 1] + count);
        }
        if prefix[prefix.len() - 1] == 0 {
            return Self::equal(histogram.extent(), parts);
        }
        let bounds = if histogram.is_exact() {
            exact_bounds(&prefix, parts)
        } else {
            interpolated_bounds(histogram, &prefix, parts)
        };
        Self { extent: histogram.extent(), parts: parts_u32, rule: PartitionRule::Bounds(bounds) }
    }

    /// Parts chosen by a hash of the index. A seed gives the same parts on every peer.
    ///
    /// # Panics
    /// Panics if `parts` is 0.
    #[must_use]
    pub fn hashed(extent: usize, parts: usize, Seed(seed): Seed) -> Self {
        Self { extent, parts: checked_parts(parts), rule: PartitionRule::Hash { seed } }
    }

    /// Number of parts. Some may be empty.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.parts as usize
    }

    /// Number of indices of the dimension.
    #[must_use]
    pub fn extent(&self) -> usize {
        self.extent
    }

    /// Returns true if every part is a range.
    #[must_use]
    pub fn is_range_based(&self) -> bool {
        !matches!(self.rule, PartitionRule::Hash { .. })
    }

    /// Returns the part of an index. An index past the extent belongs to the last range.
    #[must_use]
    pub fn part_of(&self, index: usize) -> usize {
        let parts = self.parts();
        let part = match &self.rule {
            PartitionRule::Equal => {
                let (short, long_parts) = (self.extent / parts, self.extent % parts);
                let in_long = long_parts * (short + 1);
                if index < in_long {
                    index / (short + 1)
                } else {
                    (index - in_long).checked_div(short).map_or(parts - 1, |part| long_parts + part)
                }
            }
            // Empty parts share a bound: the index belongs to the part that ends after it.
            PartitionRule::Bounds(bounds) => bounds[1..].partition_point(|&bound| bound <= index),
            // The high half of the product maps the hash to a part without the bias and cost of a
            // remainder.
            PartitionRule::Hash { seed } => {
                ((u128::from(hash(index as u64 ^ hash(*seed))) * parts as u128) >> 64) as usize
            }
        };
        part.min(parts - 1)
    }

    /// Returns the indices of a part, or `None` for hashed parts.
    ///
    /// # Panics
    /// Panics if there is no such part.
    #[must_use]
    pub fn range(&self, part: usize) -> Option<Range<usize>> {
        assert!(part < self.parts(), "part {part} of {}", self.parts);
        match &self.rule {
            PartitionRule::Equal => {
                let (short, long_parts) = (self.extent / self.parts(), self.extent % self.parts());
                let start = |part: usize| part * short + part.min(long_parts);
                Some(start(part)..start(part + 1))
            }
            PartitionRule::Bounds(bounds) => Some(bounds[part]..bounds[part + 1]),
            PartitionRule::Hash { .. } => None,
        }
    }

    /// Iterates over the ranges of all parts in order; empty for hashed parts.
    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        (0..self.parts()).filter_map(|part| self.range(part))
    }

    /// Weight of each part under an exact histogram.
    ///
    /// # Panics
    /// Panics if the histogram has another extent or is not exact.
    #[must_use]
    pub fn weights(&self, histogram: &Histogram) -> Vec<u64> {
        assert!(
            histogram.is_exact() && histogram.extent() == self.extent,
            "the histogram must be exact and have the extent of this dimension"
        );
        let mut weights = vec![0; self.parts()];
        for (index, count) in histogram.counts().iter().enumerate() {
            weights[self.part_of(index)] += count;
        }
        weights
    }
}

fn checked_parts(parts: usize) -> u32 {
    assert!(parts > 0, "a partition has at least one part");
    u32::try_from(parts).expect("a partition has fewer than 2^32 parts")
}

/// Hash of an index: every bit of the result depends on every bit of the index.
fn hash(index: u64) -> u64 {
    mix64(index.wrapping_add(GOLDEN_GAMMA))
}

fn exact_bounds(prefix: &[u64], parts: usize) -> Vec<usize> {
    let capacity = smallest_capacity(prefix, parts);
    let nearest = nearest_bounds(prefix, parts);
    let heaviest = nearest.windows(2).map(|pair| prefix[pair[1]] - prefix[pair[0]]).max();
    if heaviest <= Some(capacity) {
        return nearest;
    }
    greedy_bounds(prefix, parts, capacity).expect("the capacity was found feasible")
}

/// Bounds where the prefix sum is nearest to an equal share.
fn nearest_bounds(prefix: &[u64], parts: usize) -> Vec<usize> {
    let total = u128::from(prefix[prefix.len() - 1]);
    let mut bounds = vec![0_usize];
    for part in 1..parts {
        let target = (total * part as u128 / parts as u128) as u64;
        let above = prefix.partition_point(|&sum| sum < target);
        let below = above.saturating_sub(1);
        let nearest = if target - prefix[below].min(target) < prefix[above] - target { below } else { above };
        bounds.push(nearest.max(bounds[bounds.len() - 1]));
    }
    bounds.push(prefix.len() - 1);
    bounds
}

/// Smallest weight `w` for which `parts` ranges of weight at most `w` cover everything.
fn smallest_capacity(prefix: &[u64], parts: usize) -> u64 {
    let total = prefix[prefix.len() - 1];
    let heaviest = prefix.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
    let (mut low, mut high) = (heaviest.max(total.div_ceil(parts as u64)), total);
    while low < high {
        let middle = low + (high - low) / 2;
        if greedy_bounds(prefix, parts, middle).is_some() {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// Fills parts from the left up to `capacity`; `None` if that needs more than `parts` parts.
fn greedy_bounds(prefix: &[u64], parts: usize, capacity: u64) -> Option<Vec<usize>> {
    let end = prefix.len() - 1;
    let mut bounds = Vec::with_capacity(parts + 1);
    bounds.push(0);
    let mut at = 0;
    for _ in 0..parts {
        at += prefix[at..].partition_point(|&sum| sum - prefix[at] <= capacity) - 1;
        bounds.push(at);
    }
    (at == end).then_some(bounds)
}

/// Bounds inside bins, with the weight of a bin spread evenly over its indices.
fn interpolated_bounds(histogram: &Histogram, prefix: &[u64], parts: usize) -> Vec<usize> {
    let total = u128::from(prefix[prefix.len() - 1]);
    let mut bounds = vec![0_usize];
    for part in 1..parts {
        let target = (total * part as u128 / parts as u128) as u64;
        let bin = prefix.partition_point(|&sum| sum <= target).saturating_sub(1).min(histogram.counts().len() - 1);
        let start = bin * histogram.width();
        let length = histogram.width().min(histogram.extent() - start);
        let weight = histogram.counts()[bin].max(1);
        let inside = (u128::from(target - prefix[bin]) * length as u128 / u128::from(weight)) as usize;
        let bound = start + inside.min(length);
        bounds.push(bound.max(bounds[bounds.len() - 1]));
    }
    bounds.push(histogram.extent());
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn exact(counts: &[u64]) -> Histogram {
        let mut histogram = Histogram::new(counts.len(), counts.len());
        counts.iter().enumerate().for_each(|(index, &count)| histogram.add_weight(index, count));
        histogram
    }

    fn covers_and_is_disjoint(cut: &Partitioner) {
        let mut next = 0;
        for (part, range) in cut.ranges().enumerate() {
            assert_eq!(range.start, next, "parts are adjacent");
            next = range.end;
            range.for_each(|index| assert_eq!(cut.part_of(index), part));
        }
        assert_eq!(next, cut.extent(), "parts cover the dimension");
    }

    proptest! {
        #[test]
        fn equal_parts_cover_all_and_differ_by_one(extent in 0_usize..300, parts in 1_usize..40) {
            let cut = Partitioner::equal(extent, parts);
            covers_and_is_disjoint(&cut);
            let lengths: Vec<_> = cut.ranges().map(|range| range.end - range.start).collect();
            prop_assert!(lengths.iter().max().unwrap() - lengths.iter().min().unwrap() <= 1);
        }

        #[test]
        fn balanced_parts_cover_all_and_exceed_the_mean_by_less_than_the_heaviest_index(
            counts in prop::collection::vec(0_u64..1000, 1..200), parts in 1_usize..20,
        ) {
            let histogram = exact(&counts);
            let cut = Partitioner::balanced(&histogram, parts);
            covers_and_is_disjoint(&cut);
            let heaviest = cut.weights(&histogram).into_iter().max().unwrap();
            let bound = histogram.total().div_ceil(parts as u64) + counts.iter().max().unwrap();
            prop_assert!(heaviest <= bound, "{} > {}", heaviest, bound);
        }

        #[test]
        fn no_range_partition_is_better_than_the_balanced_one(
            counts in prop::collection::vec(0_u64..50, 1..12), parts in 1_usize..5,
        ) {
            let histogram = exact(&counts);
            let ours = Partitioner::balanced(&histogram, parts).weights(&histogram).into_iter().max().unwrap();
            prop_assert_eq!(ours, best_by_trying_all(&counts, parts));
        }

        #[test]
        fn binned_histogram_costs_at_most_two_bins_of_balance(
            counts in prop::collection::vec(0_u64..100, 50..400), parts in 1_usize..8,
        ) {
            let mut binned = Histogram::new(counts.len(), 32);
            counts.iter().enumerate().for_each(|(index, &count)| binned.add_weight(index, count));
            let cut = Partitioner::balanced(&binned, parts);
            covers_and_is_disjoint(&cut);
            let heaviest = cut.weights(&exact(&counts)).into_iter().max().unwrap();
            let bound = binned.total().div_ceil(parts as u64) + 2 * binned.counts().iter().max().unwrap() + 1;
            prop_assert!(heaviest <= bound, "{} > {}", heaviest, bound);
        }

        #[test]
        fn hashed_parts_exist_for_every_index(extent in 1_usize..1000, parts in 1_usize..40, seed: u64) {
            let cut = Partitioner::hashed(extent, parts, Seed(seed));
            prop_assert!((0..extent).all(|index| cut.part_of(index) < parts));
            prop_assert_eq!(cut.range(0), None);
        }
    }

    fn best_by_trying_all(counts: &[u64], parts: usize) -> u64 {
        if parts == 1 {
            return counts.iter().sum();
        }
        (0..=counts.len())
            .map(|first| counts[..first].iter().sum::<u64>().max(best_by_trying_all(&counts[first..], parts - 1)))
            .min()
            .unwrap()
    }

    #[test]
    fn hashed_parts_are_near_equal_for_clustered_indices() {
        let cut = Partitioner::hashed(100_000, 8, Seed(1));
        let mut sizes = [0_u32; 8];
        (0..100_000).for_each(|index| sizes[cut.part_of(index)] += 1);
        // Binomial: mean 12500, standard deviation 105; the bound is six standard deviations.
        assert!(sizes.iter().all(|size| size.abs_diff(12_500) < 630), "{sizes:?}");
    }

    #[test]
    fn a_dimension_without_entries_is_partitioned_equally() {
        assert_eq!(Partitioner::balanced(&exact(&[0; 9]), 3), Partitioner::equal(9, 3));
        assert_eq!(Partitioner::balanced(&Histogram::new(0, 8), 3).ranges().collect::<Vec<_>>(), [0..0, 0..0, 0..0]);
    }
}
