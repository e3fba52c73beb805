//! Cache of array rows that a worker has fetched.
//!
//! Rows of a block are fetched in bulk and stay in place until the next bulk. Rows that were not
//! predicted are fetched one by one, each into its own allocation. **Invariant:** adding a row
//! never moves another one, so references stay valid until [`RowCache::fill`] or
//! [`RowCache::clear`].

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

/// Arrays of up to this many rows use a direct slot table; larger ones use a hash table.
const TABLE_ROWS: u64 = 1 << 22;

/// Cached rows of an array, by row number.
#[derive(Debug)]
pub(crate) struct RowCache<T> {
    slots: CacheSlots,
    /// Rows fetched in bulk, in ascending order.
    rows: Vec<u64>,
    cells: Vec<T>,
    /// Rows fetched one by one.
    late: Vec<(u64, Box<[T]>)>,
    row_length: usize,
}

/// Slot of each row: 0 is absent, `1..=rows` is in bulk, larger values index `late`.
#[derive(Debug)]
enum CacheSlots {
    Table(Vec<u32>),
    Hash(HashMap<u64, u32, FxBuildHasher>),
}

impl<T> RowCache<T> {
    /// Creates an empty cache for an array of `rows` rows.
    #[must_use]
    pub(crate) fn new(rows: u64, row_length: usize) -> Self {
        let slots = if rows <= TABLE_ROWS {
            CacheSlots::Table(vec![0; rows as usize])
        } else {
            CacheSlots::Hash(HashMap::with_hasher(FxBuildHasher))
        };
        Self { slots, rows: Vec::new(), cells: Vec::new(), late: Vec::new(), row_length }
    }

    /// Cells of a row, if it is cached.
    #[must_use]
    #[inline]
    pub(crate) fn find(&self, row: u64) -> Option<&[T]> {
        let slot = match &self.slots {
            CacheSlots::Table(slots) => slots.get(row as usize).copied().unwrap_or(0),
            CacheSlots::Hash(slots) => slots.get(&row).copied().unwrap_or(0),
        };
        let at = (slot as usize).checked_sub(1)?;
        match at.checked_sub(self.rows.len()) {
            None => Some(&self.cells[at * self.row_length..][..self.row_length]),
            Some(late) => Some(&self.late[late].1),
        }
    }

    /// Replaces all rows by these.
    ///
    /// # Panics
    /// If there are not as many cells as the rows have.
    pub(crate) fn fill(&mut self, rows: Vec<u64>, cells: Vec<T>) {
        assert_eq!(rows.len() * self.row_length, cells.len(), "every row needs its cells");
        self.clear();
        for (at, row) in rows.iter().enumerate() {
            self.set(*row, at as u32 + 1);
        }
        (self.rows, self.cells) = (rows, cells);
    }

    /// Adds one row without moving the others.
    pub(crate) fn add(&mut self, row: u64, cells: Box<[T]>) {
        self.late.push((row, cells));
        self.set(row, (self.rows.len() + self.late.len()) as u32);
    }

    /// Removes all rows from the cache.
    pub(crate) fn clear(&mut self) {
        match &mut self.slots {
            CacheSlots::Table(slots) => {
                self.rows.iter().chain(self.late.iter().map(|(row, _)| row)).for_each(|row| slots[*row as usize] = 0);
            }
            CacheSlots::Hash(slots) => slots.clear(),
        }
        self.rows.clear();
        self.cells.clear();
        self.late.clear();
    }

    fn set(&mut self, row: u64, slot: u32) {
        match &mut self.slots {
            CacheSlots::Table(slots) => slots[row as usize] = slot,
            CacheSlots::Hash(slots) => {
                slots.insert(row, slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_whether_fetched_in_bulk_or_singly() {
        for rows in [100, TABLE_ROWS + 100] {
            let mut cache = RowCache::new(rows, 2);
            cache.fill(vec![3, 99], vec![1, 2, 3, 4]);
            cache.add(7, vec![5, 6].into());
            let late = cache.find(7).unwrap().as_ptr();
            cache.add(8, vec![7, 8].into());
            assert_eq!([3, 99, 7, 8].map(|row| cache.find(row).unwrap().to_vec()), [[1, 2], [3, 4], [5, 6], [7, 8]]);
            assert_eq!(cache.find(7).unwrap().as_ptr(), late);
            assert_eq!(cache.find(4), None);
            cache.fill(vec![4], vec![9, 9]);
            assert_eq!((cache.find(4), cache.find(3), cache.find(7)), (Some(&[9, 9][..]), None, None));
        }
    }
}
