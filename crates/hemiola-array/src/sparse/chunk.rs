//! A run of entries as columns that have not been sorted yet: what builders collect and the sort consumes.

use super::KeyColumn;

/// Entries in the order of arrival.
pub(super) struct Chunk<T, const N: usize> {
    pub(super) keys: [KeyColumn; N],
    pub(super) values: Vec<T>,
    /// How many entries may be here. (The capacity of a vector without size is infinite.)
    pub(super) room: usize,
}

impl<T, const N: usize> Chunk<T, N> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            keys: std::array::from_fn(|_| KeyColumn::with_capacity(true, capacity)),
            values: Vec::with_capacity(capacity),
            room: capacity,
        }
    }

    /// The chunk without entries, if it still has the room it was made with.
    pub(super) fn emptied(mut self) -> Option<Self> {
        self.values.clear();
        let roomy = self.keys.iter_mut().all(|column| column.clear_narrow(self.room));
        (roomy && self.values.capacity() >= self.room).then_some(self)
    }

    pub(super) fn key(&self, position: usize) -> [u64; N] {
        std::array::from_fn(|dimension| self.keys[dimension].get(position))
    }
}
