//! Dense storage: every cell has a value, rows are contiguous, and no row touches more cache lines than it must.
//!
//! A row (the last dimension) is what a loop body works on and what a table sends, so it is what alignment is for. For
//! elements whose size divides 64, **these hold:**
//!
//! - A row of more than 32 bytes begins on a line and is padded to whole lines: SIMD loads need no head loop, and no two
//!   rows share a line, whoever writes them.
//! - A row of 32 bytes or less is padded to a power of two and lies within one line. Up to 64 of them share that line: two
//!   threads that write *neighbouring short rows of one array* do contend for it. 64 bytes for each row of an `[n, 1]` array
//!   of `f32` would be sixteen times its data, and sixteen times the lines to read.
//! - An array begins on a line and takes whole lines. The part that a worker holds is an array of its own, so workers that
//!   write their own parts never contend, however short the rows.
//!
//! Elements of other sizes (a `String`, a struct of 12 bytes) are stored without padding, and none of this holds for them.
//!
//! There is no unsafe code and no special element type: the values live in a plain `Vec<T>` with a few spare elements in
//! front, and the first row begins where the address is a multiple of 64. **Invariant:** the vector is never reallocated
//! after construction, so the rows stay where they are for as long as the array lives; one that [grows](Dense::grown)
//! becomes another.

use crate::{Result, Shape};
use std::fmt;
use std::ops::{AddAssign, Index, IndexMut, MulAssign, Range, SubAssign};

/// The length of a cache line: arrays and longer rows begin at a multiple of it.
pub const LINE: usize = 64;

/// A dense array, or the part of one that a worker holds.
///
/// ```
/// use hemiola_array::{Dense, Shape};
/// let mut dense = Dense::filled(Shape::new([3, 20]), 1.0_f32)?;
/// dense.row_mut(1)[2] = 5.0;
/// assert_eq!(dense[[1, 2]], 5.0);
/// assert_eq!(dense.row(1).as_ptr() as usize % 64, 0);
/// # Ok::<(), hemiola_array::Error>(())
/// ```
pub struct Dense<T, const N: usize> {
    shape: Shape<N>,
    rows: usize,
    row_length: usize,
    /// Elements from one row to the next.
    stride: usize,
    /// Where the first row begins in `cells`.
    start: usize,
    cells: Vec<T>,
}

impl<T: Clone, const N: usize> Dense<T, N> {
    /// An array with the same value in every cell.
    pub fn filled(shape: Shape<N>, value: T) -> Result<Self> {
        shape.cells()?;
        let (rows, row_length) = (shape.rows()? as usize, shape.row_length() as usize);
        let (stride, spare, length) = (stride::<T>(row_length), spare::<T>(), length::<T, N>(shape)?);
        let mut cells: Vec<T> = Vec::new();
        cells.try_reserve_exact(length).map_err(|_| crate::Error::OutOfMemory {
            shape: shape.extents().to_vec(),
            bytes: (length as u64).saturating_mul(size_of::<T>() as u64),
        })?;
        let start = if spare == 0 { 0 } else { cells.as_ptr().align_offset(LINE).min(spare) };
        cells.resize(length, value);
        Ok(Self { shape, rows, row_length, stride, start, cells })
    }

    /// An array whose cells are computed from their linear index, in ascending order.
    pub fn from_fn(shape: Shape<N>, mut value: impl FnMut(u64) -> T) -> Result<Self>
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

    /// An array from its cells in row-major order.
    ///
    /// # Panics
    /// If the number of cells is not that of the shape.
    pub fn from_cells(shape: Shape<N>, cells: &[T]) -> Result<Self>
    where
        T: Default,
    {
        assert_eq!(cells.len() as u64, shape.cells()?, "one value per cell");
        let mut dense = Self::filled(shape, T::default())?;
        let row_length = dense.row_length;
        for (row, cells) in dense.rows_mut().zip(cells.chunks_exact(row_length.max(1))) {
            row.clone_from_slice(cells);
        }
        Ok(dense)
    }

    /// The same for values that have no default.
    ///
    /// # Panics
    /// If the number of cells is not that of the shape.
    pub fn from_values(shape: Shape<N>, values: Vec<T>) -> Result<Self> {
        assert_eq!(values.len() as u64, shape.cells()?, "one value per cell");
        let Some(first) = values.first() else { return Self::without_cells(shape) };
        let mut dense = Self::filled(shape, first.clone())?;
        let mut values = values.into_iter();
        for cell in dense.rows_mut().flatten() {
            *cell = values.next().expect("they were counted");
        }
        Ok(dense)
    }

