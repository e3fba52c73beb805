//! Why a job could not be started or watched.

use super::hosts::HostError;
use hemiola_core::{ErrorKind, Rank};
use std::io;
use std::path::PathBuf;

/// What is wrong with a program that cannot be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProgramFault {
    /// No folder of `PATH` has it, or none that may be searched and executed from: the system does not tell which.
    NotInPath,
    /// There is no such file.
    NoSuchFile,
    /// The file is there, but not the interpreter that its first line names.
    NoInterpreter,
    /// It is a folder.
    IsFolder,
    /// It may not be executed.
    NotExecutable,
    /// It is neither a program for this machine nor a script with a first line that names its interpreter.
    WrongFormat,
}

impl ProgramFault {
    /// What is wrong and what to do.
    const fn hint(self) -> &'static str {
        match self {
            Self::NotInPath => {
                "no folder of `PATH` has a program of this name that you may execute; one in this folder is called `./name`"
            }
            Self::NoSuchFile => "there is no such file; is it built, and is the path right from this folder?",
            Self::NoInterpreter => "the interpreter that its first line (`#!`) names does not exist",
            Self::IsFolder => "it is a folder",
            Self::NotExecutable => "it is not executable; `chmod +x` makes it so",
            Self::WrongFormat => "it is no program for this machine; a script begins with a line such as `#!/bin/sh`",
        }
    }
}

/// Why no job ran.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The program cannot be started.
    #[error("cannot start `{}`: {}", program.display(), fault.hint())]
    Program {
        /// The program as it was given.
        program: PathBuf,
        /// What is wrong with it.
        fault: ProgramFault,
    },
    /// The system would not start a process.
    #[error("cannot start peer {rank} (`{}`)", program.display())]
    Start {
        /// The peer.
        rank: Rank,
        /// The program, or ssh.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A job of no peers.
    #[error("a job has at least one peer, not 0")]
    NoPeers,
    /// More peers than a job may have.
    #[error("{peers} peers, servers among them, are more than a job may have, which is {most}")]
    TooManyPeers {
        /// How many were asked for.
        peers: usize,
        /// How many there may be.
        most: usize,
    },
    /// More peers than the hosts have slots for.
    #[error("{peers} peers do not fit into the {slots} slots of the hosts: give the hosts more slots (`host:slots`)")]
    TooFewSlots {
        /// Peers asked for.
        peers: usize,
        /// Slots there are.
        slots: usize,
    },
    /// A host that is written wrongly.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The first host's name means something else on the other hosts.
    #[error(
        "the peers meet on the first host, but `{host}` means another machine on each host: name it as the others see it"
    )]
    LoopbackAmongHosts {
        /// The first host.
        host: String,
    },
    /// The folder for logs cannot be made.
    #[error("cannot make the folder `{}` for logs", path.display())]
    LogFolder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Something the launcher itself needs is not to be had: a thread, a pipe, a temporary folder, randomness.
    #[error("cannot set up the launcher: {what}")]
    Setup {
        /// What was asked of the system.
        what: &'static str,
        /// What it said.
        source: io::Error,
    },
}

impl LaunchError {
    /// Whose fault it is.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Program { .. }
            | Self::NoPeers
            | Self::TooManyPeers { .. }
            | Self::TooFewSlots { .. }
            | Self::Host(_)
            | Self::LoopbackAmongHosts { .. }
            | Self::LogFolder { .. } => ErrorKind::Usage,
            Self::Start { .. } | Self::Setup { .. } => ErrorKind::World,
        }
    }

    /// The exit code of a launcher that ends for this reason: 127 and 126 as shells have it for a program that is not
    /// found or cannot be executed, else that of the [kind](Self::kind).
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Program { fault: ProgramFault::NotInPath | ProgramFault::NoSuchFile, .. } => 127,
            Self::Program { .. } => 126,
            _ => self.kind().exit_code(),
        }
    }

    /// What a failed attempt to start `program` as peer `rank` means.
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
