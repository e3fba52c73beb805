//! Memory for many cells, zeroed.
//!
//! Large pieces are mapped, and the system is asked for *huge pages*: random rows of a table of 256 MiB are on 65,536 pages of 4 KiB, far more
//! than a processor remembers the places of, and each access would begin with a walk through tables of pages. Mapped memory counts only once it is written to, so more may be taken than is used.
//! **Invariant:** cells never move.

use bytemuck::Pod;
use memmap2::{Advice, MmapMut, MmapOptions};
use std::marker::PhantomData;

/// The length of a cache line.
const LINE: usize = 64;
/// Pieces from here on are mapped.
const MAPPED_FROM: usize = 1 << 21;

/// Some cells.
#[derive(Debug)]
pub(crate) enum Memory<T> {
    /// From the allocator.
    Heap {
        /// Where the first cell is, so that it begins on a line.
        start: usize,
        cells: Vec<T>,
    },
    /// From the system.
    Mapped(MmapMut, PhantomData<T>),
}

impl<T: Pod> Memory<T> {
    /// Room for so many cells, the first at the beginning of a cache line.
    pub(crate) fn new(length: usize) -> Self {
        let mapped = length.checked_mul(size_of::<T>()).filter(|bytes| *bytes >= MAPPED_FROM).and_then(map);
        if let Some(map) = mapped {
            return Self::Mapped(map, PhantomData);
        }
        let spare = if LINE.is_multiple_of(size_of::<T>()) { LINE / size_of::<T>() } else { 0 };
        let cells = vec![T::zeroed(); length + spare];
        Self::Heap { start: cells.as_ptr().align_offset(LINE).min(spare), cells }
    }

    /// The same, if it can be mapped: then it costs nothing until it is written to.
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

    /// Bytes, if all of it is used.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Heap { cells, .. } => cells.capacity() * size_of::<T>(),
            Self::Mapped(map, _) => map.len(),
        }
    }
}

/// Memory of the system; nothing if it has none.
fn map(bytes: usize) -> Option<MmapMut> {
    let map = MmapOptions::new().len(bytes).no_reserve_swap().map_anon().ok()?;
    // Where there are no huge pages it is slower, and that is all.
    #[cfg(target_os = "linux")]
    let _ = map.advise(Advice::HugePage);
    Some(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_zero_begin_on_a_line_and_keep_what_they_are_given() {
        for length in [1, 100, MAPPED_FROM / 8, MAPPED_FROM / 4 + 3] {
            let mut memory = Memory::<u64>::new(length);
            assert!(memory.row(0, length).iter().all(|cell| *cell == 0));
            assert!((memory.row(0, 1).as_ptr() as usize).is_multiple_of(LINE));
            memory.row_mut(length - 1, 1)[0] = 7;
            assert_eq!(memory.row(length - 1, 1), [7]);
            assert!(memory.bytes() >= length * 8);
        }
        assert!(Memory::<u64>::reserve(10).is_none() && Memory::<u64>::reserve(usize::MAX).is_none());
    }

    #[test]
    #[should_panic(expected = "range")]
    fn nothing_is_behind_the_end() {
        let _ = Memory::<u64>::new(MAPPED_FROM / 4).row(MAPPED_FROM / 4, 1);
    }
}
