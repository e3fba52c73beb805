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
//!
//! `hemiola-testkit/tests/loom` includes this file and checks all interleavings of a few threads.

#![expect(unsafe_code, reason = "creates references to the guarded value; each block states why it is sound")]

use crate::sync::{RawMutex, UnsafeCell};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// Lock shard of one reader. It spans two cache lines, because CPUs fetch pairs.
#[repr(align(128))]
struct LockShard(RawMutex);

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
        Self { shards: (0..readers).map(|_| LockShard(RawMutex::new())).collect(), value: UnsafeCell::new(value) }
    }

    /// Locks for reading, as reader number `reader`.
    #[inline]
    pub(crate) fn read(&self, reader: usize) -> ShardedReadGuard<'_, T> {
        let shard = &self.shards[reader];
        shard.0.lock();
        ShardedReadGuard { lock: self, shard, not_send: PhantomData }
    }

    /// Locks for writing: takes all lock shards in order.
    pub(crate) fn write(&self) -> ShardedWriteGuard<'_, T> {
        for shard in &self.shards {
            shard.0.lock();
        }
        ShardedWriteGuard { lock: self, not_send: PhantomData }
    }

    /// Locks for writing, if no lock shard is taken.
    pub(crate) fn try_write(&self) -> Option<ShardedWriteGuard<'_, T>> {
        for (at, shard) in self.shards.iter().enumerate() {
            if !shard.0.try_lock() {
                // SAFETY: these were just locked, by this thread.
                self.shards[..at].iter().for_each(|shard| unsafe { shard.0.unlock() });
                return None;
            }
        }
        Some(ShardedWriteGuard { lock: self, not_send: PhantomData })
    }
}

/// Read guard: holds one lock shard.
pub(crate) struct ShardedReadGuard<'a, T> {
    lock: &'a ShardedRwLock<T>,
    shard: &'a LockShard,
    /// The thread that locked a shard unlocks it.
    not_send: PhantomData<*const ()>,
}

impl<T> Deref for ShardedReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: one lock shard is held while this guard lives, so no writer holds all of them.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T> Drop for ShardedReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `read` locked the shard, on this thread.
        unsafe { self.shard.0.unlock() };
    }
}

/// Write guard: holds all lock shards.
pub(crate) struct ShardedWriteGuard<'a, T> {
    lock: &'a ShardedRwLock<T>,
    /// The thread that locked the shards unlocks them.
    not_send: PhantomData<*const ()>,
}

impl<T> Deref for ShardedWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: all lock shards are held, so all references come from this guard, and the borrow
        // checker covers those.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for ShardedWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`.
        self.lock.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T> Drop for ShardedWriteGuard<'_, T> {
    fn drop(&mut self) {
        for shard in &self.lock.shards {
            // SAFETY: `write` or `try_write` locked every shard.
            unsafe { shard.0.unlock() };
        }
    }
}
