//! Dense storage: every cell has a value, rows are contiguous and aligned to cache lines.
//!
//! A row (the last dimension) is what a loop body works on and what a table sends, so rows decide
//! the alignment. For elements whose size divides 64, **these guarantees hold:**
//!
//! - A row of more than 32 bytes begins on a cache line and is padded to whole lines. SIMD loads
//!   need no head loop, and no two rows share a line (no false sharing).
//! - A row of 32 bytes or less is padded to a power of two and lies within one line. Up to 64 of
//!   them share that line: two threads that write *neighbouring short rows of one array* contend
//!   for it. Padding each row of an `[n, 1]` array of `f32` to 64 bytes would take sixteen times
//!   its data, and sixteen times the lines to read.
//! - An array begins on a line and takes whole lines. The part that a worker holds is an array of
//!   its own, so workers that write their own parts never contend, even with short rows.
//!
//! Elements of other sizes (a `String`, a struct of 12 bytes) are stored without padding and
//! without these guarantees.
//!
//! There is no unsafe code and no special element type. The values live in a plain `Vec<T>` with a
//! few spare elements in front, and the first row begins where the address is a multiple of 64.
//! **Invariant:** the vector is never reallocated after construction, so rows keep their addresses
//! for the lifetime of the array; [`extended`](DenseArray::extended) returns a new array if it must
//! reallocate.

use crate::{Result, Shape};
use std::fmt;
use std::ops::{AddAssign, Index, IndexMut, MulAssign, Range, SubAssign};

/// Cache line size in bytes. Arrays and long rows begin at a multiple of it.
pub const CACHE_LINE: usize = 64;

/// Dense array, or the part of one that a worker holds.
///
/// ```
/// use hemiola_array::{DenseArray, Shape};
/// let mut dense = DenseArray::filled(Shape::new([3, 20]), 1.0_f32)?;
/// dense.row_mut(1)[2] = 5.0;
/// assert_eq!(dense[[1, 2]], 5.0);
/// assert_eq!(dense.row(1).as_ptr() as usize % 64, 0);
/// # Ok::<(), hemiola_array::Error>(())
/// ```
pub struct DenseArray<T, const N: usize> {
    shape: Shape<N>,
    rows: usize,
    row_length: usize,
    /// Elements from one row to the next, padding included.
    stride: usize,
    /// Offset of the first row in `cells`.
    start: usize,
    cells: Vec<T>,
}

impl<T: Clone, const N: usize> DenseArray<T, N> {
    /// Creates an array with `value` in every cell.
    pub fn filled(shape: Shape<N>, value: T) -> Result<Self> {
        shape.cells()?;
        let (rows, row_length) = (shape.rows()?, shape.row_length());
        let (stride, spare, length) =
            (stride::<T>(row_length), alignment_padding::<T>(), padded_length::<T, N>(shape)?);
        let mut cells: Vec<T> = Vec::new();
        cells.try_reserve_exact(length).map_err(|_| crate::Error::OutOfMemory {
            shape: shape.extents().to_vec(),
            bytes: (length as u64).saturating_mul(size_of::<T>() as u64),
        })?;
        let start = if spare == 0 { 0 } else { cells.as_ptr().align_offset(CACHE_LINE).min(spare) };
        cells.resize(length, value);
        Ok(Self { shape, rows, row_length, stride, start, cells })
    }

    /// Creates an array whose cells are computed from their linear index, in ascending order.
    pub fn from_fn(shape: Shape<N>, mut value: impl FnMut(usize) -> T) -> Result<Self>
    where
        T: Default,
    {
        let mut dense = Self::filled(shape, T::default())?;
        let mut index = 0;
        for row in dense.rows_mut() {
            for cell in row {
                *cell = value(index);
                index += 1;
            }
        }
        Ok(dense)
    }

    /// Creates an array from its cells in row-major order.
    ///
    /// # Panics
    /// Panics if the number of cells differs from that of the shape.
    pub fn from_cells(shape: Shape<N>, cells: &[T]) -> Result<Self>
    where
        T: Default,
    {
        assert_eq!(cells.len(), shape.cells()?, "one value per cell");
        let mut dense = Self::filled(shape, T::default())?;
        let row_length = dense.row_length;
        for (row, cells) in dense.rows_mut().zip(cells.chunks_exact(row_length.max(1))) {
            row.clone_from_slice(cells);
        }
        Ok(dense)
    }

