//! Synchronization primitives of [`fork_join`](crate::fork_join).
//!
//! The interface is the one of `loom`, so that a test can include that file with a module of this
//! name that holds loom's primitives; see `hemiola-testkit/tests/loom`.

pub(crate) use hemiola_core::UnsafeCell;
pub(crate) use parking_lot::{Condvar, Mutex};
pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicUsize, Ordering};
pub(crate) use std::thread::yield_now;

/// Spins before a waiting thread yields to others: some ten microseconds.
pub(crate) const SPINS: u32 = 200;
/// Yields before a waiting thread sleeps: some ten microseconds.
pub(crate) const YIELDS: u32 = 20;