    /// The same array with more indices of the first dimension after its last, given their cells in row-major order. Where
    /// there is room, because it was [shrunk](Self::shrunk) before, no other cell moves.
    ///
    /// # Panics
    /// If the cells do not make whole indices.
    pub fn grown(mut self, more: Vec<T>) -> Result<Self> {
        let Some(filler) = more.first().cloned() else { return Ok(self) };
        let mut extents = self.shape.extents();
        let per_index = extents[1..].iter().product::<u64>().max(1);
        assert_eq!(more.len() as u64 % per_index, 0, "whole indices");
        let before = extents[0];
        extents[0] += more.len() as u64 / per_index;
        let shape = Shape::new(extents);
        let length = length::<T, N>(shape)?;
        if self.stride > 0 && length <= self.cells.capacity() {
            self.cells.resize(length, filler);
            (self.rows, self.row_length) = (shape.rows()? as usize, shape.row_length() as usize);
            (self.shape, self.stride) = (shape, stride::<T>(self.row_length));
        } else {
            let mut larger = Self::filled(shape, filler)?;
            let start = std::mem::take(&mut self.start);
            let mut cells = self.cells.into_iter().skip(start);
            for piece in larger.pieces_mut(0..before) {
                for cell in &mut *piece {
                    *cell = cells.next().expect("as many cells as before");
                }
                // What a row is padded with.
                let padding = self.stride.saturating_sub(piece.len());
                cells.by_ref().take(padding).for_each(drop);
            }
            self = larger;
        }
        let mut more = more.into_iter();
        for cell in self.pieces_mut(before..extents[0]).flatten() {
            *cell = more.next().expect("they were counted");
        }
        Ok(self)
    }

    /// The first indices of the first dimension alone. No cell moves, and room is kept for as many as there were.
    ///
    /// # Panics
    /// If there are not as many.
    #[must_use]
    pub fn shrunk(mut self, extent: u64) -> Self {
        let mut extents = self.shape.extents();
        assert!(extent <= extents[0], "{extent} of {}", extents[0]);
        extents[0] = extent;
        self.shape = Shape::new(extents);
        if N == 1 {
            self.row_length = extent as usize;
        } else {
            self.rows = extents[..N - 1].iter().product::<u64>() as usize;
        }
        let kept = if N == 1 { self.row_length } else { self.rows * self.stride };
        self.cells.truncate(whole_lines::<T>(kept).map_or(kept, |length| length + spare::<T>()));
        self
    }

    /// An array whose shape has no cells.
    fn without_cells(shape: Shape<N>) -> Result<Self> {
        let (rows, row_length) = (shape.rows()? as usize, shape.row_length() as usize);
        Ok(Self { shape, rows, row_length, stride: 0, start: 0, cells: Vec::new() })
    }

    /// The cells in row-major order, without padding.
    #[must_use]
    pub fn to_cells(&self) -> Vec<T> {
        self.rows().flatten().cloned().collect()
    }
}

impl<T, const N: usize> Dense<T, N> {
    /// The extents.
    #[must_use]
    pub fn shape(&self) -> Shape<N> {
        self.shape
    }

    /// The number of rows.
    #[must_use]
    pub fn row_count(&self) -> usize {
        self.rows
    }

