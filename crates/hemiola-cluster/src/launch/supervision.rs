//! The rules by which a job ends, without processes, signals or clocks.
//!
//! ```text
//!             a peer fails, or all but servers have ended
//!                                        grace or patience is over        2 s             2 s             3 s
//!   Running ───────────────► Leaving ───────────────────────► Terminating ────► Killing ────► Cutting ────► given up
//!      │    a signal comes      ▲  (SIGTERM to all)              ▲ (SIGKILL)      ▲ (ssh itself)
//!      ├── and is forwarded ────┘                                │                │
//!      ├── nobody reads our output (SIGTERM to all) ─────────────┘                │
//!      └── a second Ctrl-C (SIGKILL to all) ──────────────────────────────────────┘
//! ```
//!
//! A failing peer gives the others time to end by themselves: they learn of the loss over the network and print what
//! they know. After a signal they have more of it, so that they can save what they have done; if one fails meanwhile, the rest
//! have no more than after any failure. **Invariant:** outside `Running` there is always a deadline, and each deadline leads closer to the end.
//! `Running` itself has none: a job may take as long as it likes.

use hemiola_core::{Moment, Rank};
use signal_hook::consts::{SIGINT, SIGKILL, SIGTERM};
use std::time::Duration;

/// How long peers have after SIGTERM.
const TERMINATE: Duration = Duration::from_secs(2);
/// How long after SIGKILL. Only a process that waits for a broken disk or network takes that long.
const KILL: Duration = Duration::from_secs(2);
/// How long after their ssh has been killed.
const CUT: Duration = Duration::from_secs(3);

/// What is to be done to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Send it this signal.
    Signal(Rank, i32),
    /// It did not even heed SIGKILL: kill what connects us to it.
    Cut(Rank),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    Leaving { until: Moment },
    Terminating { until: Moment },
    Killing { until: Moment },
    Cutting { until: Moment },
    GivenUp,
}

/// The state of a job.
#[derive(Debug)]
pub(super) struct Supervision {
    /// What peers have after a failure.
    grace: Duration,
    /// What they have after a signal.
    patience: Duration,
    /// The last so many peers only serve the others.
    servers: usize,
    phase: Phase,
    alive: Vec<bool>,
    /// Signals sent to each peer so far.
    sent: Vec<Vec<i32>>,
    interrupted: Option<i32>,
    output_closed: bool,
}

impl Supervision {
    /// A job of `size` peers, all alive.
    pub(super) fn new(size: usize, grace: Duration, patience: Duration) -> Self {
        Self {
            grace,
            patience,
            servers: 0,
            phase: Phase::Running,
            alive: vec![true; size],
            sent: vec![Vec::new(); size],
            interrupted: None,
            output_closed: false,
        }
    }

    /// The last so many peers end when the others have. They learn of it by themselves if the others have ever met them; otherwise they are told.
    pub(super) fn with_servers(mut self, servers: usize) -> Self {
        self.servers = servers;
        self
    }

    /// A peer has ended.
    pub(super) fn ended(&mut self, rank: Rank, failed: bool, now: Moment) {
        self.alive[rank.index()] = false;
        let until = now + self.grace;
        match self.phase {
            Phase::Running if failed || self.only_servers_are_left() => self.phase = Phase::Leaving { until },
            Phase::Leaving { until: before } if failed => self.phase = Phase::Leaving { until: until.min(before) },
            _ => {}
        }
    }

    fn only_servers_are_left(&self) -> bool {
        self.servers > 0 && !self.alive[..self.alive.len() - self.servers].contains(&true)
    }

    /// The launcher was sent `signal`.
    pub(super) fn interrupt(&mut self, signal: i32, now: Moment) -> Vec<Effect> {
        let again = self.interrupted == Some(SIGINT) && signal == SIGINT;
        self.interrupted.get_or_insert(signal);
        if again {
            return self.kill(now);
        }
        if self.phase == Phase::Running {
            self.phase = Phase::Leaving { until: now + self.patience };
        }
        self.signal_all(signal)
    }

