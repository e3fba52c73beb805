//! Atomic numbers of `tcp/lease.rs`. A test includes that file with a module of this name that holds
//! loom's atomics; see `hemiola-testkit/tests/loom`.

pub(crate) use std::sync::atomic::{AtomicUsize, Ordering};