    /// The row with this number, counted over all dimensions but the last.
    ///
    /// # Panics
    /// If there is no such row.
    #[must_use]
    #[inline]
    pub fn row(&self, row: usize) -> &[T] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        let start = self.start + row * self.stride;
        &self.cells[start..start + self.row_length]
    }

    /// The row with this number, to be changed.
    ///
    /// # Panics
    /// If there is no such row.
    #[must_use]
    #[inline]
    pub fn row_mut(&mut self, row: usize) -> &mut [T] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        let start = self.start + row * self.stride;
        &mut self.cells[start..start + self.row_length]
    }

    /// All rows in order.
    #[must_use]
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[T]> {
        let length = self.row_length;
        (0..self.rows).map(move |row| &self.cells[self.start + row * self.stride..][..length])
    }

    /// All rows in order, to be changed.
    pub fn rows_mut(&mut self) -> impl Iterator<Item = &mut [T]> {
        let (length, rows) = (self.row_length, self.rows);
        // A stride of 0 means rows without cells: there is nothing to hand out.
        let cells = &mut self.cells[self.start..];
        cells.chunks_mut(self.stride.max(1)).take(if length == 0 { 0 } else { rows }).map(move |row| &mut row[..length])
    }

    /// The cells of some indices of the first dimension, in order, as contiguous pieces.
    ///
    /// # Panics
    /// If an index is outside.
    pub fn pieces(&self, indices: Range<u64>) -> impl Iterator<Item = &[T]> {
        let (rows, cells) = self.pieces_of(&indices);
        rows.map(move |row| &self.row(row)[cells.clone()])
    }

    /// The same, to be changed.
    ///
    /// # Panics
    /// If an index is outside.
    pub fn pieces_mut(&mut self, indices: Range<u64>) -> impl Iterator<Item = &mut [T]> {
        let (rows, cells) = self.pieces_of(&indices);
        self.rows_mut().skip(rows.start).take(rows.len()).map(move |row| &mut row[cells.clone()])
    }

    /// Rows, and cells in each, that make up indices of the first dimension.
    fn pieces_of(&self, indices: &Range<u64>) -> (Range<usize>, Range<usize>) {
        let extent = self.shape.extent(0);
        assert!(indices.start <= indices.end && indices.end <= extent, "indices {indices:?} of {extent}");
        let (start, end) = (indices.start as usize, indices.end as usize);
        if N == 1 {
            return (0..1, start..end);
        }
        let rows = if extent == 0 { 0 } else { self.rows / extent as usize };
        (start * rows..end * rows, 0..self.row_length)
    }

    /// Where the cells lie, for code that hands out parts of them to threads: the first cell of the first row, and the
    /// number of cells from one row to the next. Rows have the length of the last dimension.
    #[must_use]
    pub fn as_mut_ptr(&mut self) -> (*mut T, usize) {
        (self.cells[self.start..].as_mut_ptr(), self.stride)
    }

    /// Replaces every value by a function of it.
    pub fn map_in_place(&mut self, mut change: impl FnMut(&mut T)) {
        self.rows_mut().flatten().for_each(&mut change);
    }

    /// Combines every cell with the same cell of another array.
    pub fn zip_in_place<U>(&mut self, other: &Dense<U, N>, mut change: impl FnMut(&mut T, &U)) -> Result<()> {
        self.shape.must_equal(other.shape)?;
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

    /// Multiplies every cell with one factor.
    pub fn scale(&mut self, factor: T)
    where
        T: Copy + MulAssign,
    {
        self.map_in_place(|cell| *cell *= factor);
    }

    /// The memory an array of this shape takes, padding included: what [`memory_bytes`](Self::memory_bytes) will say.
    #[must_use]
    pub fn memory_of(shape: Shape<N>) -> Option<u64> {
        let row_length = usize::try_from(shape.row_length()).ok()?;
        row_length.checked_mul(size_of::<T>())?.checked_add(LINE)?;
        let cells = usize::try_from(shape.rows().ok()?).ok()?.checked_mul(stride::<T>(row_length))?;
        let cells = whole_lines::<T>(cells)?.checked_add(spare::<T>())? as u64;
        cells.checked_mul(size_of::<T>() as u64)
    }

    /// The memory held, padding included; what the values themselves point to is not counted.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.cells.capacity() * size_of::<T>()
    }

    fn position(&self, key: [u64; N]) -> usize {
        assert!(self.shape.contains(key), "key {key:?} of {:?}", self.shape);
        let row = (0..N - 1).fold(0, |row, dimension| row * self.shape.extent(dimension) + key[dimension]);
        self.start + row as usize * self.stride + key[N - 1] as usize
    }
}

/// Elements from one row to the next.
fn stride<T>(row_length: usize) -> usize {
    let size = size_of::<T>();
    if size == 0 || !LINE.is_multiple_of(size) || row_length == 0 {
        return row_length;
    }
    let bytes = row_length * size;
    let padded = if bytes <= LINE / 2 { bytes.next_power_of_two() } else { bytes.next_multiple_of(LINE) };
    padded / size
}

/// Elements of an array with padding and what is spare.
fn length<T, const N: usize>(shape: Shape<N>) -> Result<usize> {
    let (rows, row_length) = (shape.rows()? as usize, shape.row_length() as usize);
    let length = rows.checked_mul(stride::<T>(row_length)).and_then(whole_lines::<T>);
    let length = length.and_then(|length| length.checked_add(spare::<T>()));
    length.ok_or_else(|| crate::Error::TooManyCells { shape: shape.extents().to_vec() })
}

/// As many elements, or a few more, so that they fill the last line.
fn whole_lines<T>(elements: usize) -> Option<usize> {
    elements.checked_next_multiple_of(spare::<T>() + 1)
}

