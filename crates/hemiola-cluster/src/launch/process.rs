//! Process of one peer, as held by the launcher.
//!
//! A local peer leads a process group of its own; a remote one is an ssh process to which signals
//! are sent by name. The process is reaped only after its group has been killed: until then its
//! number cannot be reused.

use super::LaunchError;
use super::cleanup::{CleanupProcess, signal_group};
use super::outcome::ProcessExit;
use super::parent_death::end_with_parent;
use super::status::StatusReport;
use hemiola_core::Rank;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};
use signal_hook::low_level::signal_name;
use std::io::{PipeWriter, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, OnceLock};

/// Peer process that has been started.
#[derive(Debug)]
pub(super) struct LaunchedPeer {
    pub(super) rank: Rank,
    child: Child,
    /// Present while the process runs; see
    /// [`OutputRelay::start`](super::relay::OutputRelay::start).
    pub(super) running: Option<PipeWriter>,
    remote: Option<RemoteProcess>,
}

/// Additional state of a peer on another host.
#[derive(Debug)]
pub(super) struct RemoteProcess {
    pub(super) host: String,
    /// Input of the script on the other side; see [`remote`](super::remote). `None` once it is
    /// closed.
    stdin: Option<ChildStdin>,
    /// Status report of the peer, once it has arrived.
    pub(super) status: Arc<OnceLock<StatusReport>>,
}

impl LaunchedPeer {
    /// Starts `command`, whose stdin is set, as a local peer. The caller takes its stdout and stderr.
    pub(super) fn start_local(
        rank: Rank,
        mut command: Command,
        cleanup: &mut CleanupProcess,
    ) -> Result<Self, LaunchError> {
        command.process_group(0);
        end_with_parent(&mut command, Signal::KILL);
        let child = spawn(rank, command)?;
        cleanup.add(Pid::from_child(&child));
        Ok(Self { rank, child, running: None, remote: None })
    }

    /// Starts `command`, an ssh, as a peer on `host`, and passes the secret to it.
    pub(super) fn start_remote(
        rank: Rank,
        mut command: Command,
        host: &str,
        secret: &str,
    ) -> Result<Self, LaunchError> {
        command.stdin(Stdio::piped()).process_group(0);
        // Not SIGKILL: ssh should close its connection, whose end terminates the peer.
        end_with_parent(&mut command, Signal::TERM);
        let mut child = spawn(rank, command)?;
        let mut stdin = child.stdin.take();
        if let Some(stdin) = &mut stdin {
            // If ssh has already ended, its exit code tells the reason.
            let _ = stdin.write_all(format!("{secret}\n").as_bytes());
        }
        let remote = RemoteProcess { host: host.to_owned(), stdin, status: Arc::default() };
        Ok(Self { rank, child, running: None, remote: Some(remote) })
    }

    pub(super) fn child_mut(&mut self) -> &mut Child {
        &mut self.child
    }

    pub(super) fn remote(&self) -> Option<&RemoteProcess> {
        self.remote.as_ref()
    }

    /// Returns the process id.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    fn group(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Sends a signal to the peer and its children. Must not be called after
    /// [`try_reap`](Self::try_reap) returned an exit.
    pub(super) fn signal(&mut self, signal: i32) {
        if let Some(remote) = &mut self.remote {
            let name = signal_name(signal).and_then(|name| name.strip_prefix("SIG"));
            if let (Some(stdin), Some(name)) = (&mut remote.stdin, name) {
                // A few bytes into a pipe that holds thousands: this does not block. If ssh has
                // ended, so has the peer.
                let _ = stdin.write_all(format!("{name}\n").as_bytes());
            }
        } else if let Some(signal) = Signal::from_named_raw(signal) {
            signal_group(self.group(), signal);
        }
    }

    /// Kills the process on this host: the peer itself, or its ssh.
    pub(super) fn kill_local(&mut self) {
        if let Some(remote) = &mut self.remote {
            remote.stdin = None;
        }
        signal_group(self.group(), Signal::KILL);
    }

    /// If the process has ended, kills the rest of its group, reaps it, and returns its exit.
    pub(super) fn try_reap(&mut self, cleanup: &mut CleanupProcess) -> Option<ProcessExit> {
        // Checks without reaping: the process id stays reserved until the group is killed.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(self.group()), options) {
            Ok(Some(_)) => {}
            Ok(None) | Err(rustix::io::Errno::INTR) => return None,
            // Another part of this process has reaped it by waiting for all children.
            Err(_) => return Some(ProcessExit::Unknown),
        }
        signal_group(self.group(), Signal::KILL);
        cleanup.remove(self.group());
        self.running = None;
        let status = self.child.wait().ok()?;
        Some(self.exit_of(status))
    }

    fn exit_of(&self, status: ExitStatus) -> ProcessExit {
        let Some(code) = status.code() else { return ProcessExit::Killed(status.signal().unwrap_or_default()) };
        let code = u8::try_from(code).unwrap_or(u8::MAX);
        // The shell on the other side returns 128 + n for a program killed by signal n.
        match i32::from(code) - 128 {
            signal if self.remote.is_some() && signal > 0 && signal_name(signal).is_some() => {
                ProcessExit::Killed(signal)
            }
            _ => ProcessExit::Exited(code),
        }
    }
}

fn spawn(rank: Rank, mut command: Command) -> Result<Child, LaunchError> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().map_err(|error| LaunchError::from_start(rank, PathBuf::from(command.get_program()), error))
}
