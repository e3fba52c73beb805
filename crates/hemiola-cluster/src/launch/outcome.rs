//! Outcome of a job, and the peer that caused a failure.
//!
//! One failing peer makes the others fail, so the first bad exit code is often a victim's. The
//! culprit is, in this order: a peer killed by a signal that the launcher did not send; a peer that
//! failed by itself, or left no status report; a peer that reports the loss of another. Among
//! equals it is the one that ended first. A peer that failed only after the launcher had signalled
//! it is never blamed.

use super::status::{StatusKind, StatusReport};
use hemiola_core::Rank;
use signal_hook::low_level::signal_name;
use std::fmt;

/// Exit of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProcessExit {
    /// The process exited with this code.
    Exited(u8),
    /// The process was killed by this signal.
    Killed(i32),
    /// Unknown: SIGKILL had no effect, or another process reaped it.
    Unknown,
}

impl ProcessExit {
    /// Returns the exit code that a shell would report.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Exited(code) => code,
            Self::Killed(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
            Self::Unknown => 128 + 9,
        }
    }
}

/// Exit of one peer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerExit {
    /// Rank of the peer.
    pub rank: Rank,
    /// Process id on this host; that of ssh for a peer on another host.
    pub pid: u32,
    /// Host of the peer, if it is not this one.
    pub host: Option<String>,
    /// Exit of the process.
    pub exit: ProcessExit,
    /// Signals that the launcher had sent to it before.
    pub signals_sent: Vec<i32>,
    /// Status report that it left.
    pub status: Option<StatusReport>,
}

impl PeerExit {
    /// Returns the suspicion that this peer is the culprit; lower is more likely. `None` if it is
    /// not to blame.
    fn suspicion(&self) -> Option<u8> {
        match (self.exit, &self.status) {
            (ProcessExit::Exited(0), _) => None,
            (ProcessExit::Killed(signal), _) if !self.signals_sent.contains(&signal) => Some(0),
            _ if !self.signals_sent.is_empty() => None,
            (_, Some(StatusReport { kind: StatusKind::LostPeer, .. })) => Some(2),
            _ => Some(1),
        }
    }
}

/// Describes the exit of the peer, as in `peer 2 (pid 4711) was killed by signal 9 (SIGKILL)`.
impl fmt::Display for PeerExit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Some(host) => write!(formatter, "peer {} on {host}", self.rank)?,
            None => write!(formatter, "peer {} (pid {})", self.rank, self.pid)?,
        }
        match (self.exit, &self.status) {
            (ProcessExit::Exited(code), Some(status)) => {
                write!(formatter, " exited with code {code}: {}", status.message)
            }
            (ProcessExit::Exited(255), None) if self.host.is_some() => formatter
                .write_str(" exited with code 255, the code of ssh when it cannot log in or loses its connection"),
            (ProcessExit::Exited(code), None) => write!(formatter, " exited with code {code}"),
            (ProcessExit::Killed(signal), _) => {
                let name = signal_name(signal).unwrap_or("unknown");
                write!(formatter, " was killed by signal {signal} ({name})")
            }
            (ProcessExit::Unknown, _) => formatter.write_str(" was abandoned: it did not end even after SIGKILL"),
        }
    }
}

/// Outcome of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobOutcome {
    /// Exits of all peers, in the order in which they ended.
    pub exits: Vec<PeerExit>,
    /// First signal that the launcher received, if any.
    pub interrupted: Option<i32>,
    /// True if the job was terminated because the reader of its output was gone.
    pub output_closed: bool,
    /// True if lines were lost because stdout could not be written to, for instance because of a
    /// full disk.
    pub output_lost: bool,
}

impl JobOutcome {
    /// Returns the peer that made the job fail, if any.
    #[must_use]
    pub fn culprit(&self) -> Option<&PeerExit> {
        // `min_by_key` keeps the first of equals, and the exits are in order of time.
        let suspects = self.exits.iter().filter_map(|exit| Some((exit.suspicion()?, exit)));
        suspects.min_by_key(|(suspicion, _)| *suspicion).map(|(_, exit)| exit)
    }

