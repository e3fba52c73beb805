//! Run of a job, from the first process to the last.

use super::cleanup::CleanupProcess;
use super::clock::LaunchClock;
use super::diagnostics::LauncherDiagnostics;
use super::event::{self, LaunchEvent};
use super::logs::{self, PeerLog};
use super::outcome::{JobOutcome, PeerExit, ProcessExit};
use super::output::{Output, Printer};
use super::process::LaunchedPeer;
use super::relay::OutputRelay;
use super::remote::RemotePeer;
use super::repeated_errors::SharedRepeatedErrors;
use super::signals::SignalWatch;
use super::status::StatusReport;
use super::supervision::{Supervision, SupervisionAction};
use super::{LaunchError, LaunchHost, Launcher, hosts};
use crate::builder::MAX_PEERS;
use crate::environment::{self, VariableSource};
use crate::rank_assignment::join_host_port;
use hemiola_core::{Moment, Rank};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Duration;
use tempfile::TempDir;

/// First port that is chosen for a job on several hosts. All lie below the ephemeral ports of
/// common systems or, on Linux, hardly above the first of them.
const FIRST_PORT: u16 = 20_000;
/// Number of ports to choose from.
const PORTS: u16 = 20_000;
/// Longest wait for an event. Every event wakes the launcher; this only bounds the damage of a lost
/// wake-up.
const MAX_EVENT_WAIT: Duration = Duration::from_secs(1);

/// Runs a job; see [`Launcher::run`].
pub(super) fn run(
    launcher: &Launcher,
    output: Output,
    variables: &dyn VariableSource,
) -> Result<JobOutcome, LaunchError> {
    let plan = LaunchPlan::new(launcher, variables)?;
    if let Some(folder) = &launcher.log_dir {
        logs::create_folder(folder)?;
    }
    let (sender, events) = event::channel();
    let printer = Arc::new(Printer::new(output, sender.clone(), launcher.merge_errors));
    // Before the first peer, so that no signal and no exit is missed.
    let signals = SignalWatch::start(sender.clone(), launcher.forward_signals)?;
    let diagnostics = LauncherDiagnostics::start(Arc::clone(&printer), sender.clone(), launcher.quiet)?;
    let mut job = RunningJob {
        cleanup: CleanupProcess::start(plan.folder.path()),
        plan,
        peers: Vec::new(),
        ended: Vec::new(),
        clock: LaunchClock::start(),
    };
    let mut early = VecDeque::new();
    let started = job.start(launcher, &printer, &diagnostics, &sender, || collect_events(&events, &mut early));
    let (lost, repeated) = (printer.lost(), printer.repeated_errors());
    // From here on only the threads send.
    drop((printer, sender));
    let outcome = started.map(|()| {
        let outcome = job.supervise(launcher, &events, early, diagnostics, repeated.as_ref());
        JobOutcome { output_lost: lost.load(Ordering::Relaxed), ..outcome }
    });
    // `events` is dropped first: this releases a thread that waits for room in the queue, which can
    // then be joined.
    drop(events);
    drop(signals);
    outcome
}

