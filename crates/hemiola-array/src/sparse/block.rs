//! Finished block: sorted entries without duplicates.
//!
//! **Invariant:** keys ascend strictly in the block's order of dimensions and lie inside its shape.
//! Values may change, keys may not. Columns have no spare capacity.

use super::KeyColumn;
use crate::{DenseArray, Histogram, Result, Shape};
use std::fmt;
use std::ops::Range;

/// Sorted entries of a sparse array.
#[derive(Clone, PartialEq)]
pub struct SparseBlock<T, const N: usize> {
    shape: Shape<N>,
    order: [usize; N],
    keys: [KeyColumn; N],
    values: Vec<T>,
}

impl<T, const N: usize> SparseBlock<T, N> {
    /// Creates a block from sorted columns.
    pub(crate) fn from_sorted(shape: Shape<N>, order: [usize; N], keys: [KeyColumn; N], values: Vec<T>) -> Self {
        debug_assert!(keys.iter().all(|column| column.len() == values.len()), "one key per value");
        Self { shape, order, keys, values }
    }

    /// Extents of the array that the entries belong to.
    #[must_use]
    pub fn shape(&self) -> Shape<N> {
        self.shape
    }

    /// Dimensions in sort order, the slowest first.
    #[must_use]
    pub fn order(&self) -> [usize; N] {
        self.order
    }

    /// Number of entries in the block.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns true if the block has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Key of the entry at a position.
    ///
    /// # Panics
    /// Panics if there is no such entry.
    #[must_use]
    #[inline]
    pub fn key(&self, position: usize) -> [usize; N] {
        std::array::from_fn(|dimension| self.keys[dimension].get(position) as usize)
    }

    /// Keys of all entries along a dimension, as stored.
    ///
    /// # Panics
    /// Panics if there is no such dimension.
    #[must_use]
    pub fn keys(&self, dimension: usize) -> &KeyColumn {
        &self.keys[dimension]
    }

    /// Key columns of all dimensions, as stored.
    pub(crate) fn columns(&self) -> &[KeyColumn; N] {
        &self.keys
    }

    /// Values of all entries, in order.
    #[must_use]
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// Values of all entries, in order, mutable.
    #[must_use]
    pub fn values_mut(&mut self) -> &mut [T] {
        &mut self.values
    }

    /// Iterates over all entries in order.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = ([usize; N], &T)> {
        self.values.iter().enumerate().map(|(position, value)| (self.key(position), value))
    }

    /// Iterates over all entries in order, by value: for a shuffle or another sort order.
    #[must_use]
    pub fn into_entries(self) -> impl ExactSizeIterator<Item = ([usize; N], T)> {
        let keys = self.keys;
        self.values
            .into_iter()
            .enumerate()
            .map(move |(position, value)| (std::array::from_fn(|at| keys[at].get(position) as usize), value))
    }

    /// Key columns and values, by value.
    pub(crate) fn into_columns(self) -> ([KeyColumn; N], Vec<T>) {
        (self.keys, self.values)
    }

    /// Returns the position of the entry with a key.
    #[must_use]
    pub fn find(&self, key: [usize; N]) -> Option<usize> {
        let mut positions = 0..self.len();
        for dimension in self.order {
            positions = self.narrow(positions, dimension, key[dimension]..key[dimension].checked_add(1)?);
        }
        (!positions.is_empty()).then_some(positions.start)
    }

    /// Positions of the entries whose index in the slowest dimension lies in `indices`.
    ///
    /// ```
    /// # use hemiola_array::sparse::{DuplicatePolicy, SparseBuilder};
    /// # let mut builder = SparseBuilder::new();
    /// (0..10).for_each(|cell| builder.push([cell / 2, cell % 2], cell));
    /// let shape = builder.shape();
    /// let block = builder.finish(shape, [0, 1], DuplicatePolicy::Error)?;
    /// assert_eq!(block.positions(1..3), 2..6);
    /// # Ok::<(), hemiola_array::Error>(())
    /// ```
    #[must_use]
    pub fn positions(&self, indices: Range<usize>) -> Range<usize> {
        self.narrow(0..self.len(), self.order[0], indices)
    }

    fn narrow(&self, positions: Range<usize>, dimension: usize, indices: Range<usize>) -> Range<usize> {
        let column = &self.keys[dimension];
        let start = column.lower_bound(positions.clone(), indices.start as u64);
        start..column.lower_bound(start..positions.end, indices.end.max(indices.start) as u64)
    }

    /// Offsets of the rows, as in CSR: 4 bytes per index of the slowest dimension, for loops that
    /// jump between rows. The binary search of [`positions`](Self::positions) needs no such table.
    #[must_use]
    pub fn row_offsets(&self) -> RowOffsets {
        let column = &self.keys[self.order[0]];
        let Some(last) = self.len().checked_sub(1) else { return RowOffsets { first: 0, ends: Vec::new() } };
        let (first, end) = (column.get(0), column.get(last));
        let mut ends = vec![0_u32; (end - first + 1) as usize];
        for (position, key) in column.iter().enumerate() {
            ends[(key - first) as usize] = position as u32 + 1;
        }
        for row in 1..ends.len() {
            ends[row] = ends[row].max(ends[row - 1]);
        }
        RowOffsets { first: first as usize, ends }
    }

    /// Counts the entries at each index of a dimension, in at most `limit` bins.
    ///
    /// # Panics
    /// Panics if there is no such dimension.
    #[must_use]
    pub fn histogram(&self, dimension: usize, limit: usize) -> Histogram {
        let mut histogram = Histogram::new(self.shape.extent(dimension), limit);
        histogram.add_column(&self.keys[dimension]);
        histogram
    }

    /// Converts to a dense array of the same shape, with `empty` in cells without an entry.
    pub fn to_dense(&self, empty: T) -> Result<DenseArray<T, N>>
    where
        T: Clone,
    {
        let mut dense = DenseArray::filled(self.shape, empty)?;
        for (key, value) in self.iter() {
            dense[key] = value.clone();
        }
        Ok(dense)
    }

    /// Memory in bytes that a block of this many entries takes; equals
    /// [`memory_bytes`](Self::memory_bytes) of such a block.
    #[must_use]
    pub fn memory_for(shape: Shape<N>, entries: u64) -> u64 {
        let keys: u64 = (0..N).map(|dimension| if shape.fits_u32(dimension) { 4 } else { 8 }).sum();
        entries.saturating_mul(keys + size_of::<T>() as u64)
    }

    /// Allocated memory in bytes; heap memory owned by the values is not counted.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.keys.iter().map(KeyColumn::memory_bytes).sum::<usize>() + self.values.capacity() * size_of::<T>()
    }
}

