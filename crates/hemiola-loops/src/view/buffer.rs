//! View of a write buffer: the pending writes of one worker.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use std::fmt;
use std::ops::{Index, IndexMut};

/// Arrays of up to this many rows get a direct slot table per worker; larger ones a hash table.
const MAX_DIRECT_ROWS: usize = 1 << 22;

/// Pending writes of a worker. Writing `buffer[i]` adds to them; reading it returns the pending
/// update, or the default.
pub struct BufferView<U, const N: usize> {
    pub(crate) pending: PendingWrites<U>,
    extents: [usize; N],
    name: &'static str,
    /// Content of a row without pending writes.
    default_row: Vec<U>,
}

/// Pending writes: rows in the order in which they were first written.
pub(crate) struct PendingWrites<U> {
    slots: RowSlots,
    /// Index of each row, counted over all dimensions but the last; of each cell, if there is one
    /// dimension.
    pub(crate) rows: Vec<u64>,
    /// Updates, row after row.
    pub(crate) updates: Vec<U>,
    pub(crate) row_length: usize,
}

/// Slot of each row: 0 is none, `slot` is the row at position `slot - 1`.
enum RowSlots {
    Direct(Vec<u32>),
    Hash(HashMap<u64, u32, FxBuildHasher>),
}

impl<U: Clone + Default> PendingWrites<U> {
    pub(crate) fn new(row_count: usize, row_length: usize) -> Self {
        let slots = if row_count <= MAX_DIRECT_ROWS {
            RowSlots::Direct(vec![0; row_count])
        } else {
            RowSlots::Hash(HashMap::with_hasher(FxBuildHasher))
        };
        Self { slots, rows: Vec::new(), updates: Vec::new(), row_length }
    }

    #[inline]
    fn find(&self, row: usize) -> Option<usize> {
        let slot = match &self.slots {
            RowSlots::Direct(slots) => slots[row],
            RowSlots::Hash(slots) => slots.get(&(row as u64)).copied().unwrap_or(0),
        };
        (slot as usize).checked_sub(1).map(|at| at * self.row_length)
    }

    #[inline]
    fn find_or_add(&mut self, row: usize) -> usize {
        let slot = match &mut self.slots {
            RowSlots::Direct(slots) => &mut slots[row],
            RowSlots::Hash(slots) => slots.entry(row as u64).or_insert(0),
        };
        let slot = if *slot == 0 {
            *slot = u32::try_from(self.rows.len() + 1).expect("a buffer has fewer than 2^32 pending rows");
            self.add(row)
        } else {
            *slot as usize
        };
        (slot - 1) * self.row_length
    }

    /// Adds a row and returns its slot. Called rarely, and kept out of line.
    #[cold]
    #[inline(never)]
    fn add(&mut self, row: usize) -> usize {
        self.rows.push(row as u64);
        self.updates.resize(self.rows.len() * self.row_length, U::default());
        self.rows.len()
    }

    /// Removes and returns all rows in ascending order, with their updates.
    pub(crate) fn drain(&mut self) -> (Vec<u64>, Vec<U>) {
        match &mut self.slots {
            RowSlots::Direct(slots) => self.rows.iter().for_each(|row| slots[*row as usize] = 0),
            RowSlots::Hash(slots) => slots.clear(),
        }
        let (rows, updates) = (std::mem::take(&mut self.rows), std::mem::take(&mut self.updates));
        if rows.is_sorted() {
            return (rows, updates);
        }
        let mut order: Vec<u32> = (0..rows.len() as u32).collect();
        order.sort_unstable_by_key(|at| rows[*at as usize]);
        let mut sorted = Vec::with_capacity(updates.len());
        for at in &order {
            sorted.extend_from_slice(&updates[*at as usize * self.row_length..][..self.row_length]);
        }
        (order.iter().map(|at| rows[*at as usize]).collect(), sorted)
    }
}

impl<U: Clone + Default, const N: usize> BufferView<U, N> {
    pub(crate) fn new(name: &'static str, extents: [usize; N]) -> Self {
        let (rows, row_length) = rows_of(extents);
        Self {
            pending: PendingWrites::new(rows, row_length),
            extents,
            name,
            default_row: vec![U::default(); row_length],
        }
    }

    /// Returns the view itself. Generated code calls it for every captured name.
    #[doc(hidden)]
    #[inline]
    pub fn resolve(&mut self) -> &mut Self {
        self
    }

