//! Errors of training, with the facts in fields.

use hemiola_core::{ErrorKind, Rank};
use std::path::PathBuf;

/// Error of building or running a [`Trainer`](crate::Trainer).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The strategy is invalid for this model or cluster.
    #[error(transparent)]
    Strategy(#[from] hemiola_strategy::Error),
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
    /// A variable that cannot be trained.
    #[error("{variable}: {problem}")]
    Variable {
        /// Path of the variable in the module.
        variable: String,
        /// Reason, with a way out.
        problem: String,
    },
    /// A feature that this runtime does not support.
    #[error("{feature} is not supported: {reason}")]
    Unsupported {
        /// Feature that is not supported.
        feature: String,
        /// Reason, with a way out.
        reason: String,
    },
    /// A loss or a gradient that is NaN or infinite.
    #[error(
        "step {step}: {quantity} is not finite{}; use a smaller learning rate or gradient clipping, or check the examples of this step",
        last_checkpoint.as_ref().map_or(String::new(), |folder| format!(" (the last good checkpoint is in `{}`)", folder.display()))
    )]
    NotFinite {
        /// Step number, counted from 1.
        step: u64,
        /// The loss, or the gradient of a named variable.
        quantity: String,
        /// Folder of the last checkpoint of this run, if there is one.
        last_checkpoint: Option<PathBuf>,
    },
    /// A checkpoint that does not fit this training, or cannot be read or written.
    #[error("checkpoint `{}`: {problem}", path.display())]
    Checkpoint {
        /// Folder of the checkpoint.
        path: PathBuf,
        /// Reason, with a way out.
        problem: String,
    },
    /// A step for which no peer has an example.
    #[error("step {step}: no peer has an example; give at least one peer a nonempty batch")]
    EmptyStep {
        /// Step number, counted from 1.
        step: u64,
    },
    /// An earlier failure of this training, as text; every later call returns this.
    #[error("training has failed: {0}")]
    Failed(String),
    /// A data file that does not have the expected format.
    #[error("`{}`: {problem}", path.display())]
    Data {
        /// Path of the data file.
        path: PathBuf,
        /// Problem and its position in the file.
        problem: String,
    },
}

impl Error {
    /// Returns who has to act: the user, or the operator of the machine.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Checkpoint { .. } => ErrorKind::External,
            _ => ErrorKind::Usage,
        }
    }
}

impl From<Error> for hemiola_cluster::Error {
    fn from(error: Error) -> Self {
        Self::Layer { kind: error.kind(), source: Box::new(error) }
    }
}