    /// Returns the exit code of the job: the culprit's, else that of the signal that ended it (130
    /// after Ctrl-C), else 0. A closed output is not a failure.
    #[must_use]
    pub fn code(&self) -> u8 {
        match (self.culprit(), self.interrupted) {
            (Some(culprit), _) => culprit.exit.code(),
            (None, Some(signal)) => ProcessExit::Killed(signal).code(),
            (None, None) => {
                self.exits.iter().find(|peer| peer.exit == ProcessExit::Unknown).map_or(0, |peer| peer.exit.code())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(rank: u32, exit: ProcessExit) -> PeerExit {
        PeerExit { rank: Rank::new(rank), pid: 4711, host: None, exit, signals_sent: Vec::new(), status: None }
    }

    fn with_status(mut peer: PeerExit, kind: StatusKind) -> PeerExit {
        peer.status = Some(StatusReport { rank: peer.rank, kind, message: "reason".into() });
        peer
    }

    fn outcome(exits: Vec<PeerExit>) -> JobOutcome {
        JobOutcome { exits, interrupted: None, output_closed: false, output_lost: false }
    }

    fn culprit(exits: Vec<PeerExit>) -> Option<u32> {
        outcome(exits).culprit().map(|peer| peer.rank.number())
    }

    #[test]
    fn a_killed_peer_is_blamed_before_those_that_lost_it() {
        let victim = with_status(peer(0, ProcessExit::Exited(3)), StatusKind::LostPeer);
        let failed = with_status(peer(1, ProcessExit::Exited(3)), StatusKind::Failed);
        let silent = peer(2, ProcessExit::Exited(1));
        let killed = peer(3, ProcessExit::Killed(9));
        let job = vec![victim.clone(), failed.clone(), silent.clone(), killed.clone()];
        assert_eq!(culprit(job.clone()), Some(3));
        assert_eq!(outcome(job).code(), 137);
        assert_eq!(culprit(vec![victim.clone(), silent.clone(), failed.clone()]), Some(2), "the first of equals");
        assert_eq!(culprit(vec![victim.clone(), failed]), Some(1));
        assert_eq!(culprit(vec![peer(4, ProcessExit::Exited(0)), victim]), Some(0));
        assert_eq!(culprit(vec![peer(4, ProcessExit::Exited(0))]), None);
    }

    #[test]
    fn a_signalled_peer_is_not_blamed() {
        let signalled = |peer: PeerExit| PeerExit { signals_sent: vec![15], ..peer };
        assert_eq!(
            culprit(vec![signalled(peer(0, ProcessExit::Killed(15))), signalled(peer(1, ProcessExit::Exited(1)))]),
            None
        );
        assert_eq!(culprit(vec![signalled(peer(0, ProcessExit::Killed(11)))]), Some(0), "but a crash is");
    }

    #[test]
    fn the_code_of_an_interrupted_job_is_that_of_the_signal() {
        let mut job = outcome(vec![peer(0, ProcessExit::Exited(0))]);
        job.interrupted = Some(2);
        assert_eq!(job.code(), 130);
        job.exits.insert(0, peer(1, ProcessExit::Exited(7)));
        assert_eq!(job.code(), 7, "unless a peer had failed before");
    }

    #[test]
    fn exits_are_described() {
        assert_eq!(peer(2, ProcessExit::Killed(9)).to_string(), "peer 2 (pid 4711) was killed by signal 9 (SIGKILL)");
        let failed = with_status(peer(1, ProcessExit::Exited(3)), StatusKind::Failed);
        assert_eq!(failed.to_string(), "peer 1 (pid 4711) exited with code 3: reason");
        let remote = PeerExit { host: Some("b".into()), ..peer(0, ProcessExit::Exited(255)) };
        assert!(remote.to_string().starts_with("peer 0 on b exited with code 255"));
    }
}
