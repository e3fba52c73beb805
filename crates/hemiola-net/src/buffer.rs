//! Receive buffers that are used again.
//!
//! A fresh 64 MiB buffer costs 16,384 page faults before the first byte of payload is in it. Large payloads are
//! therefore read into buffers from a pool and go back there when the last [`Bytes`] over them is dropped. Buffers
//! start at a multiple of 64 bytes, so that a payload of numbers can be used where it lies. **Invariant:** the pool
//! never holds more than its limit; what is over goes back to the allocator.

use bytemuck::{Pod, Zeroable};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// Payloads below this size are allocated one by one: the allocator is good at those.
pub const POOLED_FROM: usize = 64 * 1024;

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, align(64))]
struct CacheLine([u8; 64]);

#[derive(Debug)]
struct Shelves {
    /// Idle buffers by capacity in cache lines.
    idle: BTreeMap<usize, Vec<Vec<CacheLine>>>,
    /// Bytes in `idle`.
    held: usize,
    /// Most bytes `idle` may hold.
    limit: usize,
}

/// Where buffers come from and go back to. Clones share one pool.
#[derive(Clone, Debug)]
pub struct BufferPool {
    shelves: Arc<Mutex<Shelves>>,
}

impl BufferPool {
    /// A pool that keeps at most `limit` idle bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { shelves: Arc::new(Mutex::new(Shelves { idle: BTreeMap::new(), held: 0, limit })) }
    }

    /// A buffer of `length` bytes with arbitrary content: whoever takes it overwrites all of it.
    #[must_use]
    pub fn take(&self, length: usize) -> Buffer {
        let lines = length.div_ceil(64).next_power_of_two();
        let idle = {
            let mut shelves = self.shelves.lock();
            let found = shelves.idle.get_mut(&lines).and_then(Vec::pop);
            if found.is_some() {
                shelves.held -= lines * 64;
            }
            found
        };
        let lines = idle.unwrap_or_else(|| vec![CacheLine::zeroed(); lines]);
        Buffer { lines, length, home: Arc::downgrade(&self.shelves) }
    }

    /// Bytes that lie idle now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.shelves.lock().held
    }
}

/// A buffer on loan from a [`BufferPool`].
#[derive(Debug)]
pub struct Buffer {
    lines: Vec<CacheLine>,
    length: usize,
    home: Weak<Mutex<Shelves>>,
}

impl Buffer {
    /// The bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.length]
    }

    /// Shares the buffer; it goes home when the last share is dropped.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.length]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let Some(home) = self.home.upgrade() else { return };
        let lines = std::mem::take(&mut self.lines);
        let mut shelves = home.lock();
        if shelves.held + lines.len() * 64 <= shelves.limit {
            shelves.held += lines.len() * 64;
            shelves.idle.entry(lines.len()).or_default().push(lines);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_buffer_is_used_again_and_the_limit_holds() {
        let pool = BufferPool::new(256 * 1024);
        let first = pool.take(100_000).into_bytes();
        let address = first.as_ptr();
        assert_eq!(address as usize % 64, 0);
        let share = first.slice(10..20);
        drop(first);
        assert_eq!(pool.held(), 0, "still shared");
        drop(share);
        assert_eq!(pool.held(), 128 * 1024);
        assert_eq!(pool.take(70_000).into_bytes().as_ptr(), address);
        drop([pool.take(100_000), pool.take(100_000), pool.take(100_000)]);
        assert_eq!(pool.held(), 256 * 1024);
    }

    #[test]
    fn a_buffer_may_outlive_its_pool() {
        let pool = BufferPool::new(1 << 20);
        let mut buffer = pool.take(65_536);
        drop(pool);
        buffer.bytes_mut().fill(7);
        assert!(buffer.into_bytes().iter().all(|byte| *byte == 7));
    }
}
