//! Errors of synchronization on a cluster, with the facts in fields.

use hemiola_core::{ErrorKind, Rank};
use std::path::PathBuf;

/// Error of building or running a [`ModelSync`](crate::ModelSync).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The strategy is invalid for this model or cluster.
    #[error(transparent)]
    Strategy(#[from] hemiola_strategy::Error),
    /// A step that cannot be executed: an unsupported strategy, a value that is not finite, or no
    /// examples.
    #[error(transparent)]
    Step(#[from] hemiola_sync_proto::Error),
    /// Two peers have different models.
    #[error("the model of peer {rank} differs from that of peer 0: {difference}; build the same model on every peer")]
    ModelMismatch {
        /// First peer whose model differs from that of peer 0.
        rank: Rank,
        /// First difference, described from the side of peer 0.
        difference: String,
    },
    /// Two peers have different settings.
    #[error(
        "peer {rank} has other settings than peer 0: `{there}` instead of `{here}`; build the trainer with the same settings on every peer"
    )]
    SettingsMismatch {
        /// First peer whose settings differ from those of peer 0.
        rank: Rank,
        /// Settings of peer 0.
        here: String,
        /// Settings of peer `rank`.
        there: String,
    },
    /// A feature that this runtime does not support.
    #[error("{feature} is not supported: {reason}")]
    Unsupported {
        /// Feature that is not supported.
        feature: String,
        /// Reason, with a way out.
        reason: String,
    },
    /// A checkpoint that does not fit this training, or cannot be read or written.
    #[error("checkpoint `{}`: {problem}", .path.display())]
    Checkpoint {
        /// Folder of the checkpoint.
        path: PathBuf,
        /// Reason, with a way out.
        problem: String,
        /// Party that has to act on the error.
        kind: ErrorKind,
    },
    /// An earlier failure of this training, as text; every later call returns this.
    #[error("training has failed: {0}")]
    Failed(String),
}

impl Error {
    /// Returns who has to act: the user, or the operator of the machine.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Checkpoint { kind, .. } => *kind,
            _ => ErrorKind::Usage,
        }
    }
}

impl From<Error> for hemiola_cluster::Error {
    fn from(error: Error) -> Self {
        Self::Layer { kind: error.kind(), source: Box::new(error) }
    }
}
