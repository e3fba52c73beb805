//! Settings of a cluster, checked once, here.

use crate::cluster::{Cluster, Parts};
use crate::error::{Error, Result};
use crate::launch::{StatusKind, StatusReport};
use crate::narrator::Narrator;
use crate::placement::{self, Placement};
use crate::run::run_on;
use crate::system_env::SystemEnv;
use crate::variables::{self, ProcessVariables, Variable, Variables};
use hemiola_core::{Deadlines, Env, Inbox, JobId, Observer, Rank};
use hemiola_net::{InProcess, JoinConfig, Rendezvous, Router, Secret, TcpLimits, Tls, join};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// Peers a job may have. Every pair is connected, so the system's limits come long before; this catches slips.
pub(crate) const MOST_PEERS: usize = 1 << 16;
/// Workers a peer may have, to catch slips before the system runs out of threads.
pub const MOST_WORKERS: usize = 4096;

/// Settings of a cluster. Made by [`Cluster::builder`].
///
/// Nothing is taken from the environment unless [`from_environment`](Self::from_environment) is called, so that two
/// clusters can live in one process.
///
/// ```
/// use hemiola_cluster::Cluster;
/// let workers = Cluster::builder().workers(2).run(|cluster| Ok::<_, hemiola_cluster::Error>(cluster.workers()))?;
/// assert_eq!(workers, 2);
/// # Ok::<(), hemiola_cluster::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing happens until `run` or `build`"]
pub struct ClusterBuilder {
    rank: Rank,
    size: usize,
    /// How many of the peers, the last ones, are dedicated servers.
    servers: usize,
    /// Whether this process is one of them.
    serves: bool,
    workers: Option<usize>,
    job: JobId,
    secret: Secret,
    rendezvous: Option<Rendezvous>,
    bind: Option<IpAddr>,
    advertise: Option<String>,
    tls: Option<Tls>,
    deadlines: Deadlines,
    limits: TcpLimits,
    observer: Arc<dyn Observer>,
    /// Where a launcher wants to find the reason of a failure.
    status: Option<PathBuf>,
}

impl ClusterBuilder {
    pub(crate) fn new() -> Self {
        Self {
            rank: Rank::ROOT,
            size: 1,
            servers: 0,
            serves: false,
            workers: None,
            job: JobId::from_name("hemiola"),
            secret: Secret::none(),
            rendezvous: None,
            bind: None,
            advertise: None,
            tls: None,
            deadlines: Deadlines::default(),
            limits: TcpLimits::default(),
            observer: Arc::new(Narrator),
            status: None,
        }
    }

    /// This peer's rank and the number of peers. Default: rank 0 of 1.
    pub fn peer(mut self, rank: usize, size: usize) -> Self {
        self.rank = Rank::new(u32::try_from(rank).unwrap_or(u32::MAX)); // `build` refuses what is too large
        self.size = size;
        self
    }

    /// How many of the peers, those with the highest ranks, are dedicated servers: they hold tables and do not run the program. Default: none.
    pub fn servers(mut self, servers: usize) -> Self {
        self.servers = servers;
        self
    }

    /// This process is a dedicated server: what it [runs](Self::run) is not the program.
    pub fn as_server(mut self) -> Self {
        self.serves = true;
        self
    }

    /// Where the peers meet. Needed as soon as there is more than one.
    pub fn rendezvous(mut self, rendezvous: Rendezvous) -> Self {
        self.rendezvous = Some(rendezvous);
        self
    }

    /// Number of workers. Default: as many as there are cores.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// The name of the job, the same on every peer.
    pub fn job(mut self, name: &str) -> Self {
        self.job = JobId::from_name(name);
        self
    }

