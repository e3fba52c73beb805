//! What can go wrong with a collective on a cluster, with the facts in fields.

use hemiola_core::{ErrorKind, Rank};
use hemiola_net::ReceiveError;

/// Why a collective, or an average over a graph, could not be had.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The protocol refused: two peers that disagree, a buffer that does not fit, a graph that cannot be.
    #[error(transparent)]
    Collective(#[from] hemiola_collective_proto::Error),
    /// The cluster ended before a collective that had begun.
    #[error("{call} (collective {tag}) was under way when its cluster ended; finish what was begun before that")]
    Ended {
        /// What it was.
        call: String,
        /// Which, by count.
        tag: u64,
    },
    /// A buffer that cannot be divided among all peers.
    #[error("{length} elements cannot be cut into one block for each of {peers} peers; pass a multiple of {peers}")]
    NotDivisible {
        /// Its elements.
        length: usize,
        /// How many peers there are.
        peers: usize,
    },
    /// A matrix that is not what its factors give.
    #[error(
        "factors of a {rows} × {columns} matrix were given with a buffer of {found} numbers; it needs {rows} times {columns}"
    )]
    WrongShape {
        /// Of the factors.
        rows: usize,
        /// Of the factors.
        columns: usize,
        /// Numbers in the buffer.
        found: usize,
    },
    /// Peers that do not agree on what to average, and how.
    #[error(
        "peer {rank} averages with other settings than peer 0: {there} there, {here} at peer 0; every peer must build the same"
    )]
    Differs {
        /// The peer.
        rank: Rank,
        /// Settings of peer 0.
        here: String,
        /// Settings of that peer.
        there: String,
    },
    /// More handles than channels.
    #[error("this cluster has made too many handles; keep one and use it for all collectives")]
    TooManyHandles,
}

impl Error {
    /// Who has to act.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Collective(error) => error.kind(),
            Self::Ended { .. }
            | Self::NotDivisible { .. }
            | Self::WrongShape { .. }
            | Self::Differs { .. }
            | Self::TooManyHandles => ErrorKind::Usage,
        }
    }
}

impl From<Error> for hemiola_cluster::Error {
    fn from(error: Error) -> Self {
        Self::Layer { kind: error.kind(), source: Box::new(error) }
    }
}

/// An error of the machines, as an error of the cluster.
pub(crate) fn refused(error: hemiola_collective_proto::Error) -> hemiola_cluster::Error {
    Error::Collective(error).into()
}

/// What a receiver that found nothing has to say; nothing if only time has passed.
pub(crate) fn not_received(error: ReceiveError) -> Option<hemiola_cluster::Error> {
    match error {
        ReceiveError::Lost(loss) => Some(loss.into()),
        ReceiveError::TimedOut { .. } => None,
        other => Some(hemiola_cluster::Error::program(other)),
    }
}
