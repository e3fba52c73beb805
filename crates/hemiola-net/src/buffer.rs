//! Pool of receive buffers.
//!
//! A fresh 64 MiB buffer costs 16,384 page faults before it holds the first byte of payload. Large
//! payloads are therefore read into buffers from a pool, which return to it when the last [`Bytes`]
//! over them is dropped. Buffers start at a multiple of 64 bytes, so that a payload of numbers can
//! be used in place. A fresh buffer is address space that the system has not backed by memory yet:
//! each page is taken when the first byte arrives in it, so a size that is announced and never sent
//! costs nothing. **Invariant:** the pool never holds more than its limit; buffers beyond it return
//! to the allocator.

use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// Payloads below this size are allocated individually: the allocator handles those well.
pub const MIN_POOLED_BYTES: usize = 64 * 1024;

/// Alignment of buffers: a cache line.
const ALIGNMENT: usize = 64;

#[derive(Debug)]
struct IdleBuffers {
    /// Idle buffers by capacity.
    idle: BTreeMap<usize, Vec<Vec<u8>>>,
    /// Total bytes in `idle`.
    bytes: usize,
    /// Maximum bytes in `idle`.
    limit: usize,
}

/// Pool of buffers. Clones share one pool.
#[derive(Clone, Debug)]
pub struct BufferPool {
    idle_buffers: Arc<Mutex<IdleBuffers>>,
}

impl BufferPool {
    /// Creates a pool that keeps at most `limit` idle bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { idle_buffers: Arc::new(Mutex::new(IdleBuffers { idle: BTreeMap::new(), bytes: 0, limit })) }
    }

    /// Returns a buffer of `length` bytes with arbitrary content, which the caller must overwrite
    /// completely.
    #[must_use]
    pub fn take(&self, length: usize) -> PooledBuffer {
        let capacity = length.max(ALIGNMENT).next_power_of_two();
        let idle = {
            let mut idle_buffers = self.idle_buffers.lock();
            let found = idle_buffers.idle.get_mut(&capacity).and_then(Vec::pop);
            if found.is_some() {
                idle_buffers.bytes -= capacity;
            }
            found
        };
        // Zeroed memory of this size comes from the system and is not touched here. A type with a
        // larger alignment would be cleared by hand, page by page.
        let bytes = idle.unwrap_or_else(|| vec![0; capacity + ALIGNMENT]);
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        PooledBuffer { bytes, start, length, pool: Arc::downgrade(&self.idle_buffers) }
    }

    /// Returns the number of idle bytes.
    #[must_use]
    pub fn idle_bytes(&self) -> usize {
        self.idle_buffers.lock().bytes
    }
}

/// Buffer borrowed from a [`BufferPool`].
#[derive(Debug)]
pub struct PooledBuffer {
    /// Memory of the buffer and room for its alignment.
    bytes: Vec<u8>,
    /// Position of the first byte that is used.
    start: usize,
    length: usize,
    pool: Weak<Mutex<IdleBuffers>>,
}

impl PooledBuffer {
    /// Returns the bytes for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }

    /// Shares the buffer; it returns to the pool when the last share is dropped.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.length]
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        let Some(pool) = self.pool.upgrade() else { return };
        let bytes = std::mem::take(&mut self.bytes);
        let capacity = bytes.len() - ALIGNMENT;
        let mut idle_buffers = pool.lock();
        if idle_buffers.bytes + capacity <= idle_buffers.limit {
            idle_buffers.bytes += capacity;
            idle_buffers.idle.entry(capacity).or_default().push(bytes);
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
        assert_eq!(pool.idle_bytes(), 0, "still shared");
        drop(share);
        assert_eq!(pool.idle_bytes(), 128 * 1024);
        assert_eq!(pool.take(70_000).into_bytes().as_ptr(), address);
        drop([pool.take(100_000), pool.take(100_000), pool.take(100_000)]);
        assert_eq!(pool.idle_bytes(), 256 * 1024);
    }

    /// Returns the memory of this process that is backed by pages, in bytes.
    #[cfg(target_os = "linux")]
    fn resident_bytes() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn an_announced_size_takes_no_memory_before_bytes_arrive() {
        let pool = BufferPool::new(0);
        let before = resident_bytes();
        let mut announced: Vec<_> = (0..4).map(|_| pool.take(1 << 30)).collect();
        announced[0].bytes_mut()[..1 << 20].fill(7);
        let grown = resident_bytes().saturating_sub(before);
        assert!(grown < 256 << 20, "4 GiB were announced, 1 MiB arrived, and {grown} bytes were taken");
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
