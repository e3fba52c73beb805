//! Errors of collectives on a cluster, with their facts in fields.

use hemiola_core::{ErrorKind, Rank};
use hemiola_net::ReceiveError;

/// Reason why a collective or a gossip average failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The protocol refused: mismatched calls, a buffer of the wrong length, an invalid graph.
    #[error(transparent)]
    Collective(#[from] hemiola_collective_proto::Error),
    /// The cluster ended while a collective was in flight.
    #[error("{call} (collective {tag}) was in flight when its cluster ended; wait for all collectives before that")]
    ClusterEnded {
        /// Call signature of the collective.
        call: String,
        /// Tag of the collective.
        tag: u64,
    },
    /// A buffer that cannot be divided evenly among all peers.
    #[error("{length} elements cannot be cut into one block for each of {peers} peers; pass a multiple of {peers}")]
    NotDivisible {
        /// Number of elements of the buffer.
        length: usize,
        /// Number of peers in the job.
        peers: usize,
    },
    /// A matrix whose size differs from that of its factors.
    #[error(
        "factors of a {rows} × {columns} matrix were given with a buffer of {found} elements; it needs {rows} times {columns}"
    )]
    WrongShape {
        /// Number of rows of the factors.
        rows: usize,
        /// Number of columns of the factors.
        columns: usize,
        /// Number of elements of the buffer.
        found: usize,
    },
    /// Peers that build gossip averaging with different settings.
    #[error(
        "peer {rank} averages with other settings than peer 0: {there} there, {here} at peer 0; build the same on every peer"
    )]
    SettingsDiffer {
        /// Rank of the first peer that differs.
        rank: Rank,
        /// Settings of peer 0.
        here: String,
        /// Settings of the peer that differs.
        there: String,
    },
    /// More communicators than channel numbers.
    #[error("this cluster has created too many communicators; keep one and use it for all collectives")]
    TooManyHandles,
}

impl Error {
    /// Class of the error: a mistake of the caller or a bug.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Collective(error) => error.kind(),
            Self::ClusterEnded { .. }
            | Self::NotDivisible { .. }
            | Self::WrongShape { .. }
            | Self::SettingsDiffer { .. }
            | Self::TooManyHandles => ErrorKind::Usage,
        }
    }
}

impl From<Error> for hemiola_cluster::Error {
    fn from(error: Error) -> Self {
        Self::Layer { kind: error.kind(), source: Box::new(error) }
    }
}

/// Wraps a protocol error as an error of the cluster.
pub(crate) fn protocol_error(error: hemiola_collective_proto::Error) -> hemiola_cluster::Error {
    Error::Collective(error).into()
}

/// Converts a receive error; `None` if only the timeout has passed.
pub(crate) fn receive_failure(error: ReceiveError) -> Option<hemiola_cluster::Error> {
    match error {
        ReceiveError::Lost(loss) => Some(loss.into()),
        ReceiveError::TimedOut { .. } => None,
        other => Some(hemiola_cluster::Error::program(other)),
    }
}