    /// Creates an array from its cells in row-major order, for types without a default.
    ///
    /// # Panics
    /// Panics if the number of cells differs from that of the shape.
    pub fn from_values(shape: Shape<N>, values: Vec<T>) -> Result<Self> {
        assert_eq!(values.len(), shape.cells()?, "one value per cell");
        let Some(first) = values.first() else { return Self::empty(shape) };
        let mut dense = Self::filled(shape, first.clone())?;
        let mut values = values.into_iter();
        for cell in dense.rows_mut().flatten() {
            *cell = values.next().expect("the number of values was checked");
        }
        Ok(dense)
    }

    /// Appends indices of the first dimension, given their cells in row-major order. No other cell
    /// moves if there is spare capacity, as after [`truncated`](Self::truncated).
    ///
    /// # Panics
    /// Panics if the cells do not make whole indices.
    pub fn extended(mut self, more: Vec<T>) -> Result<Self> {
        let Some(filler) = more.first().cloned() else { return Ok(self) };
        let mut extents = self.shape.extents();
        let per_index = extents[1..].iter().product::<usize>().max(1);
        assert_eq!(more.len() % per_index, 0, "the cells must make whole indices");
        let before = extents[0];
        extents[0] += more.len() / per_index;
        let shape = Shape::new(extents);
        let length = padded_length::<T, N>(shape)?;
        if self.stride > 0 && length <= self.cells.capacity() {
            self.cells.resize(length, filler);
            (self.rows, self.row_length) = (shape.rows()?, shape.row_length());
            (self.shape, self.stride) = (shape, stride::<T>(self.row_length));
        } else {
            let mut larger = Self::filled(shape, filler)?;
            let start = std::mem::take(&mut self.start);
            let mut cells = self.cells.into_iter().skip(start);
            for piece in larger.slices_mut(0..before) {
                for cell in &mut *piece {
                    *cell = cells.next().expect("the old array has these cells");
                }
                // Skip the padding of the row.
                let padding = self.stride.saturating_sub(piece.len());
                cells.by_ref().take(padding).for_each(drop);
            }
            self = larger;
        }
        let mut more = more.into_iter();
        for cell in self.slices_mut(before..extents[0]).flatten() {
            *cell = more.next().expect("the number of values was checked");
        }
        Ok(self)
    }

    /// Keeps the first `extent` indices of the first dimension. No cell moves, and the capacity is
    /// kept.
    ///
    /// # Panics
    /// Panics if `extent` exceeds the current extent.
    #[must_use]
    pub fn truncated(mut self, extent: usize) -> Self {
        let mut extents = self.shape.extents();
        assert!(extent <= extents[0], "{extent} of {}", extents[0]);
        extents[0] = extent;
        self.shape = Shape::new(extents);
        if N == 1 {
            self.row_length = extent;
        } else {
            self.rows = extents[..N - 1].iter().product();
        }
        let kept = if N == 1 { self.row_length } else { self.rows * self.stride };
        self.cells.truncate(round_up_to_lines::<T>(kept).map_or(kept, |length| length + alignment_padding::<T>()));
        self
    }

    /// Array whose shape has no cells.
    fn empty(shape: Shape<N>) -> Result<Self> {
        let (rows, row_length) = (shape.rows()?, shape.row_length());
        Ok(Self { shape, rows, row_length, stride: 0, start: 0, cells: Vec::new() })
    }

    /// Copies the cells in row-major order, without padding.
    #[must_use]
    pub fn to_cells(&self) -> Vec<T> {
        self.rows().flatten().cloned().collect()
    }
}

