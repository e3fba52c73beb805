//! Writes that wait: what a worker has put into a buffer since it was last emptied.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use std::fmt;
use std::ops::{Index, IndexMut};

/// Arrays of up to this many rows get a table of slots per worker; larger ones a hash table.
const TABLE_ROWS: usize = 1 << 22;

/// A worker's waiting writes. Writing `buffer[i]` adds to them; reading it gives what waits there, or the default.
pub struct BufferView<U, const N: usize> {
    pub(crate) pending: Pending<U>,
    extents: [usize; N],
    name: &'static str,
    /// What a row holds that nobody has written.
    untouched: Vec<U>,
}

/// Waiting writes: rows in the order they were first written.
pub(crate) struct Pending<U> {
    slots: Slots,
    /// The number of each row, counted over all dimensions but the last; of each cell, if there is one dimension.
    pub(crate) rows: Vec<u64>,
    /// The updates, row after row.
    pub(crate) updates: Vec<U>,
    pub(crate) row_length: usize,
}

/// Where the updates of a row are: 0 is nowhere, `slot` is the row at `slot - 1`.
enum Slots {
    Table(Vec<u32>),
    Hash(HashMap<u64, u32, FxBuildHasher>),
}

impl<U: Clone + Default> Pending<U> {
    pub(crate) fn new(row_count: usize, row_length: usize) -> Self {
        let slots = if row_count <= TABLE_ROWS {
            Slots::Table(vec![0; row_count])
        } else {
            Slots::Hash(HashMap::with_hasher(FxBuildHasher))
        };
        Self { slots, rows: Vec::new(), updates: Vec::new(), row_length }
    }

    #[inline]
    fn find(&self, row: usize) -> Option<usize> {
        let slot = match &self.slots {
            Slots::Table(slots) => slots[row],
            Slots::Hash(slots) => slots.get(&(row as u64)).copied().unwrap_or(0),
        };
        (slot as usize).checked_sub(1).map(|at| at * self.row_length)
    }

    #[inline]
    fn find_or_add(&mut self, row: usize) -> usize {
        let slot = match &mut self.slots {
            Slots::Table(slots) => &mut slots[row],
            Slots::Hash(slots) => slots.entry(row as u64).or_insert(0),
        };
        let slot = if *slot == 0 {
            *slot = u32::try_from(self.rows.len() + 1).expect("fewer than 2^32 rows wait in a buffer");
            self.add(row)
        } else {
            *slot as usize
        };
        (slot - 1) * self.row_length
    }

    /// Makes room for a row: its slot. Seldom called, and kept out of the way of what is.
    #[cold]
    #[inline(never)]
    fn add(&mut self, row: usize) -> usize {
        self.rows.push(row as u64);
        self.updates.resize(self.rows.len() * self.row_length, U::default());
        self.rows.len()
    }

    /// Empties it: the rows in ascending order with their updates.
    pub(crate) fn drain(&mut self) -> (Vec<u64>, Vec<U>) {
        match &mut self.slots {
            Slots::Table(slots) => self.rows.iter().for_each(|row| slots[*row as usize] = 0),
            Slots::Hash(slots) => slots.clear(),
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
        Self { pending: Pending::new(rows, row_length), extents, name, untouched: vec![U::default(); row_length] }
    }

    /// The view itself: how generated code gets at what a name stands for.
    #[doc(hidden)]
    #[inline]
    pub fn place(&mut self) -> &mut Self {
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
    fn look<const K: usize>(&self, key: [usize; K]) -> &[U] {
        let row = self.row(key);
        self.pending.find(row).map_or(&self.untouched, |at| &self.pending.updates[at..at + self.pending.row_length])
    }

    #[inline]
    fn touch<const K: usize>(&mut self, key: [usize; K]) -> &mut [U] {
        let row = self.row(key);
        let at = self.pending.find_or_add(row);
        &mut self.pending.updates[at..at + self.pending.row_length]
    }
}

/// How many rows an array has, and how long they are. The cells of a one-dimensional array are rows of their own.
pub(crate) fn rows_of<const N: usize>(extents: [usize; N]) -> (usize, usize) {
    if N == 1 { (extents[0], 1) } else { (extents[..N - 1].iter().product(), extents[N - 1]) }
}

#[cold]
#[inline(never)]
fn outside(name: &str, key: &[usize], extents: &[usize]) -> ! {
    panic!("index {key:?} is outside of the buffer `{name}`, whose array has the shape {extents:?}");
}

macro_rules! index {
    ($dimensions:literal, $key:ty, $output:ty, |$index:ident| $row:expr, $cell:expr) => {
        impl<U: Clone + Default> Index<$key> for BufferView<U, $dimensions> {
            type Output = $output;
            #[inline]
            fn index(&self, $index: $key) -> &$output {
                &self.look($row)[$cell]
            }
        }
        impl<U: Clone + Default> IndexMut<$key> for BufferView<U, $dimensions> {
            #[inline]
            fn index_mut(&mut self, $index: $key) -> &mut $output {
                &mut self.touch($row)[$cell]
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
        write!(formatter, "buffer `{}` with {} waiting rows", self.name, self.pending.rows.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_can_be_read_and_comes_out_in_order() {
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
        let mut buffer = BufferView::<u64, 1>::new("g", [TABLE_ROWS + 10]);
        for index in [TABLE_ROWS + 9, 7, 7, 12] {
            buffer[index] += 1;
        }
        assert_eq!(buffer.pending.drain(), (vec![7, 12, TABLE_ROWS as u64 + 9], vec![2, 1, 1]));
        assert_eq!(buffer[7], 0);
    }

    #[test]
    #[should_panic(expected = "index [5] is outside of the buffer `g`, whose array has the shape [5, 2]")]
    fn an_index_outside_is_named() {
        BufferView::<f32, 2>::new("g", [5, 2])[5][0] = 1.0;
    }
}
