//! Number of entries at each index of a dimension, exact or in bins.
//!
//! A balanced [`Partitioner`](crate::Partitioner) is computed from a histogram, and skew is read
//! off it. Peers count their own entries and [`merge`](Histogram::merge) the counts. **Invariant:**
//! histograms created with the same extent and limit have the same bins, so a merge is an
//! element-wise sum in any order.

use crate::sparse::KeyColumn;
use serde::{Deserialize, Serialize};

/// Counts per index, or per bin of neighbouring indices, of one dimension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    extent: usize,
    /// Indices per bin; 1 means full resolution. The last bin may be narrower.
    width: usize,
    counts: Vec<u64>,
}

impl Histogram {
    /// Creates an empty histogram of at most `limit` bins over `extent` indices. It is exact if
    /// `limit >= extent`.
    #[must_use]
    pub fn new(extent: usize, limit: usize) -> Self {
        let width = extent.div_ceil(limit.max(1)).max(1);
        Self { extent, width, counts: vec![0; extent.div_ceil(width)] }
    }

    /// Counts one entry at `index`.
    ///
    /// # Panics
    /// Panics if the index is outside the extent.
    pub fn add(&mut self, index: usize) {
        self.add_weight(index, 1);
    }

    /// Counts `weight` entries at `index`.
    ///
    /// # Panics
    /// Panics if the index is outside the extent.
    pub fn add_weight(&mut self, index: usize, weight: u64) {
        let bin = if self.width == 1 { index } else { index / self.width };
        self.counts[bin] += weight;
    }

    /// Counts an entry at every key of a column.
    ///
    /// # Panics
    /// Panics if a key is outside the extent.
    pub(crate) fn add_column(&mut self, keys: &KeyColumn) {
        match keys {
            KeyColumn::Narrow(keys) if self.width == 1 => keys.iter().for_each(|&key| self.counts[key as usize] += 1),
            keys => keys.iter().for_each(|key| self.add(key as usize)),
        }
    }

    /// Adds the counts of another part of the same array.
    ///
    /// # Panics
    /// Panics if the extents or bin widths differ.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(
            (self.extent, self.width),
            (other.extent, other.width),
            "histograms must have the same extent and bin width"
        );
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
    }

    /// Number of indices of the dimension.
    #[must_use]
    pub fn extent(&self) -> usize {
        self.extent
    }

    /// Number of neighbouring indices that share a bin.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns true if every index has its own bin.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.width == 1
    }

    /// Returns true if [`new`](Self::new) could have created it. A deserialized histogram may be
    /// inconsistent.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.width > 0
            && self.counts.len() == self.extent.div_ceil(self.width)
            && self.counts.iter().try_fold(0_u64, |sum, count| sum.checked_add(*count)).is_some()
    }

    /// Returns the counts, bin by bin.
    #[must_use]
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Total number of entries counted.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Share of all entries that lies in the busiest `fraction` of the bins: 0.01 stands for the
    /// busiest 1 %.
    ///
    /// ```
    /// use hemiola_array::Histogram;
    /// let mut histogram = Histogram::new(100, 100);
    /// (0..100).for_each(|index| histogram.add_weight(index, if index == 7 { 901 } else { 1 }));
    /// assert!((histogram.share_of_busiest(0.01) - 0.901).abs() < 1e-12);
    /// ```
    #[must_use]
    pub fn share_of_busiest(&self, fraction: f64) -> f64 {
        let total = self.total();
        if total == 0 {
            return 0.0;
        }
        let wanted = ((self.counts.len() as f64 * fraction).ceil() as usize).clamp(1, self.counts.len());
        let mut counts = self.counts.clone();
        let (busier, last, _) = counts.select_nth_unstable_by(wanted - 1, |left, right| right.cmp(left));
        (busier.iter().sum::<u64>() + *last) as f64 / total as f64
    }
}
