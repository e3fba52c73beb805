//! Recorders: rows that a block will read, collected by the slice of the body.
//!
//! `parallel_for!` generates a second, smaller body that only computes subscripts (the *slice*). It
//! runs over a block before the body, so that all rows the block needs can be prefetched in bulk.
//! In the slice, captured names stand for recorders.

use hemiola_analysis::{Access, Subscript};
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;

/// Records the rows of an array or a table that a block will read. `V` is the type of the view.
pub struct RowRecorder<V, const N: usize> {
    extents: [usize; N],
    rows: RefCell<Vec<u64>>,
    /// Set for served arrays and for tables. Other arrays need no prefetching.
    pub(crate) enabled: bool,
    /// Reads whose subscripts depend on the loop indices alone. Each read lists, by dimension of
    /// the row, an optional loop index and an offset.
    by_key: Vec<Vec<(Option<usize>, i64)>>,
    view: PhantomData<fn() -> V>,
}

impl<V, const N: usize> RowRecorder<V, N> {
    pub(crate) fn new<'s>(extents: [usize; N], wanted: bool, accesses: impl Iterator<Item = &'s Access>) -> Self {
        let decided = |access: &Access| {
            let dimensions = if N == 1 { 1 } else { N - 1 };
            let part = |dimension| match *access.subscript(dimension) {
                Subscript::Index { dimension, offset } => Some((Some(dimension), offset)),
                Subscript::Constant(index) => Some((None, index)),
                _ => None,
            };
            (0..dimensions).map(part).collect::<Option<Vec<_>>>()
        };
        let by_key = if wanted { accesses.filter_map(decided).collect() } else { Vec::new() };
        Self { extents, rows: RefCell::default(), enabled: wanted, by_key, view: PhantomData }
    }

    /// Records the rows whose subscripts depend on the loop indices alone.
    #[inline]
    pub(crate) fn touch_by_key(&self, key: &[usize]) {
        for read in &self.by_key {
            let mut row = 0;
            let inside = read.iter().zip(&self.extents).all(|((index, offset), extent)| {
                let at = index.map_or(0, |index| key[index]).checked_add_signed(*offset as isize);
                row = row * *extent as u64 + at.unwrap_or(0) as u64;
                // The body reports indices that are out of bounds.
                at.is_some_and(|at| at < *extent)
            });
            if inside {
                self.note(row);
            }
        }
    }

    #[inline]
    fn note(&self, row: u64) {
        let mut rows = self.rows.borrow_mut();
        // Neighbouring entries often read the same row.
        if rows.last() != Some(&row) {
            rows.push(row);
        }
    }

    /// Always `None`: shared data cannot be read before the loop runs. The return type is that of
    /// the view, so that the slice compiles whenever the body does.
    #[inline]
    #[must_use]
    pub fn peek(&self) -> Option<&V> {
        None
    }

    /// Records the row of a subscript that the body will read.
    #[inline]
    pub fn touch<I: RowSubscript<N>>(&self, index: I) {
        if !self.enabled {
            return;
        }
        if let Some(row) = index.row(&self.extents) {
            self.note(row);
        }
    }

    /// Removes and returns the recorded rows, in ascending order and without duplicates.
    pub(crate) fn take(&self) -> Vec<u64> {
        let mut rows = self.rows.take();
        rows.sort_unstable();
        rows.dedup();
        rows
    }
}

impl<V, const N: usize> fmt::Debug for RowRecorder<V, N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RowRecorder").field("rows", &self.rows.borrow().len()).finish_non_exhaustive()
    }
}

/// A subscript of an array of `N` dimensions that identifies a row.
pub trait RowSubscript<const N: usize> {
    /// Index of the row, counted over all dimensions but the last (over cells, for one dimension).
    /// `None` if it is out of bounds; the body reports the error.
    fn row(self, extents: &[usize; N]) -> Option<u64>;
}

/// Linear index of the row that `key` lies in. `None` if an index is out of bounds.
#[inline]
fn row_of_key<const N: usize>(key: &[usize], extents: &[usize; N]) -> Option<u64> {
    let dimensions = if N == 1 { 1 } else { N - 1 };
    let mut row = 0;
    for (index, extent) in key.iter().zip(extents).take(dimensions) {
        if index >= extent {
            return None;
        }
        row = row * *extent as u64 + *index as u64;
    }
    Some(row)
}

macro_rules! row_index {
    ($($dimensions:literal: $key:ty),*) => {$(
        impl RowSubscript<$dimensions> for $key {
            #[inline]
            fn row(self, extents: &[usize; $dimensions]) -> Option<u64> {
                row_of_key(self.as_ref(), extents)
            }
        }
    )*};
}
row_index!(1: [usize; 1], 2: [usize; 1], 2: [usize; 2], 3: [usize; 2], 3: [usize; 3], 4: [usize; 3], 4: [usize; 4]);

impl RowSubscript<1> for usize {
    #[inline]
    fn row(self, extents: &[usize; 1]) -> Option<u64> {
        row_of_key(&[self], extents)
    }
}

impl RowSubscript<2> for usize {
    #[inline]
    fn row(self, extents: &[usize; 2]) -> Option<u64> {
        row_of_key(&[self], extents)
    }
}

macro_rules! ranges {
    ($($range:ty),*) => {$(
        /// Arrays that are read by ranges are not served, so nothing is recorded.
        impl RowSubscript<1> for $range {
            fn row(self, _extents: &[usize; 1]) -> Option<u64> {
                None
            }
        }
    )*};
}
ranges!(
    std::ops::Range<usize>,
    std::ops::RangeFrom<usize>,
    std::ops::RangeTo<usize>,
    std::ops::RangeInclusive<usize>,
    std::ops::RangeToInclusive<usize>,
    std::ops::RangeFull
);

/// Recorder of a variable that has no rows, such as an accumulator or a buffer. `V` is the type of
/// the view.
pub struct NoRecorder<V>(pub(crate) PhantomData<fn() -> V>);

impl<V> NoRecorder<V> {
    /// Always `None`, as for arrays.
    #[inline]
    #[must_use]
    pub fn peek(&self) -> Option<&V> {
        None
    }

    /// Ignores the subscript: nothing is prefetched.
    #[inline]
    pub fn touch<I>(&self, _index: I) {}
}

impl<V> fmt::Debug for NoRecorder<V> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an empty recorder")
    }
}

/// Recorder of a plain value, which the slice may read.
pub struct PlainRecorder<'a, X: ?Sized>(pub(crate) &'a X);

impl<'a, X: ?Sized> PlainRecorder<'a, X> {
    /// Returns a reference to the value.
    #[inline]
    #[must_use]
    pub fn peek(&self) -> Option<&'a X> {
        Some(self.0)
    }

    /// Ignores the subscript: nothing is prefetched.
    #[inline]
    pub fn touch<I>(&self, _index: I) {}
}

impl<X: ?Sized> fmt::Debug for PlainRecorder<'_, X> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a captured value")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_recorded_once_and_in_order() {
        let recorder = RowRecorder::<(), 3>::new([4, 3, 5], true, std::iter::empty());
        recorder.touch([3, 2]);
        recorder.touch([0, 1, 4]);
        recorder.touch([3, 2, 1]);
        recorder.touch([4, 0]);
        assert_eq!(recorder.take(), [1, 11]);
        assert!(recorder.take().is_empty());
        let unwanted = RowRecorder::<(), 1>::new([4], false, std::iter::empty());
        unwanted.touch(3_usize);
        assert!(unwanted.take().is_empty());
    }
}