    /// Nobody reads the output any more.
    pub(super) fn output_closed(&mut self, now: Moment) -> Vec<Effect> {
        self.output_closed = true;
        match self.phase {
            Phase::Running | Phase::Leaving { .. } => self.terminate(now),
            _ => Vec::new(),
        }
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, now: Moment) -> Vec<Effect> {
        match self.phase {
            Phase::Leaving { until } if now >= until => self.terminate(now),
            Phase::Terminating { until } if now >= until => self.kill(now),
            Phase::Killing { until } if now >= until => {
                self.phase = Phase::Cutting { until: now + CUT };
                self.alive().map(Effect::Cut).collect()
            }
            Phase::Cutting { until } if now >= until => {
                self.phase = Phase::GivenUp;
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// When [`tick`](Self::tick) has something to do next.
    pub(super) fn deadline(&self) -> Option<Moment> {
        match self.phase {
            Phase::Running | Phase::GivenUp => None,
            Phase::Leaving { until }
            | Phase::Terminating { until }
            | Phase::Killing { until }
            | Phase::Cutting { until } => Some(until),
        }
    }

    /// Whether there is nothing left to wait for.
    pub(super) fn is_over(&self) -> bool {
        self.phase == Phase::GivenUp || !self.alive.contains(&true)
    }

    /// The peers that have not ended.
    pub(super) fn alive(&self) -> impl Iterator<Item = Rank> {
        Rank::all(self.alive.len()).filter(|rank| self.alive[rank.index()])
    }

    /// The signals a peer has been sent.
    pub(super) fn sent(&self, rank: Rank) -> &[i32] {
        &self.sent[rank.index()]
    }

    /// The first signal the launcher was sent.
    pub(super) fn interrupted(&self) -> Option<i32> {
        self.interrupted
    }

    /// Whether the output was closed.
    pub(super) fn is_output_closed(&self) -> bool {
        self.output_closed
    }

    fn terminate(&mut self, now: Moment) -> Vec<Effect> {
        self.phase = Phase::Terminating { until: now + TERMINATE };
        self.signal_all(SIGTERM)
    }

    fn kill(&mut self, now: Moment) -> Vec<Effect> {
        if !matches!(self.phase, Phase::Killing { .. } | Phase::Cutting { .. } | Phase::GivenUp) {
            self.phase = Phase::Killing { until: now + KILL };
        }
        self.signal_all(SIGKILL)
    }

    fn signal_all(&mut self, signal: i32) -> Vec<Effect> {
        let alive: Vec<_> = self.alive().collect();
        for rank in &alive {
            self.sent[rank.index()].push(signal);
        }
        alive.into_iter().map(|rank| Effect::Signal(rank, signal)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use signal_hook::consts::SIGHUP;

    const GRACE: Duration = Duration::from_secs(3);
    const PATIENCE: Duration = Duration::from_mins(1);

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(seconds)
    }

    fn signals(signal: i32, ranks: &[u32]) -> Vec<Effect> {
        ranks.iter().map(|rank| Effect::Signal(Rank::new(*rank), signal)).collect()
    }

    #[test]
    fn servers_that_stay_behind_are_told_to_end() {
        let mut job = Supervision::new(3, GRACE, PATIENCE).with_servers(1);
        job.ended(Rank::new(0), false, Moment::ZERO);
        assert_eq!(job.deadline(), None, "the program still runs");
        job.ended(Rank::new(1), false, Moment::ZERO);
        assert_eq!(job.deadline(), Some(Moment::ZERO + GRACE));
        assert_eq!(job.tick(Moment::ZERO + GRACE), [Effect::Signal(Rank::new(2), SIGTERM)]);
    }

    #[test]
    fn a_job_that_ends_well_has_no_deadline() {
        let mut job = Supervision::new(2, GRACE, PATIENCE);
        job.ended(Rank::new(1), false, at(5));
        assert_eq!((job.deadline(), job.is_over()), (None, false));
        job.ended(Rank::new(0), false, at(1_000_000));
        assert!(job.is_over());
    }

    #[test]
    fn a_failure_ends_the_others_step_by_step() {
        let mut job = Supervision::new(3, GRACE, PATIENCE);
        job.ended(Rank::new(1), true, at(10));
        assert_eq!(job.deadline(), Some(at(13)));
        assert_eq!(job.tick(at(12)), []);
        assert_eq!(job.tick(at(13)), signals(SIGTERM, &[0, 2]));
        job.ended(Rank::new(0), true, at(14));
        assert_eq!(job.deadline(), Some(at(15)), "a victim does not prolong the end");
        assert_eq!(job.tick(at(15)), signals(SIGKILL, &[2]));
        assert_eq!(job.tick(at(17)), [Effect::Cut(Rank::new(2))]);
        assert!(!job.is_over());
        assert_eq!(job.tick(at(20)), []);
        assert!(job.is_over());
        assert_eq!(job.sent(Rank::new(0)), [SIGTERM]);
        assert_eq!(job.sent(Rank::new(1)), [0; 0]);
    }

    #[test]
    fn a_signal_is_forwarded_and_a_second_interrupt_kills() {
        let mut job = Supervision::new(2, GRACE, PATIENCE);
        assert_eq!(job.interrupt(SIGINT, at(1)), signals(SIGINT, &[0, 1]));
        assert_eq!(job.deadline(), Some(at(61)));
        assert_eq!(job.interrupt(SIGINT, at(2)), signals(SIGKILL, &[0, 1]));
        assert_eq!(job.interrupted(), Some(SIGINT));
        assert_eq!(job.deadline(), Some(at(4)));
    }

    #[test]
    fn a_hang_up_that_comes_twice_does_not_kill() {
        let mut job = Supervision::new(1, GRACE, PATIENCE);
        assert_eq!(job.interrupt(SIGHUP, at(1)), signals(SIGHUP, &[0]));
        assert_eq!(job.interrupt(SIGHUP, at(1)), signals(SIGHUP, &[0]));
        assert_eq!(job.deadline(), Some(at(61)), "nor does it prolong the end");
    }

    #[test]
    fn a_failure_after_a_signal_leaves_the_others_no_more_than_any_failure() {
        let mut job = Supervision::new(3, GRACE, PATIENCE);
        job.interrupt(SIGINT, at(1));
        job.ended(Rank::new(0), false, at(10));
        assert_eq!(job.deadline(), Some(at(61)), "one that ends well hurries nobody");
        job.ended(Rank::new(1), true, at(20));
        assert_eq!(job.tick(at(23)), signals(SIGTERM, &[2]));
    }

    #[test]
    fn a_closed_output_terminates_at_once() {
        let mut job = Supervision::new(2, GRACE, PATIENCE);
        assert_eq!(job.output_closed(at(1)), signals(SIGTERM, &[0, 1]));
        assert_eq!(job.deadline(), Some(at(3)));
        assert_eq!(job.output_closed(at(2)), []);
    }

    #[test]
    fn many_interrupts_do_not_put_the_end_off() {
        let mut job = Supervision::new(1, GRACE, PATIENCE);
        job.interrupt(SIGINT, at(1));
        for second in 2..10 {
            job.interrupt(SIGINT, at(second));
            job.tick(at(second));
        }
        assert!(job.is_over(), "{job:?}");
    }
}
