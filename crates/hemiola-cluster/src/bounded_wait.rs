//! Blocking waits on a condition variable, with a deadline, a reason and a failure check.
//!
//! All threads of a peer that wait for shared state wait here. A wait is registered, so that stall
//! reports name it, and ends in one of three ways: the condition holds, the condition reports a
//! failure, or the deadline of the cluster passes without progress of the awaited peers. **Invariant:** the condition is checked before
//! the first sleep and after every wake-up, always under the lock of the state. A thread that
//! changes the state under that lock and then notifies is therefore never missed.

use crate::cluster::Cluster;
use crate::error::Result;
use crate::peer_context::PeerContext;
use crate::peer_handle::PeerHandle;
use crate::waits::WaitReason;
use hemiola_core::{Moment, RECHECK_INTERVAL, Rank, Waiter};
use parking_lot::{Condvar, MutexGuard};
use std::fmt;
use std::time::Duration;

/// Description of a wait, for stall reports and for the error at the deadline.
#[derive(Clone, Copy)]
pub struct WaitContext<'a> {
    waiter: Waiter,
    reason: WaitReason,
    peer: Option<Rank>,
    details: &'a dyn Fn() -> String,
}

impl<'a> WaitContext<'a> {
    /// Describes a wait of `waiter`, for a peer if there is a single one.
    #[must_use]
    pub fn new(waiter: Waiter, reason: WaitReason, peer: Option<Rank>) -> Self {
        Self { waiter, reason, peer, details: &String::new }
    }

    /// Adds a description of the awaited state, which is evaluated at the deadline only.
    #[must_use]
    pub fn with_details(self, details: &'a dyn Fn() -> String) -> Self {
        Self { details, ..self }
    }
}

impl fmt::Debug for WaitContext<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { waiter, reason, peer, .. } = self;
        formatter
            .debug_struct("WaitContext")
            .field("waiter", waiter)
            .field("reason", reason)
            .field("peer", peer)
            .finish()
    }
}

impl PeerHandle {
    /// Returns the time until a wait for `peer` (`None`: for no peer in particular) that began at
    /// `since` reaches the deadline of the cluster; zero if it has. For threads that do not block on
    /// a condition variable. Progress of the peers that the wait depends on puts the deadline off,
    /// so callers ask again when the time is over.
    #[must_use]
    pub fn time_left(&self, since: Moment, peer: Option<Rank>) -> Duration {
        self.context().time_left(since, peer)
    }

    /// Blocks on `changed` while `blocked` returns true. An error of `blocked` ends the wait.
    pub fn wait_while<T>(
        &self,
        changed: &Condvar,
        state: &mut MutexGuard<'_, T>,
        wait: WaitContext<'_>,
        blocked: impl FnMut(&mut T) -> Result<bool>,
    ) -> Result<()> {
        wait_while(self.context(), changed, state, wait, blocked)
    }
}

impl Cluster {
    /// Blocks on `changed` while `blocked` returns true. An error of `blocked` ends the wait.
    pub fn wait_while<T>(
        &self,
        changed: &Condvar,
        state: &mut MutexGuard<'_, T>,
        wait: WaitContext<'_>,
        blocked: impl FnMut(&mut T) -> Result<bool>,
    ) -> Result<()> {
        wait_while(self.context(), changed, state, wait, blocked)
    }
}

fn wait_while<T>(
    context: &PeerContext,
    changed: &Condvar,
    state: &mut MutexGuard<'_, T>,
    wait: WaitContext<'_>,
    mut blocked: impl FnMut(&mut T) -> Result<bool>,
) -> Result<()> {
    if !blocked(state)? {
        return Ok(());
    }
    let _waiting = context.waits.enter(wait.waiter, wait.reason, wait.peer);
    let start = context.env.now();
    loop {
        let left = context.time_left(start, wait.peer);
        if left.is_zero() {
            return Err(context.timed_out(&wait.reason, &(wait.details)()));
        }
        changed.wait_for(state, left.min(RECHECK_INTERVAL));
        if !blocked(state)? {
            return Ok(());
        }
    }
}
