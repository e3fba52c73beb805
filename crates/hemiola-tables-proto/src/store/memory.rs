//! Zeroed, aligned memory for many cells.
//!
//! Large allocations are mapped with *huge pages*. Random rows of a table of 256 MiB lie on 65,536
//! pages of 4 KiB, far more than the TLB of a CPU holds, so each access would begin with a page
//! walk. Mapped memory counts only once it is written, so more may be reserved than is used.
//! **Invariant:** cells never move.

use bytemuck::Pod;
use memmap2::{Advice, MmapMut, MmapOptions};
use std::marker::PhantomData;

/// Length of a cache line in bytes.
const CACHE_LINE: usize = 64;
/// Allocations from this size on are mapped.
const MAPPED_FROM: usize = 1 << 21;

/// Memory for a fixed number of cells.
#[derive(Debug)]
pub(crate) enum AlignedMemory<T> {
    /// Memory from the allocator.
    Heap {
        /// Index of the first cell that is aligned to a cache line.
        start: usize,
        cells: Vec<T>,
    },
    /// Memory mapped from the operating system.
    Mapped(MmapMut, PhantomData<T>),
}

impl<T: Pod> AlignedMemory<T> {
    /// Allocates `length` cells, the first at the beginning of a cache line.
    pub(crate) fn new(length: usize) -> Self {
        let mapped = length.checked_mul(size_of::<T>()).filter(|bytes| *bytes >= MAPPED_FROM).and_then(map);
        if let Some(map) = mapped {
            return Self::Mapped(map, PhantomData);
        }
        let spare = if CACHE_LINE.is_multiple_of(size_of::<T>()) { CACHE_LINE / size_of::<T>() } else { 0 };
        let cells = vec![T::zeroed(); length + spare];
        Self::Heap { start: cells.as_ptr().align_offset(CACHE_LINE).min(spare), cells }
    }

    /// Reserves `length` cells if they can be mapped; they cost nothing until they are written.
    pub(crate) fn reserve(length: usize) -> Option<Self> {
        let bytes = length.checked_mul(size_of::<T>()).filter(|bytes| *bytes >= MAPPED_FROM)?;
        Some(Self::Mapped(map(bytes)?, PhantomData))
    }

    #[inline]
    pub(crate) fn row(&self, at: usize, width: usize) -> &[T] {
        match self {
            Self::Heap { start, cells } => &cells[start + at..][..width],
            Self::Mapped(map, _) => bytemuck::cast_slice(&map[at * size_of::<T>()..][..width * size_of::<T>()]),
        }
    }

    #[inline]
    pub(crate) fn row_mut(&mut self, at: usize, width: usize) -> &mut [T] {
        match self {
            Self::Heap { start, cells } => &mut cells[*start + at..][..width],
            Self::Mapped(map, _) => bytemuck::cast_slice_mut(&mut map[at * size_of::<T>()..][..width * size_of::<T>()]),
        }
    }

    /// Size in bytes if all of it is used.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Heap { cells, .. } => cells.capacity() * size_of::<T>(),
            Self::Mapped(map, _) => map.len(),
        }
    }
}

/// Maps anonymous memory; `None` if the system refuses.
fn map(bytes: usize) -> Option<MmapMut> {
    let map = MmapOptions::new().len(bytes).no_reserve_swap().map_anon().ok()?;
    // Without huge pages it is slower, but correct.
    #[cfg(target_os = "linux")]
    let _ = map.advise(Advice::HugePage);
    Some(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_zeroed_aligned_and_keep_their_values() {
        for length in [1, 100, MAPPED_FROM / 8, MAPPED_FROM / 4 + 3] {
            let mut memory = AlignedMemory::<u64>::new(length);
            assert!(memory.row(0, length).iter().all(|cell| *cell == 0));
            assert!((memory.row(0, 1).as_ptr() as usize).is_multiple_of(CACHE_LINE));
            memory.row_mut(length - 1, 1)[0] = 7;
            assert_eq!(memory.row(length - 1, 1), [7]);
            assert!(memory.bytes() >= length * 8);
        }
        assert!(AlignedMemory::<u64>::reserve(10).is_none() && AlignedMemory::<u64>::reserve(usize::MAX).is_none());
    }

    #[test]
    #[should_panic(expected = "range")]
    fn rows_past_the_end_panic() {
        let _ = AlignedMemory::<u64>::new(MAPPED_FROM / 4).row(MAPPED_FROM / 4, 1);
    }
}
