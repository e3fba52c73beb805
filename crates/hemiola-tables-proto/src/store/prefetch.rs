//! Memory that is going to be used, brought near ahead of use.
//!
//! A row of a large table is in no cache, and several cache lines long. Whoever has many rows to change asks for some of them before it
//! needs them, and works on others meanwhile.

#![expect(unsafe_code, reason = "the instruction takes an address")]

/// The length of a cache line.
const LINE: usize = 64;

/// Asks for the cache lines of `cells`. Nothing but speed depends on it; processors without the instruction do nothing.
#[inline]
pub(crate) fn prefetch<T>(cells: &[T]) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..size_of_val(cells)).step_by(LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that a program could see, never faults, and the address is inside the slice.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(cells.as_ptr().cast::<i8>().wrapping_add(at)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (cells, LINE);
}
