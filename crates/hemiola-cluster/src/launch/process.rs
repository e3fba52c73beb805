//! One peer's process, as the launcher holds it.
//!
//! A local peer leads a process group of its own; a remote one is an ssh to which signals are written by name. The
//! process is reaped only after its group has been killed: until then its number cannot become another's.

use super::LaunchError;
use super::guard::{Guard, signal_group};
use super::outcome::End;
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

/// A peer that has been started.
#[derive(Debug)]
pub(super) struct PeerProcess {
    pub(super) rank: Rank,
    child: Child,
    /// Present while the process runs; see [`Relay::start`](super::relay::Relay::start).
    pub(super) running: Option<PipeWriter>,
    remote: Option<Remote>,
}

/// What is different for a peer on another host.
#[derive(Debug)]
pub(super) struct Remote {
    pub(super) host: String,
    /// The way to the script on the other side; see [`remote`](super::remote). `None` once it is closed.
    stdin: Option<ChildStdin>,
    /// What the peer said of its end, once that has come through.
    pub(super) status: Arc<OnceLock<StatusReport>>,
}

impl PeerProcess {
    /// Starts `command` as a local peer. The caller takes its stdout and stderr.
    pub(super) fn start_local(rank: Rank, mut command: Command, guard: &mut Guard) -> Result<Self, LaunchError> {
        command.stdin(Stdio::null()).process_group(0);
        end_with_parent(&mut command, Signal::KILL);
        let child = spawn(rank, command)?;
        guard.add(Pid::from_child(&child));
        Ok(Self { rank, child, running: None, remote: None })
    }

    /// Starts `command`, an ssh, as a peer on `host`, and hands over the secret.
    pub(super) fn start_remote(
        rank: Rank,
        mut command: Command,
        host: &str,
        secret: &str,
    ) -> Result<Self, LaunchError> {
        command.stdin(Stdio::piped()).process_group(0);
        // Not SIGKILL: ssh should close its connection, whose end ends the peer.
        end_with_parent(&mut command, Signal::TERM);
        let mut child = spawn(rank, command)?;
        let mut stdin = child.stdin.take();
        if let Some(stdin) = &mut stdin {
            // If ssh is gone already, its exit code will say why.
            let _ = stdin.write_all(format!("{secret}\n").as_bytes());
        }
        let remote = Remote { host: host.to_owned(), stdin, status: Arc::default() };
        Ok(Self { rank, child, running: None, remote: Some(remote) })
    }

    pub(super) fn child_mut(&mut self) -> &mut Child {
        &mut self.child
    }

    pub(super) fn remote(&self) -> Option<&Remote> {
        self.remote.as_ref()
    }

    /// The process id.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    fn group(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Sends the peer and its children a signal. Must not be called after [`try_end`](Self::try_end) gave an end.
    pub(super) fn signal(&mut self, signal: i32) {
        if let Some(remote) = &mut self.remote {
            let name = signal_name(signal).and_then(|name| name.strip_prefix("SIG"));
            if let (Some(stdin), Some(name)) = (&mut remote.stdin, name) {
                // A few bytes into a pipe that holds thousands: this does not wait. If ssh is gone, so is the peer.
                let _ = stdin.write_all(format!("{name}\n").as_bytes());
            }
        } else if let Some(signal) = Signal::from_named_raw(signal) {
            signal_group(self.group(), signal);
        }
    }

    /// Kills the process on this host, whatever it is.
    pub(super) fn cut(&mut self) {
        if let Some(remote) = &mut self.remote {
            remote.stdin = None;
        }
        signal_group(self.group(), Signal::KILL);
    }

    /// If the process has ended: kills what is left of its group, reaps it, and says how it ended.
    pub(super) fn try_end(&mut self, guard: &mut Guard) -> Option<End> {
        // Looks without reaping: the number stays ours until the group is dealt with.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(self.group()), options) {
            Ok(Some(_)) => {}
            Ok(None) | Err(rustix::io::Errno::INTR) => return None,
            Err(_) => return Some(End::Stuck), // somebody else has reaped it: a process that waits for all children
        }
        signal_group(self.group(), Signal::KILL);
        guard.remove(self.group());
        self.running = None;
        let status = self.child.wait().ok()?;
        Some(self.end_of(status))
    }

    fn end_of(&self, status: ExitStatus) -> End {
        let Some(code) = status.code() else { return End::Killed(status.signal().unwrap_or_default()) };
        let code = u8::try_from(code).unwrap_or(u8::MAX);
        // The shell on the other side says 128 + n for a program killed by signal n.
        match i32::from(code) - 128 {
            signal if self.remote.is_some() && signal > 0 && signal_name(signal).is_some() => End::Killed(signal),
            _ => End::Exited(code),
        }
    }
}

fn spawn(rank: Rank, mut command: Command) -> Result<Child, LaunchError> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().map_err(|error| LaunchError::from_start(rank, PathBuf::from(command.get_program()), error))
}
