//! What can go wrong in a loop, besides what arrays and clusters report themselves.

use hemiola_core::{ErrorKind, Rank};
use serde::{Deserialize, Serialize};

/// Why a loop failed. The same on every peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Error {
    /// The body panicked.
    #[error("{site} failed at entry {key:?} on peer {rank}: {message}")]
    Body {
        /// The loop.
        site: String,
        /// The entry.
        key: Vec<u64>,
        /// The peer.
        rank: Rank,
        /// What the panic said.
        message: String,
    },
    /// The rule of a buffer panicked.
    #[error("{site} failed on peer {rank} where the rule of a buffer was applied: {message}")]
    Rule {
        /// The loop.
        site: String,
        /// The peer.
        rank: Rank,
        /// What the panic said.
        message: String,
    },
    /// The body of a loop runs another one.
    #[error(
        "{site} was called by a worker that runs another loop; collective calls are for the program around loops: \
         give the outer loop more indices, or make the inner one an ordinary `for`"
    )]
    Nested {
        /// The inner loop.
        site: String,
    },
    /// A written array has two names.
    #[error(
        "{site} writes an array that it knows as `{first}` and `{second}`; use one name for it, so that its cells are not borrowed twice"
    )]
    TwoNames {
        /// The loop.
        site: String,
        /// One name.
        first: String,
        /// Another.
        second: String,
    },
    /// A peer could not go on for another reason.
    #[error("{site} failed on peer {rank}: {message}")]
    Peer {
        /// The loop.
        site: String,
        /// The peer.
        rank: Rank,
        /// Its own error.
        message: String,
    },
    /// The body indexes a sparse array.
    #[error("{site} indexes `{name}`, which is sparse; make it dense with `to_dense`, or iterate over it")]
    SparseIndexed {
        /// The loop.
        site: String,
        /// As the body calls it.
        name: String,
    },
    /// A worker was not given a table.
    #[error("{site} cannot use the table `{name}`: {problem}; a loop needs one `in_loop` for each table")]
    NoTable {
        /// The loop.
        site: String,
        /// As the body calls it.
        name: String,
        /// What the table says.
        problem: String,
    },
    /// The loop is not what the analysis can understand.
    #[error("{site} cannot be analyzed: {problem}")]
    NotUnderstood {
        /// The loop.
        site: String,
        /// Why.
        problem: String,
    },
    /// A buffer updates one array twice.
    #[error("the buffer `{name}` names an array twice; the arrays it updates must be different ones")]
    BufferRepeats {
        /// As the body calls it.
        name: String,
    },
    /// Arrays that are updated together differ in shape.
    #[error("a buffer updates arrays of shapes {first:?} and {second:?} together; they must have the same shape")]
    BufferShapes {
        /// The shape of the buffered array.
        first: Vec<u64>,
        /// The shape of another.
        second: Vec<u64>,
    },
}

impl Error {
    /// Who has to act.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Peer { .. } => ErrorKind::World,
            Self::Body { .. }
            | Self::Rule { .. }
            | Self::TwoNames { .. }
            | Self::Nested { .. }
            | Self::SparseIndexed { .. }
            | Self::NoTable { .. }
            | Self::BufferShapes { .. }
            | Self::BufferRepeats { .. } => ErrorKind::Usage,
            Self::NotUnderstood { .. } => ErrorKind::Bug,
        }
    }
}

impl From<Error> for hemiola_cluster::Error {
    fn from(error: Error) -> Self {
        Self::Layer { kind: error.kind(), source: Box::new(error) }
    }
}
