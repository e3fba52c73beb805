//! What can go wrong when a net is trained, with the facts in fields.

use hemiola_core::{ErrorKind, Rank};
use std::path::PathBuf;

/// Why a net could not be trained.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The strategy cannot work.
    #[error(transparent)]
    Strategy(#[from] hemiola_strategy::Error),
    /// Two peers that do not train the same model.
    #[error("peer {rank} has another model than peer 0: {difference}; build the same on every peer")]
    Model {
        /// The peer that differs from the first.
        rank: Rank,
        /// The first difference, seen from peer 0.
        difference: String,
    },
    /// Two peers that do not train in the same way.
    #[error(
        "peer {rank} trains in another way than peer 0: {there} there, {here} at peer 0; every peer must build the same"
    )]
    Differs {
        /// The peer that differs from the first.
        rank: Rank,
        /// What the first has.
        here: String,
        /// What it has.
        there: String,
    },
    /// A model that cannot be trained.
    #[error("{variable}: {problem}")]
    Variable {
        /// Its path in the model.
        variable: String,
        /// What is wrong.
        problem: String,
    },
    /// A strategy that this runtime does not carry out.
    #[error("{what} cannot be carried out: {reason}")]
    Unsupported {
        /// What the strategy asks for.
        what: String,
        /// Why not, and what to do.
        reason: String,
    },
    /// A gradient or a loss that is not a number.
    #[error(
        "step {step}: {what} is not finite{}; a smaller learning rate, clipping or a look at this step's examples may help",
        last.as_ref().map_or(String::new(), |folder| format!(" (the last good checkpoint is in {})", folder.display()))
    )]
    NotFinite {
        /// Counted from 1.
        step: u64,
        /// The loss, or which variable's gradient.
        what: String,
        /// The last checkpoint, if one was made.
        last: Option<PathBuf>,
    },
    /// A checkpoint that does not fit, or cannot be read or written.
    #[error("the checkpoint {}: {problem}", path.display())]
    Checkpoint {
        /// Where it is.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// No peer brought an example.
    #[error("step {step}: no peer has an example; a step needs one at least")]
    Nothing {
        /// Counted from 1.
        step: u64,
    },
    /// Something else had failed before.
    #[error("training has failed before: {0}")]
    Failed(String),
    /// A file of examples that is not what it should be.
    #[error("{}: {problem}", path.display())]
    Data {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and where.
        problem: String,
    },
}

impl Error {
    /// Who has to act.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Checkpoint { .. } => ErrorKind::World,
            _ => ErrorKind::Usage,
        }
    }
}

impl From<Error> for hemiola_cluster::Error {
    fn from(error: Error) -> Self {
        Self::Layer { kind: error.kind(), source: Box::new(error) }
    }
}
