//! Why the variables make no sense. Every message names the variable, its value and the way out.

use hemiola_core::ErrorKind;
use std::path::PathBuf;

/// What a launcher, or a person, got wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlacementError {
    /// One variable is set, and another that belongs to it is not.
    #[error("`{because}` is `{value}`, but `{missing}` is not set: {remedy}")]
    Missing {
        /// The variable that is not set.
        missing: &'static str,
        /// The variable that makes it necessary.
        because: &'static str,
        /// Its value.
        value: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A value cannot be read.
    #[error("`{variable}` is `{value}`: expected {expected}")]
    Unreadable {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
        /// What it should look like.
        expected: &'static str,
    },
    /// A job of no peers.
    #[error("`{variable}` is `0`: a job has at least one peer")]
    NoPeers {
        /// The variable that says so.
        variable: &'static str,
    },
    /// A rank that the job does not have.
    #[error("`{rank_variable}` is `{rank}`, but `{size_variable}` is `{size}`: ranks go from 0 to {}", size - 1)]
    RankTooLarge {
        /// The variable the rank comes from.
        rank_variable: &'static str,
        /// The rank.
        rank: usize,
        /// The variable the size comes from.
        size_variable: &'static str,
        /// The size; at least 1.
        size: usize,
    },
    /// Two variables disagree about the size.
    #[error("`{first}` is `{first_value}`, but `{second}` is `{second_value}`: unset `{first}` or make them equal")]
    Contradiction {
        /// Our variable.
        first: &'static str,
        /// What it says.
        first_value: usize,
        /// The launcher's variable.
        second: &'static str,
        /// What it says.
        second_value: usize,
    },
    /// The launcher does not say where to meet, and it cannot be derived.
    #[error(
        "{launcher} does not say where {size} peers {where_they_are} can meet: set `HEMIOLA_RENDEZVOUS` to `host:port`, with a host all of them can reach, on every peer"
    )]
    NoRendezvous {
        /// Who should have said.
        launcher: super::Origin,
        /// The number of peers.
        size: usize,
        /// On one host or several.
        where_they_are: &'static str,
    },
    /// The folder of a rendezvous file could be written by others, who could then redirect the job.
    #[error("the rendezvous folder `{}` {fault}: remove it, or set `HEMIOLA_RENDEZVOUS` to a file in a folder that only you can write", path.display())]
    UnsafeFolder {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// The folder of a rendezvous file cannot be made or looked at.
    #[error("cannot make the rendezvous folder `{}`: set `TMPDIR` or `HEMIOLA_RENDEZVOUS` to a place you can write", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl PlacementError {
    /// Whose fault it is.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Folder { .. } => ErrorKind::World,
            _ => ErrorKind::Usage,
        }
    }
}
