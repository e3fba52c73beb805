//! Asks for memory before it is needed.

#![cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "a hint takes an address"))]

/// Asks the machine to have `slice[at]` at hand soon. Places beyond the end are no error: it is a hint.
#[inline(always)]
pub(super) fn soon<T>(slice: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program can see and never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(slice.as_ptr().wrapping_add(at).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slice, at);
}
