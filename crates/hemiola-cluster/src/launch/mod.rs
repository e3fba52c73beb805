//! Launcher: starts the peers of a job and supervises them. The library behind `hemiola run`.
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
//! The thread that calls [`Launcher::run`] starts the peers, supervises them and decides
//! (`supervision.rs` has the rules). It never prints, and it waits for nothing but its event queue.
//! The queue is fed by a thread for signals, one thread per peer that relays its output, and one
//! that prints the launcher's own diagnostics.
//!
//! # No orphan
//! However the job ends, no process of it is left (shutdown.md, section Launcher):
//! - Each local peer leads a process group, which is killed when the peer ends, so its children end
//!   with it.
//! - If the launcher is killed, the kernel kills the peers (`parent_death.rs`) and a small shell kills
//!   their groups (`cleanup.rs`).
//! - A peer on another host ends when the connection does (`remote.rs`).
//!
//! A process that leaves its group (a daemon) leaves the job; it is not followed.

mod cleanup;
mod clock;
mod diagnostics;
mod error;
mod event;
mod hosts;
mod line_splitter;
mod logs;
mod outcome;
mod output;
mod parent_death;
mod process;
mod quote;
mod relay;
mod remote;
mod repeated_errors;
mod respawn;
mod run;
mod signals;
mod status;
mod supervision;

pub use error::{LaunchError, ProgramFault};
pub use hosts::{HostError, LaunchHost};
pub use outcome::{JobOutcome, PeerExit, ProcessExit};
pub use output::Output;
pub use respawn::{respawn, respawn_with};
pub(crate) use signals::is_ignored;
pub use status::{StatusKind, StatusReport};

use crate::environment::{ProcessEnvironment, VariableSource};
use hemiola_core::Rank;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

/// Launcher of a job: the program, the hosts and all options.
///
/// While a job runs, SIGINT, SIGTERM and SIGHUP of this process are forwarded to the peers.
/// Afterwards they are caught and ignored, since their former handlers cannot be restored: a
/// program that continues after [`run`](Self::run) should install its own handlers, or call
/// [`forward_signals(false)`](Self::forward_signals).
#[derive(Clone, Debug)]
#[must_use = "nothing starts before `run`"]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct Launcher {
    program: OsString,
    arguments: Vec<OsString>,
    peers: Option<usize>,
    /// Number of dedicated servers besides the peers; their program and its arguments.
    servers: usize,
    server: (OsString, Vec<OsString>),
    workers: Option<usize>,
    hosts: Vec<LaunchHost>,
    port: Option<u16>,
    ssh: OsString,
    log_dir: Option<PathBuf>,
    grace: Duration,
    shutdown_timeout: Duration,
    quiet: bool,
    forward_signals: bool,
    ignore_closed_output: bool,
    merge_errors: bool,
    /// Peer whose stdout is passed on without prefixes.
    unprefixed: Option<Rank>,
    root_stdin: bool,
}

impl Launcher {
    /// Default time that peers may continue after one has failed; see [`grace`](Self::grace).
    pub const DEFAULT_GRACE: Duration = Duration::from_secs(3);

    /// Default time that peers may continue after a signal was forwarded to them; see
    /// [`shutdown_timeout`](Self::shutdown_timeout). Long enough to finish an epoch over a large
    /// data set and to save a checkpoint.
    pub const DEFAULT_SHUTDOWN_TIMEOUT: Duration = Duration::from_mins(10);

