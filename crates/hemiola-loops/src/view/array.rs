//! View of an array: indexed like a slice of rows.
//!
//! `view[i]` is a cell of a one-dimensional array and a row of a two-dimensional one;
//! `view[[i, j]]` is a cell of the latter and a row of a three-dimensional one, and so on. Only an
//! array that the loop writes can be indexed mutably.

use super::served::ServedRows;
use super::window::Window;
use hemiola_array::Element;
use std::fmt;
use std::ops::{Index, IndexMut, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// A worker's view of an array. `WRITTEN` tells whether the body writes it.
pub struct ArrayView<T, const N: usize, const WRITTEN: bool> {
    base: *mut T,
    first: usize,
    count: usize,
    stride: usize,
    extents: [usize; N],
    name: &'static str,
    /// Rows of other peers, if the array is served.
    pub(crate) served: Option<Box<ServedRows<T>>>,
}

impl<T: Element, const N: usize, const WRITTEN: bool> ArrayView<T, N, WRITTEN> {
    pub(crate) fn new(name: &'static str, extents: [usize; N]) -> Self {
        Self { base: std::ptr::dangling_mut(), first: 0, count: 0, stride: 0, extents, name, served: None }
    }

    /// Moves the view to another window of the same array.
    pub(crate) fn bind(&mut self, window: Window) {
        (self.first, self.count, self.stride) = (window.first, window.count, window.stride);
        self.base = if window.count == 0 { std::ptr::dangling_mut() } else { window.base.cast() };
    }

    /// Extents of the whole array.
    #[must_use]
    pub fn shape(&self) -> [usize; N] {
        self.extents
    }

    /// Returns the view itself. Generated code calls it for every captured name.
    #[doc(hidden)]
    #[inline]
    pub fn resolve(&mut self) -> &mut Self {
        self
    }

    /// Address of a row, given all indices but the last.
    #[inline]
    fn row<const K: usize>(&self, key: [usize; K]) -> *mut [T] {
        let start = match self.row_number(key) {
            // SAFETY: the row was checked against the window, which lies inside the array (point 1
            // in `window`).
            Some(row) => unsafe { self.base.add(row * self.stride) },
            None => self.elsewhere(&key),
        };
        std::ptr::slice_from_raw_parts_mut(start, self.extents[N - 1])
    }

    /// Address of a cell.
    #[inline]
    fn cell(&self, key: [usize; N]) -> *mut T {
        if N == 1 {
            return match self.row_number([key[0]]) {
                // SAFETY: as in `row`; the window counts cells here.
                Some(at) => unsafe { self.base.add(at) },
                None => self.elsewhere(&key),
            };
        }
        if key[N - 1] >= self.extents[N - 1] {
            self.outside(&key);
        }
        let mut row = key[0].wrapping_sub(self.first);
        let here = row < self.count;
        for dimension in 1..N - 1 {
            if key[dimension] >= self.extents[dimension] {
                self.outside(&key);
            }
            row = row.wrapping_mul(self.extents[dimension]).wrapping_add(key[dimension]);
        }
        if !here {
            // SAFETY: a row has as many cells as the last dimension, whose index was checked.
            return unsafe { self.elsewhere(&key[..N - 1]).add(key[N - 1]) };
        }
        // SAFETY: every index was checked, the first against the window.
        unsafe { self.base.add(row * self.stride + key[N - 1]) }
    }

    /// Position of a row in the window; `None` if the first index is outside of the window. Panics
    /// if another index is out of bounds.
    #[inline]
    fn row_number<const K: usize>(&self, key: [usize; K]) -> Option<usize> {
        let mut row = key[0].wrapping_sub(self.first);
        if row >= self.count {
            return None;
        }
        for dimension in 1..K {
            if key[dimension] >= self.extents[dimension] {
                self.outside(&key);
            }
            row = row * self.extents[dimension] + key[dimension];
        }
        Some(row)
    }

    /// Address of a row that is not in the window: a row of another peer. Panics if it is out of
    /// bounds.
    #[cold]
    #[inline(never)]
    fn elsewhere(&self, key: &[usize]) -> *mut T {
        let inside = key.iter().zip(&self.extents).all(|(index, extent)| index < extent);
        match &self.served {
            // A served array is never written through its view, so the address is only read.
            Some(served) if inside => {
                let row = key.iter().zip(&self.extents).fold(0, |row, (index, extent)| row * extent + index);
                served.row(row as u64).cast_mut()
            }
            _ => self.outside(key),
        }
    }

    #[cold]
    #[inline(never)]
    fn outside(&self, key: &[usize]) -> ! {
        outside(self.name, key, &self.extents, self.first..self.first + self.count)
    }

    /// Cells of this peer, of a one-dimensional served array. Served arrays are not written while
    /// they are borrowed.
    fn own_cells(&self) -> &[T] {
        // SAFETY: the window lies inside the array (point 1 in `window`), and workers only read
        // served arrays.
        unsafe { std::slice::from_raw_parts(self.base, self.count) }
    }

    /// Address of a range of cells of a one-dimensional array.
    #[inline]
    fn cells(&self, indices: Range<usize>) -> *mut [T] {
        assert!(
            indices.start <= indices.end && indices.end <= self.extents[0],
            "range {indices:?} is out of bounds of `{}` with shape {:?}",
            self.name,
            self.extents
        );
        let length = indices.len();
        let start = if length == 0 {
            std::ptr::dangling_mut()
        } else if indices.start < self.first || indices.end > self.first + self.count {
            match &self.served {
                // A served array is never written through its view, so the address is only read.
                Some(served) => {
                    served.read_range(indices.start as u64..indices.end as u64, self.own_cells()).cast_mut()
                }
                None => self.outside(&[indices.start]),
            }
        } else {
            // SAFETY: the range was checked against the window.
            unsafe { self.base.add(indices.start - self.first) }
        };
        std::ptr::slice_from_raw_parts_mut(start, length)
    }
}

/// Panics with the array, the index and the bounds.
#[cold]
#[inline(never)]
fn outside(name: &str, key: &[usize], extents: &[usize], window: Range<usize>) -> ! {
    let key: Vec<String> = key.iter().map(usize::to_string).collect();
    let inside = key.len() <= extents.len()
        && key.iter().zip(extents).all(|(index, extent)| index.parse::<usize>().is_ok_and(|index| index < *extent));
    let key = key.join(", ");
    assert!(
        !inside,
        "index [{key}] of `{name}` is outside of the worker's window {window:?} of the first dimension; \
         this is a bug in the plan: please report it with the output of `explain`"
    );
    panic!("index [{key}] is out of bounds of `{name}` with shape {extents:?}");
}

macro_rules! index {
    ($dimensions:literal, $key:ty, $output:ty, |$view:ident, $index:ident| $place:expr) => {
        impl<T: Element, const WRITTEN: bool> Index<$key> for ArrayView<T, $dimensions, WRITTEN> {
            type Output = $output;
            #[inline]
            fn index(&self, $index: $key) -> &$output {
                let $view = self;
                // SAFETY: inside the window. No other worker writes there now (points 2 and 3 in
                // `window`), and no other code of this worker while the view is borrowed (point 4).
                unsafe { &*$place }
            }
        }
        impl<T: Element> IndexMut<$key> for ArrayView<T, $dimensions, true> {
            #[inline]
            fn index_mut(&mut self, $index: $key) -> &mut $output {
                let $view = &*self;
                // SAFETY: as above; no other worker accesses the cells of a written array now.
                unsafe { &mut *$place }
            }
        }
    };
}

index!(1, usize, T, |view, index| view.cell([index]));
index!(1, [usize; 1], T, |view, index| view.cell(index));
index!(1, Range<usize>, [T], |view, index| view.cells(index));
index!(1, RangeFrom<usize>, [T], |view, index| view.cells(index.start..view.extents[0]));
index!(1, RangeTo<usize>, [T], |view, index| view.cells(0..index.end));
index!(1, RangeInclusive<usize>, [T], |view, index| view.cells(*index.start()..*index.end() + 1));
index!(1, RangeToInclusive<usize>, [T], |view, index| view.cells(0..index.end + 1));
index!(1, RangeFull, [T], |view, _index| view.cells(0..view.extents[0]));
index!(2, usize, [T], |view, index| view.row([index]));
index!(2, [usize; 1], [T], |view, index| view.row(index));
index!(2, [usize; 2], T, |view, index| view.cell(index));
index!(3, [usize; 2], [T], |view, index| view.row(index));
index!(3, [usize; 3], T, |view, index| view.cell(index));
index!(4, [usize; 3], [T], |view, index| view.row(index));
index!(4, [usize; 4], T, |view, index| view.cell(index));

impl<T, const N: usize, const WRITTEN: bool> fmt::Debug for ArrayView<T, N, WRITTEN> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "view of `{}` {:?}", self.name, self.extents)
    }
}
