//! A lock that readers do not share.
//!
//! Workers read rows all the time, and the same ones. With one lock they would pass its cache line to and fro, and two workers would read no more
//! than one. Here each reader has a *gate* of its own, on a cache line of its own; whoever changes something closes all gates. So a read costs what
//! it costs alone, and a change as many locks as there are readers.
//!
//! **Invariants.** A shared reference exists only while some gate is held, an exclusive one only while all are. Gates are taken in order, so
//! two that change something do not wait for each other.

#![expect(unsafe_code, reason = "references to what the gates guard are made here, and argued at each place")]

use parking_lot::lock_api::GuardNoSend;
use parking_lot::{Mutex, MutexGuard};
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

/// A gate. Two lines, because processors fetch pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Gate(Mutex<()>);

/// Something that many read and few change.
pub(crate) struct Readers<T> {
    gates: Box<[Gate]>,
    value: UnsafeCell<T>,
}

// SAFETY: readers on several threads have shared references to the value at a time, which `T: Sync` allows, and whoever holds all gates has the
// only reference and may as well have the value moved to its thread, which `T: Send` allows. This is what `RwLock` asks for.
unsafe impl<T: Send + Sync> Sync for Readers<T> {}

impl<T> Readers<T> {
    /// For so many readers.
    ///
    /// # Panics
    /// If there are none: nothing would be locked.
    pub(crate) fn new(readers: usize, value: T) -> Self {
        assert!(readers > 0, "a lock without gates locks nothing");
        Self { gates: (0..readers).map(|_| Gate::default()).collect(), value: UnsafeCell::new(value) }
    }

    /// To read, as reader number `reader`.
    #[inline]
    pub(crate) fn read(&self, reader: usize) -> Reading<'_, T> {
        let gate = self.gates[reader].0.lock();
        // SAFETY: one gate is held for as long as this reference is used, so nobody holds all, and there is no exclusive one.
        Reading { value: unsafe { &*self.value.get() }, _gate: gate }
    }

    /// To change.
    pub(crate) fn lock(&self) -> Changing<'_, T> {
        for gate in &self.gates {
            std::mem::forget(gate.0.lock());
        }
        Changing { readers: self }
    }

    /// To change, if nobody has it.
    pub(crate) fn try_lock(&self) -> Option<Changing<'_, T>> {
        for (at, gate) in self.gates.iter().enumerate() {
            let Some(held) = gate.0.try_lock() else {
                // SAFETY: these were locked just now, and their guards forgotten.
                self.gates[..at].iter().for_each(|gate| unsafe { gate.0.force_unlock(GuardNoSend::new()) });
                return None;
            };
            std::mem::forget(held);
        }
        Some(Changing { readers: self })
    }
}

/// Holds one gate.
pub(crate) struct Reading<'a, T> {
    value: &'a T,
    _gate: MutexGuard<'a, ()>,
}

impl<T> Deref for Reading<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value
    }
}

/// Holds all gates.
pub(crate) struct Changing<'a, T> {
    readers: &'a Readers<T>,
}

impl<T> Deref for Changing<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: all gates are held, so the only references are made from this guard, and Rust sees to those.
        unsafe { &*self.readers.value.get() }
    }
}

impl<T> DerefMut for Changing<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.readers.value.get() }
    }
}

impl<T> Drop for Changing<'_, T> {
    fn drop(&mut self) {
        for gate in &self.readers.gates {
            // SAFETY: whoever made this guard locked every gate and forgot the guards.
            unsafe { gate.0.force_unlock(GuardNoSend::new()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_changes_is_alone_and_readers_are_not() {
        let readers = Readers::new(2, 5);
        let (one, two) = (readers.read(0), readers.read(1));
        assert_eq!((*one, *two), (5, 5));
        assert!(readers.try_lock().is_none());
        drop(one);
        assert!(readers.try_lock().is_none(), "one gate is still held");
        drop(two);
        *readers.try_lock().expect("nobody has it") = 6;
        *readers.lock() += 1;
        assert_eq!(*readers.read(1), 7);
    }

    #[test]
    fn nobody_sees_half_a_change() {
        const TIMES: u64 = if cfg!(miri) { 50 } else { 20_000 };
        let readers = Readers::new(2, (0_u64, 0_u64));
        std::thread::scope(|scope| {
            for reader in 0..2 {
                let readers = &readers;
                scope.spawn(move || {
                    for _ in 0..TIMES {
                        let seen = readers.read(reader);
                        assert_eq!(seen.0, seen.1);
                    }
                });
                scope.spawn(move || {
                    for _ in 0..TIMES {
                        let mut change = readers.lock();
                        change.0 += 1;
                        change.1 += 1;
                    }
                });
            }
        });
        assert_eq!(*readers.read(0), (2 * TIMES, 2 * TIMES));
    }
}