/// Settings of all peers, fixed before any is started. Not `Debug`: it holds the secret.
struct LaunchPlan {
    /// Index of each peer's host in the launcher's list, by rank; all 0 without hosts.
    host_of: Vec<usize>,
    secret: String,
    /// Variables that all peers have in common, without the secret.
    common: Vec<(&'static str, String)>,
    /// True if the peers of a host share its cores.
    share_cores: bool,
    /// Private folder of the user: the rendezvous of local peers, and their status files. Removed
    /// at the end.
    folder: TempDir,
    /// Working folder of the launcher.
    working_folder: PathBuf,
}

impl LaunchPlan {
    fn new(launcher: &Launcher, variables: &dyn VariableSource) -> Result<Self, LaunchError> {
        let setup = |problem| move |source| LaunchError::Setup { problem, source };
        let host_of = match launcher.peers {
            Some(0) => return Err(LaunchError::NoPeers),
            peers if launcher.hosts.is_empty() => {
                let size = peers.unwrap_or(1).saturating_add(launcher.servers);
                if size > MAX_PEERS {
                    return Err(LaunchError::TooManyPeers { peers: size, limit: MAX_PEERS });
                }
                vec![0; size]
            }
            peers => hosts::assign(&launcher.hosts, peers.map(|peers| peers.saturating_add(launcher.servers)))?,
        };
        if host_of.len() <= launcher.servers {
            return Err(LaunchError::NoPeers);
        }
        if host_of.len() > MAX_PEERS {
            return Err(LaunchError::TooManyPeers { peers: host_of.len(), limit: MAX_PEERS });
        }
        let folder = tempfile::Builder::new()
            .prefix("hemiola-")
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .tempdir()
            .map_err(setup("no temporary folder"))?;
        let mut random = [0; 42];
        getrandom::fill(&mut random)
            .map_err(|error| setup("no random numbers")(io::Error::other(error.to_string())))?;
        let (secret, random) = random.split_at(32);
        let (job, port) = random.split_at(8);
        let rendezvous = match launcher.hosts.first() {
            None => format!("file:{}", folder.path().join("rendezvous").display()),
            Some(first) => {
                let random = u16::from_le_bytes([port[0], port[1]]);
                join_host_port(first.name(), launcher.port.unwrap_or(FIRST_PORT + random % PORTS))
            }
        };
        let mut common = vec![
            (environment::SIZE.name, host_of.len().to_string()),
            (environment::RENDEZVOUS.name, rendezvous),
            (environment::JOB.name, hex(job)),
        ];
        if launcher.servers > 0 {
            common.push((environment::SERVERS.name, launcher.servers.to_string()));
        }
        let workers = launcher.workers.map(|workers| workers.to_string());
        let workers = workers.or_else(|| variables.get_set(environment::WORKERS.name));
        let share_cores = workers.is_none();
        common.extend(workers.map(|workers| (environment::WORKERS.name, workers)));
        if !launcher.hosts.is_empty() {
            common.extend(Self::between_hosts(launcher, variables)?);
        }
        let working_folder = std::env::current_dir().map_err(setup("no working folder"))?;
        Ok(Self { host_of, secret: hex(secret), common, share_cores, folder, working_folder })
    }

    /// Returns the variables of peers that are started through ssh and do not inherit the
    /// launcher's.
    fn between_hosts(
        launcher: &Launcher,
        variables: &dyn VariableSource,
    ) -> Result<Vec<(&'static str, String)>, LaunchError> {
        let mut settings: Vec<_> = environment::FORWARDED
            .iter()
            .filter_map(|variable| Some((variable.name, variables.get_set(variable.name)?)))
            .collect();
        let far = launcher.hosts.iter().any(|host| !host.is_loopback());
        let first = &launcher.hosts[0];
        if far && first.is_loopback() {
            return Err(LaunchError::LoopbackAmongHosts { host: first.to_string() });
        }
        // Only peers that must be reachable from other hosts listen on all interfaces; the secret
        // authenticates connections.
        if far && settings.iter().all(|(name, _)| *name != environment::BIND.name) {
            let all = if first.name().contains(':') { "::" } else { "0.0.0.0" };
            settings.push((environment::BIND.name, all.to_owned()));
        }
        Ok(settings)
    }

    fn size(&self) -> usize {
        self.host_of.len()
    }

    /// Returns the index of `rank` among the peers of its host, and the number of these.
    fn local_rank(&self, rank: Rank) -> (usize, usize) {
        let host = self.host_of[rank.index()];
        let count = |hosts: &[usize]| hosts.iter().filter(|other| **other == host).count();
        (count(&self.host_of[..rank.index()]), count(&self.host_of))
    }

