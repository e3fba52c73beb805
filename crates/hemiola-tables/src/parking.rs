//! Workers that wait, and why everything ends.
//!
//! Each worker has a slot that counts what it waits for: one for each shard that it asked in vain. A shard may answer before the worker has
//! come to wait, so the count may be below zero for a moment. The *gate* is for those who wait for clocks to move. **Invariant:** a failure is
//! written down before anybody is woken, and looked at after every wake-up; so no wait outlasts it.

use crate::error::Failure;
use hemiola_cluster::{Link, Reason, Result};
use hemiola_core::{Rank, Waiter, WorkerId};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// How long a waiter goes without looking around; it is woken for everything it needs to know.
const LOOK_AROUND: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
struct Slot {
    owed: Mutex<i64>,
    wake: Condvar,
}

/// What somebody waits for, for reports.
#[derive(Clone, Copy)]
pub(crate) struct Wait<'a> {
    pub(crate) waiter: Waiter,
    pub(crate) reason: Reason,
    pub(crate) peer: Option<Rank>,
    /// What is known of the table, for the error at the deadline.
    pub(crate) details: &'a dyn Fn() -> String,
}

#[derive(Debug)]
pub(crate) struct Parking {
    table: String,
    link: Link,
    slots: Vec<Slot>,
    gate: Mutex<()>,
    moved: Condvar,
    failure: Mutex<Option<Failure>>,
}

impl Parking {
    pub(crate) fn new(table: &str, link: Link, workers: usize) -> Self {
        let slots = (0..workers).map(|_| Slot::default()).collect();
        let (gate, moved, failure) = (Mutex::new(()), Condvar::new(), Mutex::new(None));
        Self { table: table.to_owned(), link, slots, gate, moved, failure }
    }

    /// Ends everything. The first reason counts.
    pub(crate) fn fail(&self, failure: Failure) {
        self.failure.lock().get_or_insert(failure);
        for slot in &self.slots {
            // Whoever has just looked is asleep once the lock is free.
            drop(slot.owed.lock());
            slot.wake.notify_all();
        }
        self.move_on();
    }

    /// An error if everything has ended.
    pub(crate) fn check(&self) -> Result<()> {
        self.failure.lock().as_ref().map_or(Ok(()), |failure| Err(failure.error(&self.table)))
    }

    /// A shard has what a worker waits for.
    pub(crate) fn wake(&self, worker: WorkerId) {
        let slot = &self.slots[worker.index()];
        *slot.owed.lock() -= 1;
        slot.wake.notify_all();
    }

    /// Waits until `asked` shards have answered.
    pub(crate) fn wait(&self, worker: WorkerId, asked: i64, wait: Wait<'_>) -> Result<()> {
        let slot = &self.slots[worker.index()];
        let mut owed = slot.owed.lock();
        *owed += asked;
        self.wait_while(&slot.wake, &mut owed, |owed| *owed > 0, wait)
    }

    /// A clock has moved.
    pub(crate) fn move_on(&self) {
        drop(self.gate.lock());
        self.moved.notify_all();
    }

    /// Waits until clocks have moved so far that `ready` holds.
    pub(crate) fn wait_until(&self, mut ready: impl FnMut() -> bool, wait: Wait<'_>) -> Result<()> {
        let mut gate = self.gate.lock();
        self.wait_while(&self.moved, &mut gate, |()| !ready(), wait)
    }

    fn wait_while<T>(
        &self,
        wake: &Condvar,
        guard: &mut MutexGuard<'_, T>,
        mut blocked: impl FnMut(&T) -> bool,
        wait: Wait<'_>,
    ) -> Result<()> {
        self.check()?;
        if !blocked(guard) {
            return Ok(());
        }
        let _waiting = self.link.waiting(wait.waiter, wait.reason, wait.peer);
        let deadline = self.link.env().now() + self.link.patience();
        while blocked(guard) {
            self.check()?;
            let left = deadline - self.link.env().now();
            if left.is_zero() {
                return Err(self.link.timed_out(&wait.reason, &(wait.details)()));
            }
            wake.wait_for(guard, left.min(LOOK_AROUND));
        }
        self.check()
    }
}
