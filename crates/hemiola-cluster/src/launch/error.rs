//! Errors of starting or supervising a job.

use super::hosts::HostError;
use hemiola_core::{ErrorKind, Rank};
use std::io;
use std::path::PathBuf;

/// Reason why a program cannot be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProgramFault {
    /// No folder of `PATH` contains an executable of this name. A folder without search permission
    /// looks the same.
    NotInPath,
    /// The file does not exist.
    NoSuchFile,
    /// The file exists, but not the interpreter that its first line names.
    NoInterpreter,
    /// The path is a folder.
    IsFolder,
    /// The file is not executable.
    NotExecutable,
    /// The file is neither a program for this machine nor a script with an interpreter line.
    WrongFormat,
}

impl ProgramFault {
    /// Returns the description of the fault and a way out.
    const fn hint(self) -> &'static str {
        match self {
            Self::NotInPath => {
                "no folder of `PATH` contains an executable of this name; run one in this folder as `./name`"
            }
            Self::NoSuchFile => "there is no such file; is it built, and is the path relative to this folder?",
            Self::NoInterpreter => "the interpreter that its first line (`#!`) names does not exist",
            Self::IsFolder => "it is a folder",
            Self::NotExecutable => "it is not executable; `chmod +x` makes it so",
            Self::WrongFormat => {
                "it is not a program for this machine; a script starts with a line such as `#!/bin/sh`"
            }
        }
    }
}

/// Error of launching a job.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The program cannot be started.
    #[error("cannot start `{}`: {}", program.display(), fault.hint())]
    Program {
        /// Program as given by the user.
        program: PathBuf,
        /// Reason of the failure.
        fault: ProgramFault,
    },
    /// The operating system could not start a process.
    #[error("cannot start peer {rank} (`{}`)", program.display())]
    Start {
        /// Rank of the peer.
        rank: Rank,
        /// Program that was started; ssh for a remote peer.
        program: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The job has no peers.
    #[error("a job needs at least one peer")]
    NoPeers,
    /// The job has too many peers.
    #[error("{peers} peers and servers exceed the limit of {limit} per job")]
    TooManyPeers {
        /// Number of requested peers and servers.
        peers: usize,
        /// Maximum number of peers and servers.
        limit: usize,
    },
    /// The hosts have too few slots.
    #[error(
        "{peers} peers do not fit into the {slots} slots of the hosts: give the hosts more slots with `host:slots`"
    )]
    TooFewSlots {
        /// Number of requested peers.
        peers: usize,
        /// Number of slots of all hosts.
        slots: usize,
    },
    /// A host specification is invalid.
    #[error(transparent)]
    LaunchHost(#[from] HostError),
    /// The name of the first host has another meaning on the other hosts.
    #[error(
        "the rendezvous is on the first host, but `{host}` is a different machine on each host: use a name that the other hosts can resolve"
    )]
    LoopbackAmongHosts {
        /// Name of the first host.
        host: String,
    },
    /// The folder for logs cannot be created.
    #[error("cannot create the log folder `{}`", path.display())]
    LogFolder {
        /// Path of the folder.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A resource of the launcher itself is not available: a thread, a pipe, a temporary folder,
    /// randomness.
    #[error("cannot set up the launcher: {problem}")]
    Setup {
        /// Description of the missing resource.
        problem: &'static str,
        /// Error of the operating system.
        source: io::Error,
    },
}

impl LaunchError {
    /// Returns the party that has to act on the error.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Program { .. }
            | Self::NoPeers
            | Self::TooManyPeers { .. }
            | Self::TooFewSlots { .. }
            | Self::LaunchHost(_)
            | Self::LoopbackAmongHosts { .. }
            | Self::LogFolder { .. } => ErrorKind::Usage,
            Self::Start { .. } | Self::Setup { .. } => ErrorKind::External,
        }
    }

    /// Returns the exit code of a launcher that ends with this error: 127 and 126, as in shells,
    /// for a program that is not found or cannot be executed, else that of the [kind](Self::kind).
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Program { fault: ProgramFault::NotInPath | ProgramFault::NoSuchFile, .. } => 127,
            Self::Program { .. } => 126,
            _ => self.kind().exit_code(),
        }
    }

    /// Classifies a failed attempt to start `program` as peer `rank`.
    pub(super) fn from_start(rank: Rank, program: PathBuf, source: io::Error) -> Self {
        let has_folder = program.components().count() > 1 || program.has_root();
        let fault = match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied if !has_folder => ProgramFault::NotInPath,
            io::ErrorKind::NotFound if program.exists() => ProgramFault::NoInterpreter,
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => ProgramFault::NoSuchFile,
            io::ErrorKind::PermissionDenied if program.is_dir() => ProgramFault::IsFolder,
            io::ErrorKind::PermissionDenied => ProgramFault::NotExecutable,
            _ if source.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => ProgramFault::WrongFormat,
            _ => return Self::Start { rank, program, source },
        };
        Self::Program { program, fault }
    }
}