    /// Returns the variables of `rank`, besides the secret and the folder for its status. On
    /// several hosts, a peer is reached by the name that its host was given to the launcher.
    fn variables(&self, rank: Rank, host: Option<&LaunchHost>) -> Vec<(&'static str, String)> {
        let mut variables = self.common.clone();
        if let Some(host) = host.filter(|host| !host.is_loopback()) {
            variables.push((environment::ADVERTISE.name, host.name().to_owned()));
        }
        variables.push((environment::RANK.name, rank.to_string()));
        variables.push((environment::LOCAL_RANK.name, self.local_rank(rank).0.to_string()));
        variables
    }
}

/// Running job. Dropping it kills the remaining processes.
struct RunningJob {
    plan: LaunchPlan,
    /// Peers that are still running.
    peers: Vec<LaunchedPeer>,
    /// Peers that have ended, in order, with their exits and the signals sent before.
    ended: Vec<(LaunchedPeer, ProcessExit, Vec<i32>)>,
    clock: LaunchClock,
    /// Declared last, so that it is dropped last.
    cleanup: CleanupProcess,
}

impl RunningJob {
    fn start(
        &mut self,
        launcher: &Launcher,
        printer: &Arc<Printer>,
        diagnostics: &LauncherDiagnostics,
        events: &SyncSender<LaunchEvent>,
        mut interrupted: impl FnMut() -> bool,
    ) -> Result<(), LaunchError> {
        for rank in Rank::all(self.plan.size()) {
            // Hundreds of peers take seconds to start: an interrupt should not wait for the rest.
            if interrupted() {
                break;
            }
            let mut peer = match launcher.hosts.get(self.plan.host_of[rank.index()]) {
                None => {
                    let mut command = self.local_command(launcher, rank);
                    let reads = launcher.root_stdin && rank == Rank::new(0);
                    command.stdin(if reads { Stdio::inherit() } else { Stdio::null() });
                    LaunchedPeer::start_local(rank, command, &mut self.cleanup)?
                }
                Some(host) => {
                    let command = self.remote_command(launcher, rank, host);
                    LaunchedPeer::start_remote(rank, command, host.name(), &self.plan.secret)?
                }
            };
            let relay = OutputRelay {
                rank,
                unprefixed: launcher.unprefixed == Some(rank),
                printer: Arc::clone(printer),
                diagnostics: diagnostics.clone(),
                log: launcher.log_dir.as_ref().map(|folder| PeerLog::open(folder, rank, diagnostics.clone())),
                status: peer.remote().map(|remote| Arc::clone(&remote.status)),
            };
            let (stdout, stderr) = (peer.child_mut().stdout.take(), peer.child_mut().stderr.take());
            self.peers.push(peer);
            let (Some(stdout), Some(stderr)) = (stdout, stderr) else {
                unreachable!("both streams are pipes");
            };
            let running = relay.start(stdout, stderr, events.clone())?;
            if let Some(peer) = self.peers.last_mut() {
                peer.running = Some(running);
            }
        }
        Ok(())
    }

    fn local_command(&self, launcher: &Launcher, rank: Rank) -> Command {
        let (program, arguments) = self.program(launcher, rank);
        let mut command = Command::new(program);
        // The value of a surrounding job does not apply to this one.
        command.env_remove(environment::SERVERS.name);
        command
            .args(arguments)
            .envs(self.plan.variables(rank, None))
            .env(environment::SECRET.name, &self.plan.secret)
            .env(environment::STATUS_DIR.name, self.plan.folder.path())
            .env_remove(environment::SECRET_FILE.name);
        if self.plan.share_cores {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            command.env(environment::WORKERS.name, (cores / self.plan.size()).max(1).to_string());
        }
        command
    }

    /// Returns the program of a peer: the last ones are servers.
    fn program<'a>(&self, launcher: &'a Launcher, rank: Rank) -> (&'a OsStr, &'a [OsString]) {
        if rank.index() < self.plan.size() - launcher.servers {
            (&launcher.program, &launcher.arguments)
        } else {
            (&launcher.server.0, &launcher.server.1)
        }
    }

