//! What can go wrong in a cluster.

use crate::launch::LaunchError;
use crate::placement::PlacementError;
use hemiola_core::{ErrorKind, PeerLost, Rank, TransportError, WorkerId};
use hemiola_net::{JoinError, ReceiveError, TlsError};
use std::fmt;
use std::time::Duration;

/// The result of anything a cluster does.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong in a cluster.
///
/// `Debug` prints the same sentence as `Display`, because a `main` that returns an error shows it that way.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A peer is gone.
    #[error(transparent)]
    Lost(#[from] PeerLost),
    /// The peers could not meet.
    #[error("the peers could not meet: {0}")]
    Join(#[from] JoinError),
    /// A message could not be sent.
    #[error(transparent)]
    Transport(TransportError),
    /// A wait reached its deadline.
    #[error("gave up after {:.1} s of waiting for {reason}{report}", waited.as_secs_f64())]
    TimedOut {
        /// What was waited for.
        reason: String,
        /// How long.
        waited: Duration,
        /// Who else waits for what, as far as known.
        report: String,
    },
    /// Two peers are in different collective calls, so neither can ever complete.
    #[error(
        "peer {rank} is in {here}, but peer {other} is in {there}: all peers must make the same calls in the same order"
    )]
    Mismatch {
        /// This peer.
        rank: Rank,
        /// Its call and place.
        here: String,
        /// The other peer.
        other: Rank,
        /// Its call and place.
        there: String,
    },
    /// A value could not be sent or understood.
    #[error("cannot {action} a value of type `{type_name}`: {reason}")]
    Value {
        /// `send` or `understand`.
        action: &'static str,
        /// The type.
        type_name: &'static str,
        /// What the codec said.
        reason: String,
    },
    /// Workers were wanted for something else while they stand by.
    #[error(
        "the workers of peer {rank} stand by for a crew and can do nothing else before it ends: hand them work through it (`Crew::each`), or call this before or after it"
    )]
    Held {
        /// The peer.
        rank: Rank,
    },
    /// Code on a worker panicked.
    #[error("worker {worker} of peer {rank} panicked: {message}")]
    WorkerPanicked {
        /// The peer.
        rank: Rank,
        /// The worker.
        worker: WorkerId,
        /// What it said.
        message: String,
    },
    /// The program panicked on a peer of a standalone cluster.
    #[error("the program panicked on peer {rank}: {message}")]
    Panicked {
        /// The peer.
        rank: Rank,
        /// What it said.
        message: String,
    },
    /// What a launcher said makes no sense.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The peers could not be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A setting makes no sense.
    #[error("{setting}: {reason}")]
    Setting {
        /// Which setting, as the user knows it.
        setting: String,
        /// What is wrong with it and what to do.
        reason: String,
    },
    /// Certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The system gave no thread.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// A layer above failed.
    #[error("{source}")]
    Layer {
        /// Who has to act.
        kind: ErrorKind,
        /// Its own error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The program itself failed.
    #[error(transparent)]
    Program(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Wraps an error of the program's own, so that `?` can carry it out of [`run`](crate::run).
    pub fn program(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Program(error.into())
    }

    /// Who has to act.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Layer { kind, .. } => *kind,
            Self::Join(error) => error.kind(),
            Self::Placement(error) => error.kind(),
            Self::Launch(error) => error.kind(),
            Self::Lost(_) | Self::TimedOut { .. } | Self::Thread(_) => ErrorKind::World,
            Self::Transport(error) => match error {
                TransportError::TooLarge { .. } | TransportError::NoSuchPeer { .. } => ErrorKind::Usage,
                _ => ErrorKind::World,
            },
            Self::Mismatch { .. }
            | Self::Value { .. }
            | Self::Held { .. }
            | Self::WorkerPanicked { .. }
            | Self::Panicked { .. }
            | Self::Setting { .. }
            | Self::Tls(_)
            | Self::Program(_) => ErrorKind::Usage,
        }
    }

    /// The lost peer behind this error, if that is what it is.
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

/// What [`ReceiveError`] means to someone who waited for `reason`.
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
