//! Peers as processes: the calling test binary again, once per peer, running one entry point.
//!
//! An entry point is a test that is marked `#[ignore = "entry point of a child process"]`: a normal
//! run reports it as ignored, and [`PeerProcesses`] selects it by its full name. All peers meet
//! through a file in a temporary folder.

use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use tempfile::TempDir;

/// Arguments that make a test binary run the entry point `name` and nothing else.
#[must_use]
pub fn entry_arguments(name: &str) -> [&str; 4] {
    [name, "--exact", "--ignored", "--nocapture"]
}

/// A command that runs the entry point `name` of this test binary.
///
/// # Panics
///
/// Panics if the path of the test binary is unknown.
#[must_use]
pub fn entry_command(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a test binary knows its own path"));
    command.args(entry_arguments(name)).stdin(Stdio::null());
    command
}

/// Running peers of one job, and the folder through which they meet.
#[derive(Debug)]
pub struct PeerProcesses {
    peers: Vec<PeerProcess>,
    _rendezvous: TempDir,
}

impl PeerProcesses {
    /// Starts `peers` processes that run the entry point `name`. `prepare` adds to their commands.
    ///
    /// # Panics
    ///
    /// Panics if a process cannot be started.
    pub fn start(peers: u32, name: &str, prepare: impl Fn(u32, &mut Command)) -> Self {
        Self::try_start_as(None, peers, name, prepare).expect("peers can be started")
    }

    /// Starts peers as another user, who may not be allowed to run this binary.
    pub fn try_start_as(
        user: Option<u32>,
        peers: u32,
        name: &str,
        prepare: impl Fn(u32, &mut Command),
    ) -> io::Result<Self> {
        let rendezvous = tempfile::tempdir()?;
        std::os::unix::fs::chown(rendezvous.path(), user, user)?;
        let start = |rank: u32| {
            let mut command = entry_command(name);
            set_job(&mut command, rank, peers, rendezvous.path());
            if let Some(user) = user {
                command.uid(user).gid(user);
            }
            prepare(rank, &mut command);
            PeerProcess::spawn(command)
        };
        let peers = (0..peers).map(start).collect::<io::Result<Vec<_>>>()?;
        Ok(Self { peers, _rendezvous: rendezvous })
    }

    /// Running peers in the order of their ranks.
    pub fn peers(&mut self) -> &mut [PeerProcess] {
        &mut self.peers
    }

    /// Waits for all peers and returns their standard output.
    ///
    /// # Panics
    ///
    /// Panics if a peer fails.
    #[must_use]
    pub fn finish(self) -> Vec<String> {
        let finish = |peer: PeerProcess| {
            let output = peer.output();
            let printed = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
            printed
        };
        self.peers.into_iter().map(finish).collect()
    }

    /// Waits for all peers and returns exit status, standard output and standard error of each.
    #[must_use]
    pub fn outputs(self) -> Vec<Output> {
        self.peers.into_iter().map(PeerProcess::output).collect()
    }
}

/// Sets the variables that make a process a peer of a job.
fn set_job(command: &mut Command, rank: u32, size: u32, rendezvous: &Path) {
    command.env("HEMIOLA_WORKERS", "2").env("HEMIOLA_RANK", rank.to_string()).env("HEMIOLA_SIZE", size.to_string());
    command.env("HEMIOLA_RENDEZVOUS", format!("file:{}/meet", rendezvous.display()));
}

/// A child process of a test. Dropping it kills the process.
#[derive(Debug)]
pub struct PeerProcess(Option<Child>);

impl PeerProcess {
    /// Starts `command` with piped standard output and standard error.
    pub fn spawn(mut command: Command) -> io::Result<Self> {
        Ok(Self(Some(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)))
    }

    /// The operating system's handle of the process.
    ///
    /// # Panics
    ///
    /// Never: the process is taken only by [`output`](Self::output), which consumes this.
    pub fn child(&mut self) -> &mut Child {
        self.0.as_mut().expect("the process is taken only by `output`")
    }

    /// Reads standard output until a line contains `text`.
    ///
    /// # Panics
    ///
    /// Panics if the process ends before.
    pub fn wait_for_line(&mut self, text: &str) {
        let stdout = self.child().stdout.as_mut().expect("standard output is piped");
        let mut seen = Vec::new();
        let mut byte = [0];
        while !String::from_utf8_lossy(&seen).contains(text) {
            assert_eq!(stdout.read(&mut byte).expect("a pipe can be read"), 1, "it ended before it printed `{text}`");
            seen.push(byte[0]);
        }
    }

    /// Sends the signal of the given name, such as `KILL`.
    ///
    /// # Panics
    ///
    /// Panics if `kill` fails.
    pub fn signal(&mut self, signal: &str) {
        let id = self.child().id().to_string();
        let status = Command::new("kill").args([format!("-{signal}"), id]).status();
        assert!(status.is_ok_and(|status| status.success()), "the signal {signal} can be sent");
    }

    /// Kills the process and waits for its end.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        self.child().kill()?;
        self.child().wait()
    }

    /// Waits for the process and returns the rest of its output.
    ///
    /// # Panics
    ///
    /// Panics if the output cannot be read.
    #[must_use]
    pub fn output(mut self) -> Output {
        let child = self.0.take().expect("the process is taken only here");
        child.wait_with_output().expect("the output of a child can be read")
    }

    /// Waits for the process. Returns its success and all of its remaining output.
    #[must_use]
    pub fn finish(self) -> (bool, String) {
        let output = self.output();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        (output.status.success(), text)
    }
}

impl Drop for PeerProcess {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // It may have ended already; then there is nothing to kill.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
