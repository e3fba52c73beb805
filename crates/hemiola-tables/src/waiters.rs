//! Waiting workers, and the propagation of failures to them.
//!
//! Each worker has a slot that counts the shards it waits for. A shard may answer before the worker
//! begins to wait, so the count may be negative for a moment. The *clock gate* is for threads that
//! wait for clocks to move. **Invariant:** a failure is stored before any waiter is woken, and
//! checked after every wake-up, so no wait outlasts it.

use crate::error::TableFailure;
use hemiola_cluster::{PeerHandle, Result, WaitContext};
use hemiola_core::WorkerId;
use parking_lot::{Condvar, Mutex, MutexGuard};

#[derive(Debug, Default)]
struct WorkerSlot {
    outstanding: Mutex<i64>,
    wake: Condvar,
}

#[derive(Debug)]
pub(crate) struct Waiters {
    table: String,
    peer_handle: PeerHandle,
    slots: Vec<WorkerSlot>,
    clock_gate: Mutex<()>,
    clock_moved: Condvar,
    failure: Mutex<Option<TableFailure>>,
}

impl Waiters {
    pub(crate) fn new(table: &str, peer_handle: PeerHandle, workers: usize) -> Self {
        let slots = (0..workers).map(|_| WorkerSlot::default()).collect();
        let (clock_gate, clock_moved, failure) = (Mutex::new(()), Condvar::new(), Mutex::new(None));
        Self { table: table.to_owned(), peer_handle, slots, clock_gate, clock_moved, failure }
    }

    /// Fails all waits, present and future. The first failure is kept.
    pub(crate) fn fail(&self, failure: TableFailure) {
        self.failure.lock().get_or_insert(failure);
        for slot in &self.slots {
            // A waiter that has just checked the failure is asleep once the lock is free.
            drop(slot.outstanding.lock());
            slot.wake.notify_all();
        }
        self.notify_clock();
    }

    /// Returns the failure, if there is one.
    pub(crate) fn check(&self) -> Result<()> {
        self.failure.lock().as_ref().map_or(Ok(()), |failure| Err(failure.error(&self.table)))
    }

    /// Records that a shard has what a worker waits for.
    pub(crate) fn wake(&self, worker: WorkerId) {
        let slot = &self.slots[worker.index()];
        *slot.outstanding.lock() -= 1;
        slot.wake.notify_all();
    }

    /// Blocks until `awaited_shards` shards have answered.
    pub(crate) fn wait(&self, worker: WorkerId, awaited_shards: i64, wait: WaitContext<'_>) -> Result<()> {
        let slot = &self.slots[worker.index()];
        let mut outstanding = slot.outstanding.lock();
        *outstanding += awaited_shards;
        self.wait_while(&slot.wake, &mut outstanding, |outstanding| *outstanding > 0, wait)
    }

    /// Wakes the threads that wait for clocks to move.
    pub(crate) fn notify_clock(&self) {
        drop(self.clock_gate.lock());
        self.clock_moved.notify_all();
    }

    /// Blocks until clocks have moved so far that `ready` returns true.
    pub(crate) fn wait_until(&self, mut ready: impl FnMut() -> bool, wait: WaitContext<'_>) -> Result<()> {
        let mut clock_gate = self.clock_gate.lock();
        self.wait_while(&self.clock_moved, &mut clock_gate, |()| !ready(), wait)
    }

    fn wait_while<T>(
        &self,
        wake: &Condvar,
        guard: &mut MutexGuard<'_, T>,
        mut blocked: impl FnMut(&T) -> bool,
        wait: WaitContext<'_>,
    ) -> Result<()> {
        self.peer_handle.wait_while(wake, guard, wait, |state| {
            let blocked = blocked(state);
            self.check()?;
            Ok(blocked)
        })
    }
}
