//! Errors of a cluster.

use crate::launch::LaunchError;
use crate::rank_assignment::RankAssignmentError;
use hemiola_core::{ErrorKind, PeerLost, Rank, TransportError, WorkerId};
use hemiola_net::{JoinError, ReceiveError, TlsError};
use std::fmt;
use std::time::Duration;

/// Result of cluster operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of a cluster.
///
/// `Debug` prints the same text as `Display`, because a `main` that returns an error shows it that
/// way.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A peer was lost.
    #[error(transparent)]
    Lost(#[from] PeerLost),
    /// The peers could not form a job.
    #[error("cannot join the job: {0}")]
    Join(#[from] JoinError),
    /// A message could not be sent.
    #[error(transparent)]
    Transport(TransportError),
    /// A wait reached its deadline.
    #[error("timed out after {:.1} s waiting for {reason}{report}", waited.as_secs_f64())]
    TimedOut {
        /// Operation that the thread waited for.
        reason: String,
        /// Duration of the wait.
        waited: Duration,
        /// Stall report with the known waits of all peers.
        report: String,
    },
    /// Two peers are in different collective calls, so neither can ever complete.
    #[error(
        "peer {rank} is in {here}, but peer {other} is in {there}: all peers must make the same calls in the same order"
    )]
    Mismatch {
        /// Rank of this peer.
        rank: Rank,
        /// Call and call site of this peer.
        here: String,
        /// Rank of the other peer.
        other: Rank,
        /// Call and call site of the other peer.
        there: String,
    },
    /// A value could not be encoded or decoded.
    #[error("cannot {action} a value of type `{type_name}`: {reason}")]
    Value {
        /// Failed operation: `encode` or `decode`.
        action: &'static str,
        /// Name of the value's type.
        type_name: &'static str,
        /// Error text of the codec.
        reason: String,
    },
    /// The workers are reserved by a team.
    #[error(
        "the workers of peer {rank} are reserved by a worker team: run this through the team (`WorkerTeam::each`), or before or after it"
    )]
    WorkersReserved {
        /// Rank of the peer.
        rank: Rank,
    },
    /// Code on a worker panicked.
    #[error("worker {worker} of peer {rank} panicked: {message}")]
    WorkerPanicked {
        /// Rank of the peer.
        rank: Rank,
        /// Worker on which it panicked.
        worker: WorkerId,
        /// Message of the panic.
        message: String,
    },
    /// The program panicked on a peer of a standalone cluster.
    #[error("the program panicked on peer {rank}: {message}")]
    Panicked {
        /// Rank of the peer.
        rank: Rank,
        /// Message of the panic.
        message: String,
    },
    /// The variables of a launcher are invalid or incomplete.
    #[error(transparent)]
    RankAssignment(#[from] RankAssignmentError),
    /// The peers could not be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A setting is invalid.
    #[error("{setting}: {reason}")]
    Setting {
        /// Name of the setting, as the user knows it.
        setting: String,
        /// Description of the problem and a way out.
        reason: String,
    },
    /// The certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The operating system could not start a thread.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// A peer was asked to stop, and all peers have left the current pass; see
    /// [`StopRequest`](crate::StopRequest).
    #[error("stopped on request, before the end of the current pass")]
    Stopped,
    /// A layer above the cluster failed.
    #[error("{source}")]
    Layer {
        /// Party that has to act on the error.
        kind: ErrorKind,
        /// Error of the layer.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The program itself failed.
    #[error(transparent)]
    Program(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Wraps an error of the user program, so that `?` can return it from [`run`](crate::run).
    pub fn program(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Program(error.into())
    }

    /// Returns the party that has to act on the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Layer { kind, .. } => *kind,
            Self::Join(error) => error.kind(),
            Self::RankAssignment(error) => error.kind(),
            Self::Launch(error) => error.kind(),
            Self::Lost(_) | Self::TimedOut { .. } | Self::Thread(_) | Self::Stopped => ErrorKind::External,
            Self::Transport(error) => match error {
                TransportError::TooLarge { .. } | TransportError::NoSuchPeer { .. } => ErrorKind::Usage,
                _ => ErrorKind::External,
            },
            Self::Mismatch { .. }
            | Self::Value { .. }
            | Self::WorkersReserved { .. }
            | Self::WorkerPanicked { .. }
            | Self::Panicked { .. }
            | Self::Setting { .. }
            | Self::Tls(_)
            | Self::Program(_) => ErrorKind::Usage,
        }
    }

    /// Returns the lost peer behind this error, if it is a loss.
    #[must_use]
    pub fn lost_peer(&self) -> Option<&PeerLost> {
        match self {
            Self::Lost(loss) => Some(loss),
            _ => None,
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl From<TransportError> for Error {
    fn from(error: TransportError) -> Self {
        match error {
            TransportError::Lost(loss) => Self::Lost(loss),
            other => Self::Transport(other),
        }
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::Program(error.into())
    }
}

impl From<Box<dyn std::error::Error + Send + Sync>> for Error {
    fn from(error: Box<dyn std::error::Error + Send + Sync>) -> Self {
        Self::Program(error)
    }
}

impl From<String> for Error {
    fn from(message: String) -> Self {
        Self::Program(message.into())
    }
}

impl From<&str> for Error {
    fn from(message: &str) -> Self {
        Self::Program(message.into())
    }
}

/// Converts a [`ReceiveError`] of a wait for `reason`.
pub(crate) fn receive_error(
    error: ReceiveError,
    reason: &dyn std::fmt::Display,
    report: impl FnOnce() -> String,
) -> Error {
    match error {
        ReceiveError::TimedOut { waited } => Error::TimedOut { reason: reason.to_string(), waited, report: report() },
        ReceiveError::Lost(loss) => Error::Lost(loss),
        other => Error::Program(other.into()),
    }
}
