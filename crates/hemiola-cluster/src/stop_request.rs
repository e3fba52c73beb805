//! Request to end a job in good order before its current pass is over.
//!
//! A program that is interrupted, or whose time is over, must not wait for the end of a long pass.
//! It sets the request of its peer; loops and training algorithms poll it between short pieces of
//! work, leave the pass on all peers together, and return [`Error::Stopped`]. A poll is a load of
//! one atomic. The monitor thread turns a time limit into a request.
//!
//! **Invariant:** peers leave a collective pass only by agreement. A request of one peer is exchanged
//! in a collective call ([`Cluster::check_stop`], [`StopPoll`]) or with the outcome of a loop, so all
//! of them get the same error at the same place.

use crate::{Cluster, Error, Result};
use hemiola_core::Moment;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Interval between the agreements of a [`StopPoll`].
const AGREEMENT_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum factor by which the number of calls between two agreements grows.
const MAX_GROWTH: u32 = 8;
/// Maximum number of calls between two agreements.
const MAX_PERIOD: u32 = 1 << 20;

/// Request of a peer to stop. Clones are handles to the same request; the default is never set.
///
/// A request is *accepted* only while a [`StopScope`] exists: the parts of a program that can leave a
/// pass open one, and the others, such as the save that follows, run to their end.
#[derive(Clone, Debug, Default)]
pub struct StopRequest(Arc<StopState>);

#[derive(Debug, Default)]
struct StopState {
    /// True if there is a request that is accepted. Relaxed: no other data depends on it.
    accepted: AtomicBool,
    pending: Mutex<PendingStop>,
}

#[derive(Debug, Default)]
struct PendingStop {
    cause: Option<StopRequestCause>,
    limit: Option<Moment>,
    /// Number of scopes.
    scopes: usize,
}

/// Cause of a request to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum StopRequestCause {
    /// A time limit is over.
    TimeLimit,
    /// The program has asked for it.
    Request,
}

/// Part of a program that can be left before its end. Open it on all peers alike.
#[derive(Debug)]
#[must_use = "requests are accepted until it is dropped"]
pub struct StopScope(StopRequest);

impl Drop for StopScope {
    fn drop(&mut self) {
        self.0.change(|pending| pending.scopes -= 1);
    }
}

impl StopRequest {
    /// Sets the request.
    pub fn request(&self) {
        self.adopt(StopRequestCause::Request);
    }

    /// Accepts requests, earlier ones included, until the scope is dropped.
    pub fn accept(&self) -> StopScope {
        self.change(|pending| pending.scopes += 1);
        StopScope(self.clone())
    }

    /// Returns true if there is a request and it is accepted: leave the pass.
    #[must_use]
    #[inline]
    pub fn is_accepted(&self) -> bool {
        self.0.accepted.load(Ordering::Relaxed)
    }

    /// Returns the cause of the request if it is accepted.
    #[must_use]
    pub fn accepted_cause(&self) -> Option<StopRequestCause> {
        if self.is_accepted() { self.cause() } else { None }
    }

    /// Returns the cause of the request, accepted or not.
    #[must_use]
    pub fn cause(&self) -> Option<StopRequestCause> {
        self.0.pending.lock().cause
    }

    /// Sets the request for the cause that another peer has.
    pub fn adopt(&self, cause: StopRequestCause) {
        self.change(|pending| pending.cause = pending.cause.max(Some(cause)));
    }

    /// Returns the time limit, as long as it is not over.
    pub(crate) fn limit(&self) -> Option<Moment> {
        self.0.pending.lock().limit
    }

    /// Sets or removes the time limit, and a request for the sake of an earlier one.
    pub(crate) fn set_limit(&self, limit: Option<Moment>) {
        self.change(|pending| {
            pending.limit = limit;
            pending.cause = pending.cause.filter(|cause| *cause != StopRequestCause::TimeLimit);
        });
    }

    /// Sets the request if the time limit is over.
    pub(crate) fn update(&self, now: Moment) {
        if self.limit().is_some_and(|limit| now >= limit) {
            self.change(|pending| {
                pending.limit = None;
                pending.cause = pending.cause.max(Some(StopRequestCause::TimeLimit));
            });
        }
    }

    fn change(&self, change: impl FnOnce(&mut PendingStop)) {
        let mut pending = self.0.pending.lock();
        change(&mut pending);
        self.0.accepted.store(pending.cause.is_some() && pending.scopes > 0, Ordering::Relaxed);
    }
}

/// Collective poll of the request, for loops of many short collective steps.
///
/// Within one peer, every call looks at the request. Several peers agree only every fifth of a
/// second: the root measures how many calls that is, and tells the others.
#[derive(Clone, Debug)]
pub struct StopPoll {
    calls_left: u32,
    period: u32,
    last: Moment,
}

