//! Loom's primitives with the interface that the included files use.

#![expect(unsafe_code, reason = "the raw mutex has the signatures of the real one")]

pub(crate) use loom::cell::UnsafeCell;
pub(crate) use loom::hint::spin_loop;
pub(crate) use loom::sync::atomic::Ordering;
pub(crate) use loom::thread::yield_now;

use loom::sync::MutexGuard as LoomGuard;
use loom::sync::atomic::fence;
use std::ops::{Deref, DerefMut};

/// Waiting threads look twice and then sleep: more turns add interleavings, not behaviour.
pub(crate) const SPINS: u32 = 1;
pub(crate) const YIELDS: u32 = 1;

/// Atomic number. Loom treats `SeqCst` operations as acquire and release ones; only its fences have
/// one order for all threads. So sequentially consistent operations get fences here.
#[derive(Debug, Default)]
pub(crate) struct AtomicUsize(loom::sync::atomic::AtomicUsize);

impl AtomicUsize {
    pub(crate) fn new(value: usize) -> Self {
        Self(loom::sync::atomic::AtomicUsize::new(value))
    }

    fn fenced<R>(order: Ordering, operation: impl FnOnce() -> R) -> R {
        if order != Ordering::SeqCst {
            return operation();
        }
        fence(Ordering::SeqCst);
        let result = operation();
        fence(Ordering::SeqCst);
        result
    }

    pub(crate) fn load(&self, order: Ordering) -> usize {
        Self::fenced(order, || self.0.load(order))
    }

    pub(crate) fn store(&self, value: usize, order: Ordering) {
        Self::fenced(order, || self.0.store(value, order));
    }

    pub(crate) fn fetch_add(&self, value: usize, order: Ordering) -> usize {
        Self::fenced(order, || self.0.fetch_add(value, order))
    }

    pub(crate) fn fetch_sub(&self, value: usize, order: Ordering) -> usize {
        Self::fenced(order, || self.0.fetch_sub(value, order))
    }
}

/// Mutex with the interface of `parking_lot`.
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().unwrap()))
    }
}

/// Guard of a [`Mutex`]; empty only inside [`Condvar::wait`].
pub(crate) struct MutexGuard<'a, T>(Option<LoomGuard<'a, T>>);

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().unwrap()
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().unwrap()
    }
}

/// Condition variable with the interface of `parking_lot`.
pub(crate) struct Condvar(loom::sync::Condvar);

impl Condvar {
    pub(crate) fn new() -> Self {
        Self(loom::sync::Condvar::new())
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.0.take().unwrap();
        guard.0 = Some(self.0.wait(held).unwrap());
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// Mutex without guards, with the interface of `hemiola-tables/src/sync.rs`.
pub(crate) struct RawMutex {
    held: Mutex<bool>,
    freed: Condvar,
}

impl RawMutex {
    pub(crate) fn new() -> Self {
        Self { held: Mutex::new(false), freed: Condvar::new() }
    }

    pub(crate) fn lock(&self) {
        let mut held = self.held.lock();
        while *held {
            self.freed.wait(&mut held);
        }
        *held = true;
    }

    pub(crate) fn try_lock(&self) -> bool {
        !std::mem::replace(&mut *self.held.lock(), true)
    }

    /// # Safety
    /// The calling thread holds the mutex.
    pub(crate) unsafe fn unlock(&self) {
        assert!(std::mem::take(&mut *self.held.lock()), "the mutex is held");
        self.freed.notify_all();
    }
}
