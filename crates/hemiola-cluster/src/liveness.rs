//! Liveness of peers: a decision from times alone, without threads or sockets.
//!
//! A peer is lost when nothing has arrived from it within the timeout. **Invariant:** the decision
//! never counts time in which this peer itself was not running: if it was suspended (a laptop's
//! lid, a debugger, an overloaded host), every peer gets a fresh deadline from the moment of waking
//! up.

use hemiola_core::{Moment, Rank};
use std::time::Duration;

/// Result of a liveness check.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LivenessVerdict {
    /// True if a heartbeat is due.
    pub(crate) heartbeat_due: bool,
    /// Peers that have been silent too long, with the duration of their silence.
    pub(crate) silent: Vec<(Rank, Duration)>,
    /// Latest time of the next check.
    pub(crate) next: Moment,
}

/// Liveness state of the peers of a job.
#[derive(Debug)]
pub(crate) struct Liveness {
    silence: Duration,
    interval: Duration,
    /// Time at which the next heartbeat is due.
    next_heartbeat: Moment,
    /// Time of the last check.
    last_check: Moment,
    /// Silence is counted from here at the earliest.
    floor: Moment,
}

impl Liveness {
    pub(crate) fn new(silence: Duration, interval: Duration, now: Moment) -> Self {
        Self { silence, interval, next_heartbeat: now, last_check: now, floor: now }
    }

    /// Checks all peers. `heard` yields, for every peer still watched, the time of its last sign of
    /// life.
    pub(crate) fn check(&mut self, now: Moment, heard: impl Iterator<Item = (Rank, Moment)>) -> LivenessVerdict {
        if now - self.last_check > self.silence / 2 {
            self.floor = now;
        }
        self.last_check = now;
        let heartbeat_due = now >= self.next_heartbeat;
        if heartbeat_due {
            self.next_heartbeat = now + self.interval;
        }
        let mut silent = Vec::new();
        let mut next = self.next_heartbeat;
        for (rank, last) in heard {
            let end = last.max(self.floor) + self.silence;
            if now >= end {
                silent.push((rank, now - last));
            } else {
                next = next.min(end);
            }
        }
        LivenessVerdict { heartbeat_due, silent, next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: f64) -> Moment {
        Moment::ZERO + Duration::from_secs_f64(seconds)
    }

    fn watch() -> Liveness {
        Liveness::new(10 * SECOND, SECOND, at(0.0))
    }

    #[test]
    fn a_silent_peer_is_lost_exactly_at_its_deadline() {
        let mut liveness = watch();
        let peer = Rank::new(1);
        let mut now = at(0.0);
        let lost = loop {
            let verdict = liveness.check(now, std::iter::once((peer, at(2.5))));
            if !verdict.silent.is_empty() {
                break (now, verdict.silent);
            }
            assert!(verdict.next > now);
            now = verdict.next;
        };
        assert_eq!(lost, (at(12.5), vec![(peer, 10 * SECOND)]));
    }

    #[test]
    fn heartbeats_keep_their_interval() {
        let mut liveness = watch();
        assert!(liveness.check(at(0.0), std::iter::empty()).heartbeat_due);
        assert!(!liveness.check(at(0.9), std::iter::empty()).heartbeat_due);
        assert!(liveness.check(at(1.0), std::iter::empty()).heartbeat_due);
    }

    #[test]
    fn suspended_time_is_not_counted_as_silence() {
        let mut liveness = watch();
        let peer = Rank::new(1);
        liveness.check(at(1.0), std::iter::once((peer, at(0.5))));
        let verdict = liveness.check(at(61.0), std::iter::once((peer, at(0.5))));
        assert!(verdict.silent.is_empty());
        for second in 62..71 {
            assert!(liveness.check(at(f64::from(second)), std::iter::once((peer, at(0.5)))).silent.is_empty());
        }
        assert_eq!(liveness.check(at(71.0), std::iter::once((peer, at(0.5)))).silent.len(), 1);
    }
}