impl StopPoll {
    /// Creates a poll whose first call agrees.
    #[must_use]
    pub fn new(cluster: &Cluster) -> Self {
        Self { calls_left: 1, period: 1, last: cluster.env().now() }
    }

    /// *Collective.* Returns [`Error::Stopped`] if any peer has a request, at the latest some calls
    /// after it was set.
    pub fn check(&mut self, cluster: &Cluster) -> Result<()> {
        if cluster.size() == 1 {
            return cluster.check_stop();
        }
        self.calls_left -= 1;
        if self.calls_left > 0 {
            return Ok(());
        }
        let now = cluster.env().now();
        let votes = cluster.all_gather((cluster.stop_request().accepted_cause(), self.next_period(now - self.last)))?;
        (self.period, self.last) = (votes[0].1.clamp(1, MAX_PERIOD), now);
        self.calls_left = self.period;
        adopt_any(cluster.stop_request(), votes.iter().filter_map(|(cause, _)| *cause))
    }

    /// Returns the number of calls after which [`AGREEMENT_INTERVAL`] has passed, if they take as
    /// long as those of the last period.
    fn next_period(&self, passed: Duration) -> u32 {
        let factor = AGREEMENT_INTERVAL.as_secs_f64() / passed.as_secs_f64().max(1e-9);
        let most = self.period.saturating_mul(MAX_GROWTH);
        ((f64::from(self.period) * factor) as u32).clamp(1, most)
    }
}

/// Returns an error if any peer has a request, and sets that of this peer.
fn adopt_any(own: &StopRequest, causes: impl Iterator<Item = StopRequestCause>) -> Result<()> {
    match causes.max() {
        None => Ok(()),
        Some(cause) => {
            own.adopt(cause);
            Err(Error::Stopped)
        }
    }
}

impl Cluster {
    /// Returns the request of this peer to stop.
    #[must_use]
    pub fn stop_request(&self) -> &StopRequest {
        self.monitor().stop_request()
    }

    /// Sets the moment at which the request of this peer is set by itself, or removes it.
    pub fn set_time_limit(&self, limit: Option<Moment>) {
        self.monitor().set_time_limit(limit);
    }

    /// *Collective.* Returns [`Error::Stopped`] on every peer if any of them has a request to stop.
    pub fn check_stop(&self) -> Result<()> {
        let own = self.stop_request();
        if self.size() == 1 {
            return if own.is_accepted() { Err(Error::Stopped) } else { Ok(()) };
        }
        let causes = self.all_gather(own.accepted_cause())?;
        adopt_any(own, causes.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::standalone;

    #[test]
    fn a_request_outlives_a_time_limit_and_is_accepted_in_a_scope() {
        let stop = StopRequest::default();
        let at = |seconds| Moment::ZERO + Duration::from_secs(seconds);
        stop.set_limit(Some(at(2)));
        stop.update(at(1));
        assert_eq!((stop.cause(), stop.limit()), (None, Some(at(2))));
        stop.update(at(2));
        assert_eq!((stop.cause(), stop.limit()), (Some(StopRequestCause::TimeLimit), None));
        assert!(!stop.is_accepted());
        let scope = stop.accept();
        assert!(stop.is_accepted());
        stop.set_limit(None);
        assert!(!stop.is_accepted());
        stop.clone().request();
        stop.adopt(StopRequestCause::TimeLimit);
        assert_eq!(stop.accepted_cause(), Some(StopRequestCause::Request));
        drop(scope);
        assert_eq!((stop.accepted_cause(), stop.cause()), (None, Some(StopRequestCause::Request)));
    }

    #[test]
    fn peers_stop_at_the_same_call() {
        let calls = standalone(3)
            .run(|cluster| {
                let _scope = cluster.stop_request().accept();
                let mut poll = StopPoll::new(cluster);
                for call in 0..u32::MAX {
                    if cluster.rank().index() == 2 && call == 1000 {
                        cluster.stop_request().request();
                    }
                    match poll.check(cluster) {
                        Ok(()) => {}
                        Err(Error::Stopped) => return Ok((call, cluster.stop_request().is_accepted())),
                        Err(error) => return Err(error),
                    }
                }
                unreachable!("the request is seen")
            })
            .unwrap();
        assert!(calls.iter().all(|found| *found == calls[0]) && calls[0].0 >= 1000 && calls[0].1, "{calls:?}");
    }

    #[test]
    fn the_monitor_sets_the_request_when_the_time_is_over() {
        let causes = standalone(2).run(|cluster| {
            let _scope = cluster.stop_request().accept();
            if cluster.is_root() {
                cluster.set_time_limit(Some(cluster.env().now()));
            }
            while cluster.check_stop().is_ok() {}
            Ok(cluster.stop_request().cause())
        });
        assert_eq!(causes.unwrap(), [Some(StopRequestCause::TimeLimit); 2]);
    }
}
