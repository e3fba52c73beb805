//! Stages of time blocks: the number of visits that each time block has had.
//!
//! A worker waits until its block has had all visits before its own, runs it, and passes it on.
//!
//! **Invariant:** a stage only grows. Writes to a block before [`BlockStages::advance`] are visible
//! to the thread whose [`BlockStages::wait`] returns, because both take the same lock. A failure
//! wakes all waiting threads.

use hemiola_cluster::{Cluster, Result, WaitContext, WaitReason};
use hemiola_core::{Waiter, WorkerId};
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, Ordering};

/// Stage counters of all time blocks on this peer.
pub(crate) struct BlockStages {
    counters: Vec<StageCounter>,
    /// Set when the pass has failed.
    stopped: AtomicBool,
}

/// Stage of one time block.
struct StageCounter {
    stage: Mutex<usize>,
    changed: Condvar,
}

/// The pass has failed on another worker or peer.
#[derive(Debug)]
pub(crate) struct LoopStopped;

impl BlockStages {
    /// Makes counters with the given initial stages, by time block.
    pub(crate) fn new(stages: impl Iterator<Item = usize>) -> Self {
        let slot = |stage| StageCounter { stage: Mutex::new(stage), changed: Condvar::new() };
        Self { counters: stages.map(slot).collect(), stopped: AtomicBool::new(false) }
    }

    /// Waits until a block has reached `stage`.
    pub(crate) fn wait(
        &self,
        cluster: &Cluster,
        worker: WorkerId,
        block: usize,
        stage: usize,
    ) -> Result<std::result::Result<(), LoopStopped>> {
        let slot = &self.counters[block];
        let mut at = slot.stage.lock();
        let reason = WaitReason { operation: "block of a loop", number: Some(block as u64), site: None };
        let wait = WaitContext::new(Waiter::Worker(worker), reason, None);
        cluster.wait_while(&slot.changed, &mut at, wait, |at| Ok(*at != stage && !self.is_stopped()))?;
        Ok(if self.is_stopped() { Err(LoopStopped) } else { Ok(()) })
    }

    /// Sets the stage of a block and wakes its waiters.
    pub(crate) fn advance(&self, block: usize, stage: usize) {
        let slot = &self.counters[block];
        *slot.stage.lock() = stage;
        slot.changed.notify_all();
    }

    /// Marks the pass as failed and wakes all waiters.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        for slot in &self.counters {
            // A thread that has just checked the flag still holds the lock until it waits. Taking
            // the lock here ensures that the notification reaches it.
            drop(slot.stage.lock());
            slot.changed.notify_all();
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }
}
