//! Cache of read-only rows that a worker has fetched.
//!
//! Rows of a block are fetched in bulk and stay in place until the next bulk. Rows that were not
//! predicted are fetched one by one, each into its own allocation. **Invariant:** adding a row
//! never moves another one, so references stay valid until [`RowCache::fill`] or
//! [`RowCache::clear`].

use crate::store::KeyIndex;

/// Cached rows, by row number.
#[derive(Debug)]
pub(super) struct RowCache<T> {
    /// Slots of rows: those below the number of rows in bulk, then those fetched one by one.
    index: KeyIndex,
    /// Rows fetched in bulk, in ascending order.
    rows: Vec<u64>,
    cells: Vec<T>,
    /// Rows fetched one by one.
    late: Vec<(u64, Box<[T]>)>,
    row_length: usize,
}

impl<T> RowCache<T> {
    /// Creates an empty cache for rows below `rows`.
    pub(super) fn new(rows: u64, row_length: usize) -> Self {
        let index = KeyIndex::for_rows(rows);
        Self { index, rows: Vec::new(), cells: Vec::new(), late: Vec::new(), row_length }
    }

    /// Cells of a row, if it is cached.
    #[inline]
    pub(super) fn find(&self, row: u64) -> Option<&[T]> {
        let slot = self.index.find(row, |slot| key_of(&self.rows, &self.late, slot))? as usize;
        match slot.checked_sub(self.rows.len()) {
            None => Some(&self.cells[slot * self.row_length..][..self.row_length]),
            Some(late) => Some(&self.late[late].1),
        }
    }

    /// Replaces all rows by these.
    ///
    /// # Panics
    /// If there are not as many cells as the rows have.
    pub(super) fn fill(&mut self, rows: Vec<u64>, cells: Vec<T>) {
        assert_eq!(rows.len() * self.row_length, cells.len(), "every row needs its cells");
        self.clear();
        for (slot, row) in rows.iter().enumerate() {
            self.index.insert(*row, slot as u32, |slot| rows[slot as usize]);
        }
        (self.rows, self.cells) = (rows, cells);
    }

    /// Adds a row that is not cached, without moving the others.
    pub(super) fn add(&mut self, row: u64, cells: Box<[T]>) {
        let slot = self.rows.len() + self.late.len();
        self.late.push((row, cells));
        let Self { index, rows, late, .. } = self;
        index.insert(row, slot as u32, |slot| key_of(rows, late, slot));
    }

    /// Removes all rows.
    pub(super) fn clear(&mut self) {
        self.index.clear(self.rows.iter().chain(self.late.iter().map(|(row, _)| row)).copied());
        self.rows.clear();
        self.cells.clear();
        self.late.clear();
    }
}

fn key_of<T>(rows: &[u64], late: &[(u64, Box<[T]>)], slot: u32) -> u64 {
    let slot = slot as usize;
    slot.checked_sub(rows.len()).map_or_else(|| rows[slot], |at| late[at].0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_whether_fetched_in_bulk_or_singly() {
        // The second number of rows is beyond the limit of a direct index.
        for rows in [100, (1 << 22) + 100] {
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
