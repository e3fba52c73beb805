//! Barrier of the workers of a peer. The last worker to arrive runs a function while the others
//! wait.
//!
//! **Invariant:** writes of a worker before it arrives are visible to the last one, and writes of
//! the last one are visible to all when they continue, because all take the same lock.

use hemiola_cluster::{Cluster, Result, WaitContext, WaitReason};
use hemiola_core::{Waiter, WorkerId};
use parking_lot::{Condvar, Mutex};

/// Reusable barrier of `size` workers.
pub(crate) struct WorkerBarrier {
    size: usize,
    state: Mutex<BarrierState>,
    released: Condvar,
}

/// State of a barrier, behind its lock.
struct BarrierState {
    arrived: usize,
    /// Number of completed rounds.
    generation: u64,
    /// Decision of the last round: continue the pass or stop.
    proceed: bool,
}

impl WorkerBarrier {
    pub(crate) fn new(size: usize) -> Self {
        Self {
            size,
            state: Mutex::new(BarrierState { arrived: 0, generation: 0, proceed: true }),
            released: Condvar::new(),
        }
    }

    /// Waits for all workers. The last one to arrive runs `work`; all workers return its result,
    /// which is true to continue.
    pub(crate) fn wait(&self, cluster: &Cluster, worker: WorkerId, work: impl FnOnce() -> bool) -> Result<bool> {
        let mut state = self.state.lock();
        state.arrived += 1;
        if state.arrived == self.size {
            let proceed = work();
            *state = BarrierState { arrived: 0, generation: state.generation + 1, proceed };
            self.released.notify_all();
            return Ok(proceed);
        }
        let number = state.generation;
        let reason = WaitReason { operation: "the other workers", number: None, site: None };
        let wait = WaitContext::new(Waiter::Worker(worker), reason, None);
        cluster.wait_while(&self.released, &mut state, wait, |state| Ok(state.generation == number))?;
        Ok(state.proceed)
    }
}
