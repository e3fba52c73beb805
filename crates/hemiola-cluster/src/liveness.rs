//! Who lives: a verdict from times alone, without threads or sockets.
//!
//! A peer is lost when nothing has been heard of it for the deadline. **Invariant:** a verdict is never based on time
//! this peer itself was not running: if it was suspended (a laptop's lid, a debugger, an overloaded host), everyone
//! gets a fresh deadline from the moment it woke.

use hemiola_core::{Moment, Rank};
use std::time::Duration;

/// What to do now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// A heartbeat is due.
    pub(crate) beat: bool,
    /// Peers that have been silent too long, and how long.
    pub(crate) silent: Vec<(Rank, Duration)>,
    /// When to look again at the latest.
    pub(crate) next: Moment,
}

/// Watches the peers of a job.
#[derive(Debug)]
pub(crate) struct Liveness {
    silence: Duration,
    interval: Duration,
    /// When the next heartbeat is due.
    due: Moment,
    /// When this was last asked.
    asked: Moment,
    /// Silence is counted from here at the earliest.
    floor: Moment,
}

impl Liveness {
    pub(crate) fn new(silence: Duration, interval: Duration, now: Moment) -> Self {
        Self { silence, interval, due: now, asked: now, floor: now }
    }

    /// `heard` gives, for every peer still watched, when it was last heard of.
    pub(crate) fn look(&mut self, now: Moment, heard: impl Iterator<Item = (Rank, Moment)>) -> Verdict {
        if now - self.asked > self.silence / 2 {
            self.floor = now;
        }
        self.asked = now;
        let beat = now >= self.due;
        if beat {
            self.due = now + self.interval;
        }
        let mut silent = Vec::new();
        let mut next = self.due;
        for (rank, last) in heard {
            let end = last.max(self.floor) + self.silence;
            if now >= end {
                silent.push((rank, now - last));
            } else {
                next = next.min(end);
            }
        }
        Verdict { beat, silent, next }
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
            let verdict = liveness.look(now, std::iter::once((peer, at(2.5))));
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
        assert!(liveness.look(at(0.0), std::iter::empty()).beat);
        assert!(!liveness.look(at(0.9), std::iter::empty()).beat);
        assert!(liveness.look(at(1.0), std::iter::empty()).beat);
    }

    #[test]
    fn nobody_is_blamed_for_time_we_were_suspended() {
        let mut liveness = watch();
        let peer = Rank::new(1);
        liveness.look(at(1.0), std::iter::once((peer, at(0.5))));
        let verdict = liveness.look(at(61.0), std::iter::once((peer, at(0.5))));
        assert!(verdict.silent.is_empty());
        for second in 62..71 {
            assert!(liveness.look(at(f64::from(second)), std::iter::once((peer, at(0.5)))).silent.is_empty());
        }
        assert_eq!(liveness.look(at(71.0), std::iter::once((peer, at(0.5)))).silent.len(), 1);
    }
}