    /// Creates a launcher whose peers run `program` with `arguments`.
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
            shutdown_timeout: Self::DEFAULT_SHUTDOWN_TIMEOUT,
            quiet: false,
            forward_signals: true,
            ignore_closed_output: false,
            merge_errors: false,
            unprefixed: None,
            root_stdin: false,
        }
    }

    /// Sets the number of peers that run the program. Default: one per slot of the hosts that no
    /// server occupies, or one.
    pub fn peers(mut self, peers: usize) -> Self {
        self.peers = Some(peers);
        self
    }

    /// Adds dedicated servers with the ranks behind those of the peers. They run `program` with
    /// `arguments`, which is `hemiola serve` or equivalent. Default: none.
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

    /// Sets the number of compute threads of each peer. Default: `HEMIOLA_WORKERS`; if unset, the
    /// peers of a host share its cores.
    pub fn workers(mut self, workers: Option<usize>) -> Self {
        self.workers = workers;
        self
    }

    /// Sets the hosts to run on, through ssh. Default: none, which means this host, without ssh.
    pub fn hosts(mut self, hosts: Vec<LaunchHost>) -> Self {
        self.hosts = hosts;
        self
    }

    /// Sets the rendezvous port on the first host. Default: a random port from 20000 to 39999.
    pub fn port(mut self, port: Option<u16>) -> Self {
        self.port = port;
        self
    }

    /// Sets the ssh program. It is called as `ssh -o BatchMode=yes destination script`. Default:
    /// `ssh`.
    pub fn ssh(mut self, program: impl AsRef<OsStr>) -> Self {
        program.as_ref().clone_into(&mut self.ssh);
        self
    }

    /// Sets a folder for a copy of each peer's output, `peer-<rank>.log`; created if missing.
    /// Default: no copies.
    pub fn log_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.log_dir = Some(folder.into());
        self
    }

    /// Sets the time that peers may continue after one has failed. Default:
    /// [`DEFAULT_GRACE`](Self::DEFAULT_GRACE).
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets the time that peers may continue after the launcher was interrupted, unless one fails
    /// or a second interrupt arrives. Default:
    /// [`DEFAULT_SHUTDOWN_TIMEOUT`](Self::DEFAULT_SHUTDOWN_TIMEOUT).
    pub fn shutdown_timeout(mut self, shutdown_timeout: Duration) -> Self {
        self.shutdown_timeout = shutdown_timeout;
        self
    }

    /// Suppresses the launcher's own diagnostics. Default: it reports on stderr which peer failed,
    /// and the reason.
    pub fn quiet(mut self, quiet: bool) -> Self {
        self.quiet = quiet;
        self
    }

    /// Forwards signals of this process to the peers. Default: yes.
    pub fn forward_signals(mut self, forward: bool) -> Self {
        self.forward_signals = forward;
        self
    }

    /// Lets peers continue when the reader of this process's stdout is gone (`| head`); their
    /// further output is dropped. Default: they are terminated, like most programs.
    pub fn ignore_closed_output(mut self, ignore: bool) -> Self {
        self.ignore_closed_output = ignore;
        self
    }

    /// Prints an error that several peers report in the same words once, and then says on which
    /// peers it occurred. Compares the lines of stderr that start with `hemiola: ` or `hint: `.
    /// Default: every line of every peer is printed.
    pub fn merge_errors(mut self, merge: bool) -> Self {
        self.merge_errors = merge;
        self
    }

    /// Passes the stdout of the root on byte by byte, without its rank before each line: a result
    /// for another program. Default: every line is prefixed with its rank.
    pub fn unprefixed_root(mut self, unprefixed: bool) -> Self {
        self.unprefixed = unprefixed.then(|| Rank::new(0));
        self
    }

    /// Lets the root read the standard input of this process, if it is a local peer. Default: the
    /// standard input of all peers is empty.
    pub fn root_stdin(mut self, root_stdin: bool) -> Self {
        self.root_stdin = root_stdin;
        self
    }

    /// Starts the peers and returns when all have ended.
    ///
    /// An error means that no peer is running; the [`JobOutcome`] tells how each peer ended.
    pub fn run(&self, output: Output) -> Result<JobOutcome, LaunchError> {
        self.run_with(output, &ProcessEnvironment)
    }

    /// Runs the job like [`run`](Self::run), with the settings for remote peers taken from
    /// `variables`.
    pub fn run_with(&self, output: Output, variables: &dyn VariableSource) -> Result<JobOutcome, LaunchError> {
        run::run(self, output, variables)
    }
}