    /// What the peers share to recognize each other.
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = secret;
        self
    }

    /// The interface to listen on. Default: loopback, or the one that leads to the root.
    pub fn bind(mut self, ip: IpAddr) -> Self {
        self.bind = Some(ip);
        self
    }

    /// The host, or `host:port`, under which others reach this peer.
    pub fn advertise(mut self, address: impl Into<String>) -> Self {
        self.advertise = Some(address.into());
        self
    }

    /// Talks under TLS.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Time limits.
    pub fn deadlines(mut self, deadlines: Deadlines) -> Self {
        self.deadlines = deadlines;
        self
    }

    /// Sizes the transport keeps to.
    pub fn limits(mut self, limits: TcpLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Who hears of events. Default: [`Narrator`].
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = observer;
        self
    }

    /// Takes rank, size, meeting point and everything else that a launcher or `HEMIOLA_*` variables say.
    pub fn from_environment(self) -> Result<Self> {
        self.from_variables(&ProcessVariables)
    }

    /// The same from given variables.
    pub fn from_variables(mut self, variables: &dyn Variables) -> Result<Self> {
        let placement = Placement::detect(variables)?;
        if let Some(Placement { rank, size, rendezvous, job, .. }) = placement {
            rendezvous.as_ref().map_or(Ok(()), placement::prepare)?;
            (self.rank, self.size, self.rendezvous) = (rank, size, rendezvous);
            self.job = job.map_or(self.job, |name| JobId::from_name(&name));
        }
        self.servers = parsed(variables, variables::SERVERS, "a number of servers")?.unwrap_or(self.servers);
        if let Some(secret) = variables.get_set(variables::SECRET.name) {
            self.secret = Secret::new(secret);
        } else if let Some(path) = variables.get_set(variables::SECRET_FILE.name) {
            let text = std::fs::read_to_string(&path)
                .map_err(|error| setting(variables::SECRET_FILE.name, format!("cannot read `{path}`: {error}")))?;
            self.secret = Secret::new(text.trim());
        }
        self.workers = parsed(variables, variables::WORKERS, "a number of threads")?.or(self.workers);
        self.bind = parsed(variables, variables::BIND, "an IP address")?.or(self.bind);
        self.advertise = variables.get_set(variables::ADVERTISE.name).or(self.advertise);
        let deadlines = &mut self.deadlines;
        for (name, deadline) in [
            (variables::JOIN_SECONDS, &mut deadlines.join),
            (variables::SILENCE_SECONDS, &mut deadlines.silence),
            (variables::WAIT_SECONDS, &mut deadlines.wait),
            (variables::STALL_SECONDS, &mut deadlines.stall),
        ] {
            if let Some(seconds) = parsed::<f64>(variables, name, "a number of seconds")? {
                *deadline = Duration::try_from_secs_f64(seconds)
                    .ok()
                    .filter(|duration| !duration.is_zero())
                    .ok_or_else(|| setting(name.name, format!("`{seconds}` is not a time above zero")))?;
            }
        }
        self.tls = tls_from(variables)?.or(self.tls);
        self.status = variables.get_set(variables::STATUS_DIR.name).map(PathBuf::from);
        Ok(self)
    }

    /// Meets the other peers. Call [`Cluster::leave`] at the end; [`run`](Self::run) does both.
    pub fn build(self) -> Result<Cluster> {
        let workers = self.worker_count()?;
        if self.size == 0 || self.rank.index() >= self.size {
            return Err(setting("peer", format!("rank {} does not exist in a job of {}", self.rank, self.size)));
        }
        if self.size > MOST_PEERS {
            return Err(setting(variables::SIZE.name, format!("{} peers are more than {MOST_PEERS}", self.size)));
        }
        self.check_role()?;
        let env: Arc<dyn Env> = Arc::new(SystemEnv::new());
        let (board, servers) = (Router::new(self.size), self.servers);
        let inbox: Arc<dyn Inbox> = board.clone();
        if self.size == 1 {
            let transport = InProcess::alone(inbox, &env);
            let (observer, deadlines) = (self.observer, self.deadlines);
            let loops = Vec::new();
            return Cluster::assemble(Parts { transport, loops, board, env, observer, deadlines, workers, servers });
        }
        let rendezvous = self.rendezvous.ok_or_else(|| {
            setting(
                variables::RENDEZVOUS.name,
                format!("a job of {} peers needs a place to meet: `host:port` or `file:PATH`", self.size),
            )
        })?;
        let Self { rank, size, job, secret, bind, advertise, tls, deadlines, limits, observer, .. } = self;
        let config = JoinConfig {
            rank,
            size,
            servers,
            job,
            secret,
            rendezvous,
            bind,
            advertise,
            tls,
            deadlines: deadlines.clone(),
            limits,
        };
        let (transport, loops) = join(config, &env, &*observer)?.start(inbox)?;
        Cluster::assemble(Parts { transport, loops, board, env, observer, deadlines, workers, servers })
    }

    /// Whether this process is what its rank says.
    fn check_role(&self) -> Result<()> {
        let Self { rank, size, servers, .. } = self;
        let wrong = |reason| Err(setting(variables::SERVERS.name, reason));
        if servers >= size {
            return wrong(format!("{servers} servers of {size} peers leave nobody who runs the program"));
        }
        let to_serve = rank.index() >= size - servers;
        match (self.serves, to_serve) {
            (true, false) if *servers == 0 => wrong(
                "this job has no dedicated servers; start it with `hemiola run --servers 1`, or set how many it has"
                    .into(),
            ),
            (true, false) => {
                wrong(format!("peer {rank} of {size} runs the program; the last {servers} are the dedicated servers"))
            }
            (false, true) => wrong(format!(
                "peer {rank} of {size} is a dedicated server, as the last {servers} are; run `hemiola serve` there"
            )),
            _ => Ok(()),
        }
    }

    /// Meets the other peers, runs `program`, and leaves. See [`run`](crate::run).
    pub fn run<T, E>(self, program: impl FnOnce(&Cluster) -> Result<T, E>) -> Result<T, E>
    where
        E: From<Error> + std::fmt::Display,
    {
        let (rank, status) = (self.rank, self.status.clone());
        let cluster = match self.build() {
            Ok(cluster) => cluster,
            Err(error) => {
                report_status(status.as_deref(), rank, matches!(error, Error::Lost(_)), &error);
                return Err(error.into());
            }
        };
        let mut program_lost = None;
        let outcome = run_on(&cluster, |cluster| {
            let outcome = program(cluster);
            // Before the cluster is closed: the others leave when they hear of it, and that is not what this failure comes from.
            program_lost = outcome.is_err().then(|| cluster.failure().is_some());
            outcome
        });
        if let Err(error) = &outcome {
            let lost_peer = program_lost.unwrap_or_else(|| cluster.failure().is_some());
            report_status(status.as_deref(), rank, lost_peer, error);
        }
        outcome
    }

    fn worker_count(&self) -> Result<usize> {
        match self.workers {
            Some(0) => Err(setting(variables::WORKERS.name, "a peer needs at least one worker".into())),
            Some(count) if count > MOST_WORKERS => {
                Err(setting(variables::WORKERS.name, format!("{count} workers are more than {MOST_WORKERS}")))
            }
            Some(count) => Ok(count),
            None => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
        }
    }
}