impl<T, const N: usize> DenseArray<T, N> {
    /// Returns the extents of the array.
    #[must_use]
    pub fn shape(&self) -> Shape<N> {
        self.shape
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn row_count(&self) -> usize {
        self.rows
    }

    /// Returns a row, numbered over all dimensions but the last.
    ///
    /// # Panics
    /// Panics if there is no such row.
    #[must_use]
    #[inline]
    pub fn row(&self, row: usize) -> &[T] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        let start = self.start + row * self.stride;
        &self.cells[start..start + self.row_length]
    }

    /// Returns a mutable row, numbered over all dimensions but the last.
    ///
    /// # Panics
    /// Panics if there is no such row.
    #[must_use]
    #[inline]
    pub fn row_mut(&mut self, row: usize) -> &mut [T] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        let start = self.start + row * self.stride;
        &mut self.cells[start..start + self.row_length]
    }

    /// Iterates over all rows in order.
    #[must_use]
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[T]> {
        let length = self.row_length;
        (0..self.rows).map(move |row| &self.cells[self.start + row * self.stride..][..length])
    }

    /// Iterates over all rows in order, mutably.
    pub fn rows_mut(&mut self) -> impl Iterator<Item = &mut [T]> {
        let (length, rows) = (self.row_length, self.rows);
        // A stride of 0 means rows without cells: there is nothing to yield.
        let cells = &mut self.cells[self.start..];
        cells.chunks_mut(self.stride.max(1)).take(if length == 0 { 0 } else { rows }).map(move |row| &mut row[..length])
    }

    /// Iterates over the cells of some indices of the first dimension, in order, as contiguous
    /// slices.
    ///
    /// # Panics
    /// Panics if an index is outside the extent.
    pub fn slices(&self, indices: Range<usize>) -> impl Iterator<Item = &[T]> {
        let (rows, cells) = self.slice_bounds(&indices);
        rows.map(move |row| &self.row(row)[cells.clone()])
    }

    /// Iterates over the cells of some indices of the first dimension, as mutable contiguous
    /// slices.
    ///
    /// # Panics
    /// Panics if an index is outside the extent.
    pub fn slices_mut(&mut self, indices: Range<usize>) -> impl Iterator<Item = &mut [T]> {
        let (rows, cells) = self.slice_bounds(&indices);
        self.rows_mut().skip(rows.start).take(rows.len()).map(move |row| &mut row[cells.clone()])
    }

    /// Rows, and cells within each row, that make up indices of the first dimension.
    fn slice_bounds(&self, indices: &Range<usize>) -> (Range<usize>, Range<usize>) {
        let extent = self.shape.extent(0);
        assert!(indices.start <= indices.end && indices.end <= extent, "indices {indices:?} of {extent}");
        let (start, end) = (indices.start, indices.end);
        if N == 1 {
            return (0..1, start..end);
        }
        let rows = self.rows.checked_div(extent).unwrap_or(0);
        (start * rows..end * rows, 0..self.row_length)
    }

    /// Returns a pointer to the first cell of the first row, and the number of cells from one row
    /// to the next. For code that hands out parts to threads. Rows have the length of the last
    /// dimension.
    #[must_use]
    pub fn as_mut_ptr(&mut self) -> (*mut T, usize) {
        (self.cells[self.start..].as_mut_ptr(), self.stride)
    }

    /// Applies `change` to every cell.
    pub fn map_in_place(&mut self, mut change: impl FnMut(&mut T)) {
        self.rows_mut().flatten().for_each(&mut change);
    }

    /// Combines every cell with the cell of another array at its key.
    pub fn zip_in_place<U>(&mut self, other: &DenseArray<U, N>, mut change: impl FnMut(&mut T, &U)) -> Result<()> {
        self.shape.check_equal(other.shape)?;
        for (mine, theirs) in self.rows_mut().zip(other.rows()) {
            for (mine, theirs) in mine.iter_mut().zip(theirs) {
                change(mine, theirs);
            }
        }
        Ok(())
    }

    /// Adds another array of the same shape, cell by cell.
    pub fn add(&mut self, other: &Self) -> Result<()>
    where
        T: Copy + AddAssign,
    {
        self.zip_in_place(other, |mine, theirs| *mine += *theirs)
    }

    /// Subtracts another array of the same shape, cell by cell.
    pub fn subtract(&mut self, other: &Self) -> Result<()>
    where
        T: Copy + SubAssign,
    {
        self.zip_in_place(other, |mine, theirs| *mine -= *theirs)
    }

    /// Multiplies with another array of the same shape, cell by cell.
    pub fn multiply(&mut self, other: &Self) -> Result<()>
    where
        T: Copy + MulAssign,
    {
        self.zip_in_place(other, |mine, theirs| *mine *= *theirs)
    }

    /// Multiplies every cell by `factor`.
    pub fn scale(&mut self, factor: T)
    where
        T: Copy + MulAssign,
    {
        self.map_in_place(|cell| *cell *= factor);
    }

    /// Memory in bytes that an array of this shape takes, padding included; equals
    /// [`memory_bytes`](Self::memory_bytes) of such an array.
    #[must_use]
    pub fn memory_for(shape: Shape<N>) -> Option<u64> {
        let row_length = shape.row_length();
        row_length.checked_mul(size_of::<T>())?.checked_add(CACHE_LINE)?;
        let cells = shape.rows().ok()?.checked_mul(stride::<T>(row_length))?;
        let cells = round_up_to_lines::<T>(cells)?.checked_add(alignment_padding::<T>())? as u64;
        cells.checked_mul(size_of::<T>() as u64)
    }

    /// Allocated memory in bytes, padding included; heap memory owned by the values is not counted.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.cells.capacity() * size_of::<T>()
    }

    fn position(&self, key: [usize; N]) -> usize {
        assert!(self.shape.contains(key), "key {key:?} of {:?}", self.shape);
        let row = (0..N - 1).fold(0, |row, dimension| row * self.shape.extent(dimension) + key[dimension]);
        self.start + row * self.stride + key[N - 1]
    }
}

