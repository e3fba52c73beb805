//! An array as the body of a loop sees it: indexed like a slice of rows.
//!
//! `view[i]` is a cell of a one-dimensional array and a row of a two-dimensional one; `view[[i, j]]` is a cell of the
//! latter and a row of a three-dimensional one, and so on. Only an array that the loop writes can be indexed mutably.

use super::served::Served;
use super::window::Window;
use hemiola_array::Element;
use std::fmt;
use std::ops::{Index, IndexMut, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// A worker's view of an array. `WRITTEN` says whether the body changes it.
pub struct ArrayView<T, const N: usize, const WRITTEN: bool> {
    base: *mut T,
    first: usize,
    count: usize,
    stride: usize,
    extents: [usize; N],
    name: &'static str,
    /// Rows of other peers, if the array is served.
    pub(crate) served: Option<Box<Served<T>>>,
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

    /// The extents of the whole array.
    #[must_use]
    pub fn shape(&self) -> [usize; N] {
        self.extents
    }

    /// The view itself: how generated code gets at what a name stands for.
    #[doc(hidden)]
    #[inline]
    pub fn place(&mut self) -> &mut Self {
        self
    }

    /// The address of a row, given all indices but the last.
    #[inline]
    fn row<const K: usize>(&self, key: [usize; K]) -> *mut [T] {
        let start = match self.row_number(key) {
            // SAFETY: the row was checked against the window, which lies inside the array (1 of the argument in `window`).
            Some(row) => unsafe { self.base.add(row * self.stride) },
            None => self.elsewhere(&key),
        };
        std::ptr::slice_from_raw_parts_mut(start, self.extents[N - 1])
    }

    /// The address of a cell.
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

    /// The number of a row inside the window, if it is there. Indices but the first must be inside.
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

    /// The address of a row that is not in the window: with another peer, or outside of the array.
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

    /// The cells in the window of a one-dimensional array that is served, and so not written while it is borrowed.
    fn own(&self) -> &[T] {
        // SAFETY: the window lies inside the array (1 of the argument in `window`), and workers only read served arrays.
        unsafe { std::slice::from_raw_parts(self.base, self.count) }
    }

    /// Cells of a one-dimensional array.
    #[inline]
    fn cells(&self, indices: Range<usize>) -> *mut [T] {
        assert!(
            indices.start <= indices.end && indices.end <= self.extents[0],
            "range {indices:?} is outside of `{}`, whose shape is {:?}",
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
                    served.run(indices.start as u64..indices.end as u64, self.own(), self.first as u64).cast_mut()
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

/// Says which index of which array is outside of what.
#[cold]
#[inline(never)]
fn outside(name: &str, key: &[usize], extents: &[usize], window: Range<usize>) -> ! {
    let key: Vec<String> = key.iter().map(usize::to_string).collect();
    let inside = key.len() <= extents.len()
        && key.iter().zip(extents).all(|(index, extent)| index.parse::<usize>().is_ok_and(|index| index < *extent));
    let key = key.join(", ");
    assert!(
        !inside,
        "index [{key}] of `{name}` is not with this worker, which has {window:?} of the first dimension; \
         the loop's plan does not allow this access: please report it with the output of `explain`"
    );
    panic!("index [{key}] is outside of `{name}`, whose shape is {extents:?}");
}

macro_rules! index {
    ($dimensions:literal, $key:ty, $output:ty, |$view:ident, $index:ident| $place:expr) => {
        impl<T: Element, const WRITTEN: bool> Index<$key> for ArrayView<T, $dimensions, WRITTEN> {
            type Output = $output;
            #[inline]
            fn index(&self, $index: $key) -> &$output {
                let $view = self;
                // SAFETY: inside the window; no other worker writes there now (2 and 3 of the argument in `window`), and
                // nobody else here while the view is borrowed (4).
                unsafe { &*$place }
            }
        }
        impl<T: Element> IndexMut<$key> for ArrayView<T, $dimensions, true> {
            #[inline]
            fn index_mut(&mut self, $index: $key) -> &mut $output {
                let $view = &*self;
                // SAFETY: as above; a written array's cells are touched by no other worker now.
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