impl<T, const N: usize> fmt::Debug for SparseBlock<T, N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SparseBlock of {} entries in {:?}", self.len(), self.shape)
    }
}

/// Offsets of the rows of a block: CSR row pointers of the slowest dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowOffsets {
    /// First index with entries.
    first: usize,
    /// For each index from `first` on, the position after its last entry.
    ends: Vec<u32>,
}

impl RowOffsets {
    /// Positions of the entries of one index.
    #[must_use]
    pub fn positions(&self, index: usize) -> Range<usize> {
        let Some(row) = index.checked_sub(self.first).filter(|&row| row < self.ends.len()) else {
            return 0..0;
        };
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        start as usize..self.ends[row] as usize
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DuplicatePolicy, SparseBuilder};
    use super::*;
    use proptest::prelude::*;

    fn block(keys: &[[usize; 2]], order: [usize; 2]) -> SparseBlock<u64, 2> {
        let mut builder = SparseBuilder::new();
        for &key in keys {
            builder.push(key, (key[0] * 100 + key[1]) as u64);
        }
        builder.finish(Shape::new([20, 20]), order, DuplicatePolicy::Last).unwrap()
    }

    proptest! {
        #[test]
        fn rows_are_found_by_search_and_by_index(
            keys in prop::collection::vec([0_usize..20, 0_usize..20], 0..80), transposed: bool,
        ) {
            let order = if transposed { [1, 0] } else { [0, 1] };
            let block = block(&keys, order);
            let index = block.row_offsets();
            for row in 0..20 {
                let expected: Vec<_> = (0..block.len()).filter(|&at| block.key(at)[order[0]] == row).collect();
                prop_assert!(block.positions(row..row + 1).eq(expected.iter().copied()));
                prop_assert!(index.positions(row).eq(expected.iter().copied()));
            }
        }

        #[test]
        fn find_returns_exactly_the_existing_entries(keys in prop::collection::vec([0_usize..20, 0_usize..20], 0..80)) {
            let block = block(&keys, [0, 1]);
            for row in 0..20 {
                for column in 0..20 {
                    let found = block.find([row, column]).map(|at| block.values()[at]);
                    prop_assert_eq!(found, keys.contains(&[row, column]).then_some((row * 100 + column) as u64));
                }
            }
        }
    }

    #[test]
    fn a_dense_copy_has_every_entry_and_nothing_else() {
        let dense = block(&[[0, 3], [5, 4]], [1, 0]).to_dense(7).unwrap();
        assert_eq!((dense[[0, 3]], dense[[5, 4]], dense[[5, 3]]), (3, 504, 7));
        assert_eq!(dense.to_cells().iter().filter(|&&cell| cell != 7).count(), 2);
    }

    #[test]
    fn memory_for_predicts_memory_bytes() {
        let block = block(&[[0, 3], [5, 4]], [0, 1]);
        assert_eq!(SparseBlock::<u64, 2>::memory_for(block.shape(), 2), block.memory_bytes() as u64);
        assert_eq!(SparseBlock::<f32, 2>::memory_for(Shape::new([1 << 33, 5]), 10), 160);
    }

    #[test]
    fn histogram_counts_entries_per_index() {
        let block = block(&[[0, 3], [1, 3], [5, 3], [5, 4]], [0, 1]);
        assert_eq!(block.histogram(1, 20).counts()[..6], [0, 0, 0, 3, 1, 0]);
        assert_eq!(block.histogram(0, 4).counts(), [2, 2, 0, 0]);
    }
}