    #[inline]
    fn row<const K: usize>(&self, key: [usize; K]) -> usize {
        let mut row = 0;
        for dimension in 0..K {
            if key[dimension] >= self.extents[dimension] {
                outside(self.name, &key, &self.extents);
            }
            row = row * self.extents[dimension] + key[dimension];
        }
        row
    }

    #[inline]
    fn pending_row<const K: usize>(&self, key: [usize; K]) -> &[U] {
        let row = self.row(key);
        self.pending.find(row).map_or(&self.default_row, |at| &self.pending.updates[at..at + self.pending.row_length])
    }

    #[inline]
    fn pending_row_mut<const K: usize>(&mut self, key: [usize; K]) -> &mut [U] {
        let row = self.row(key);
        let at = self.pending.find_or_add(row);
        &mut self.pending.updates[at..at + self.pending.row_length]
    }
}

/// Number of rows of an array, and their length. The cells of a one-dimensional array are rows of
/// length 1.
pub(crate) fn rows_of<const N: usize>(extents: [usize; N]) -> (usize, usize) {
    if N == 1 { (extents[0], 1) } else { (extents[..N - 1].iter().product(), extents[N - 1]) }
}

#[cold]
#[inline(never)]
fn outside(name: &str, key: &[usize], extents: &[usize]) -> ! {
    panic!("index {key:?} is out of bounds of the buffer `{name}` with shape {extents:?}");
}

macro_rules! index {
    ($dimensions:literal, $key:ty, $output:ty, |$index:ident| $row:expr, $cell:expr) => {
        impl<U: Clone + Default> Index<$key> for BufferView<U, $dimensions> {
            type Output = $output;
            #[inline]
            fn index(&self, $index: $key) -> &$output {
                &self.pending_row($row)[$cell]
            }
        }
        impl<U: Clone + Default> IndexMut<$key> for BufferView<U, $dimensions> {
            #[inline]
            fn index_mut(&mut self, $index: $key) -> &mut $output {
                &mut self.pending_row_mut($row)[$cell]
            }
        }
    };
}

index!(1, usize, U, |index| [index], 0);
index!(1, [usize; 1], U, |index| index, 0);
index!(2, usize, [U], |index| [index], ..);
index!(2, [usize; 1], [U], |index| index, ..);
index!(2, [usize; 2], U, |index| [index[0]], index[1]);
index!(3, [usize; 2], [U], |index| index, ..);
index!(3, [usize; 3], U, |index| [index[0], index[1]], index[2]);
index!(4, [usize; 3], [U], |index| index, ..);
index!(4, [usize; 4], U, |index| [index[0], index[1], index[2]], index[3]);

impl<U, const N: usize> fmt::Debug for BufferView<U, N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "buffer `{}` with {} pending rows", self.name, self.pending.rows.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_writes_can_be_read_and_drain_in_order() {
        let mut buffer = BufferView::<f32, 2>::new("g", [5, 2]);
        buffer[[3, 1]] += 1.0;
        buffer[0][0] -= 2.0;
        buffer[[3, 1]] += 1.5;
        assert_eq!((buffer[[3, 1]], &buffer[4]), (2.5, &[0.0, 0.0][..]));
        assert_eq!(buffer.pending.drain(), (vec![0, 3], vec![-2.0, 0.0, 0.0, 2.5]));
        assert_eq!(&buffer[3], &[0.0, 0.0]);
        assert_eq!(buffer.pending.drain(), (vec![], vec![]));
    }

    #[test]
    fn large_arrays_use_a_hash_table_and_behave_the_same() {
        let mut buffer = BufferView::<u64, 1>::new("g", [MAX_DIRECT_ROWS + 10]);
        for index in [MAX_DIRECT_ROWS + 9, 7, 7, 12] {
            buffer[index] += 1;
        }
        assert_eq!(buffer.pending.drain(), (vec![7, 12, MAX_DIRECT_ROWS as u64 + 9], vec![2, 1, 1]));
        assert_eq!(buffer[7], 0);
    }

    #[test]
    #[should_panic(expected = "index [5] is out of bounds of the buffer `g` with shape [5, 2]")]
    fn an_index_out_of_bounds_is_named() {
        BufferView::<f32, 2>::new("g", [5, 2])[5][0] = 1.0;
    }
}
