//! The course of a job, from the first process to the last.

use super::clock::Clock;
use super::event::{self, Event};
use super::guard::Guard;
use super::logs::{self, Log};
use super::notes::Notes;
use super::outcome::{End, Outcome, PeerEnd};
use super::output::{Output, Printer};
use super::process::PeerProcess;
use super::relay::Relay;
use super::remote::RemotePeer;
use super::signals::SignalWatch;
use super::status::StatusReport;
use super::supervision::{Effect, Supervision};
use super::{Host, LaunchError, Launcher, hosts};
use crate::builder::MOST_PEERS;
use crate::placement::join_host_port;
use crate::variables::{self, Variables};
use hemiola_core::{Moment, Rank};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Duration;
use tempfile::TempDir;

/// The first port that is chosen for a job on several hosts. All lie below the ports that systems give out themselves
/// or, on Linux, hardly above the first of them.
const FIRST_PORT: u16 = 20_000;
/// How many there are to choose from.
const PORTS: u16 = 20_000;
/// What a wait without a deadline is cut into. Nothing depends on it: it only bounds the damage of a lost wake-up.
const LOOK_ANYWAY: Duration = Duration::from_secs(1);

/// See [`Launcher::run`].
pub(super) fn run(launcher: &Launcher, output: Output, variables: &dyn Variables) -> Result<Outcome, LaunchError> {
    let plan = Plan::new(launcher, variables)?;
    if let Some(folder) = &launcher.log_dir {
        logs::make_folder(folder)?;
    }
    let (sender, events) = event::channel();
    let printer = Arc::new(Printer::new(output, sender.clone()));
    // Before the first peer, so that no signal and no end is missed.
    let signals = SignalWatch::start(sender.clone(), launcher.forward_signals)?;
    let notes = Notes::start(Arc::clone(&printer), sender.clone(), launcher.quiet)?;
    let mut job = Job {
        guard: Guard::start(plan.folder.path()),
        plan,
        peers: Vec::new(),
        ended: Vec::new(),
        clock: Clock::start(),
    };
    let mut early = VecDeque::new();
    let started = job.start(launcher, &printer, &notes, &sender, || hear(&events, &mut early));
    let lost = printer.lost();
    // From here on only the threads send.
    drop((printer, sender));
    let outcome = started.map(|()| {
        let outcome = job.watch(launcher, &events, early, notes);
        Outcome { output_lost: lost.load(Ordering::Relaxed), ..outcome }
    });
    // `events` goes first: a thread that waits for room in the queue is released by that, and can then be joined.
    drop(events);
    drop(signals);
    outcome
}

/// What every peer is told, settled before any is started. Not `Debug`: it holds the secret.
struct Plan {
    /// The index of each peer's host in the launcher's list, by rank; all 0 without hosts.
    host_of: Vec<usize>,
    secret: String,
    /// The variables all peers have in common, without the secret.
    common: Vec<(&'static str, String)>,
    /// Whether peers are to share the cores of their host.
    share_cores: bool,
    /// Private to the user: the rendezvous of local peers, and their status files. Removed at the end.
    folder: TempDir,
    /// The launcher's working folder.
    here: PathBuf,
}

impl Plan {
    fn new(launcher: &Launcher, variables: &dyn Variables) -> Result<Self, LaunchError> {
        let setup = |what| move |source| LaunchError::Setup { what, source };
        let host_of = match launcher.peers {
            Some(0) => return Err(LaunchError::NoPeers),
            peers if launcher.hosts.is_empty() => {
                let size = peers.unwrap_or(1).saturating_add(launcher.servers);
                if size > MOST_PEERS {
                    return Err(LaunchError::TooManyPeers { peers: size, most: MOST_PEERS });
                }
                vec![0; size]
            }
            peers => hosts::deal(&launcher.hosts, peers.map(|peers| peers.saturating_add(launcher.servers)))?,
        };
        if host_of.len() <= launcher.servers {
            return Err(LaunchError::NoPeers);
        }
        if host_of.len() > MOST_PEERS {
            return Err(LaunchError::TooManyPeers { peers: host_of.len(), most: MOST_PEERS });
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
            (variables::SIZE.name, host_of.len().to_string()),
            (variables::RENDEZVOUS.name, rendezvous),
            (variables::JOB.name, hex(job)),
        ];
        if launcher.servers > 0 {
            common.push((variables::SERVERS.name, launcher.servers.to_string()));
        }
        let workers = launcher.workers.map(|workers| workers.to_string());
        let workers = workers.or_else(|| variables.get_set(variables::WORKERS.name));
        let share_cores = workers.is_none();
        common.extend(workers.map(|workers| (variables::WORKERS.name, workers)));
        if !launcher.hosts.is_empty() {
            common.extend(Self::between_hosts(launcher, variables)?);
        }
        let here = std::env::current_dir().map_err(setup("the working folder is gone"))?;
        Ok(Self { host_of, secret: hex(secret), common, share_cores, folder, here })
    }