/// Elements in front of the first row that let it begin on a line.
fn spare<T>() -> usize {
    match size_of::<T>() {
        0 => 0,
        size if !LINE.is_multiple_of(size) => 0,
        size => LINE / size - 1,
    }
}

impl<T, const N: usize> Index<[u64; N]> for Dense<T, N> {
    type Output = T;
    fn index(&self, key: [u64; N]) -> &T {
        &self.cells[self.position(key)]
    }
}

impl<T, const N: usize> IndexMut<[u64; N]> for Dense<T, N> {
    fn index_mut(&mut self, key: [u64; N]) -> &mut T {
        let position = self.position(key);
        &mut self.cells[position]
    }
}

/// A copy has its own allocation, so its first row may begin elsewhere: the copy is built anew, not field by field.
impl<T: Clone, const N: usize> Clone for Dense<T, N> {
    fn clone(&self) -> Self {
        let mut cells: Vec<T> = Vec::with_capacity(self.cells.len());
        let spare = spare::<T>();
        let start = if spare == 0 { 0 } else { cells.as_ptr().align_offset(LINE).min(spare) };
        let (used, padding) = (self.rows * self.stride, self.cells.len() - self.rows * self.stride);
        if let Some(first) = self.cells.first() {
            cells.resize(start, first.clone());
            cells.extend_from_slice(&self.cells[self.start..self.start + used]);
            cells.resize(used + padding, first.clone());
        }
        Self { start, cells, ..*self }
    }
}

impl<T: PartialEq, const N: usize> PartialEq for Dense<T, N> {
    fn eq(&self, other: &Self) -> bool {
        self.shape == other.shape && self.rows().eq(other.rows())
    }
}

