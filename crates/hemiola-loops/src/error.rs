//! Errors of loops, besides those of arrays and clusters.

use hemiola_core::{ErrorKind, Rank};
use serde::{Deserialize, Serialize};

/// Error of a loop. All peers get the same error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Error {
    /// The body panicked in an iteration.
    #[error("{site} failed at entry {key:?} on peer {rank}: {message}")]
    Body {
        /// Title of the loop.
        site: String,
        /// Key of the entry whose iteration panicked.
        key: Vec<usize>,
        /// Rank of the failed peer.
        rank: Rank,
        /// Message of the panic.
        message: String,
    },
    /// The update rule of a buffer panicked.
    #[error("{site} failed on peer {rank} in the update rule of a buffer: {message}")]
    Rule {
        /// Title of the loop.
        site: String,
        /// Rank of the failed peer.
        rank: Rank,
        /// Message of the panic.
        message: String,
    },
    /// The loop wrote NaN or infinity to an array.
    #[error(
        "{site} wrote {value} to `{name}{index:?}` on peer {rank}; lower the learning rate or look at the data, \
         or call `allow_non_finite()` on the array if such values have a meaning"
    )]
    NonFinite {
        /// Title of the loop.
        site: String,
        /// Name of the array or buffer in the body.
        name: String,
        /// Index of the first cell that is not finite.
        index: Vec<usize>,
        /// The value: `NaN`, `inf` or `-inf`.
        value: String,
        /// Rank of the peer that found it.
        rank: Rank,
    },
    /// A loop was started inside the body of another loop.
    #[error(
        "{site} was started inside the body of another loop; \
         give the outer loop more indices, or make the inner one an ordinary `for`"
    )]
    Nested {
        /// Title of the inner loop.
        site: String,
    },
    /// A written array is captured under two names.
    #[error("{site} writes an array under two names, `{first}` and `{second}`; use one name")]
    AliasedArray {
        /// Title of the loop.
        site: String,
        /// First name of the array.
        first: String,
        /// Second name of the array.
        second: String,
    },
    /// A peer was asked to stop.
    #[error("{site} was stopped on request")]
    Stopped {
        /// Title of the loop.
        site: String,
    },
    /// A peer failed for another reason.
    #[error("{site} failed on peer {rank}: {message}")]
    Peer {
        /// Title of the loop.
        site: String,
        /// Rank of the failed peer.
        rank: Rank,
        /// Message of the peer's own error.
        message: String,
    },
    /// The body indexes a sparse array.
    #[error("{site} indexes `{name}`, which is sparse; convert it with `to_dense`, or iterate over it")]
    SparseIndexed {
        /// Title of the loop.
        site: String,
        /// Name of the variable in the body.
        name: String,
    },
    /// A worker could not get a handle of a table.
    #[error("{site} cannot use the table `{name}`: {problem}; call `in_loop` once for each table")]
    TableUnavailable {
        /// Title of the loop.
        site: String,
        /// Name of the variable in the body.
        name: String,
        /// Reason given by the table.
        problem: String,
    },
    /// The dependence analysis rejected the loop.
    #[error("{site} cannot be analyzed: {problem}")]
    Unanalyzable {
        /// Title of the loop.
        site: String,
        /// Reason given by the analysis.
        problem: String,
    },
    /// A buffer updates one array twice.
    #[error("the buffer `{name}` updates one array twice; pass different arrays")]
    DuplicateBufferTarget {
        /// Name of the variable in the body.
        name: String,
    },
    /// The arrays of one buffer differ in shape.
    #[error("a buffer updates arrays of shapes `{first:?}` and `{second:?}`; pass arrays of the same shape")]
    BufferShapeMismatch {
        /// Shape of the buffered array.
        first: Vec<usize>,
        /// Shape of the other array.
        second: Vec<usize>,
    },
}

impl Error {
    /// Returns true if a loop failed because it wrote NaN or infinity.
    #[must_use]
    pub fn is_non_finite(error: &hemiola_cluster::Error) -> bool {
        matches!(error, hemiola_cluster::Error::Layer { source, .. }
            if matches!(source.downcast_ref(), Some(Self::NonFinite { .. })))
    }

    /// Classifies the error: usage, environment or bug.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Peer { .. } | Self::Stopped { .. } => ErrorKind::External,
            Self::Body { .. }
            | Self::Rule { .. }
            | Self::NonFinite { .. }
            | Self::AliasedArray { .. }
            | Self::Nested { .. }
            | Self::SparseIndexed { .. }
            | Self::TableUnavailable { .. }
            | Self::BufferShapeMismatch { .. }
            | Self::DuplicateBufferTarget { .. } => ErrorKind::Usage,
            Self::Unanalyzable { .. } => ErrorKind::Bug,
        }
    }
}

impl From<Error> for hemiola_cluster::Error {
    fn from(error: Error) -> Self {
        if matches!(error, Error::Stopped { .. }) {
            return Self::Stopped;
        }
        Self::Layer { kind: error.kind(), source: Box::new(error) }
    }
}