    /// The variables of peers that were started through ssh and do not inherit ours.
    fn between_hosts(
        launcher: &Launcher,
        variables: &dyn Variables,
    ) -> Result<Vec<(&'static str, String)>, LaunchError> {
        let mut settings: Vec<_> = variables::FORWARDED
            .iter()
            .filter_map(|variable| Some((variable.name, variables.get_set(variable.name)?)))
            .collect();
        let far = launcher.hosts.iter().any(|host| !host.is_loopback());
        let first = &launcher.hosts[0];
        if far && first.is_loopback() {
            return Err(LaunchError::LoopbackAmongHosts { host: first.to_string() });
        }
        // Only peers that must be reached from elsewhere listen to the world; the secret keeps strangers out.
        if far && settings.iter().all(|(name, _)| *name != variables::BIND.name) {
            let all = if first.name().contains(':') { "::" } else { "0.0.0.0" };
            settings.push((variables::BIND.name, all.to_owned()));
        }
        Ok(settings)
    }

    fn size(&self) -> usize {
        self.host_of.len()
    }

    /// The number of `rank` among the peers of its host, and the number of these.
    fn local_rank(&self, rank: Rank) -> (usize, usize) {
        let host = self.host_of[rank.index()];
        let count = |hosts: &[usize]| hosts.iter().filter(|other| **other == host).count();
        (count(&self.host_of[..rank.index()]), count(&self.host_of))
    }

