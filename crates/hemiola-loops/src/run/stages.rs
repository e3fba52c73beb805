//! How far each time block has come: which visit it waits for.
//!
//! A worker waits until its block has had all visits before its own, runs, and hands it on. **Invariant:** a stage only
//! grows, and what was written to a block before [`Stages::advance`] is seen by the thread whose
//! [`Stages::wait`] it ends, because both take the same lock. A failure wakes everybody.

use hemiola_cluster::{Cluster, Error, Reason, Result};
use hemiola_core::{Waiter, WorkerId};
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) struct Stages {
    slots: Vec<Slot>,
    /// Somebody failed: nobody needs to go on.
    stopped: AtomicBool,
}

struct Slot {
    stage: Mutex<usize>,
    changed: Condvar,
}

/// The pass has failed elsewhere.
#[derive(Debug)]
pub(crate) struct Stopped;

impl Stages {
    /// Every block at `stage`.
    pub(crate) fn new(stages: impl Iterator<Item = usize>) -> Self {
        let slot = |stage| Slot { stage: Mutex::new(stage), changed: Condvar::new() };
        Self { slots: stages.map(slot).collect(), stopped: AtomicBool::new(false) }
    }

    /// Waits until a block has come to `stage`.
    pub(crate) fn wait(
        &self,
        cluster: &Cluster,
        worker: WorkerId,
        block: usize,
        stage: usize,
    ) -> Result<std::result::Result<(), Stopped>> {
        let slot = &self.slots[block];
        let mut at = slot.stage.lock();
        if *at == stage {
            return Ok(if self.is_stopped() { Err(Stopped) } else { Ok(()) });
        }
        let reason = Reason { what: "block of a loop", number: Some(block as u64), site: None };
        let _waiting = cluster.waiting(Waiter::Worker(worker), reason, None);
        let start = cluster.env().now();
        while *at != stage {
            if self.is_stopped() {
                return Ok(Err(Stopped));
            }
            let waited = cluster.env().now() - start;
            let Some(left) = cluster.deadlines().wait.checked_sub(waited).filter(|left| !left.is_zero()) else {
                let report = format!("\n{}", cluster.stall_report());
                return Err(Error::TimedOut { reason: reason.to_string(), waited, report });
            };
            slot.changed.wait_for(&mut at, left);
        }
        Ok(if self.is_stopped() { Err(Stopped) } else { Ok(()) })
    }

    /// Says that a block has come to `stage`.
    pub(crate) fn advance(&self, block: usize, stage: usize) {
        let slot = &self.slots[block];
        *slot.stage.lock() = stage;
        slot.changed.notify_all();
    }

    /// Wakes everybody: the pass has failed.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        for slot in &self.slots {
            // Taking the lock waits for a thread that has just looked to fall asleep, so that it hears the call.
            drop(slot.stage.lock());
            slot.changed.notify_all();
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }
}
