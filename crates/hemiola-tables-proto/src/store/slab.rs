//! Slab of rows of equal width.
//!
//! Rows lie in chunks that never move, so growing copies nothing. The chunk size grows with the
//! number of rows. If the maximum number of rows is known, one reserved chunk holds all of them.
//! Rows of more than 32 bytes begin on a cache line and share none; shorter ones are padded to a
//! power of two and lie within one line, for the reasons given in `hemiola_array::dense`.
//! **Invariant:** a slot keeps its address until it is freed.

use crate::store::memory::AlignedMemory;
use bytemuck::Pod;

/// Length of a cache line in bytes.
const CACHE_LINE: usize = 64;
/// Upper limit of the address space that is reserved for future rows.
const RESERVED_BYTES: usize = 1 << 36;
/// Number of chunks of equal size, before the size doubles. At most 1/32 of the memory is unused,
/// the list of chunks stays short, and chunks of large tables are large enough for huge pages.
const SAME_CHUNKS: usize = 32;
/// Number of rows of the first chunks.
const FIRST_ROWS: usize = 16;

/// Rows of equal width, by slot.
#[derive(Debug)]
pub struct RowSlab<T> {
    width: usize,
    stride: usize,
    /// Reserved memory of the first rows, in one piece.
    reserved: Option<AlignedMemory<T>>,
    reserved_rows: usize,
    chunks: Vec<AlignedMemory<T>>,
    rows: usize,
    free: Vec<u32>,
}

impl<T: Pod> RowSlab<T> {
    /// Creates a slab for rows of `width` cells. A width of zero takes no memory.
    #[must_use]
    pub fn new(width: usize) -> Self {
        let bytes = width * size_of::<T>();
        let padded =
            if bytes > CACHE_LINE / 2 { bytes.next_multiple_of(CACHE_LINE) } else { bytes.next_power_of_two() };
        let stride = if padded.is_multiple_of(size_of::<T>()) && width > 0 { padded / size_of::<T>() } else { width };
        Self { width, stride, reserved: None, reserved_rows: 0, chunks: Vec::new(), rows: 0, free: Vec::new() }
    }

    /// Creates a slab for at most `rows` rows. A large one reserves contiguous addresses; memory is
    /// used as rows arrive.
    #[must_use]
    pub fn with_capacity(width: usize, rows: u64) -> Self {
        let mut slab = Self::new(width);
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        let cells = rows.checked_mul(slab.stride).filter(|cells| *cells <= RESERVED_BYTES / size_of::<T>());
        slab.reserved = cells.and_then(AlignedMemory::reserve);
        slab.reserved_rows = if slab.reserved.is_some() { rows } else { 0 };
        slab
    }

    /// Allocates a slot. It holds the cells of its last row, or zeros.
    ///
    /// # Panics
    /// If there are 2^32 - 1 rows already.
    pub fn take(&mut self) -> u32 {
        if let Some(slot) = self.free.pop() {
            return slot;
        }
        let slot = u32::try_from(self.rows)
            .ok()
            .filter(|slot| *slot < u32::MAX)
            .expect("a shard has fewer than 2^32 - 1 rows");
        if self.rows >= self.reserved_rows && Self::locate(slot - self.reserved_rows as u32).0 == self.chunks.len() {
            let rows = FIRST_ROWS << (self.chunks.len() / SAME_CHUNKS);
            self.chunks.push(AlignedMemory::new(self.stride * rows));
        }
        self.rows += 1;
        slot
    }

    /// Chunk of a slot, and the row within it.
    #[inline]
    fn locate(slot: u32) -> (usize, usize) {
        // The chunks before those of size `FIRST_ROWS << level` hold `SAME_CHUNKS * FIRST_ROWS *
        // (2^level - 1)` rows.
        let level = (slot as usize / (SAME_CHUNKS * FIRST_ROWS) + 1).ilog2();
        let rest = slot as usize - SAME_CHUNKS * FIRST_ROWS * ((1 << level) - 1);
        let shift = FIRST_ROWS.ilog2() + level;
        (level as usize * SAME_CHUNKS + (rest >> shift), rest & ((1 << shift) - 1))
    }

    /// Frees a slot for reuse.
    pub fn free(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// Cells of the row in a slot.
    ///
    /// # Panics
    /// If the slot was never taken.
    #[must_use]
    #[inline]
    pub fn row(&self, slot: u32) -> &[T] {
        let slot = slot as usize;
        if let Some(reserved) = self.reserved.as_ref().filter(|_| slot < self.reserved_rows) {
            return reserved.row(slot * self.stride, self.width);
        }
        let (chunk, row) = Self::locate((slot - self.reserved_rows) as u32);
        self.chunks[chunk].row(row * self.stride, self.width)
    }

    /// Mutable cells of the row in a slot.
    ///
    /// # Panics
    /// If the slot was never taken.
    #[must_use]
    #[inline]
    pub fn row_mut(&mut self, slot: u32) -> &mut [T] {
        let slot = slot as usize;
        if let Some(reserved) = self.reserved.as_mut().filter(|_| slot < self.reserved_rows) {
            return reserved.row_mut(slot * self.stride, self.width);
        }
        let (chunk, row) = Self::locate((slot - self.reserved_rows) as u32);
        self.chunks[chunk].row_mut(row * self.stride, self.width)
    }

    /// Number of cells of a row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Memory of the slab in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let chunks: usize = self.chunks.iter().map(AlignedMemory::bytes).sum();
        let reserved = self.rows.min(self.reserved_rows) * self.stride * size_of::<T>();
        reserved + chunks + self.chunks.capacity() * size_of::<AlignedMemory<T>>() + self.free.capacity() * 4
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these values are exact")]
mod tests {
    use super::*;

    #[test]
    fn long_rows_begin_on_a_line_and_none_overlap() {
        for width in [0, 1, 3, 8, 9, 16, 64, 100, 40_000] {
            for mut slab in
                [RowSlab::<f32>::new(width), RowSlab::with_capacity(width, 3000), RowSlab::with_capacity(width, 2000)]
            {
                let slots: Vec<u32> = (0..3000.min(4_000_000 / (width + 1))).map(|_| slab.take()).collect();
                for slot in &slots {
                    slab.row_mut(*slot).fill(*slot as f32);
                }
                for slot in &slots {
                    {
                        let row = slab.row(*slot);
                        assert!(row.len() == width && row.iter().all(|cell| *cell == *slot as f32));
                        let address = row.as_ptr() as usize;
                        assert!(width <= 8 || address.is_multiple_of(CACHE_LINE), "width {width}");
                        assert!(
                            width > 8 || width == 0 || address / CACHE_LINE == (address + width * 4 - 1) / CACHE_LINE
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn freed_slots_are_taken_again() {
        let mut slab = RowSlab::<f64>::new(4);
        let (first, second) = (slab.take(), slab.take());
        slab.free(first);
        assert_eq!(slab.take(), first);
        assert_ne!(slab.take(), second);
    }
}