    fn remote_command(&self, launcher: &Launcher, rank: Rank, host: &LaunchHost) -> Command {
        let (program, arguments) = self.program(launcher, rank);
        let script = RemotePeer {
            rank,
            variables: &self.plan.variables(rank, Some(host)),
            share_cores: self.plan.share_cores.then(|| self.plan.local_rank(rank).1),
            folder: &self.plan.working_folder,
            program,
            arguments,
        };
        let mut command = Command::new(&launcher.ssh);
        command.args(["-o", "BatchMode=yes", host.destination()]).arg(script.command());
        // ssh may be configured to send variables (`SendEnv`); the secret of a surrounding job does
        // not apply to this one.
        command.env_remove(environment::SECRET.name);
        command
    }

    /// Waits until all started peers have ended and their output is printed. `early` contains the
    /// events that arrived during the start.
    fn supervise(
        &mut self,
        launcher: &Launcher,
        events: &Receiver<LaunchEvent>,
        mut early: VecDeque<LaunchEvent>,
        diagnostics: LauncherDiagnostics,
        repeated: Option<&SharedRepeatedErrors>,
    ) -> JobOutcome {
        let started = self.peers.len();
        // Servers come last: if not all peers were started, there may be none.
        let servers = (launcher.servers + started).saturating_sub(self.plan.size());
        let mut supervision =
            Supervision::new(started, launcher.grace, launcher.shutdown_timeout).with_servers(servers);
        let mut printing = started;
        self.reap(&mut supervision);
        while !supervision.is_finished() || !early.is_empty() {
            let actions = match early.pop_front().or_else(|| self.next(events, supervision.deadline())) {
                Some(LaunchEvent::Signal(signal)) => {
                    if supervision.interrupted().is_none() {
                        diagnostics.report(signal_message(signal));
                    }
                    supervision.interrupt(signal, self.clock.now())
                }
                Some(LaunchEvent::OutputClosed) if launcher.ignore_closed_output => Vec::new(),
                Some(LaunchEvent::OutputClosed) => supervision.output_closed(self.clock.now()),
                Some(LaunchEvent::Drained) => {
                    printing -= 1;
                    Vec::new()
                }
                Some(LaunchEvent::Child) | None => Vec::new(),
            };
            self.apply(actions);
            self.reap(&mut supervision);
            let actions = supervision.tick(self.clock.now());
            self.apply(actions);
        }
        for mut peer in std::mem::take(&mut self.peers) {
            peer.running = None;
            let signals_sent = supervision.sent(peer.rank).to_vec();
            self.ended.push((peer, ProcessExit::Unknown, signals_sent));
        }
        // The status of a remote peer arrives with its output, so the culprit is known only after
        // that.
        let printed = drain(events, &mut printing);
        let outcome = JobOutcome {
            exits: std::mem::take(&mut self.ended).into_iter().map(|ended| self.describe(ended)).collect(),
            interrupted: supervision.interrupted(),
            output_closed: supervision.is_output_closed(),
            output_lost: false,
        };
        report_failure(&outcome, repeated, &diagnostics);
        for stuck in outcome.exits.iter().filter(|peer| peer.exit == ProcessExit::Unknown) {
            diagnostics.report(stuck.to_string());
        }
        let mut printing = usize::from(diagnostics.has_printer());
        drop(diagnostics);
        if printed {
            drain(events, &mut printing);
        }
        outcome
    }

    /// Returns the next event; `None` if `deadline` passes before.
    fn next(&self, events: &Receiver<LaunchEvent>, deadline: Option<Moment>) -> Option<LaunchEvent> {
        // A running job has no deadline: it may take as long as it likes.
        let limit = deadline.map_or(MAX_EVENT_WAIT, |deadline| deadline.since(self.clock.now()).min(MAX_EVENT_WAIT));
        events.recv_timeout(limit).ok()
    }

