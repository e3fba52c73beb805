//! Errors of starting and resuming a training run, with the facts in fields.

use hemiola_core::ErrorKind;

/// Error of starting or resuming a training run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The settings differ from those of the checkpoint.
    #[error(
        "the checkpoint was made with other settings: {}; use the same settings, or train from scratch without resuming",
        .differences.join(", ")
    )]
    SettingsMismatch {
        /// One sentence per setting that differs: its old and its new value.
        differences: Vec<String>,
    },
    /// Peers were started with different settings.
    #[error(
        "`{setting}` is {peer} on peer {rank} and {root} on peer 0; start all peers with the same settings and data"
    )]
    PeersDiffer {
        /// Name of the first setting that differs.
        setting: String,
        /// Value on the root, as text.
        root: String,
        /// Value on the other peer, as text.
        peer: String,
        /// Rank of the other peer.
        rank: usize,
    },
    /// The data differ from those of the checkpoint.
    #[error(
        "the checkpoint was made from other data: {difference}; use the same data, or train from scratch without resuming"
    )]
    DataMismatch {
        /// First difference that was found.
        difference: String,
    },
    /// The metadata of the checkpoint contradict themselves.
    #[error("the metadata of the checkpoint are damaged: {problem}; train from scratch without resuming")]
    DamagedMetadata {
        /// Name and value of the damaged entry.
        problem: String,
    },
}

impl From<Error> for hemiola_cluster::Error {
    fn from(error: Error) -> Self {
        Self::Layer { kind: ErrorKind::Usage, source: Box::new(error) }
    }
}
