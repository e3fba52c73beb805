//! How a job ended, and whose fault it was.
//!
//! One failing peer takes the others with it, so the first bad exit code is often a victim's. The culprit is, in this
//! order: a peer killed by a signal that we did not send; one that failed by itself, or left no word; one that says it
//! lost another. Among equals it is the one that ended first. A peer that ended badly only after we had told it to end
//! is never blamed.

use super::status::{StatusKind, StatusReport};
use hemiola_core::Rank;
use signal_hook::low_level::signal_name;
use std::fmt;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// By itself, with this exit code.
    Exited(u8),
    /// By this signal.
    Killed(i32),
    /// Unknown: it was given up after SIGKILL had no effect, or someone else took note of its end.
    Stuck,
}

impl End {
    /// The exit code a shell would give it.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Exited(code) => code,
            Self::Killed(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
            Self::Stuck => 128 + 9,
        }
    }
}

/// How one peer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerEnd {
    /// Which peer.
    pub rank: Rank,
    /// Its process on this host; that of ssh if it ran on another.
    pub pid: u32,
    /// The host it ran on, if not this one.
    pub host: Option<String>,
    /// How it ended.
    pub end: End,
    /// Signals the launcher had sent it before.
    pub sent: Vec<i32>,
    /// What it said of its end.
    pub status: Option<StatusReport>,
}

impl PeerEnd {
    /// How likely this peer is the culprit; less is likelier. `None` if it is not to blame.
    fn suspicion(&self) -> Option<u8> {
        match (self.end, &self.status) {
            (End::Exited(0), _) => None,
            (End::Killed(signal), _) if !self.sent.contains(&signal) => Some(0),
            _ if !self.sent.is_empty() => None,
            (_, Some(StatusReport { kind: StatusKind::LostPeer, .. })) => Some(2),
            _ => Some(1),
        }
    }
}

/// Says which peer ended and why: `peer 2 (pid 4711) was killed by signal 9 (SIGKILL)`.
impl fmt::Display for PeerEnd {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Some(host) => write!(formatter, "peer {} on {host}", self.rank)?,
            None => write!(formatter, "peer {} (pid {})", self.rank, self.pid)?,
        }
        match (self.end, &self.status) {
            (End::Exited(code), Some(status)) => write!(formatter, " exited with code {code}: {}", status.message),
            (End::Exited(255), None) if self.host.is_some() => formatter.write_str(
                " exited with code 255, which is what ssh says when it cannot log in or loses its connection",
            ),
            (End::Exited(code), None) => write!(formatter, " exited with code {code}"),
            (End::Killed(signal), _) => {
                let name = signal_name(signal).unwrap_or("unknown");
                write!(formatter, " was killed by signal {signal} ({name})")
            }
            (End::Stuck, _) => formatter.write_str(" was given up: its end was not seen, not even after SIGKILL"),
        }
    }
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// How each peer ended, in the order in which they did.
    pub ends: Vec<PeerEnd>,
    /// The first signal the launcher was sent, if any.
    pub interrupted: Option<i32>,
    /// Whether the job was ended because nobody read its output any more.
    pub output_closed: bool,
    /// Whether lines were lost because our stdout could not be written to: a full disk, say.
    pub output_lost: bool,
}

impl Outcome {
    /// The peer that made the job fail, if one did.
    #[must_use]
    pub fn culprit(&self) -> Option<&PeerEnd> {
        // `min_by_key` keeps the first of equals, and the ends are in order of time.
        let suspects = self.ends.iter().filter_map(|end| Some((end.suspicion()?, end)));
        suspects.min_by_key(|(suspicion, _)| *suspicion).map(|(_, end)| end)
    }

    /// The exit code of the job: the culprit's, else that of the signal that ended it (130 after Ctrl-C), else 0. That
    /// nobody reads the output any more is no failure.
    #[must_use]
    pub fn code(&self) -> u8 {
        match (self.culprit(), self.interrupted) {
            (Some(culprit), _) => culprit.end.code(),
            (None, Some(signal)) => End::Killed(signal).code(),
            (None, None) => self.ends.iter().find(|end| end.end == End::Stuck).map_or(0, |end| end.end.code()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(rank: u32, end: End) -> PeerEnd {
        PeerEnd { rank: Rank::new(rank), pid: 4711, host: None, end, sent: Vec::new(), status: None }
    }

    fn with_status(mut end: PeerEnd, kind: StatusKind) -> PeerEnd {
        end.status = Some(StatusReport { rank: end.rank, kind, message: "reason".into() });
        end
    }

    fn outcome(ends: Vec<PeerEnd>) -> Outcome {
        Outcome { ends, interrupted: None, output_closed: false, output_lost: false }
    }

    fn culprit(ends: Vec<PeerEnd>) -> Option<u32> {
        outcome(ends).culprit().map(|end| end.rank.number())
    }

    #[test]
    fn a_killed_peer_is_blamed_before_those_that_lost_it() {
        let victim = with_status(end(0, End::Exited(3)), StatusKind::LostPeer);
        let failed = with_status(end(1, End::Exited(3)), StatusKind::Failed);
        let silent = end(2, End::Exited(1));
        let killed = end(3, End::Killed(9));
        let job = vec![victim.clone(), failed.clone(), silent.clone(), killed.clone()];
        assert_eq!(culprit(job.clone()), Some(3));
        assert_eq!(outcome(job).code(), 137);
        assert_eq!(culprit(vec![victim.clone(), silent.clone(), failed.clone()]), Some(2), "the first of equals");
        assert_eq!(culprit(vec![victim.clone(), failed]), Some(1));
        assert_eq!(culprit(vec![end(4, End::Exited(0)), victim]), Some(0));
        assert_eq!(culprit(vec![end(4, End::Exited(0))]), None);
    }

    #[test]
    fn what_we_ended_is_not_blamed() {
        let told = |end: PeerEnd| PeerEnd { sent: vec![15], ..end };
        assert_eq!(culprit(vec![told(end(0, End::Killed(15))), told(end(1, End::Exited(1)))]), None);
        assert_eq!(culprit(vec![told(end(0, End::Killed(11)))]), Some(0), "but a crash is");
    }

    #[test]
    fn the_code_of_an_interrupted_job_is_that_of_the_signal() {
        let mut job = outcome(vec![end(0, End::Exited(0))]);
        job.interrupted = Some(2);
        assert_eq!(job.code(), 130);
        job.ends.insert(0, end(1, End::Exited(7)));
        assert_eq!(job.code(), 7, "unless a peer had failed before");
    }

    #[test]
    fn sentences() {
        assert_eq!(end(2, End::Killed(9)).to_string(), "peer 2 (pid 4711) was killed by signal 9 (SIGKILL)");
        let failed = with_status(end(1, End::Exited(3)), StatusKind::Failed);
        assert_eq!(failed.to_string(), "peer 1 (pid 4711) exited with code 3: reason");
        let remote = PeerEnd { host: Some("b".into()), ..end(0, End::Exited(255)) };
        assert!(remote.to_string().starts_with("peer 0 on b exited with code 255"));
    }
}
