//! Bounded waits: the time until a waiting thread looks again, and the time at which it gives up.
//!
//! This is the policy alone, without a thread or a clock: callers pass the time in. Blocking on a
//! condition variable with this policy is `PeerHandle::wait_while` of `hemiola-cluster`.
//! **Invariant:** no sleep outlasts the deadline, and a wait that has lasted its timeout never
//! sleeps again.

use crate::Moment;
use std::time::Duration;

/// Longest sleep of a waiting thread that is woken for every change it waits for. Looking again
/// after this time is a safeguard only.
pub const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Longest sleep of a thread that waits for one of several sources, of which only some wake it.
pub const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Deadline of one wait, and the longest sleep within it.
///
/// ```
/// use hemiola_core::{BoundedWait, Moment};
/// use std::time::Duration;
/// let seconds = |seconds: u64| Moment::from_nanos(seconds * 1_000_000_000);
/// let wait = BoundedWait::new(seconds(10), Duration::from_secs(3));
/// assert_eq!(wait.next_sleep(seconds(10)), Some(Duration::from_secs(1)));
/// assert_eq!(wait.next_sleep(seconds(13)), None);
/// assert_eq!(wait.waited(seconds(13)), Duration::from_secs(3));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundedWait {
    start: Moment,
    timeout: Duration,
    recheck: Duration,
}

impl BoundedWait {
    /// Creates a wait from `start` that lasts at most `timeout`.
    #[must_use]
    pub const fn new(start: Moment, timeout: Duration) -> Self {
        Self { start, timeout, recheck: RECHECK_INTERVAL }
    }

    /// Sets the longest sleep, for threads that must poll because no change wakes them.
    #[must_use]
    pub const fn poll_every(mut self, interval: Duration) -> Self {
        self.recheck = interval;
        self
    }

    /// Returns the time to sleep before the next check, or `None` when the timeout has passed.
    #[must_use]
    pub fn next_sleep(&self, now: Moment) -> Option<Duration> {
        let left = self.timeout.saturating_sub(self.waited(now));
        (!left.is_zero()).then(|| left.min(self.recheck))
    }

    /// Returns the length of the wait so far.
    #[must_use]
    pub fn waited(&self, now: Moment) -> Duration {
        now.since(self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_add_up_to_the_timeout() {
        let millis = Duration::from_millis;
        let wait = BoundedWait::new(Moment::ZERO, millis(120)).poll_every(millis(50));
        let (mut now, mut sleeps) = (Moment::ZERO, Vec::new());
        while let Some(sleep) = wait.next_sleep(now) {
            sleeps.push(sleep);
            now = now + sleep;
        }
        assert_eq!(sleeps, [50, 50, 20].map(millis));
        assert_eq!(wait.waited(now), millis(120));
    }

    #[test]
    fn zero_timeout_never_sleeps() {
        assert_eq!(BoundedWait::new(Moment::ZERO, Duration::ZERO).next_sleep(Moment::ZERO), None);
    }
}
