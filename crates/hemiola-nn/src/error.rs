//! Errors of models and settings, with the facts in fields. Errors of a running training are those
//! of `hemiola-sync`, errors of data files those of `hemiola-array`.

use hemiola_core::ErrorKind;

/// Error of building a [`Trainer`](crate::Trainer).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The strategy is invalid for this model or cluster.
    #[error(transparent)]
    Strategy(#[from] hemiola_strategy::Error),
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
}

impl From<Error> for hemiola_cluster::Error {
    fn from(error: Error) -> Self {
        Self::Layer { kind: ErrorKind::Usage, source: Box::new(error) }
    }
}