    /// What `rank` is told, besides the secret and the folder for its status. On several hosts, a peer is reached by
    /// the name its host was given here.
    fn variables(&self, rank: Rank, host: Option<&Host>) -> Vec<(&'static str, String)> {
        let mut variables = self.common.clone();
        if let Some(host) = host.filter(|host| !host.is_loopback()) {
            variables.push((variables::ADVERTISE.name, host.name().to_owned()));
        }
        variables.push((variables::RANK.name, rank.to_string()));
        variables.push((variables::LOCAL_RANK.name, self.local_rank(rank).0.to_string()));
        variables
    }
}

/// A job that is running. Dropping it kills what is left of it.
struct Job {
    plan: Plan,
    /// Those that run.
    peers: Vec<PeerProcess>,
    /// Those that have ended, in order, with how and after which signals.
    ended: Vec<(PeerProcess, End, Vec<i32>)>,
    clock: Clock,
    /// Last, so that it goes last.
    guard: Guard,
}

impl Job {
    fn start(
        &mut self,
        launcher: &Launcher,
        printer: &Arc<Printer>,
        notes: &Notes,
        events: &SyncSender<Event>,
        mut interrupted: impl FnMut() -> bool,
    ) -> Result<(), LaunchError> {
        for rank in Rank::all(self.plan.size()) {
            // Hundreds of peers take seconds to start: nobody should have to wait for those he has told to end.
            if interrupted() {
                break;
            }
            let mut peer = match launcher.hosts.get(self.plan.host_of[rank.index()]) {
                None => PeerProcess::start_local(rank, self.local_command(launcher, rank), &mut self.guard)?,
                Some(host) => {
                    let command = self.remote_command(launcher, rank, host);
                    PeerProcess::start_remote(rank, command, host.name(), &self.plan.secret)?
                }
            };
            let relay = Relay {
                rank,
                bare: launcher.bare == Some(rank),
                printer: Arc::clone(printer),
                notes: notes.clone(),
                log: launcher.log_dir.as_ref().map(|folder| Log::open(folder, rank, notes.clone())),
                status: peer.remote().map(|remote| Arc::clone(&remote.status)),
            };
            let (stdout, stderr) = (peer.child_mut().stdout.take(), peer.child_mut().stderr.take());
            self.peers.push(peer);
            let (Some(stdout), Some(stderr)) = (stdout, stderr) else {
                unreachable!("both streams were asked for as pipes");
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
        // That of a surrounding job is not for this one.
        command.env_remove(variables::SERVERS.name);
        command
            .args(arguments)
            .envs(self.plan.variables(rank, None))
            .env(variables::SECRET.name, &self.plan.secret)
            .env(variables::STATUS_DIR.name, self.plan.folder.path())
            .env_remove(variables::SECRET_FILE.name);
        if self.plan.share_cores {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            command.env(variables::WORKERS.name, (cores / self.plan.size()).max(1).to_string());
        }
        command
    }

    /// What a peer runs: the last ones are servers.
    fn program<'a>(&self, launcher: &'a Launcher, rank: Rank) -> (&'a OsStr, &'a [OsString]) {
        if rank.index() < self.plan.size() - launcher.servers {
            (&launcher.program, &launcher.arguments)
        } else {
            (&launcher.server.0, &launcher.server.1)
        }
    }

    fn remote_command(&self, launcher: &Launcher, rank: Rank, host: &Host) -> Command {
        let (program, arguments) = self.program(launcher, rank);
        let script = RemotePeer {
            rank,
            variables: &self.plan.variables(rank, Some(host)),
            share_cores: self.plan.share_cores.then(|| self.plan.local_rank(rank).1),
            folder: &self.plan.here,
            program,
            arguments,
        };
        let mut command = Command::new(&launcher.ssh);
        command.args(["-o", "BatchMode=yes", host.destination()]).arg(script.command());
        // ssh may be told to send variables on (`SendEnv`); the secret of a surrounding job is not for this one.
        command.env_remove(variables::SECRET.name);
        command
    }

    /// Waits until all peers that were started have ended and their output is printed. `early` is what was heard while they were.
    fn watch(
        &mut self,
        launcher: &Launcher,
        events: &Receiver<Event>,
        mut early: VecDeque<Event>,
        notes: Notes,
    ) -> Outcome {
        let started = self.peers.len();
        // Servers come last: if not all were started, none may be.
        let servers = (launcher.servers + started).saturating_sub(self.plan.size());
        let mut supervision = Supervision::new(started, launcher.grace, launcher.patience).with_servers(servers);
        let mut printing = started;
        self.collect(&mut supervision);
        while !supervision.is_over() || !early.is_empty() {
            let effects = match early.pop_front().or_else(|| self.next(events, supervision.deadline())) {
                Some(Event::Signal(signal)) => {
                    if supervision.interrupted().is_none() {
                        notes.tell(interruption(signal));
                    }
                    supervision.interrupt(signal, self.clock.now())
                }
                Some(Event::OutputClosed) if launcher.outlives_output => Vec::new(),
                Some(Event::OutputClosed) => supervision.output_closed(self.clock.now()),
                Some(Event::Drained) => {
                    printing -= 1;
                    Vec::new()
                }
                Some(Event::Child) | None => Vec::new(),
            };
            self.carry_out(effects);
            self.collect(&mut supervision);
            let effects = supervision.tick(self.clock.now());
            self.carry_out(effects);
        }
        for mut peer in std::mem::take(&mut self.peers) {
            peer.running = None;
            let sent = supervision.sent(peer.rank).to_vec();
            self.ended.push((peer, End::Stuck, sent));
        }
        // The status of a remote peer comes with its output, so the culprit is known only when that is through.
        let printed = drain(events, &mut printing);
        let outcome = Outcome {
            ends: std::mem::take(&mut self.ended).into_iter().map(|ended| self.describe(ended)).collect(),
            interrupted: supervision.interrupted(),
            output_closed: supervision.is_output_closed(),
            output_lost: false,
        };
        if let Some(culprit) = outcome.culprit() {
            notes.tell(culprit.to_string());
        }
        for stuck in outcome.ends.iter().filter(|end| end.end == End::Stuck) {
            notes.tell(stuck.to_string());
        }
        let mut printing = usize::from(notes.are_printed());
        drop(notes);
        if printed {
            drain(events, &mut printing);
        }
        outcome
    }

    /// The next event; `None` if `deadline` passes before.
    fn next(&self, events: &Receiver<Event>, deadline: Option<Moment>) -> Option<Event> {
        // While the job runs well there is no deadline: it may take as long as it likes.
        let limit = deadline.map_or(LOOK_ANYWAY, |deadline| deadline.since(self.clock.now()).min(LOOK_ANYWAY));
        events.recv_timeout(limit).ok()
    }

    /// Takes up the peers that have ended.
    fn collect(&mut self, supervision: &mut Supervision) {
        let mut index = 0;
        while index < self.peers.len() {
            let Some(end) = self.peers[index].try_end(&mut self.guard) else {
                index += 1;
                continue;
            };
            let peer = self.peers.remove(index);
            let sent = supervision.sent(peer.rank).to_vec();
            supervision.ended(peer.rank, end != End::Exited(0), self.clock.now());
            self.ended.push((peer, end, sent));
        }
    }

    fn describe(&self, (peer, end, sent): (PeerProcess, End, Vec<i32>)) -> PeerEnd {
        let (host, status) = match peer.remote() {
            Some(remote) => (Some(remote.host.clone()), remote.status.get().cloned()),
            None => (None, StatusReport::read(self.plan.folder.path(), peer.rank)),
        };
        PeerEnd { rank: peer.rank, pid: peer.id(), host, end, sent, status }
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            let (Effect::Signal(rank, _) | Effect::Cut(rank)) = effect;
            let Some(peer) = self.peers.iter_mut().find(|peer| peer.rank == rank) else { continue };
            match effect {
                Effect::Signal(_, signal) => peer.signal(signal),
                Effect::Cut(_) => peer.cut(),
            }
        }
    }
}

impl Drop for Job {
    /// Nothing is left here after [`Job::watch`]; if the start failed half-way, the first peers are.
    fn drop(&mut self) {
        for peer in &mut self.peers {
            peer.cut();
        }
        for peer in &mut self.peers {
            let _ = peer.child_mut().wait(); // it was sent SIGKILL
        }
    }
}

/// Takes in what has happened so far, for later; whether a signal was among it.
fn hear(events: &Receiver<Event>, early: &mut VecDeque<Event>) -> bool {
    early.extend(events.try_iter());
    early.iter().any(|event| matches!(event, Event::Signal(_)))
}

/// Waits until `printing` threads are done. They wait for whoever reads our output, for as long as that takes, unless
/// the user interrupts; then what is not printed is lost. Returns whether all were done.
fn drain(events: &Receiver<Event>, printing: &mut usize) -> bool {
    while *printing > 0 {
        match events.recv() {
            Ok(Event::Drained) => *printing -= 1,
            Ok(Event::Signal(_)) | Err(_) => return false,
            Ok(Event::Child | Event::OutputClosed) => {}
        }
    }
    true
}

fn interruption(signal: i32) -> String {
    let name = signal_hook::low_level::signal_name(signal).unwrap_or("a signal");
    let again = if signal == signal_hook::consts::SIGINT { "; Ctrl-C again kills them" } else { "" };
    format!("{name}: told all peers to end{again}")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
