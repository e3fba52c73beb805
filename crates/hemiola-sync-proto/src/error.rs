//! Errors of synchronization, with the facts in fields.

use hemiola_core::Rank;
use std::path::PathBuf;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of planning or executing a synchronization.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A strategy that cannot be executed with this model.
    #[error("{feature} is not supported: {reason}")]
    Unsupported {
        /// Feature that is not supported.
        feature: String,
        /// Reason, with a way out.
        reason: String,
    },
    /// A compression that does not fit its variable.
    #[error(transparent)]
    Compression(#[from] hemiola_collective_proto::Error),
    /// A table of the parameter server that rejects a setting or a message.
    #[error(transparent)]
    Table(#[from] hemiola_tables_proto::Error),
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
    /// A step for which no peer has an example.
    #[error("step {step}: no peer has an example; give at least one peer a nonempty batch")]
    EmptyStep {
        /// Step number, counted from 1.
        step: u64,
    },
    /// Examples on a peer that the strategy does not let train.
    #[error(
        "step {step}: peer {rank} has {examples} examples, and the strategy does not let it train; give it empty batches, or list it among the replicas"
    )]
    NotAReplica {
        /// Step number, counted from 1.
        step: u64,
        /// Peer with the examples.
        rank: Rank,
        /// Number of its examples.
        examples: u64,
    },
    /// An event that the driver of a node must not pass: a mistake in the driver.
    #[error("step {step}: {problem}; the driver of the node passed a wrong event")]
    Driver {
        /// Step number, counted from 1.
        step: u64,
        /// Mistake of the driver.
        problem: &'static str,
    },
}
