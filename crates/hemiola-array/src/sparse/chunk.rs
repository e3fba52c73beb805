//! Chunk of unsorted entries as columns, filled by builders and consumed by the sort.

use super::KeyColumn;

/// Entries in the order of arrival, as columns.
pub(super) struct ColumnChunk<T, const N: usize> {
    pub(super) keys: [KeyColumn; N],
    pub(super) values: Vec<T>,
    /// Maximum number of entries. (The capacity of a vector of zero-sized values is infinite.)
    pub(super) capacity: usize,
}

impl<T, const N: usize> ColumnChunk<T, N> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            keys: std::array::from_fn(|_| KeyColumn::with_capacity(true, capacity)),
            values: Vec::with_capacity(capacity),
            capacity,
        }
    }

    /// Clears the chunk; `None` if it lost the capacity it was created with.
    pub(super) fn recycled(mut self) -> Option<Self> {
        self.values.clear();
        let has_capacity = self.keys.iter_mut().all(|column| column.clear_narrow(self.capacity));
        (has_capacity && self.values.capacity() >= self.capacity).then_some(self)
    }

    pub(super) fn key(&self, position: usize) -> [u64; N] {
        std::array::from_fn(|dimension| self.keys[dimension].get(position))
    }
}
