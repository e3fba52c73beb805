//! Prefetch hints for the memory hierarchy.

#![cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "a hint takes an address"))]

/// Prefetches `slice[at]`. Indices beyond the end are allowed: it is only a hint.
#[inline(always)]
pub(super) fn prefetch<T>(slice: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no visible effect and never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(slice.as_ptr().wrapping_add(at).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slice, at);
}