/// Elements from one row to the next.
fn stride<T>(row_length: usize) -> usize {
    let size = size_of::<T>();
    if size == 0 || !CACHE_LINE.is_multiple_of(size) || row_length == 0 {
        return row_length;
    }
    let bytes = row_length * size;
    let padded = if bytes <= CACHE_LINE / 2 { bytes.next_power_of_two() } else { bytes.next_multiple_of(CACHE_LINE) };
    padded / size
}

/// Elements of an array, padding and alignment included.
fn padded_length<T, const N: usize>(shape: Shape<N>) -> Result<usize> {
    let (rows, row_length) = (shape.rows()?, shape.row_length());
    let length = rows.checked_mul(stride::<T>(row_length)).and_then(round_up_to_lines::<T>);
    let length = length.and_then(|length| length.checked_add(alignment_padding::<T>()));
    length.ok_or_else(|| crate::Error::TooManyCells { shape: shape.extents().to_vec() })
}

/// Number of elements rounded up so that they fill the last cache line.
fn round_up_to_lines<T>(elements: usize) -> Option<usize> {
    elements.checked_next_multiple_of(alignment_padding::<T>() + 1)
}

/// Maximum number of elements before the first row that align it to a cache line.
fn alignment_padding<T>() -> usize {
    match size_of::<T>() {
        0 => 0,
        size if !CACHE_LINE.is_multiple_of(size) => 0,
        size => CACHE_LINE / size - 1,
    }
}

impl<T, const N: usize> Index<[usize; N]> for DenseArray<T, N> {
    type Output = T;
    fn index(&self, key: [usize; N]) -> &T {
        &self.cells[self.position(key)]
    }
}

impl<T, const N: usize> IndexMut<[usize; N]> for DenseArray<T, N> {
    fn index_mut(&mut self, key: [usize; N]) -> &mut T {
        let position = self.position(key);
        &mut self.cells[position]
    }
}

/// Copies into a new allocation, whose first row may need another offset. The copy is therefore
/// rebuilt and not cloned field by field.
impl<T: Clone, const N: usize> Clone for DenseArray<T, N> {
    fn clone(&self) -> Self {
        let mut cells: Vec<T> = Vec::with_capacity(self.cells.len());
        let spare = alignment_padding::<T>();
        let start = if spare == 0 { 0 } else { cells.as_ptr().align_offset(CACHE_LINE).min(spare) };
        let (used, padding) = (self.rows * self.stride, self.cells.len() - self.rows * self.stride);
        if let Some(first) = self.cells.first() {
            cells.resize(start, first.clone());
            cells.extend_from_slice(&self.cells[self.start..self.start + used]);
            cells.resize(used + padding, first.clone());
        }
        Self { start, cells, ..*self }
    }
}