fn setting(setting: &str, reason: String) -> Error {
    Error::Setting { setting: setting.to_owned(), reason }
}

fn parsed<T: FromStr>(variables: &dyn Variables, name: Variable, expected: &str) -> Result<Option<T>> {
    variables
        .get_set(name.name)
        .map(|text| text.trim().parse().map_err(|_| setting(name.name, format!("`{text}` is not {expected}"))))
        .transpose()
}

/// TLS if all three files are named; naming only some of them is a mistake.
fn tls_from(variables: &dyn Variables) -> Result<Option<Tls>> {
    let names = [variables::TLS_CERT, variables::TLS_KEY, variables::TLS_CA].map(|variable| variable.name);
    let files = names.map(|name| variables.get_set(name));
    let [Some(certificate), Some(key), Some(authority)] = &files else {
        return match names.iter().zip(&files).find(|(_, file)| file.is_none()) {
            Some((missing, _)) if files.iter().any(Option::is_some) => {
                Err(setting(missing, format!("TLS needs {} together", names.join(", "))))
            }
            _ => Ok(None),
        };
    };
    let tls = Tls::from_files(Path::new(certificate), Path::new(key), Path::new(authority))?;
    Ok(Some(match variables.get_set(variables::TLS_NAME.name) {
        Some(name) => tls.with_name(&name)?,
        None => tls,
    }))
}

/// Tells the launcher why this peer fails, so that it can name the culprit. It has the exit code if this fails.
fn report_status(folder: Option<&Path>, rank: Rank, lost_peer: bool, error: &dyn std::fmt::Display) {
    if let Some(folder) = folder {
        let kind = if lost_peer { StatusKind::LostPeer } else { StatusKind::Failed };
        let report = StatusReport { rank, kind, message: error.to_string() };
        if let Err(problem) = report.write(folder) {
            tracing::warn!(%problem, "cannot write the status report");
        }
    }
}
