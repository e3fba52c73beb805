//! Synchronization primitives of [`sharded_rwlock`](crate::sharded_rwlock).
//!
//! A test includes that file with a module of this name that holds loom's primitives; see
//! `hemiola-testkit/tests/loom`.

#![expect(unsafe_code, reason = "unlocking a raw mutex needs a promise of the caller")]

pub(crate) use hemiola_core::UnsafeCell;
use parking_lot::lock_api::{GuardNoSend, RawMutex as _};

/// Mutex without a value and without guards.
pub(crate) struct RawMutex(parking_lot::RawMutex);

impl RawMutex {
    pub(crate) const fn new() -> Self {
        Self(parking_lot::RawMutex::INIT)
    }

    /// Locks, and waits as long as another thread holds the mutex.
    #[inline]
    pub(crate) fn lock(&self) {
        let _ = self.0.lock(); // the guard is stateless; `unlock` makes another
    }

    /// Locks if no thread holds the mutex. Returns whether it did.
    #[inline]
    pub(crate) fn try_lock(&self) -> bool {
        self.0.try_lock().is_some()
    }

    /// Unlocks the mutex.
    ///
    /// # Safety
    /// The calling thread holds the mutex.
    #[inline]
    pub(crate) unsafe fn unlock(&self) {
        // SAFETY: the caller holds the mutex.
        unsafe { self.0.unlock(GuardNoSend::new()) };
    }
}
