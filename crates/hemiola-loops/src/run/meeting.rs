//! Where all workers of a peer come together: the last one to arrive does what has to be done while nobody else works.
//!
//! **Invariant:** what any worker did before it arrived is seen by the last one, and what that one did is seen by all when
//! they go on, because all take the same lock.

use hemiola_cluster::{Cluster, Error, Reason, Result};
use hemiola_core::{Waiter, WorkerId};
use parking_lot::{Condvar, Mutex};

pub(crate) struct Meeting {
    size: usize,
    state: Mutex<State>,
    ended: Condvar,
}

struct State {
    here: usize,
    /// How many meetings have ended.
    count: u64,
    /// What the last one decided: whether to go on.
    go_on: bool,
}

impl Meeting {
    pub(crate) fn new(size: usize) -> Self {
        Self { size, state: Mutex::new(State { here: 0, count: 0, go_on: true }), ended: Condvar::new() }
    }

    /// Waits for all others. The last to arrive does `work`, whose result (whether to go on) all get.
    pub(crate) fn attend(&self, cluster: &Cluster, worker: WorkerId, work: impl FnOnce() -> bool) -> Result<bool> {
        let mut state = self.state.lock();
        state.here += 1;
        if state.here == self.size {
            let go_on = work();
            *state = State { here: 0, count: state.count + 1, go_on };
            self.ended.notify_all();
            return Ok(go_on);
        }
        let number = state.count;
        let reason = Reason { what: "the other workers", number: None, site: None };
        let _waiting = cluster.waiting(Waiter::Worker(worker), reason, None);
        let start = cluster.env().now();
        while state.count == number {
            let waited = cluster.env().now() - start;
            let Some(left) = cluster.deadlines().wait.checked_sub(waited).filter(|left| !left.is_zero()) else {
                let report = format!("\n{}", cluster.stall_report());
                return Err(Error::TimedOut { reason: reason.to_string(), waited, report });
            };
            self.ended.wait_for(&mut state, left);
        }
        Ok(state.go_on)
    }
}
