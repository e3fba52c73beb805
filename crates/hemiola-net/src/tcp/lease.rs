//! Lease of a connection: reading stays with assisting threads, even between their calls.
//!
//! A thread that receives message after message leaves and returns within microseconds. If the I/O
//! loop watched the socket in between, two threads would take turns where one would do. After some
//! quick returns the connection is therefore *leased*, and the loop does not watch it. A lease ends
//! when no thread has assisted for a while; the loop checks that, so it must not sleep for long
//! while a lease exists.
//!
//! **Invariant:** a loop that has loaded [`LeaseCount::any`] as false either saw all leases end, or
//! is woken by the thread that began the first one, which counts it first and wakes the loop
//! afterwards.
//!
//! `hemiola-testkit/tests/loom` includes this file and checks all interleavings.

use crate::sync::{AtomicUsize, Ordering};
use hemiola_core::Moment;
use std::time::Duration;

/// A thread that assists again within this time is likely to continue like that. Longer than it
/// takes to add and forward a large message, even if peers share a core: whenever the I/O loop
/// reads in between, two threads take turns where one would do.
const QUICK_RETURN: Duration = Duration::from_millis(1);
/// Number of quick returns in a row after which a connection is leased.
pub(crate) const LEASE_THRESHOLD: u32 = 4;
/// A leased connection returns to the I/O loop when no thread has read it for this long. The loop
/// checks at the same interval.
pub(crate) const LEASE_DURATION: Duration = Duration::from_millis(1);

/// Number of leased connections of a lane.
#[derive(Debug, Default)]
pub(crate) struct LeaseCount(AtomicUsize);

impl LeaseCount {
    /// Returns true if a connection is leased. The loop calls it before it sleeps.
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }

    /// Counts a new lease. Returns true if it is the first: the loop may be in a long sleep, and
    /// the caller has to wake it.
    #[must_use = "the loop has to be woken"]
    pub(crate) fn begin(&self) -> bool {
        self.0.fetch_add(1, Ordering::SeqCst) == 0
    }

    /// Counts the end of a lease.
    pub(crate) fn end(&self) {
        // The thread that began the lease may not have counted it yet, so the number can wrap
        // below zero until it does.
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Assistance of threads on one connection, and its lease.
#[derive(Debug, Default)]
pub(crate) struct AssistState {
    /// True while a thread assists.
    assisted: bool,
    /// True while the I/O loop leaves reading to assisting threads, even if none assists.
    leased: bool,
    /// End of the last assistance.
    last_assist: Moment,
    /// Number of quick returns in a row.
    quick_returns: u32,
}

impl AssistState {
    /// Returns true if the I/O loop reads the connection.
    pub(crate) fn loop_reads(&self) -> bool {
        !self.assisted && !self.leased
    }

    /// Notes that a thread assists from now on.
    pub(crate) fn begin_assist(&mut self, now: Moment) {
        self.assisted = true;
        let quick = now - self.last_assist < QUICK_RETURN;
        self.quick_returns = if quick { self.quick_returns.saturating_add(1) } else { 0 };
    }

    /// Notes that the thread has left. Returns true if this begins a lease, which the caller has to
    /// [count](LeaseCount::begin).
    #[must_use = "a lease has to be counted"]
    pub(crate) fn end_assist(&mut self, now: Moment) -> bool {
        self.assisted = false;
        self.last_assist = now;
        let begins = !self.leased && self.quick_returns >= LEASE_THRESHOLD;
        self.leased |= begins;
        begins
    }

    /// Ends the lease if no thread has left for a while, even if one assists: it may wait for long,
    /// and the loop need not check the time meanwhile. Returns true if it ended, which the caller
    /// has to [count](LeaseCount::end).
    #[must_use = "the end of a lease has to be counted"]
    pub(crate) fn end_lease(&mut self, now: Moment) -> bool {
        let ends = self.leased && now - self.last_assist >= LEASE_DURATION;
        self.leased &= !ends;
        ends
    }
}
