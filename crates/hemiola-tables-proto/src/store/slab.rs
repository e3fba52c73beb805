//! Memory for many rows of one length.
//!
//! Rows lie in chunks that never move, so growing copies nothing; chunks grow with the number of rows. Where it is known how many there can be,
//! the first chunk is for all of them. Rows of more than 32 bytes begin
//! on a cache line and share none; shorter ones are padded to a power of two and lie within one line (the reasons are
//! those of `hemiola_array::dense`). **Invariant:** a slot stays where it is until it is freed.

use crate::store::memory::Memory;
use bytemuck::Pod;

/// The length of a cache line.
const LINE: usize = 64;
/// No more than this is reserved for rows that may come.
const RESERVED_BYTES: usize = 1 << 36;
/// So many chunks have the same size; the next ones are twice as large. So at most a thirty-second part of the memory is unused, the list of
/// chunks stays short, and those of large tables are large enough for huge pages.
const SAME_CHUNKS: usize = 32;
/// Rows of the first chunks.
const FIRST_ROWS: usize = 16;

/// Rows of one length, by slot.
#[derive(Debug)]
pub struct Slab<T> {
    width: usize,
    stride: usize,
    /// Room for the first rows, all in one piece.
    front: Option<Memory<T>>,
    front_rows: usize,
    chunks: Vec<Memory<T>>,
    rows: usize,
    free: Vec<u32>,
}

impl<T: Pod> Slab<T> {
    /// Room for rows of `width` cells. A width of zero takes no memory.
    #[must_use]
    pub fn new(width: usize) -> Self {
        let bytes = width * size_of::<T>();
        let padded = if bytes > LINE / 2 { bytes.next_multiple_of(LINE) } else { bytes.next_power_of_two() };
        let stride = if padded.is_multiple_of(size_of::<T>()) && width > 0 { padded / size_of::<T>() } else { width };
        Self { width, stride, front: None, front_rows: 0, chunks: Vec::new(), rows: 0, free: Vec::new() }
    }

    /// The same, of which there will be at most `rows`. If that is much, their addresses are in one piece; memory is taken as they come.
    #[must_use]
    pub fn with_most(width: usize, rows: u64) -> Self {
        let mut slab = Self::new(width);
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        let cells = rows.checked_mul(slab.stride).filter(|cells| *cells <= RESERVED_BYTES / size_of::<T>());
        slab.front = cells.and_then(Memory::reserve);
        slab.front_rows = if slab.front.is_some() { rows } else { 0 };
        slab
    }

    /// A slot for a new row. What it holds is left from the row before it, or zeros.
    ///
    /// # Panics
    /// If there are 2^32 - 1 rows already.
    pub fn take(&mut self) -> u32 {
        if let Some(slot) = self.free.pop() {
            return slot;
        }
        let slot =
            u32::try_from(self.rows).ok().filter(|slot| *slot < u32::MAX).expect("a shard has less than 2^32 - 1 rows");
        if self.rows >= self.front_rows && Self::place(slot - self.front_rows as u32).0 == self.chunks.len() {
            let rows = FIRST_ROWS << (self.chunks.len() / SAME_CHUNKS);
            self.chunks.push(Memory::new(self.stride * rows));
        }
        self.rows += 1;
        slot
    }

    /// The chunk of a slot, and its row there.
    #[inline]
    fn place(slot: u32) -> (usize, usize) {
        // All chunks before those of size `FIRST_ROWS << level` have `SAME_CHUNKS * FIRST_ROWS * (2^level - 1)` rows.
        let level = (slot as usize / (SAME_CHUNKS * FIRST_ROWS) + 1).ilog2();
        let rest = slot as usize - SAME_CHUNKS * FIRST_ROWS * ((1 << level) - 1);
        let shift = FIRST_ROWS.ilog2() + level;
        (level as usize * SAME_CHUNKS + (rest >> shift), rest & ((1 << shift) - 1))
    }

    /// Gives a slot back.
    pub fn free(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// The row in a slot.
    ///
    /// # Panics
    /// If the slot was never taken.
    #[must_use]
    #[inline]
    pub fn row(&self, slot: u32) -> &[T] {
        let slot = slot as usize;
        if let Some(front) = self.front.as_ref().filter(|_| slot < self.front_rows) {
            return front.row(slot * self.stride, self.width);
        }
        let (chunk, row) = Self::place((slot - self.front_rows) as u32);
        self.chunks[chunk].row(row * self.stride, self.width)
    }

    /// The row in a slot, to be changed.
    ///
    /// # Panics
    /// If the slot was never taken.
    #[must_use]
    #[inline]
    pub fn row_mut(&mut self, slot: u32) -> &mut [T] {
        let slot = slot as usize;
        if let Some(front) = self.front.as_mut().filter(|_| slot < self.front_rows) {
            return front.row_mut(slot * self.stride, self.width);
        }
        let (chunk, row) = Self::place((slot - self.front_rows) as u32);
        self.chunks[chunk].row_mut(row * self.stride, self.width)
    }

    /// Cells of a row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Bytes of memory it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let chunks: usize = self.chunks.iter().map(Memory::bytes).sum();
        let front = self.rows.min(self.front_rows) * self.stride * size_of::<T>();
        front + chunks + self.chunks.capacity() * size_of::<Memory<T>>() + self.free.capacity() * 4
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these values are exact")]
mod tests {
    use super::*;

    #[test]
    fn long_rows_begin_on_a_line_and_none_overlap() {
        for width in [0, 1, 3, 8, 9, 16, 64, 100, 40_000] {
            for mut slab in [Slab::<f32>::new(width), Slab::with_most(width, 3000), Slab::with_most(width, 2000)] {
                let slots: Vec<u32> = (0..3000.min(4_000_000 / (width + 1))).map(|_| slab.take()).collect();
                for slot in &slots {
                    slab.row_mut(*slot).fill(*slot as f32);
                }
                for slot in &slots {
                    {
                        let row = slab.row(*slot);
                        assert!(row.len() == width && row.iter().all(|cell| *cell == *slot as f32));
                        let address = row.as_ptr() as usize;
                        assert!(width <= 8 || address.is_multiple_of(LINE), "width {width}");
                        assert!(width > 8 || width == 0 || address / LINE == (address + width * 4 - 1) / LINE);
                    }
                }
            }
        }
    }

    #[test]
    fn freed_slots_are_taken_again() {
        let mut slab = Slab::<f64>::new(4);
        let (first, second) = (slab.take(), slab.take());
        slab.free(first);
        assert_eq!(slab.take(), first);
        assert_ne!(slab.take(), second);
    }
}
