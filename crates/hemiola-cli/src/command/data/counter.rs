//! Counts of entries per index, for a dimension of unknown extent.
//!
//! Each bin holds one index as long as all indices are below [`BINS`]. A larger index halves the
//! resolution as often as necessary, so that an id of 10^18 costs no more memory than one of 10^6.
//! **Invariant:** counts do not depend on the order of arrival, so each worker has its own counter,
//! and counters are merged in any order.

use hemiola_array::Histogram;

/// Maximum number of bins of a counter: 32 MiB per worker.
const BINS: usize = 1 << 22;

/// Counts per index, or per bin of `2^shift` indices.
#[derive(Clone, Debug)]
pub(super) struct DistinctCounter {
    shift: u32,
    counts: Vec<u64>,
    smallest: usize,
    largest: usize,
}

impl Default for DistinctCounter {
    fn default() -> Self {
        Self { shift: 0, counts: Vec::new(), smallest: usize::MAX, largest: 0 }
    }
}

impl DistinctCounter {
    pub(super) fn add(&mut self, index: usize) {
        self.smallest = self.smallest.min(index);
        self.largest = self.largest.max(index);
        if (index >> self.shift) >= self.counts.len() {
            self.grow(index);
        }
        self.counts[index >> self.shift] += 1;
    }

    #[cold]
    fn grow(&mut self, index: usize) {
        while (index >> self.shift) >= BINS {
            self.halve();
        }
        let needed = (index >> self.shift) + 1;
        let doubled = (2 * self.counts.len()).clamp(1024, BINS);
        self.counts.resize(needed.max(doubled), 0);
    }

    fn halve(&mut self) {
        self.counts = self.counts.chunks(2).map(|pair| pair.iter().sum()).collect();
        self.shift += 1;
    }

    pub(super) fn merge(&mut self, mut other: Self) {
        while self.shift < other.shift {
            self.halve();
        }
        while other.shift < self.shift {
            other.halve();
        }
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.smallest = self.smallest.min(other.smallest);
        self.largest = self.largest.max(other.largest);
    }

    /// Returns the smallest and the largest index; `None` without entries.
    pub(super) fn bounds(&self) -> Option<(usize, usize)> {
        (self.smallest <= self.largest).then_some((self.smallest, self.largest))
    }

    /// Returns the number of indices with entries, if every index has its own bin.
    pub(super) fn occupied(&self) -> Option<u64> {
        (self.shift == 0).then(|| self.counts.iter().filter(|&&count| count > 0).count() as u64)
    }

    /// Returns the counts of `extent` indices from `base`.
    pub(super) fn histogram(&self, base: usize, extent: usize) -> Histogram {
        if self.shift == 0 {
            let mut histogram = Histogram::new(extent, BINS);
            for (index, &count) in (0..).zip(&self.counts).filter(|(_, count)| **count > 0) {
                histogram.add_weight(index - base, count);
            }
            return histogram;
        }
        // The extent is rounded up, so that the histogram has the bins of the counter.
        let width = 1 << self.shift;
        let bins = (self.largest >> self.shift) + 1;
        let mut histogram = Histogram::new(bins.saturating_mul(width), bins);
        for (bin, &count) in (0..bins).zip(&self.counts).filter(|(_, count)| **count > 0) {
            histogram.add_weight(bin * width, count);
        }
        histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_indices_are_counted_exactly() {
        let mut counter = DistinctCounter::default();
        for index in [1, 1, 7] {
            counter.add(index);
        }
        let mut other = DistinctCounter::default();
        other.add(3000);
        counter.merge(other);
        assert_eq!((counter.bounds(), counter.occupied()), (Some((1, 3000)), Some(3)));
        let histogram = counter.histogram(1, 3000);
        assert_eq!((histogram.counts()[0], histogram.counts()[6], histogram.counts()[2999]), (2, 1, 1));
        assert!(DistinctCounter::default().bounds().is_none());
    }

    #[test]
    fn large_indices_share_bins_in_any_order() {
        let indices = [5, BINS, 3 * BINS + 1, 1 << 60, 6, usize::MAX];
        let count = |indices: &[usize]| {
            let mut counter = DistinctCounter::default();
            for &index in indices {
                counter.add(index);
            }
            counter
        };
        let forward = count(&indices);
        let mut merged = count(&indices[..2]);
        merged.merge(count(&indices[2..]));
        let histogram = forward.histogram(0, usize::MAX);
        assert_eq!(histogram.total(), 6);
        assert_eq!(merged.histogram(0, usize::MAX).counts(), histogram.counts());
        assert!(histogram.counts().len() <= BINS && forward.occupied().is_none());
    }
}