impl<T: PartialEq, const N: usize> PartialEq for DenseArray<T, N> {
    fn eq(&self, other: &Self) -> bool {
        self.shape == other.shape && self.rows().eq(other.rows())
    }
}

impl<T: fmt::Debug, const N: usize> fmt::Debug for DenseArray<T, N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Dense {:?} ", self.shape)?;
        formatter.debug_list().entries(self.rows().take(4)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn aligned<T: Clone + Default>(row_length: usize) {
        let dense = DenseArray::<T, 2>::filled(Shape::new([7, row_length]), T::default()).unwrap();
        for copy in [dense.clone(), dense] {
            for row in copy.rows() {
                let (address, bytes) = (row.as_ptr() as usize, size_of_val(row));
                if bytes > CACHE_LINE / 2 {
                    assert_eq!(address % CACHE_LINE, 0);
                } else {
                    assert_eq!(
                        address / CACHE_LINE,
                        (address + bytes - 1) / CACHE_LINE,
                        "a short row lies in one cache line"
                    );
                }
            }
            let (first, end) = (copy.row(0).as_ptr() as usize, copy.cells.as_ptr_range().end as usize);
            let cells_end = first + copy.rows * copy.stride * size_of::<T>();
            assert_eq!(first % CACHE_LINE, 0);
            assert!(cells_end.next_multiple_of(CACHE_LINE) <= end, "no other allocation shares the last cache line");
            assert_eq!(copy.memory_bytes() as u64, DenseArray::<T, 2>::memory_for(copy.shape).unwrap());
        }
    }

    proptest! {
        #[test]
        fn rows_and_arrays_of_every_numeric_type_are_aligned_to_cache_lines(length in 1_usize..70) {
            aligned::<f32>(length);
            aligned::<f64>(length);
            aligned::<i32>(length);
            aligned::<i64>(length);
            aligned::<u32>(length);
            aligned::<u64>(length);
            aligned::<u8>(length);
        }

        #[test]
        fn cells_round_trip_through_padding(extents in [0_usize..5, 0_usize..5, 0_usize..20]) {
            let shape = Shape::new(extents);
            let cells: Vec<u32> = (0..shape.cells().unwrap() as u32).collect();
            let dense = DenseArray::from_cells(shape, &cells).unwrap();
            prop_assert_eq!(dense.to_cells(), cells.clone());
            prop_assert_eq!(dense.clone(), DenseArray::from_fn(shape, |index| index as u32).unwrap());
            for (linear, &cell) in cells.iter().enumerate() {
                prop_assert_eq!(dense[shape.key(linear)], cell);
            }
        }
    }

    proptest! {
        #[test]
        fn arrays_are_extended_and_truncated_along_the_first_dimension(
            extents in [0_usize..5, 0_usize..4, 0_usize..20], more in 0_usize..4, again in 0_usize..4,
        ) {
            let shape = |first: usize| Shape::new([first, extents[1], extents[2]]);
            let per_index = extents[1] * extents[2];
            let values = |from, count| (from..from + count).map(|value: usize| value.to_string()).collect::<Vec<_>>();
            let before = DenseArray::from_values(shape(extents[0]), values(0, extents[0] * per_index)).unwrap();
            let grown = before.clone().extended(values(1000, more * per_index)).unwrap();
            let first = if per_index == 0 { extents[0] } else { extents[0] + more };
            prop_assert_eq!(grown.shape().extents(), [first, extents[1], extents[2]]);
            prop_assert_eq!(grown.to_cells(), [before.to_cells(), values(1000, more * per_index)].concat());
            let shrunk = grown.truncated(extents[0]);
            prop_assert_eq!(&shrunk, &before);
            let grown = shrunk.extended(values(2000, again * per_index)).unwrap();
            prop_assert_eq!(grown.to_cells(), [before.to_cells(), values(2000, again * per_index)].concat());
        }

        #[test]
        fn one_dimensional_arrays_are_extended_and_truncated(length in 0_usize..70, more in 0_usize..40) {
            let values = |from: usize, count: usize| (from..from + count).map(|value| value as f32).collect::<Vec<_>>();
            let before = DenseArray::from_values(Shape::new([length]), values(0, length)).unwrap();
            let grown = before.clone().extended(values(1000, more)).unwrap();
            prop_assert_eq!(grown.to_cells(), [values(0, length), values(1000, more)].concat());
            prop_assert_eq!(&grown.truncated(length), &before);
        }
    }

    #[test]
    fn a_truncated_array_is_extended_in_place() {
        let dense = DenseArray::filled(Shape::new([5, 100]), 1.0_f64).unwrap();
        let grown = dense.extended(vec![2.0; 200]).unwrap();
        let address = grown.row(0).as_ptr();
        assert_eq!(address.addr() % CACHE_LINE, 0);
        let grown = grown.truncated(5).extended(vec![3.0; 200]).unwrap();
        assert_eq!(grown.row(0).as_ptr(), address);
        assert_eq!((grown[[4, 99]], grown[[6, 99]]), (1.0, 3.0));
    }

    #[test]
    fn any_clonable_type_can_be_stored() {
        let mut names = DenseArray::filled(Shape::new([2, 3]), String::new()).unwrap();
        names[[1, 2]] = "five".to_owned();
        assert_eq!(names.row(1)[2], "five");
        let units = DenseArray::filled(Shape::new([2, 3]), ()).unwrap();
        assert_eq!((units.row_count(), units.row(1).len(), units.clone() == units), (2, 3, true));
        assert_eq!(DenseArray::filled(Shape::new([3]), [0_u8; 12]).unwrap().memory_bytes(), 36);
    }

    #[test]
    fn arithmetic_is_cell_by_cell_and_needs_equal_shapes() {
        let mut left = DenseArray::from_fn(Shape::new([2, 3]), usize::cast_signed).unwrap();
        let right = left.clone();
        left.add(&right).unwrap();
        left.multiply(&right).unwrap();
        left.subtract(&right).unwrap();
        left.scale(10);
        assert_eq!(left.to_cells(), [0, 10, 60, 150, 280, 450]);
        let other = DenseArray::filled(Shape::new([3, 2]), 0_isize).unwrap();
        assert_eq!(
            left.add(&other).unwrap_err().to_string(),
            "the shapes [2, 3] and [3, 2] differ; element-wise arithmetic needs equal ones"
        );
    }

    #[test]
    fn an_array_that_does_not_fit_is_an_error() {
        assert_eq!(
            DenseArray::filled(Shape::new([1 << 31, 1 << 31]), 0_f32).unwrap_err().to_string(),
            "cannot allocate 18446744073709551615 bytes for an array of shape [2147483648, 2147483648]; \
             partition it over more peers"
        );
    }

    #[test]
    fn memory_for_predicts_memory_bytes() {
        for extents in [[1000, 1], [7, 10], [3, 100], [0, 5], [5, 0]] {
            let shape = Shape::new(extents);
            let held = DenseArray::filled(shape, 0_f32).unwrap().memory_bytes() as u64;
            assert_eq!(DenseArray::<f32, 2>::memory_for(shape), Some(held), "{extents:?}");
        }
        assert_eq!(DenseArray::<f32, 2>::memory_for(Shape::new([1 << 40, 1 << 40])), None);
    }

    #[test]
    fn short_rows_are_not_padded_to_a_line() {
        let column = DenseArray::filled(Shape::new([1000, 1]), 0_f32).unwrap();
        assert!(column.memory_bytes() <= 4 * 1000 + 2 * CACHE_LINE);
        let ten = DenseArray::filled(Shape::new([1000, 10]), 0_f32).unwrap();
        assert!(ten.memory_bytes() <= 64 * 1000 + CACHE_LINE);
    }
}
