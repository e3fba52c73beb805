//! Errors of scheduled programs, with the facts in fields.

use hemiola_core::{ErrorKind, Rank};
use serde::{Deserialize, Serialize};

/// Reason why a scheduled program failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Error {
    /// A job of the program panicked.
    #[error("job {job} panicked in round {round} on peer {rank}: {message}")]
    JobPanicked {
        /// Debug text of the job.
        job: String,
        /// Number of the round or rotation.
        round: u64,
        /// Peer on which the job ran.
        rank: Rank,
        /// Panic message of the job.
        message: String,
    },
    /// A schedule proposed conflicting jobs under
    /// [`ConflictPolicy::Refuse`](crate::ConflictPolicy::Refuse).
    #[error(
        "the schedule of round {round} has conflicting jobs: {conflict}; use `ConflictPolicy::Avoid` to delay the later one, or fix the schedule"
    )]
    JobConflict {
        /// Number of the round.
        round: u64,
        /// Both jobs and their coupling.
        conflict: String,
    },
    /// A schedule proposed no candidate, and no job is in flight.
    #[error(
        "the schedule proposed no job for round {round}, and none is in flight; end a finished program from its callback"
    )]
    NoJobs {
        /// Number of the round.
        round: u64,
    },
    /// Peers computed different schedules for one round.
    #[error(
        "peer {rank} scheduled other jobs than peer {here} in round {round}; `schedule` and `aggregate` may depend only on state that all peers share"
    )]
    ScheduleDiverged {
        /// Number of the round.
        round: u64,
        /// Peer that detected the difference.
        here: Rank,
        /// Peer with the other schedule.
        rank: Rank,
    },
    /// Peers run the schedule with different settings.
    #[error("peer {rank} runs the schedule with {there}, peer 0 with {here}; use the same settings on every peer")]
    SettingsMismatch {
        /// Peer with other settings than peer 0.
        rank: Rank,
        /// Settings of peer 0.
        here: String,
        /// Settings of that peer.
        there: String,
    },
    /// Another peer failed and reported it.
    #[error("peer {rank} failed in round {round}: {reason}")]
    PeerFailed {
        /// Number of the round or rotation.
        round: u64,
        /// Peer that reported the failure.
        rank: Rank,
        /// Error message of that peer.
        reason: String,
    },
    /// A message of another peer cannot be decoded, or does not fit the round.
    #[error("peer {rank} sent an invalid message in round {round}: {reason}")]
    InvalidMessage {
        /// Number of the round or rotation.
        round: u64,
        /// Peer that sent the message.
        rank: Rank,
        /// Description of the mismatch.
        reason: String,
    },
    /// A setting has an invalid value.
    #[error("{setting} cannot be {found}: {reason}")]
    InvalidSetting {
        /// Name of the setting.
        setting: String,
        /// Value of the setting.
        found: String,
        /// Reason why the value is invalid.
        reason: String,
    },
}

impl Error {
    /// Kind of the error: invalid messages come from the environment, all others from the program.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::InvalidMessage { .. } => ErrorKind::External,
            _ => ErrorKind::Usage,
        }
    }
}

impl From<Error> for hemiola_cluster::Error {
    fn from(error: Error) -> Self {
        Self::Layer { kind: error.kind(), source: Box::new(error) }
    }
}