impl<T: fmt::Debug, const N: usize> fmt::Debug for Dense<T, N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Dense {:?} ", self.shape)?;
        formatter.debug_list().entries(self.rows().take(4)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn aligned<T: Clone + Default>(row_length: u64) {
        let dense = Dense::<T, 2>::filled(Shape::new([7, row_length]), T::default()).unwrap();
        for copy in [dense.clone(), dense] {
            for row in copy.rows() {
                let (address, bytes) = (row.as_ptr() as usize, size_of_val(row));
                if bytes > LINE / 2 {
                    assert_eq!(address % LINE, 0);
                } else {
                    assert_eq!(address / LINE, (address + bytes - 1) / LINE, "a short row lies in one line");
                }
            }
            let (first, end) = (copy.row(0).as_ptr() as usize, copy.cells.as_ptr_range().end as usize);
            let cells_end = first + copy.rows * copy.stride * size_of::<T>();
            assert_eq!(first % LINE, 0);
            assert!(cells_end.next_multiple_of(LINE) <= end, "the last line belongs to the array alone");
            assert_eq!(copy.memory_bytes() as u64, Dense::<T, 2>::memory_of(copy.shape).unwrap());
        }
    }

    proptest! {
        #[test]
        fn rows_and_arrays_of_every_numeric_type_lie_on_lines_as_promised(length in 1_u64..70) {
            aligned::<f32>(length);
            aligned::<f64>(length);
            aligned::<i32>(length);
            aligned::<i64>(length);
            aligned::<u32>(length);
            aligned::<u64>(length);
            aligned::<u8>(length);
        }

        #[test]
        fn cells_round_trip_through_padding(extents in [0_u64..5, 0_u64..5, 0_u64..20]) {
            let shape = Shape::new(extents);
            let cells: Vec<u32> = (0..shape.cells().unwrap() as u32).collect();
            let dense = Dense::from_cells(shape, &cells).unwrap();
            prop_assert_eq!(dense.to_cells(), cells.clone());
            prop_assert_eq!(dense.clone(), Dense::from_fn(shape, |index| index as u32).unwrap());
            for (linear, &cell) in cells.iter().enumerate() {
                prop_assert_eq!(dense[shape.key(linear as u64)], cell);
            }
        }
    }

    proptest! {
        #[test]
        fn arrays_grow_at_their_end_and_shrink_again(
            extents in [0_u64..5, 0_u64..4, 0_u64..20], more in 0_u64..4, again in 0_u64..4,
        ) {
            let shape = |first: u64| Shape::new([first, extents[1], extents[2]]);
            let per_index = extents[1] * extents[2];
            let values = |from: u64, count: u64| (from..from + count).map(|value| value.to_string()).collect::<Vec<_>>();
            let before = Dense::from_values(shape(extents[0]), values(0, extents[0] * per_index)).unwrap();
            let grown = before.clone().grown(values(1000, more * per_index)).unwrap();
            let first = if per_index == 0 { extents[0] } else { extents[0] + more };
            prop_assert_eq!(grown.shape().extents(), [first, extents[1], extents[2]]);
            prop_assert_eq!(grown.to_cells(), [before.to_cells(), values(1000, more * per_index)].concat());
            let shrunk = grown.shrunk(extents[0]);
            prop_assert_eq!(&shrunk, &before);
            let grown = shrunk.grown(values(2000, again * per_index)).unwrap();
            prop_assert_eq!(grown.to_cells(), [before.to_cells(), values(2000, again * per_index)].concat());
        }

        #[test]
        fn cells_of_one_dimension_grow_and_shrink(length in 0_u64..70, more in 0_u64..40) {
            let values = |from: u64, count: u64| (from..from + count).map(|value| value as f32).collect::<Vec<_>>();
            let before = Dense::from_values(Shape::new([length]), values(0, length)).unwrap();
            let grown = before.clone().grown(values(1000, more)).unwrap();
            prop_assert_eq!(grown.to_cells(), [values(0, length), values(1000, more)].concat());
            prop_assert_eq!(&grown.shrunk(length), &before);
        }
    }

    #[test]
    fn an_array_that_was_shrunk_grows_without_moving() {
        let dense = Dense::filled(Shape::new([5, 100]), 1.0_f64).unwrap();
        let grown = dense.grown(vec![2.0; 200]).unwrap();
        let address = grown.row(0).as_ptr();
        assert_eq!(address.addr() % LINE, 0);
        let grown = grown.shrunk(5).grown(vec![3.0; 200]).unwrap();
        assert_eq!(grown.row(0).as_ptr(), address);
        assert_eq!((grown[[4, 99]], grown[[6, 99]]), (1.0, 3.0));
    }

    #[test]
    fn any_clonable_type_can_be_stored() {
        let mut names = Dense::filled(Shape::new([2, 3]), String::new()).unwrap();
        names[[1, 2]] = "five".to_owned();
        assert_eq!(names.row(1)[2], "five");
        let units = Dense::filled(Shape::new([2, 3]), ()).unwrap();
        assert_eq!((units.row_count(), units.row(1).len(), units.clone() == units), (2, 3, true));
        assert_eq!(Dense::filled(Shape::new([3]), [0_u8; 12]).unwrap().memory_bytes(), 36);
    }

    #[test]
    fn arithmetic_is_cell_by_cell_and_needs_equal_shapes() {
        let mut left = Dense::from_fn(Shape::new([2, 3]), u64::cast_signed).unwrap();
        let right = left.clone();
        left.add(&right).unwrap();
        left.multiply(&right).unwrap();
        left.subtract(&right).unwrap();
        left.scale(10);
        assert_eq!(left.to_cells(), [0, 10, 60, 150, 280, 450]);
        let other = Dense::filled(Shape::new([3, 2]), 0_i64).unwrap();
        assert_eq!(
            left.add(&other).unwrap_err().to_string(),
            "the shapes [2, 3] and [3, 2] differ; element-wise arithmetic needs equal ones"
        );
    }

    #[test]
    fn an_array_that_does_not_fit_is_an_error() {
        assert_eq!(
            Dense::filled(Shape::new([1 << 31, 1 << 31]), 0_f32).unwrap_err().to_string(),
            "cannot reserve 18446744073709551615 bytes for an array of [2147483648, 2147483648]; cut it over more peers"
        );
    }

    #[test]
    fn memory_is_known_before_it_is_reserved() {
        for extents in [[1000, 1], [7, 10], [3, 100], [0, 5], [5, 0]] {
            let shape = Shape::new(extents);
            let held = Dense::filled(shape, 0_f32).unwrap().memory_bytes() as u64;
            assert_eq!(Dense::<f32, 2>::memory_of(shape), Some(held), "{extents:?}");
        }
        assert_eq!(Dense::<f32, 2>::memory_of(Shape::new([1 << 40, 1 << 40])), None);
    }

    #[test]
    fn narrow_rows_are_not_blown_up() {
        let column = Dense::filled(Shape::new([1000, 1]), 0_f32).unwrap();
        assert!(column.memory_bytes() <= 4 * 1000 + 2 * LINE);
        let ten = Dense::filled(Shape::new([1000, 10]), 0_f32).unwrap();
        assert!(ten.memory_bytes() <= 64 * 1000 + LINE);
    }
}
