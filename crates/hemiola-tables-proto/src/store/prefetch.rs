//! Software prefetching of row memory.
//!
//! A row of a large table is in no CPU cache and spans several cache lines. Code that updates many
//! rows prefetches some of them and works on others meanwhile.

#![expect(unsafe_code, reason = "the instruction takes an address")]

/// Length of a cache line in bytes.
const CACHE_LINE: usize = 64;

/// Prefetches the cache lines of `cells`. Only speed depends on it; other architectures do nothing.
#[inline]
pub(crate) fn prefetch<T>(cells: &[T]) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..size_of_val(cells)).step_by(CACHE_LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no visible effect and never faults, and the address is inside the
        // slice.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(cells.as_ptr().cast::<i8>().wrapping_add(at)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (cells, CACHE_LINE);
}
