//! Joint histogram of two dimensions: number of entries in each cell of a grid of index ranges.
//!
//! The blocks of a loop that is partitioned along two dimensions are unions of such cells. Their
//! counts predict the duration of the loop before any entry moves. **Invariant:** joint histograms
//! with the same dimensions and bounds have the same cells, so merging those of several peers is an
//! element-wise sum.

use crate::sparse::KeyColumn;
use serde::{Deserialize, Serialize};

/// Largest extent with a lookup table from index to range; longer dimensions use binary search.
const LOOKUP_TABLE_LIMIT: usize = 1 << 22;

/// Counts of entries by ranges of two dimensions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JointHistogram {
    dimensions: [usize; 2],
    bounds: [Vec<usize>; 2],
    /// Row-major by range of the first dimension, then of the second.
    counts: Vec<u64>,
}

impl JointHistogram {
    /// Creates empty counts for the ranges between ascending bounds, from 0 to the extent of each
    /// dimension.
    ///
    /// # Panics
    /// Panics if there are fewer than two bounds, or they do not ascend from 0.
    #[must_use]
    pub fn new(dimensions: [usize; 2], bounds: [Vec<usize>; 2]) -> Self {
        for bounds in &bounds {
            assert!(bounds.len() >= 2 && bounds[0] == 0 && bounds.is_sorted(), "bounds must ascend from 0");
        }
        let counts = vec![0; (bounds[0].len() - 1) * (bounds[1].len() - 1)];
        Self { dimensions, bounds, counts }
    }

    /// Returns true if it counts by these dimensions and bounds.
    #[must_use]
    pub fn has_bounds(&self, dimensions: [usize; 2], bounds: &[Vec<usize>; 2]) -> bool {
        self.dimensions == dimensions && self.bounds == *bounds
    }

    /// Returns the two counted dimensions.
    #[must_use]
    pub fn dimensions(&self) -> [usize; 2] {
        self.dimensions
    }

    /// Bounds of the ranges of each dimension, ascending from 0.
    #[must_use]
    pub fn bounds(&self) -> &[Vec<usize>; 2] {
        &self.bounds
    }

    /// Returns true if [`new`](Self::new) could have created it. A deserialized histogram may be
    /// inconsistent.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let ascend = |bounds: &Vec<usize>| bounds.len() >= 2 && bounds[0] == 0 && bounds.is_sorted();
        self.bounds.iter().all(ascend)
            && self.counts.len() == (self.bounds[0].len() - 1) * (self.bounds[1].len() - 1)
            && self.counts.iter().try_fold(0_u64, |sum, count| sum.checked_add(*count)).is_some()
    }

    /// Extents of both dimensions.
    #[must_use]
    pub fn extents(&self) -> [usize; 2] {
        self.bounds.each_ref().map(|bounds| bounds.last().copied().unwrap_or(0))
    }

    /// Total number of entries counted.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Number of entries in a range of the first dimension and a range of the second.
    ///
    /// # Panics
    /// Panics if there are no such ranges.
    #[must_use]
    pub fn count(&self, first: usize, second: usize) -> u64 {
        self.counts[first * (self.bounds[1].len() - 1) + second]
    }

    /// Counts entries by their keys in both dimensions.
    ///
    /// # Panics
    /// Panics if a key is outside of the bounds.
    pub(crate) fn add_columns(&mut self, first: &KeyColumn, second: &KeyColumn) {
        let lookups = [RangeLookup::new(&self.bounds[0]), RangeLookup::new(&self.bounds[1])];
        let across = self.bounds[1].len() - 1;
        let counts = &mut self.counts;
        let mut count = |range: usize, other: usize| counts[range * across + other] += 1;
        // Fast path: nearly all arrays have narrow key columns and short dimensions.
        if let ([RangeLookup::Table(first_of), RangeLookup::Table(second_of)], Some(first), Some(second)) =
            (&lookups, first.as_narrow(), second.as_narrow())
        {
            for (a, b) in first.iter().zip(second) {
                count(first_of[*a as usize] as usize, second_of[*b as usize] as usize);
            }
            return;
        }
        for (a, b) in first.iter().zip(second.iter()) {
            count(lookups[0].range_of(a as usize), lookups[1].range_of(b as usize));
        }
    }

    /// Adds the counts of another part of the array.
    ///
    /// # Panics
    /// Panics if the ranges differ.
    pub fn merge(&mut self, other: &Self) {
        assert!(self.has_bounds(other.dimensions, &other.bounds), "joint histograms must have the same ranges");
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
    }

    /// Counts `weight` entries at a pair of indices. For few entries; it searches the bounds each
    /// time.
    ///
    /// # Panics
    /// Panics if a key is outside of the bounds.
    pub fn add_weight(&mut self, first: usize, second: usize, weight: u64) {
        let across = self.bounds[1].len() - 1;
        let range = |bounds: &Vec<usize>, key| bounds[1..].partition_point(|bound| *bound <= key);
        self.counts[range(&self.bounds[0], first) * across + range(&self.bounds[1], second)] += weight;
    }
}

/// Lookup of the range of an index.
enum RangeLookup<'a> {
    Table(Vec<u32>),
    Search(&'a [usize]),
}

impl<'a> RangeLookup<'a> {
    fn new(bounds: &'a [usize]) -> Self {
        let extent = bounds[bounds.len() - 1];
        if extent > LOOKUP_TABLE_LIMIT {
            return Self::Search(bounds);
        }
        let ranges = bounds.windows(2).enumerate();
        let table = ranges.flat_map(|(range, ends)| std::iter::repeat_n(range as u32, ends[1] - ends[0]));
        Self::Table(table.collect())
    }

    fn range_of(&self, index: usize) -> usize {
        match self {
            Self::Table(table) => table[index] as usize,
            Self::Search(bounds) => bounds[1..].partition_point(|bound| *bound <= index),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_entry_is_counted_where_it_lies(
            keys in prop::collection::vec((0_usize..20, 0_usize..LOOKUP_TABLE_LIMIT + 9), 0..50),
            mut bounds in [prop::collection::vec(0_usize..20, 0..5), prop::collection::vec(0_usize..LOOKUP_TABLE_LIMIT + 9, 0..5)],
        ) {
            for (bounds, extent) in bounds.iter_mut().zip([20, LOOKUP_TABLE_LIMIT + 9]) {
                bounds.extend([0, extent]);
                bounds.sort_unstable();
            }
            let mut joint = JointHistogram::new([2, 0], bounds.clone());
            let mut columns = [KeyColumn::with_capacity(true, 0), KeyColumn::with_capacity(true, 0)];
            for (a, b) in &keys {
                columns[0].push(*a as u64);
                columns[1].push(*b as u64);
            }
            joint.add_columns(&columns[0], &columns[1]);
            let mut single = JointHistogram::new([2, 0], bounds.clone());
            for key in &keys {
                single.add_weight(key.0, key.1, 1);
            }
            prop_assert_eq!(&joint, &single);
            for (first, a) in bounds[0].windows(2).enumerate() {
                for (second, b) in bounds[1].windows(2).enumerate() {
                    let inside = |key: &&(usize, usize)| (a[0]..a[1]).contains(&key.0) && (b[0]..b[1]).contains(&key.1);
                    prop_assert_eq!(joint.count(first, second), keys.iter().filter(inside).count() as u64);
                }
            }
        }
    }
}
