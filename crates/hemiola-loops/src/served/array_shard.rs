//! Rows of a distributed array that one peer owns.
//!
//! *Rows* run over all dimensions but the last. In a one-dimensional array each cell is a row.

use hemiola_array::dist::DenseBlock;
use hemiola_array::{Element, Error, Result};
use std::ops::Range;

/// Block of consecutive rows owned by one peer.
#[derive(Clone, Debug)]
pub(crate) struct ArrayShard<T, const N: usize> {
    block: DenseBlock<T, N>,
}

impl<T: Element, const N: usize> ArrayShard<T, N> {
    /// Creates the shard of a block of rows.
    #[must_use]
    pub(crate) fn new(block: DenseBlock<T, N>) -> Self {
        Self { block }
    }

    /// Returns the block of rows.
    #[must_use]
    pub(crate) fn into_block(self) -> DenseBlock<T, N> {
        self.block
    }

    /// Mutable access to the block.
    pub(crate) fn block_mut(&mut self) -> &mut DenseBlock<T, N> {
        &mut self.block
    }

    fn rows_per_index(&self) -> u64 {
        let extents = self.block.cells.shape().extents();
        if N == 1 { 1 } else { extents[1..N - 1].iter().product() }
    }

    /// Range of the owned rows.
    #[must_use]
    pub(crate) fn rows(&self) -> Range<u64> {
        let (first, count) = (self.block.first, self.block.cells.shape().extent(0));
        first * self.rows_per_index()..(first + count) * self.rows_per_index()
    }

    /// Appends the encoded cells of the given rows.
    pub(crate) fn get(&self, rows: &[u64], bytes: &mut Vec<u8>) -> Result<()> {
        let owned = self.rows();
        if let Some(row) = rows.iter().find(|row| !owned.contains(row)) {
            return Err(Error::BadMessage {
                problem: format!("row {row} was requested from the owner of rows {owned:?}"),
            });
        }
        if T::CONCATENABLE {
            for row in rows {
                T::pack(self.row(row - owned.start), bytes);
            }
        } else {
            let all: Vec<T> = rows.iter().flat_map(|row| self.row(row - owned.start)).cloned().collect();
            T::pack(&all, bytes);
        }
        Ok(())
    }

    fn row(&self, row: u64) -> &[T] {
        if N == 1 { &self.block.cells.row(0)[row as usize..=row as usize] } else { self.block.cells.row(row as usize) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola_array::{DenseArray, Shape};

    #[test]
    fn rows_are_returned_in_request_order() {
        let cells = DenseArray::from_fn(Shape::new([3, 2, 2]), |index| index as u32).unwrap();
        let shard = ArrayShard::new(DenseBlock { first: 5, cells });
        assert_eq!(shard.rows(), 10..16);
        let mut bytes = Vec::new();
        shard.get(&[11, 15, 10], &mut bytes).unwrap();
        assert_eq!(u32::unpack(&bytes, 6).unwrap(), [2, 3, 10, 11, 0, 1]);
        let error = shard.get(&[16], &mut bytes).unwrap_err().to_string();
        assert!(error.contains("row 16 was requested from the owner of rows 10..16"), "{error}");
    }

    #[test]
    fn one_dimensional_arrays_and_any_element_type_work() {
        let cells =
            DenseArray::from_values(Shape::new([3]), vec!["a".to_owned(), "b".to_owned(), "c".to_owned()]).unwrap();
        let shard = ArrayShard::new(DenseBlock { first: 4, cells });
        let mut bytes = Vec::new();
        shard.get(&[6, 4], &mut bytes).unwrap();
        assert_eq!(String::unpack(&bytes, 2).unwrap(), ["c", "a"]);
    }
}
