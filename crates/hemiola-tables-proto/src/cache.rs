//! Rows that a worker was sent.
//!
//! Rows come in bulk, for a block of work, and stay where they are until the next bulk; rows that nobody foresaw come one by
//! one and each has its own memory. **Invariant:** adding a row never moves another, so addresses handed out stay good
//! until [`RowCache::fill`] or [`RowCache::clear`].

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

/// Arrays of up to this many rows get a table of slots; larger ones a hash table.
const TABLE_ROWS: u64 = 1 << 22;

/// Rows of an array, by number.
#[derive(Debug)]
pub struct RowCache<T> {
    slots: Slots,
    /// Rows that came in bulk, in ascending order.
    rows: Vec<u64>,
    cells: Vec<T>,
    /// Rows that came alone.
    late: Vec<(u64, Box<[T]>)>,
    row_length: usize,
}

/// Where a row is: 0 is nowhere, `1..=rows` in bulk, above that a late one.
#[derive(Debug)]
enum Slots {
    Table(Vec<u32>),
    Hash(HashMap<u64, u32, FxBuildHasher>),
}

impl<T> RowCache<T> {
    /// An empty cache for an array of `rows` rows.
    #[must_use]
    pub fn new(rows: u64, row_length: usize) -> Self {
        let slots = if rows <= TABLE_ROWS {
            Slots::Table(vec![0; rows as usize])
        } else {
            Slots::Hash(HashMap::with_hasher(FxBuildHasher))
        };
        Self { slots, rows: Vec::new(), cells: Vec::new(), late: Vec::new(), row_length }
    }

    /// The cells of a row, if it is here.
    #[must_use]
    #[inline]
    pub fn find(&self, row: u64) -> Option<&[T]> {
        let slot = match &self.slots {
            Slots::Table(slots) => slots.get(row as usize).copied().unwrap_or(0),
            Slots::Hash(slots) => slots.get(&row).copied().unwrap_or(0),
        };
        let at = (slot as usize).checked_sub(1)?;
        match at.checked_sub(self.rows.len()) {
            None => Some(&self.cells[at * self.row_length..][..self.row_length]),
            Some(late) => Some(&self.late[late].1),
        }
    }

    /// Forgets all rows and takes these.
    ///
    /// # Panics
    /// If there are not as many cells as the rows have.
    pub fn fill(&mut self, rows: Vec<u64>, cells: Vec<T>) {
        assert_eq!(rows.len() * self.row_length, cells.len(), "every row has its cells");
        self.clear();
        for (at, row) in rows.iter().enumerate() {
            self.set(*row, at as u32 + 1);
        }
        (self.rows, self.cells) = (rows, cells);
    }

    /// Adds a row; the others stay where they are.
    pub fn add(&mut self, row: u64, cells: Box<[T]>) {
        self.late.push((row, cells));
        self.set(row, (self.rows.len() + self.late.len()) as u32);
    }

    /// Forgets all rows.
    pub fn clear(&mut self) {
        match &mut self.slots {
            Slots::Table(slots) => {
                self.rows.iter().chain(self.late.iter().map(|(row, _)| row)).for_each(|row| slots[*row as usize] = 0);
            }
            Slots::Hash(slots) => slots.clear(),
        }
        self.rows.clear();
        self.cells.clear();
        self.late.clear();
    }

    fn set(&mut self, row: u64, slot: u32) {
        match &mut self.slots {
            Slots::Table(slots) => slots[row as usize] = slot,
            Slots::Hash(slots) => {
                slots.insert(row, slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_whether_they_came_in_bulk_or_alone() {
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
