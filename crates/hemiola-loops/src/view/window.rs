//! Windows: the part of an array that a worker may access while it runs one block.
//!
//! A [`Window`] is a range of consecutive indices of the first dimension, at some address, with the
//! layout of the cells. It consists of plain numbers and an untyped pointer, so that one loop can
//! hold windows of many arrays.
//!
//! **Safety argument for all unsafe code of this crate.** A loop holds every array it uses for as
//! long as it runs, so no other code reads, writes, moves or frees the cells. Workers access them
//! only through windows, and:
//!
//! 1. A window lies inside the array it was made from, and every access is checked against the
//!    window. So no address is out of bounds.
//! 2. Two workers that run at the same time have windows on the same cells only where the plan's
//!    proof says that their iterations do not conflict (`hemiola-analysis`, tested there against
//!    enumeration): cells that one of them writes are not accessed by the other.
//! 3. A block that conflicts with an earlier one starts after it has acquired a lock that the
//!    earlier one released (a `run::stages::BlockStages` counter, a
//!    `run::worker_barrier::WorkerBarrier`, or the end of the pass). This orders their memory
//!    accesses.
//! 4. References made from a view borrow the view, and the body gets its views by a reference that
//!    ends with the call. So no reference outlives the iteration, and the compiler forbids two
//!    overlapping ones through one view. Two views of one loop belong to different arrays, or to an
//!    array that the loop only reads. `parallel_for!` borrows an array that the body writes by
//!    `&mut`, so that it has one name. The planner rejects captures made by hand that write an
//!    array under two names.

/// Consecutive indices of the first dimension of an array, in memory.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Address of the cell at index `first` and 0 in all other dimensions.
    pub(crate) base: *mut u8,
    /// First index of the window.
    pub(crate) first: usize,
    /// Number of indices in the window.
    pub(crate) count: usize,
    /// Distance in cells from one row (all dimensions but the last) to the next.
    pub(crate) stride: usize,
}

// SAFETY: a window is only an address. Each access has its own argument, as explained above.
unsafe impl Send for Window {}
// SAFETY: as above.
unsafe impl Sync for Window {}

impl Window {
    /// A window without indices.
    pub(crate) const EMPTY: Self = Self { base: std::ptr::without_provenance_mut(64), first: 0, count: 0, stride: 0 };

    /// Subwindow of `indices`, which must lie in this window. `cells_per_index` is the distance of
    /// two indices in cells of `size` bytes.
    pub(crate) fn part(self, indices: std::ops::Range<usize>, cells_per_index: usize, size: usize) -> Self {
        debug_assert!(indices.is_empty() || self.first <= indices.start && indices.end <= self.first + self.count);
        if indices.is_empty() {
            return Self { first: indices.start, count: 0, ..Self::EMPTY };
        }
        let offset = (indices.start - self.first) * cells_per_index * size;
        // `wrapping_add` keeps provenance and has no safety requirement; the offset lies inside by
        // the assertion.
        Self { base: self.base.wrapping_add(offset), first: indices.start, count: indices.len(), stride: self.stride }
    }
}
