//! Where a worker may read and write an array while it runs one block.
//!
//! A [`Window`] is a run of consecutive indices of the first dimension, somewhere in memory, together with how cells lie
//! there. It is plain numbers and a pointer without a type, so that one loop can hold windows of many arrays.
//!
//! **The argument for all unsafe code of this crate.** A loop holds every array it uses for as long as it runs, so no other
//! code reads, writes, moves or frees the cells. Workers reach them through windows alone, and:
//! 1. a window lies inside the array it was made from, and every access is checked against the window, so no address is
//!    outside;
//! 2. two workers that run at the same time have windows on the same cells only where the plan's proof says that the
//!    iterations they run do not conflict (`hemiola-analysis`, checked there against enumeration): cells that one of them
//!    writes are not touched by the other;
//! 3. a block that conflicts with an earlier one starts after a lock (a `run::stages::Stages` counter, a
//!    `run::meeting::Meeting` or the end of the pass) was released by the earlier one and taken by it,
//!    which orders their memory accesses;
//! 4. references made from a view borrow the view, and the body gets its views by a reference that ends with the call, so
//!    none outlives the iteration, and the compiler forbids two overlapping ones through one view. Two views of one loop
//!    are of different arrays, or of an array that the loop only reads: a loop that writes an array under two names is
//!    refused when it is planned.

/// Consecutive indices of the first dimension of an array, in memory.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// The cell at index `first` and 0 in all other dimensions.
    pub(crate) base: *mut u8,
    /// The first index.
    pub(crate) first: usize,
    /// How many indices.
    pub(crate) count: usize,
    /// Cells from one row (all dimensions but the last) to the next.
    pub(crate) stride: usize,
}

// SAFETY: a window is an address; whoever reads or writes there must be entitled to, as argued above.
unsafe impl Send for Window {}
// SAFETY: as above.
unsafe impl Sync for Window {}

impl Window {
    /// A window on nothing.
    pub(crate) const EMPTY: Self = Self { base: std::ptr::without_provenance_mut(64), first: 0, count: 0, stride: 0 };

    /// The part of this window that holds `indices`, which must lie in it, where an index has `rows` rows (1 if the
    /// array has one dimension, whose cells are `size` bytes).
    pub(crate) fn part(self, indices: std::ops::Range<usize>, cells_per_index: usize, size: usize) -> Self {
        debug_assert!(indices.is_empty() || self.first <= indices.start && indices.end <= self.first + self.count);
        if indices.is_empty() {
            return Self { first: indices.start, count: 0, ..Self::EMPTY };
        }
        let offset = (indices.start - self.first) * cells_per_index * size;
        // `wrapping_add` keeps provenance and needs no promise; the offset lies inside by the assertion.
        Self { base: self.base.wrapping_add(offset), first: indices.start, count: indices.len(), stride: self.stride }
    }
}
