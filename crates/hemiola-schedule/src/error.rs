//! What can go wrong in a schedule, with the facts in fields.

use hemiola_core::{ErrorKind, Rank};
use serde::{Deserialize, Serialize};

/// Why a scheduled program failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Error {
    /// A job panicked.
    #[error("job {job} panicked in round {round} on peer {rank}: {message}")]
    Job {
        /// The job.
        job: String,
        /// The round, or the rotation.
        round: u64,
        /// The peer.
        rank: Rank,
        /// What it said.
        message: String,
    },
    /// A schedule named jobs that disturb each other, where that was to be a mistake.
    #[error(
        "the schedule of round {round} has jobs that must not run at once: {overlap}; let the later one wait (`Conflicts::Avoid`), or mend the schedule"
    )]
    Overlap {
        /// The round.
        round: u64,
        /// Both jobs.
        overlap: String,
    },
    /// A schedule named nothing.
    #[error(
        "the schedule named no job for round {round}, and none is under way; a schedule with nothing left to do ends through its watcher"
    )]
    NoJobs {
        /// The round.
        round: u64,
    },
    /// A schedule depends on more than it may.
    #[error(
        "peer {rank} scheduled other jobs than peer {here} for round {round}; `schedule` and `aggregate` may depend only on what all peers share"
    )]
    Diverged {
        /// The round.
        round: u64,
        /// The peer that notices.
        here: Rank,
        /// The other.
        rank: Rank,
    },
    /// Peers that run it differently.
    #[error("peer {rank} runs the schedule with {there}, peer 0 with {here}; every peer must ask for the same")]
    Differs {
        /// The peer.
        rank: Rank,
        /// Settings of peer 0.
        here: String,
        /// Settings of that peer.
        there: String,
    },
    /// Something else failed on another peer, and it said so.
    #[error("peer {rank} could not go on with round {round}: {reason}")]
    Elsewhere {
        /// The round.
        round: u64,
        /// The peer.
        rank: Rank,
        /// What it said.
        reason: String,
    },
    /// A message of another peer makes no sense.
    #[error("peer {rank} sent something else than results of round {round}: {reason}")]
    Nonsense {
        /// The round.
        round: u64,
        /// The peer.
        rank: Rank,
        /// What is wrong.
        reason: String,
    },
    /// A setting that cannot be.
    #[error("{setting} cannot be {found}: {reason}")]
    Setting {
        /// Which.
        setting: String,
        /// What it was to be.
        found: String,
        /// Why not.
        reason: String,
    },
}

impl Error {
    /// Who has to act.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Nonsense { .. } => ErrorKind::World,
            _ => ErrorKind::Usage,
        }
    }
}

impl From<Error> for hemiola_cluster::Error {
    fn from(error: Error) -> Self {
        Self::Layer { kind: error.kind(), source: Box::new(error) }
    }
}
