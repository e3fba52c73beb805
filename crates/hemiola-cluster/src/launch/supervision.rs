//! Supervision rules: the shutdown of a job as a state machine, without processes, signals or clocks.
//!
//! ```text
//!    a peer fails, or all but servers have ended
//!                            timeout passes           2 s            2 s               3 s
//!   Running ─────────► Leaving ────────► Terminating ────► Killing ────► Disconnecting ────► Abandoned
//!      │  a signal arrives  ▲  (SIGTERM to all)  ▲ (SIGKILL)  ▲ (kills ssh)
//!      ├─ and is forwarded ─┘                    │            │
//!      ├─ output reader is gone (SIGTERM to all) ┘            │
//!      └─ a second Ctrl-C (SIGKILL to all) ───────────────────┘
//! ```
//!
//! See shutdown.md of this crate, section Launcher.
//!
//! **Invariant:** outside `Running` there is always a deadline, and each deadline leads closer to the
//! end. `Running` itself has none: a job may take as long as it likes.

use hemiola_core::{Moment, Rank};
use signal_hook::consts::{SIGINT, SIGKILL, SIGTERM};
use std::time::Duration;

/// Time that peers have after SIGTERM.
const TERMINATE_TIMEOUT: Duration = Duration::from_secs(2);
/// Time that peers have after SIGKILL. Only a process that waits for a broken disk or network takes
/// that long.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);
/// Time that peers have after their ssh has been killed.
const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Action that the supervisor requests for a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SupervisionAction {
    /// Send this signal to the peer.
    Signal(Rank, i32),
    /// The peer did not end after SIGKILL: kill the local process that connects to it.
    Disconnect(Rank),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SupervisionPhase {
    Running,
    Leaving { until: Moment },
    Terminating { until: Moment },
    Killing { until: Moment },
    Disconnecting { until: Moment },
    Abandoned,
}

/// State of a supervised job.
#[derive(Debug)]
pub(super) struct Supervision {
    /// Time that peers have after a failure.
    grace: Duration,
    /// Time that peers have after a signal.
    shutdown_timeout: Duration,
    /// Number of dedicated servers, which have the highest ranks.
    servers: usize,
    phase: SupervisionPhase,
    alive: Vec<bool>,
    /// Signals sent to each peer so far.
    sent: Vec<Vec<i32>>,
    interrupted: Option<i32>,
    output_closed: bool,
}

impl Supervision {
    /// Creates the state of a job of `size` peers, all alive.
    pub(super) fn new(size: usize, grace: Duration, shutdown_timeout: Duration) -> Self {
        Self {
            grace,
            shutdown_timeout,
            servers: 0,
            phase: SupervisionPhase::Running,
            alive: vec![true; size],
            sent: vec![Vec::new(); size],
            interrupted: None,
            output_closed: false,
        }
    }

    /// Declares the last peers as servers, which end after the others. They learn of the end by
    /// themselves if the others have ever connected to them; otherwise they are signalled.
    pub(super) fn with_servers(mut self, servers: usize) -> Self {
        self.servers = servers;
        self
    }

    /// Records the exit of a peer.
    pub(super) fn ended(&mut self, rank: Rank, failed: bool, now: Moment) {
        self.alive[rank.index()] = false;
        let until = now + self.grace;
        match self.phase {
            SupervisionPhase::Running if failed || self.only_servers_are_left() => {
                self.phase = SupervisionPhase::Leaving { until }
            }
            SupervisionPhase::Leaving { until: before } if failed => {
                self.phase = SupervisionPhase::Leaving { until: until.min(before) }
            }
            _ => {}
        }
    }

    fn only_servers_are_left(&self) -> bool {
        self.servers > 0 && !self.alive[..self.alive.len() - self.servers].contains(&true)
    }

    /// Handles a signal to the launcher.
    pub(super) fn interrupt(&mut self, signal: i32, now: Moment) -> Vec<SupervisionAction> {
        let again = self.interrupted == Some(SIGINT) && signal == SIGINT;
        self.interrupted.get_or_insert(signal);
        if again {
            return self.kill(now);
        }
        if self.phase == SupervisionPhase::Running {
            self.phase = SupervisionPhase::Leaving { until: now + self.shutdown_timeout };
        }
        self.signal_all(signal)
    }

    /// Handles the loss of the output's reader.
    pub(super) fn output_closed(&mut self, now: Moment) -> Vec<SupervisionAction> {
        self.output_closed = true;
        match self.phase {
            SupervisionPhase::Running | SupervisionPhase::Leaving { .. } => self.terminate(now),
            _ => Vec::new(),
        }
    }

    /// Handles deadlines that have passed.
    pub(super) fn tick(&mut self, now: Moment) -> Vec<SupervisionAction> {
        match self.phase {
            SupervisionPhase::Leaving { until } if now >= until => self.terminate(now),
            SupervisionPhase::Terminating { until } if now >= until => self.kill(now),
            SupervisionPhase::Killing { until } if now >= until => {
                self.phase = SupervisionPhase::Disconnecting { until: now + DISCONNECT_TIMEOUT };
                self.alive().map(SupervisionAction::Disconnect).collect()
            }
            SupervisionPhase::Disconnecting { until } if now >= until => {
                self.phase = SupervisionPhase::Abandoned;
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the time at which [`tick`](Self::tick) has an effect next.
    pub(super) fn deadline(&self) -> Option<Moment> {
        match self.phase {
            SupervisionPhase::Running | SupervisionPhase::Abandoned => None,
            SupervisionPhase::Leaving { until }
            | SupervisionPhase::Terminating { until }
            | SupervisionPhase::Killing { until }
            | SupervisionPhase::Disconnecting { until } => Some(until),
        }
    }

    /// Returns true if there is nothing left to wait for.
    pub(super) fn is_finished(&self) -> bool {
        self.phase == SupervisionPhase::Abandoned || !self.alive.contains(&true)
    }

    /// Returns the peers that have not ended.
    pub(super) fn alive(&self) -> impl Iterator<Item = Rank> {
        Rank::all(self.alive.len()).filter(|rank| self.alive[rank.index()])
    }

    /// Returns the signals that a peer has been sent.
    pub(super) fn sent(&self, rank: Rank) -> &[i32] {
        &self.sent[rank.index()]
    }

    /// Returns the first signal that the launcher received.
    pub(super) fn interrupted(&self) -> Option<i32> {
        self.interrupted
    }

    /// Returns true if the output's reader is gone.
    pub(super) fn is_output_closed(&self) -> bool {
        self.output_closed
    }

    fn terminate(&mut self, now: Moment) -> Vec<SupervisionAction> {
        self.phase = SupervisionPhase::Terminating { until: now + TERMINATE_TIMEOUT };
        self.signal_all(SIGTERM)
    }

    fn kill(&mut self, now: Moment) -> Vec<SupervisionAction> {
        if !matches!(
            self.phase,
            SupervisionPhase::Killing { .. } | SupervisionPhase::Disconnecting { .. } | SupervisionPhase::Abandoned
        ) {
            self.phase = SupervisionPhase::Killing { until: now + KILL_TIMEOUT };
        }
        self.signal_all(SIGKILL)
    }

    fn signal_all(&mut self, signal: i32) -> Vec<SupervisionAction> {
        let alive: Vec<_> = self.alive().collect();
        for rank in &alive {
            self.sent[rank.index()].push(signal);
        }
        alive.into_iter().map(|rank| SupervisionAction::Signal(rank, signal)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use signal_hook::consts::SIGHUP;

    const GRACE: Duration = Duration::from_secs(3);
    const SHUTDOWN_TIMEOUT: Duration = Duration::from_mins(1);

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(seconds)
    }

    fn signals(signal: i32, ranks: &[u32]) -> Vec<SupervisionAction> {
        ranks.iter().map(|rank| SupervisionAction::Signal(Rank::new(*rank), signal)).collect()
    }

    #[test]
    fn remaining_servers_are_terminated() {
        let mut job = Supervision::new(3, GRACE, SHUTDOWN_TIMEOUT).with_servers(1);
        job.ended(Rank::new(0), false, Moment::ZERO);
        assert_eq!(job.deadline(), None, "the program still runs");
        job.ended(Rank::new(1), false, Moment::ZERO);
        assert_eq!(job.deadline(), Some(Moment::ZERO + GRACE));
        assert_eq!(job.tick(Moment::ZERO + GRACE), [SupervisionAction::Signal(Rank::new(2), SIGTERM)]);
    }

    #[test]
    fn a_job_that_ends_well_has_no_deadline() {
        let mut job = Supervision::new(2, GRACE, SHUTDOWN_TIMEOUT);
        job.ended(Rank::new(1), false, at(5));
        assert_eq!((job.deadline(), job.is_finished()), (None, false));
        job.ended(Rank::new(0), false, at(1_000_000));
        assert!(job.is_finished());
    }

    #[test]
    fn a_failure_ends_the_others_step_by_step() {
        let mut job = Supervision::new(3, GRACE, SHUTDOWN_TIMEOUT);
        job.ended(Rank::new(1), true, at(10));
        assert_eq!(job.deadline(), Some(at(13)));
        assert_eq!(job.tick(at(12)), []);
        assert_eq!(job.tick(at(13)), signals(SIGTERM, &[0, 2]));
        job.ended(Rank::new(0), true, at(14));
        assert_eq!(job.deadline(), Some(at(15)), "a victim does not prolong the end");
        assert_eq!(job.tick(at(15)), signals(SIGKILL, &[2]));
        assert_eq!(job.tick(at(17)), [SupervisionAction::Disconnect(Rank::new(2))]);
        assert!(!job.is_finished());
        assert_eq!(job.tick(at(20)), []);
        assert!(job.is_finished());
        assert_eq!(job.sent(Rank::new(0)), [SIGTERM]);
        assert_eq!(job.sent(Rank::new(1)), [0; 0]);
    }

    #[test]
    fn a_signal_is_forwarded_and_a_second_interrupt_kills() {
        let mut job = Supervision::new(2, GRACE, SHUTDOWN_TIMEOUT);
        assert_eq!(job.interrupt(SIGINT, at(1)), signals(SIGINT, &[0, 1]));
        assert_eq!(job.deadline(), Some(at(61)));
        assert_eq!(job.interrupt(SIGINT, at(2)), signals(SIGKILL, &[0, 1]));
        assert_eq!(job.interrupted(), Some(SIGINT));
        assert_eq!(job.deadline(), Some(at(4)));
    }

    #[test]
    fn a_repeated_hang_up_does_not_kill() {
        let mut job = Supervision::new(1, GRACE, SHUTDOWN_TIMEOUT);
        assert_eq!(job.interrupt(SIGHUP, at(1)), signals(SIGHUP, &[0]));
        assert_eq!(job.interrupt(SIGHUP, at(1)), signals(SIGHUP, &[0]));
        assert_eq!(job.deadline(), Some(at(61)), "nor does it prolong the end");
    }

    #[test]
    fn a_failure_after_a_signal_leaves_the_others_no_more_than_any_failure() {
        let mut job = Supervision::new(3, GRACE, SHUTDOWN_TIMEOUT);
        job.interrupt(SIGINT, at(1));
        job.ended(Rank::new(0), false, at(10));
        assert_eq!(job.deadline(), Some(at(61)), "a successful end does not shorten the deadline");
        job.ended(Rank::new(1), true, at(20));
        assert_eq!(job.tick(at(23)), signals(SIGTERM, &[2]));
    }

    #[test]
    fn a_closed_output_terminates_at_once() {
        let mut job = Supervision::new(2, GRACE, SHUTDOWN_TIMEOUT);
        assert_eq!(job.output_closed(at(1)), signals(SIGTERM, &[0, 1]));
        assert_eq!(job.deadline(), Some(at(3)));
        assert_eq!(job.output_closed(at(2)), []);
    }

    #[test]
    fn repeated_interrupts_do_not_delay_the_end() {
        let mut job = Supervision::new(1, GRACE, SHUTDOWN_TIMEOUT);
        job.interrupt(SIGINT, at(1));
        for second in 2..10 {
            job.interrupt(SIGINT, at(second));
            job.tick(at(second));
        }
        assert!(job.is_finished(), "{job:?}");
    }
}
