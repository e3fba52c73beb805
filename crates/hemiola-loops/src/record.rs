//! What the slice of a body writes down: the rows it will read.
//!
//! `parallel_for!` makes a second, smaller body that computes subscripts only. It is run over a block before the body, so
//! that all rows it needs can be fetched at once. In it, names stand for recorders.

use hemiola_analysis::{Access, Subscript};
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;

/// Rows of an array that a block will read. `V` is the array's view.
pub struct RowRecorder<V, const N: usize> {
    extents: [usize; N],
    rows: RefCell<Vec<u64>>,
    /// Only arrays that are served, and tables, need to know.
    pub(crate) wanted: bool,
    /// Reads that the indices of an entry decide: for each, by dimension of a row, an index of the loop or nothing, and
    /// what is added.
    by_key: Vec<Vec<(Option<usize>, i64)>>,
    view: PhantomData<fn() -> V>,
}

impl<V, const N: usize> RowRecorder<V, N> {
    pub(crate) fn new<'s>(extents: [usize; N], wanted: bool, accesses: impl Iterator<Item = &'s Access>) -> Self {
        let decided = |access: &Access| {
            let dimensions = if N == 1 { 1 } else { N - 1 };
            let part = |dimension| match *access.subscript(dimension) {
                Subscript::Index { dimension, offset } => Some((Some(dimension), offset)),
                Subscript::Constant(place) => Some((None, place)),
                _ => None,
            };
            (0..dimensions).map(part).collect::<Option<Vec<_>>>()
        };
        let by_key = if wanted { accesses.filter_map(decided).collect() } else { Vec::new() };
        Self { extents, rows: RefCell::default(), wanted, by_key, view: PhantomData }
    }

    /// Writes down the rows that the indices of an entry decide.
    #[inline]
    pub(crate) fn touch_by_key(&self, key: &[usize]) {
        for read in &self.by_key {
            let mut row = 0;
            let inside = read.iter().zip(&self.extents).all(|((index, offset), extent)| {
                let at = index.map_or(0, |index| key[index]).checked_add_signed(*offset as isize);
                row = row * *extent as u64 + at.unwrap_or(0) as u64;
                // What is outside, the body will say.
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

    /// Never: what is shared cannot be looked at before the loop runs. The type is that of the view, so that the slice
    /// compiles where the body does.
    #[inline]
    #[must_use]
    pub fn look(&self) -> Option<&V> {
        None
    }

    /// Writes down that a subscript will be read.
    #[inline]
    pub fn touch<I: RowIndex<N>>(&self, index: I) {
        if !self.wanted {
            return;
        }
        if let Some(row) = index.row(&self.extents) {
            self.note(row);
        }
    }

    /// The rows in ascending order, each once; none is left here.
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

/// A subscript of an array of `N` dimensions, and the row it is in.
pub trait RowIndex<const N: usize> {
    /// The row, counted over all dimensions but the last (over cells, if there is one dimension); `None` if it is outside:
    /// the body will say so.
    fn row(self, extents: &[usize; N]) -> Option<u64>;
}

/// Combines the indices of all dimensions of `row` but those that a row spans.
#[inline]
fn combined<const N: usize>(key: &[usize], extents: &[usize; N]) -> Option<u64> {
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
        impl RowIndex<$dimensions> for $key {
            #[inline]
            fn row(self, extents: &[usize; $dimensions]) -> Option<u64> {
                combined(self.as_ref(), extents)
            }
        }
    )*};
}
row_index!(1: [usize; 1], 2: [usize; 1], 2: [usize; 2], 3: [usize; 2], 3: [usize; 3], 4: [usize; 3], 4: [usize; 4]);

impl RowIndex<1> for usize {
    #[inline]
    fn row(self, extents: &[usize; 1]) -> Option<u64> {
        combined(&[self], extents)
    }
}

impl RowIndex<2> for usize {
    #[inline]
    fn row(self, extents: &[usize; 2]) -> Option<u64> {
        combined(&[self], extents)
    }
}

macro_rules! ranges {
    ($($range:ty),*) => {$(
        /// An array that is read by ranges is not served: nothing has to be written down.
        impl RowIndex<1> for $range {
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

/// Stands for what is not read by rows. `V` is its view.
pub struct NoRecorder<V>(pub(crate) PhantomData<fn() -> V>);

impl<V> NoRecorder<V> {
    /// Never, as of arrays.
    #[inline]
    #[must_use]
    pub fn look(&self) -> Option<&V> {
        None
    }

    /// Nothing has to be written down.
    #[inline]
    pub fn touch<I>(&self, _index: I) {}
}

impl<V> fmt::Debug for NoRecorder<V> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a recorder of nothing")
    }
}

/// Stands for a value, which the slice may look at.
pub struct PlainRecorder<'a, X: ?Sized>(pub(crate) &'a X);

impl<'a, X: ?Sized> PlainRecorder<'a, X> {
    /// The value.
    #[inline]
    #[must_use]
    pub fn look(&self) -> Option<&'a X> {
        Some(self.0)
    }

    /// Nothing has to be written down.
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
    fn rows_are_written_down_once_and_in_order() {
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
