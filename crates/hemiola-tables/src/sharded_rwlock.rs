//! Sharded reader-writer lock, known as "big-reader" or BR lock (`brlock` of the Linux kernel) and
//! as `ShardedLock` in crossbeam.
//!
//! Workers read rows all the time, and often the same ones. A single lock would bounce its cache
//! line between cores, and two workers would read no more than one. Here each reader has a *lock
//! shard* on its own cache line, and a writer takes all of them. A read costs what it costs without
//! contention; a write costs as many locks as there are readers.
//!
//! **Invariants.** A shared reference exists only while some lock shard is held, an exclusive one
//! only while all are. Writers take the shards in order, so they cannot deadlock.

#![expect(unsafe_code, reason = "creates references to the guarded value; each block states why it is sound")]

use parking_lot::lock_api::GuardNoSend;
use parking_lot::{Mutex, MutexGuard};
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

/// Lock shard of one reader. It spans two cache lines, because CPUs fetch pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct LockShard(Mutex<()>);

/// Value that many threads read and few change.
pub(crate) struct ShardedRwLock<T> {
    shards: Box<[LockShard]>,
    value: UnsafeCell<T>,
}

// SAFETY: readers on several threads hold shared references at a time, which `T: Sync` allows. A
// writer that holds all lock shards has the only reference and may move the value to its thread,
// which `T: Send` allows. `RwLock` has the same bounds.
unsafe impl<T: Send + Sync> Sync for ShardedRwLock<T> {}

impl<T> ShardedRwLock<T> {
    /// Creates a lock for this many readers.
    ///
    /// # Panics
    /// If there are no readers: nothing would be locked.
    pub(crate) fn new(readers: usize, value: T) -> Self {
        assert!(readers > 0, "the lock needs at least one reader");
        Self { shards: (0..readers).map(|_| LockShard::default()).collect(), value: UnsafeCell::new(value) }
    }

    /// Locks for reading, as reader number `reader`.
    #[inline]
    pub(crate) fn read(&self, reader: usize) -> ShardedReadGuard<'_, T> {
        let shard = self.shards[reader].0.lock();
        // SAFETY: one lock shard is held while this reference lives, so no writer holds all of
        // them.
        ShardedReadGuard { value: unsafe { &*self.value.get() }, _shard: shard }
    }

    /// Locks for writing: takes all lock shards in order.
    pub(crate) fn write(&self) -> ShardedWriteGuard<'_, T> {
        for shard in &self.shards {
            std::mem::forget(shard.0.lock());
        }
        ShardedWriteGuard { lock: self }
    }

    /// Locks for writing, if no lock shard is taken.
    pub(crate) fn try_write(&self) -> Option<ShardedWriteGuard<'_, T>> {
        for (at, shard) in self.shards.iter().enumerate() {
            let Some(held) = shard.0.try_lock() else {
                // SAFETY: these were just locked, and their guards forgotten.
                self.shards[..at].iter().for_each(|shard| unsafe { shard.0.force_unlock(GuardNoSend::new()) });
                return None;
            };
            std::mem::forget(held);
        }
        Some(ShardedWriteGuard { lock: self })
    }
}

/// Read guard: holds one lock shard.
pub(crate) struct ShardedReadGuard<'a, T> {
    value: &'a T,
    _shard: MutexGuard<'a, ()>,
}

impl<T> Deref for ShardedReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value
    }
}

/// Write guard: holds all lock shards.
pub(crate) struct ShardedWriteGuard<'a, T> {
    lock: &'a ShardedRwLock<T>,
}

impl<T> Deref for ShardedWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: all lock shards are held, so all references come from this guard, and the borrow
        // checker covers those.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for ShardedWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for ShardedWriteGuard<'_, T> {
    fn drop(&mut self) {
        for shard in &self.lock.shards {
            // SAFETY: `write` or `try_write` locked every shard and forgot the guards.
            unsafe { shard.0.force_unlock(GuardNoSend::new()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_are_exclusive_and_readers_are_not() {
        let lock = ShardedRwLock::new(2, 5);
        let (one, two) = (lock.read(0), lock.read(1));
        assert_eq!((*one, *two), (5, 5));
        assert!(lock.try_write().is_none());
        drop(one);
        assert!(lock.try_write().is_none(), "one lock shard is still held");
        drop(two);
        *lock.try_write().expect("no guard is held") = 6;
        *lock.write() += 1;
        assert_eq!(*lock.read(1), 7);
    }

    #[test]
    fn readers_see_no_partial_write() {
        const TIMES: u64 = if cfg!(miri) { 50 } else { 20_000 };
        let lock = ShardedRwLock::new(2, (0_u64, 0_u64));
        std::thread::scope(|scope| {
            for reader in 0..2 {
                let lock = &lock;
                scope.spawn(move || {
                    for _ in 0..TIMES {
                        let seen = lock.read(reader);
                        assert_eq!(seen.0, seen.1);
                    }
                });
                scope.spawn(move || {
                    for _ in 0..TIMES {
                        let mut change = lock.write();
                        change.0 += 1;
                        change.1 += 1;
                    }
                });
            }
        });
        assert_eq!(*lock.read(0), (2 * TIMES, 2 * TIMES));
    }
}
