//! Starts the peers of a job and watches over them: the library behind `hemiola run`.
//!
//! ```
//! use hemiola_cluster::launch::{Launcher, Output};
//!
//! let outcome = Launcher::new("true", [""; 0]).peers(2).run(Output::new(std::io::sink(), std::io::sink()))?;
//! assert_eq!(outcome.code(), 0);
//! # Ok::<(), hemiola_cluster::launch::LaunchError>(())
//! ```
//!
//! # Threads
//! The thread that calls [`Launcher::run`] starts the peers, watches them and decides (`supervision.rs` has the rules).
//! It never prints and never waits for anything but its queue of events, which is fed by: a thread for signals, one
//! thread per peer that relays its output, and one that prints the launcher's own notes.
//!
//! # No orphan
//! However the job ends, no process of it is left:
//! - Each local peer leads a process group, which is killed when the peer ends, so its children end with it.
//! - If the launcher is killed, the kernel kills the peers (`parent_death.rs`) and a small shell kills their groups
//!   (`guard.rs`).
//! - A peer on another host ends when the connection does (`remote.rs`).
//!
//! A process that leaves its group (a daemon) leaves the job; it is not followed.

mod clock;
mod error;
mod event;
mod guard;
mod hosts;
mod lines;
mod logs;
mod notes;
mod outcome;
mod output;
mod parent_death;
mod process;
mod quote;
mod relay;
mod remote;
mod respawn;
mod run;
mod signals;
mod status;
mod supervision;

pub use error::{LaunchError, ProgramFault};
pub use hosts::{Host, HostError};
pub use outcome::{End, Outcome, PeerEnd};
pub use output::Output;
pub use respawn::{respawn, respawn_with};
pub(crate) use signals::is_ignored;
pub use status::{StatusKind, StatusReport};

use crate::variables::{ProcessVariables, Variables};
use hemiola_core::Rank;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

/// What to start, where and how.
///
/// While a job runs, SIGINT, SIGTERM and SIGHUP of this process are forwarded to the peers. Afterwards they are
/// caught and ignored, since their former meaning cannot be restored: a program that goes on after [`run`](Self::run)
/// should install handlers of its own, or say [`forward_signals(false)`](Self::forward_signals).
#[derive(Clone, Debug)]
#[must_use = "nothing starts before `run`"]
pub struct Launcher {
    program: OsString,
    arguments: Vec<OsString>,
    peers: Option<usize>,
    /// How many dedicated servers, besides the peers; their program and its arguments.
    servers: usize,
    server: (OsString, Vec<OsString>),
    workers: Option<usize>,
    hosts: Vec<Host>,
    port: Option<u16>,
    ssh: OsString,
    log_dir: Option<PathBuf>,
    grace: Duration,
    patience: Duration,
    quiet: bool,
    forward_signals: bool,
    outlives_output: bool,
    /// The peer whose stdout is passed on as it is.
    bare: Option<Rank>,
}

impl Launcher {
    /// How long peers may go on after one has failed, unless [`grace`](Self::grace) says otherwise.
    pub const DEFAULT_GRACE: Duration = Duration::from_secs(3);

    /// How long peers may go on after a signal was handed on to them, unless [`patience`](Self::patience) says otherwise. Long
    /// enough to come to the end of a pass over much data and to save a checkpoint.
    pub const DEFAULT_PATIENCE: Duration = Duration::from_mins(10);

    /// Every peer will run `program` with `arguments`.
    pub fn new<A: AsRef<OsStr>>(program: impl AsRef<OsStr>, arguments: impl IntoIterator<Item = A>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            arguments: arguments.into_iter().map(|argument| argument.as_ref().to_owned()).collect(),
            peers: None,
            servers: 0,
            server: (OsString::new(), Vec::new()),
            workers: None,
            hosts: Vec::new(),
            port: None,
            ssh: "ssh".into(),
            log_dir: None,
            grace: Self::DEFAULT_GRACE,
            patience: Self::DEFAULT_PATIENCE,
            quiet: false,
            forward_signals: true,
            outlives_output: false,
            bare: None,
        }
    }

    /// The number of peers that run the program. Default: one per slot of the hosts that no server has, or one.
    pub fn peers(mut self, peers: usize) -> Self {
        self.peers = Some(peers);
        self
    }

    /// This many dedicated servers, besides the peers and with the ranks behind theirs, run `program` with `arguments`, which is
    /// `hemiola serve` or does the same. Default: none.
    pub fn servers<A: AsRef<OsStr>>(
        mut self,
        servers: usize,
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        self.servers = servers;
        let arguments = arguments.into_iter().map(|argument| argument.as_ref().to_owned()).collect();
        self.server = (program.as_ref().to_owned(), arguments);
        self
    }

    /// The number of compute threads of each peer. Default: what `HEMIOLA_WORKERS` says, else the cores of a host are
    /// shared among its peers.
    pub fn workers(mut self, workers: Option<usize>) -> Self {
        self.workers = workers;
        self
    }

    /// The hosts to run on, through ssh. Default: none, which is this one, without ssh.
    pub fn hosts(mut self, hosts: Vec<Host>) -> Self {
        self.hosts = hosts;
        self
    }

    /// The port on the first host where the peers meet. Default: a random one from 20000 to 39999.
    pub fn port(mut self, port: Option<u16>) -> Self {
        self.port = port;
        self
    }

    /// The program that plays ssh. It is called as `ssh -o BatchMode=yes destination script`. Default: `ssh`.
    pub fn ssh(mut self, program: impl AsRef<OsStr>) -> Self {
        program.as_ref().clone_into(&mut self.ssh);
        self
    }

    /// A folder for a copy of each peer's output, `peer-<rank>.log`; made if missing. Default: no copies.
    pub fn log_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.log_dir = Some(folder.into());
        self
    }

    /// How long peers may go on after one has failed. Default: [`DEFAULT_GRACE`](Self::DEFAULT_GRACE).
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// How long peers may go on after the launcher was interrupted, if none fails and nobody interrupts it again. Default:
    /// [`DEFAULT_PATIENCE`](Self::DEFAULT_PATIENCE).
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Whether the launcher itself says nothing. Default: it says on stderr which peer failed and why.
    pub fn quiet(mut self, quiet: bool) -> Self {
        self.quiet = quiet;
        self
    }

    /// Whether signals of this process are forwarded to the peers. Default: yes.
    pub fn forward_signals(mut self, forward: bool) -> Self {
        self.forward_signals = forward;
        self
    }

    /// Whether peers go on when nobody reads this process's stdout any more (`| head`); what they print there is dropped.
    /// Default: they are ended, as most programs are.
    pub fn outlives_output(mut self, outlives: bool) -> Self {
        self.outlives_output = outlives;
        self
    }

    /// Whether what the first peer prints to stdout is passed on byte by byte, without its rank before each line: a result that
    /// another program reads. Default: every line has its rank.
    pub fn bare_root(mut self, bare: bool) -> Self {
        self.bare = bare.then(|| Rank::new(0));
        self
    }

    /// Starts the peers and returns when all have ended.
    ///
    /// An error means that no peer is running; how the peers ended, well or badly, is in the [`Outcome`].
    pub fn run(&self, output: Output) -> Result<Outcome, LaunchError> {
        self.run_with(output, &ProcessVariables)
    }

    /// The same, with the settings for remote peers taken from `variables`.
    pub fn run_with(&self, output: Output, variables: &dyn Variables) -> Result<Outcome, LaunchError> {
        run::run(self, output, variables)
    }
}
