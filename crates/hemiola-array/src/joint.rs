//! How many entries lie in each cell of a grid: ranges of one dimension by ranges of another.
//!
//! Where a loop is cut along two dimensions, its blocks are unions of such cells: how long it takes can be told from their
//! counts before anything is moved. **Invariant:** counts made with the same dimensions and bounds have the same cells, so
//! merging those of several peers is an element-wise sum.

use crate::sparse::KeyColumn;
use serde::{Deserialize, Serialize};

/// Dimensions of up to this many indices have a table from index to range; longer ones are searched.
const TABLE: u64 = 1 << 22;

/// Counts of entries by ranges of two dimensions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JointHistogram {
    dimensions: [usize; 2],
    bounds: [Vec<u64>; 2],
    /// By range of the first dimension, then of the second.
    counts: Vec<u64>,
}

impl JointHistogram {
    /// No entries yet, in the ranges between ascending bounds from 0 to the extent of each dimension.
    ///
    /// # Panics
    /// If there are fewer than two bounds, or they do not ascend from 0.
    #[must_use]
    pub fn new(dimensions: [usize; 2], bounds: [Vec<u64>; 2]) -> Self {
        for bounds in &bounds {
            assert!(bounds.len() >= 2 && bounds[0] == 0 && bounds.is_sorted(), "bounds ascend from 0");
        }
        let counts = vec![0; (bounds[0].len() - 1) * (bounds[1].len() - 1)];
        Self { dimensions, bounds, counts }
    }

    /// Whether it counts by these dimensions and bounds.
    #[must_use]
    pub fn is_of(&self, dimensions: [usize; 2], bounds: &[Vec<u64>; 2]) -> bool {
        self.dimensions == dimensions && self.bounds == *bounds
    }

    /// The dimensions.
    #[must_use]
    pub fn dimensions(&self) -> [usize; 2] {
        self.dimensions
    }

    /// The ends of the ranges of each dimension, from 0 on.
    #[must_use]
    pub fn bounds(&self) -> &[Vec<u64>; 2] {
        &self.bounds
    }

    /// Whether it can have been made by [`new`](Self::new): what was read from a file need not be.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let ascend = |bounds: &Vec<u64>| bounds.len() >= 2 && bounds[0] == 0 && bounds.is_sorted();
        self.bounds.iter().all(ascend)
            && self.counts.len() == (self.bounds[0].len() - 1) * (self.bounds[1].len() - 1)
            && self.counts.iter().try_fold(0_u64, |sum, count| sum.checked_add(*count)).is_some()
    }

    /// The extents of both dimensions.
    #[must_use]
    pub fn extents(&self) -> [u64; 2] {
        self.bounds.each_ref().map(|bounds| bounds.last().copied().unwrap_or(0))
    }

    /// The number of entries counted.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The entries of a range of the first dimension and one of the second.
    ///
    /// # Panics
    /// If there are no such ranges.
    #[must_use]
    pub fn count(&self, first: usize, second: usize) -> u64 {
        self.counts[first * (self.bounds[1].len() - 1) + second]
    }

    /// Counts entries by their keys of both dimensions.
    ///
    /// # Panics
    /// If a key is outside of the bounds.
    pub(crate) fn add_all(&mut self, first: &KeyColumn, second: &KeyColumn) {
        let finders = [Finder::new(&self.bounds[0]), Finder::new(&self.bounds[1])];
        let across = self.bounds[1].len() - 1;
        let counts = &mut self.counts;
        let mut count = |range: usize, other: usize| counts[range * across + other] += 1;
        // The columns of nearly all arrays.
        if let ([Finder::Table(first_of), Finder::Table(second_of)], Some(first), Some(second)) =
            (&finders, first.as_narrow(), second.as_narrow())
        {
            for (a, b) in first.iter().zip(second) {
                count(first_of[*a as usize] as usize, second_of[*b as usize] as usize);
            }
            return;
        }
        for (a, b) in first.iter().zip(second.iter()) {
            count(finders[0].find(a), finders[1].find(b));
        }
    }

    /// Adds the counts of another part of the same array.
    ///
    /// # Panics
    /// If the two are not by the same ranges.
    pub fn merge(&mut self, other: &Self) {
        assert!(self.is_of(other.dimensions, &other.bounds), "counts by different ranges");
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
    }

    /// Counts one entry. For tests and for those who have few.
    ///
    /// # Panics
    /// If a key is outside of the bounds.
    pub fn add_weight(&mut self, first: u64, second: u64, weight: u64) {
        let across = self.bounds[1].len() - 1;
        let range = |bounds: &Vec<u64>, key| bounds[1..].partition_point(|bound| *bound <= key);
        self.counts[range(&self.bounds[0], first) * across + range(&self.bounds[1], second)] += weight;
    }
}

/// Finds the range of an index.
enum Finder<'a> {
    Table(Vec<u32>),
    Search(&'a [u64]),
}

impl<'a> Finder<'a> {
    fn new(bounds: &'a [u64]) -> Self {
        let extent = bounds[bounds.len() - 1];
        if extent > TABLE {
            return Self::Search(bounds);
        }
        let ranges = bounds.windows(2).enumerate();
        let table = ranges.flat_map(|(range, ends)| std::iter::repeat_n(range as u32, (ends[1] - ends[0]) as usize));
        Self::Table(table.collect())
    }

    fn find(&self, index: u64) -> usize {
        match self {
            Self::Table(table) => table[index as usize] as usize,
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
            keys in prop::collection::vec((0_u64..20, 0_u64..TABLE + 9), 0..50),
            mut cuts in [prop::collection::vec(0_u64..20, 0..5), prop::collection::vec(0_u64..TABLE + 9, 0..5)],
        ) {
            for (cut, extent) in cuts.iter_mut().zip([20, TABLE + 9]) {
                cut.extend([0, extent]);
                cut.sort_unstable();
            }
            let mut joint = JointHistogram::new([2, 0], cuts.clone());
            let mut columns = [KeyColumn::with_capacity(true, 0), KeyColumn::with_capacity(true, 0)];
            for (a, b) in &keys {
                columns[0].push(*a);
                columns[1].push(*b);
            }
            joint.add_all(&columns[0], &columns[1]);
            let mut single = JointHistogram::new([2, 0], cuts.clone());
            for key in &keys {
                single.add_weight(key.0, key.1, 1);
            }
            prop_assert_eq!(&joint, &single);
            for (first, a) in cuts[0].windows(2).enumerate() {
                for (second, b) in cuts[1].windows(2).enumerate() {
                    let inside = |key: &&(u64, u64)| (a[0]..a[1]).contains(&key.0) && (b[0]..b[1]).contains(&key.1);
                    prop_assert_eq!(joint.count(first, second), keys.iter().filter(inside).count() as u64);
                }
            }
        }
    }
}