    /// Reaps the peers that have ended.
    fn reap(&mut self, supervision: &mut Supervision) {
        let mut index = 0;
        while index < self.peers.len() {
            let Some(exit) = self.peers[index].try_reap(&mut self.cleanup) else {
                index += 1;
                continue;
            };
            let peer = self.peers.remove(index);
            let signals_sent = supervision.sent(peer.rank).to_vec();
            supervision.ended(peer.rank, exit != ProcessExit::Exited(0), self.clock.now());
            self.ended.push((peer, exit, signals_sent));
        }
    }

    fn describe(&self, (peer, exit, signals_sent): (LaunchedPeer, ProcessExit, Vec<i32>)) -> PeerExit {
        let (host, status) = match peer.remote() {
            Some(remote) => (Some(remote.host.clone()), remote.status.get().cloned()),
            None => (None, StatusReport::read(self.plan.folder.path(), peer.rank)),
        };
        PeerExit { rank: peer.rank, pid: peer.id(), host, exit, signals_sent, status }
    }

    fn apply(&mut self, actions: Vec<SupervisionAction>) {
        for action in actions {
            let (SupervisionAction::Signal(rank, _) | SupervisionAction::Disconnect(rank)) = action;
            let Some(peer) = self.peers.iter_mut().find(|peer| peer.rank == rank) else { continue };
            match action {
                SupervisionAction::Signal(_, signal) => peer.signal(signal),
                SupervisionAction::Disconnect(_) => peer.kill_local(),
            }
        }
    }
}

impl Drop for RunningJob {
    /// Nothing is left here after [`RunningJob::supervise`]; after a failed start, the first peers
    /// are.
    fn drop(&mut self) {
        for peer in &mut self.peers {
            peer.kill_local();
        }
        for peer in &mut self.peers {
            let _ = peer.child_mut().wait(); // it was sent SIGKILL
        }
    }
}

/// Collects the events so far for later. Returns true if a signal is among them.
fn collect_events(events: &Receiver<LaunchEvent>, early: &mut VecDeque<LaunchEvent>) -> bool {
    early.extend(events.try_iter());
    early.iter().any(|event| matches!(event, LaunchEvent::Signal(_)))
}

/// Waits until `printing` threads have ended. They wait for the reader of the output, for as long
/// as it takes, unless the user interrupts; then the rest is lost. Returns true if all have ended.
fn drain(events: &Receiver<LaunchEvent>, printing: &mut usize) -> bool {
    while *printing > 0 {
        match events.recv() {
            Ok(LaunchEvent::Drained) => *printing -= 1,
            Ok(LaunchEvent::Signal(_)) | Err(_) => return false,
            Ok(LaunchEvent::Child | LaunchEvent::OutputClosed) => {}
        }
    }
    true
}

/// Reports losses of peers, and the peer that made the job fail; or that all peers have failed alike, after the error
/// that they have in common.
fn report_failure(outcome: &JobOutcome, repeated: Option<&SharedRepeatedErrors>, diagnostics: &LauncherDiagnostics) {
    let peers = outcome.exits.len();
    let mut errors = repeated.map(SharedRepeatedErrors::lock);
    if let Some(errors) = &mut errors {
        errors.unexplained_losses().into_iter().for_each(|line| diagnostics.report(line));
    }
    let Some(culprit) = outcome.culprit() else { return };
    if let (Some(errors), ProcessExit::Exited(code)) = (&errors, culprit.exit) {
        if errors.are_common_to(peers) {
            diagnostics.report(format!("the same error on all {peers} peers (exit code {code})"));
            return;
        }
        errors.summary(peers).into_iter().for_each(|line| diagnostics.report(line));
    }
    diagnostics.report(culprit.to_string());
}

fn signal_message(signal: i32) -> String {
    let name = signal_hook::low_level::signal_name(signal).unwrap_or("a signal");
    let again = if signal == signal_hook::consts::SIGINT { "; Ctrl-C again kills them" } else { "" };
    format!("{name}: asked all peers to end{again}")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
