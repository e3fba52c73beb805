//! Errors of models, settings and checkpoints, with the facts in fields. Errors of a running step
//! are those of `hemiola-sync`, errors of data files those of `hemiola-array`.

use hemiola_core::{ErrorKind, Rank};
use std::io;
use std::path::{Path, PathBuf};

/// Error of building a [`Trainer`](crate::Trainer), or of a [`NetFit`](crate::training::NetFit).
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
    /// A file of weights cannot be used.
    #[error("{}: {problem}", path.display())]
    Weights {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The training set is empty.
    #[error("there are no examples to train on; check the input")]
    NoExamples,
    /// Two peers have different data.
    #[error("peer {rank} and peer 0 have different data; copy the same files to every machine")]
    DifferentData {
        /// First peer whose data differ from those of peer 0.
        rank: Rank,
    },
    /// Settings or data differ from those of the checkpoint.
    #[error(transparent)]
    Resume(#[from] hemiola_training::Error),
    /// The folder holds a net of another name, which must not be overwritten.
    #[error("`{}` has a net `{found}`, and this run trains `{net}`; choose another folder, or remove it", .folder.display())]
    OtherNet {
        /// Folder that is occupied.
        folder: PathBuf,
        /// Name of the saved net.
        found: String,
        /// Name of the net that was to be saved.
        net: String,
    },
    /// The folder holds something else than a net, which must not be overwritten.
    #[error("`{}` exists and is not a saved net; choose another folder, or remove it", .folder.display())]
    FolderOccupied {
        /// Folder that is occupied.
        folder: PathBuf,
    },
    /// The folder has no checkpoint to resume from.
    #[error("`{}` has no checkpoint to resume from; check the folder, or train without resuming", .folder.display())]
    NoCheckpoint {
        /// Folder that was searched.
        folder: PathBuf,
    },
    /// A checkpoint cannot be opened.
    #[error(transparent)]
    Save(#[from] hemiola_array::Error),
    /// The checkpoint was saved by a trainer alone, so the history of its run is unknown.
    #[error(
        "`{}` has a checkpoint of step {step} without the history of its run; choose another folder, or train from the start",
        .folder.display()
    )]
    NoJournal {
        /// Folder of the checkpoint.
        folder: PathBuf,
        /// Step of the checkpoint.
        step: u64,
    },
    /// The history in a checkpoint cannot be read.
    #[error("`{}` is damaged: {problem}; choose another folder, or train from the start", .file.display())]
    DamagedJournal {
        /// Manifest of the checkpoint.
        file: PathBuf,
        /// Problem that the parser found.
        problem: String,
    },
    /// The checkpoint was saved within an epoch, by another program, so its position is unknown.
    #[error(
        "the checkpoint in `{}` is not at the end of an epoch and has no position in it; train from the start, in another folder",
        .folder.display()
    )]
    PartialEpoch {
        /// Folder of the checkpoint.
        folder: PathBuf,
    },
    /// The folder has no saved net.
    #[error("`{}` has no saved net; check the folder, or train a net with an output folder", .folder.display())]
    NoSavedNet {
        /// Folder that was searched.
        folder: PathBuf,
    },
    /// The net was saved without a description, by an older version or another program.
    #[error(
        "`{}` has no description of its architecture, as nets of older versions; resume its training, or train it again",
        .folder.display()
    )]
    OldNet {
        /// Folder of the net.
        folder: PathBuf,
    },
    /// Description and weights of a saved net contradict each other.
    #[error("the net in `{}` is damaged: {problem}; train it again", .folder.display())]
    DamagedNet {
        /// Folder of the net.
        folder: PathBuf,
        /// Contradiction that was found.
        problem: String,
    },
    /// The net is of another kind than the use needs.
    #[error("the net in `{}` is of the kind `{kind}`, and {needed} is needed; choose another model", .folder.display())]
    OtherKind {
        /// Folder of the net.
        folder: PathBuf,
        /// Kind of the net.
        kind: &'static str,
        /// Kind that the use needs, in words.
        needed: &'static str,
    },
    /// Data that the net cannot take.
    #[error("{problem}; use data like those of the training")]
    OtherData {
        /// Difference to what the net takes.
        problem: String,
    },
    /// A word that the vocabulary of a language model does not have.
    #[error("the net does not know the word `{word}`; use words of its training text")]
    UnknownWord {
        /// Unknown word.
        word: String,
    },
    /// A file of a checkpoint could not be written or read.
    #[error("cannot {action} `{}`: {reason}", .path.display())]
    File {
        /// Failed operation, such as `write`.
        action: &'static str,
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the operating system, with a way out.
        reason: String,
        /// Party that has to act on the error.
        kind: ErrorKind,
    },
}

impl Error {
    /// Creates the error of a failed `action` on `path`.
    pub(crate) fn file(action: &'static str, path: &Path, error: &io::Error) -> Self {
        let (kind, hint) = match error.kind() {
            io::ErrorKind::NotFound => (ErrorKind::Usage, "; check the path"),
            io::ErrorKind::PermissionDenied => {
                (ErrorKind::Usage, "; choose another folder, or ask its owner for access")
            }
            io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory => (ErrorKind::Usage, "; choose another folder"),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                (ErrorKind::External, "; free some space and run again")
            }
            _ => (ErrorKind::External, ""),
        };
        Self::File { action, path: path.to_owned(), reason: format!("{error}{hint}"), kind }
    }

    /// Returns the party that has to act on the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::File { kind, .. } => *kind,
            Self::Save(error) => error.kind(),
            _ => ErrorKind::Usage,
        }
    }
}

impl From<Error> for hemiola_cluster::Error {
    fn from(error: Error) -> Self {
        Self::Layer { kind: error.kind(), source: Box::new(error) }
    }
}
