//! Errors of the rank assignment. Every message names the variable, its value and a way out.

use hemiola_core::ErrorKind;
use std::path::PathBuf;

/// Invalid or incomplete variables of a launcher or a user.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RankAssignmentError {
    /// A variable is set, and another that it requires is not.
    #[error("`{because}` is `{value}`, but `{missing}` is not set: {remedy}")]
    Missing {
        /// Variable that is not set.
        missing: &'static str,
        /// Variable that requires it.
        because: &'static str,
        /// Value of the variable that requires it.
        value: String,
        /// Way out, for the error message.
        remedy: &'static str,
    },
    /// A value cannot be parsed.
    #[error("`{variable}` is `{value}`: expected {expected}")]
    Unreadable {
        /// Name of the variable.
        variable: &'static str,
        /// Value of the variable.
        value: String,
        /// Description of valid values.
        expected: &'static str,
    },
    /// The job has no peers.
    #[error("`{variable}` is `0`: a job has at least one peer")]
    NoPeers {
        /// Variable with the size 0.
        variable: &'static str,
    },
    /// The rank is outside of the job.
    #[error("`{rank_variable}` is `{rank}`, but `{size_variable}` is `{size}`: ranks go from 0 to {}", size - 1)]
    RankTooLarge {
        /// Variable that sets the rank.
        rank_variable: &'static str,
        /// Rank that is too large.
        rank: usize,
        /// Variable that sets the size.
        size_variable: &'static str,
        /// Size of the job; at least 1.
        size: usize,
    },
    /// Two variables give different sizes.
    #[error("`{first}` is `{first_value}`, but `{second}` is `{second_value}`: unset `{first}` or make them equal")]
    Contradiction {
        /// Variable of Hemiola that sets the size.
        first: &'static str,
        /// Size according to the first variable.
        first_value: usize,
        /// Variable of the launcher that sets the size.
        second: &'static str,
        /// Size according to the second variable.
        second_value: usize,
    },
    /// The launcher gives no rendezvous, and none can be derived.
    #[error(
        "{launcher} gives no rendezvous for {size} peers {situation}: set `HEMIOLA_RENDEZVOUS` to `host:port` on every peer, with a host that all of them can reach"
    )]
    NoRendezvous {
        /// Launcher that started the peers.
        launcher: super::LauncherKind,
        /// Number of peers in the job.
        size: usize,
        /// Situation of the peers, such as "on several hosts".
        situation: &'static str,
    },
    /// Other users can write to the folder of the rendezvous file, and could redirect the job.
    #[error("the rendezvous folder `{}` {fault}: remove it, or set `HEMIOLA_RENDEZVOUS` to a file in a folder that only you can write", path.display())]
    UnsafeFolder {
        /// Folder of the rendezvous file.
        path: PathBuf,
        /// Description of the problem.
        fault: &'static str,
    },
    /// The folder of the rendezvous file cannot be created or inspected.
    #[error("cannot create the rendezvous folder `{}`: set `TMPDIR` or `HEMIOLA_RENDEZVOUS` to a writable path", path.display())]
    Folder {
        /// Folder of the rendezvous file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
}

impl RankAssignmentError {
    /// Returns the party that has to act on the error.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Folder { .. } => ErrorKind::External,
            _ => ErrorKind::Usage,
        }
    }
}
