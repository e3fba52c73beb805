//! Builder of a cluster: all settings, checked once.

use crate::cluster::{Cluster, ClusterParts};
use crate::environment::{self, EnvironmentVariable, ProcessEnvironment, VariableSource};
use crate::error::{Error, Result};
use crate::launch::{StatusKind, StatusReport};
use crate::rank_assignment::{self, RankAssignment, private_folder};
use crate::run::run_on;
use crate::stderr_observer::StderrObserver;
use crate::system_env::SystemEnv;
use crate::worker_share::HostCores;
use hemiola_core::{Deadlines, Env, JobId, MessageSink, Observer, Rank};
use hemiola_net::{InProcessTransport, JoinConfig, Rendezvous, Router, Secret, TcpLimits, TlsConfig, join};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of peers. Every pair is connected, so the limits of the system come long before;
/// this catches typing errors.
pub(crate) const MAX_PEERS: usize = 1 << 16;
/// Maximum number of workers of a peer. Catches typing errors before the system runs out of
/// threads.
pub const MAX_WORKERS: usize = 4096;

/// Settings of a cluster, created by [`Cluster::builder`].
///
/// Nothing is taken from the environment unless [`from_environment`](Self::from_environment) is
/// called, so that two clusters can live in one process.
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
    /// Number of dedicated servers, which have the highest ranks.
    servers: usize,
    /// True if this process is a dedicated server.
    is_server: bool,
    workers: Option<usize>,
    /// Number of peers on this host, which divide its cores, and the cores of each, if a launcher says so.
    local_peers: usize,
    assigned_cores: Option<usize>,
    job: JobId,
    secret: Secret,
    /// Parent of the folder in which peers on one host exchange a secret.
    temporary: PathBuf,
    rendezvous: Option<Rendezvous>,
    bind: Option<IpAddr>,
    advertise: Option<String>,
    tls: Option<TlsConfig>,
    deadlines: Deadlines,
    shares_process: bool,
    limits: TcpLimits,
    observer: Arc<dyn Observer>,
    /// Folder in which a launcher expects the reason of a failure.
    status: Option<PathBuf>,
}

impl ClusterBuilder {
    pub(crate) fn new() -> Self {
        Self {
            rank: Rank::ROOT,
            size: 1,
            servers: 0,
            is_server: false,
            workers: None,
            local_peers: 1,
            assigned_cores: None,
            job: JobId::from_name("hemiola"),
            secret: Secret::none(),
            temporary: PathBuf::from("/tmp"),
            rendezvous: None,
            bind: None,
            advertise: None,
            tls: None,
            deadlines: Deadlines::default(),
            shares_process: false,
            limits: TcpLimits::default(),
            observer: Arc::new(StderrObserver),
            status: None,
        }
    }

    /// Sets the rank of this peer and the number of peers. Default: rank 0 of 1.
    pub fn peer(mut self, rank: usize, size: usize) -> Self {
        self.rank = Rank::new(u32::try_from(rank).unwrap_or(u32::MAX)); // `build` refuses ranks that are too large
        self.size = size;
        self
    }

    /// Sets the number of dedicated servers. Servers have the highest ranks; they hold tables and
    /// do not run the program. Default: none.
    pub fn servers(mut self, servers: usize) -> Self {
        self.servers = servers;
        self
    }

    /// Makes this process a dedicated server: the closure passed to [`run`](Self::run) is not the
    /// user program.
    pub fn as_server(mut self) -> Self {
        self.is_server = true;
        self
    }

    /// Sets the rendezvous of the peers. Required if there is more than one peer.
    pub fn rendezvous(mut self, rendezvous: Rendezvous) -> Self {
        self.rendezvous = Some(rendezvous);
        self
    }

    /// Sets the number of workers. Default: the cores of the host, divided among the peers that a
    /// launcher has started on it.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Sets the name of the job, which must be equal on every peer.
    pub fn job(mut self, name: &str) -> Self {
        self.job = JobId::from_name(name);
        self
    }

    /// Sets the secret with which peers authenticate each other: at least
    /// [`MIN_SECRET_BYTES`](hemiola_net::MIN_SECRET_BYTES) random bytes. Default: peers that meet on
    /// loopback exchange a fresh one in a file that only this user can read.
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = secret;
        self
    }

    /// Sets the interface to listen on. Default: loopback, or the interface that leads to the root.
    pub fn bind(mut self, ip: IpAddr) -> Self {
        self.bind = Some(ip);
        self
    }

    /// Sets the host, or `host:port`, at which other peers reach this one.
    pub fn advertise(mut self, address: impl Into<String>) -> Self {
        self.advertise = Some(address.into());
        self
    }

    /// Enables TLS between the peers.
    pub fn tls(mut self, tls: TlsConfig) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Sets the timeouts of the cluster.
    pub fn deadlines(mut self, deadlines: Deadlines) -> Self {
        self.deadlines = deadlines;
        self
    }

    /// Declares that other peers may live in this process. The work of a peer, which puts deadlines
    /// off, is then that of its driver and workers instead of the whole process. The driver is the
    /// thread that builds the cluster.
    pub fn shares_process(mut self) -> Self {
        self.shares_process = true;
        self
    }

    /// Sets the size limits of the transport.
    pub fn limits(mut self, limits: TcpLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the observer of cluster events. Default: [`StderrObserver`].
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = observer;
        self
    }

    /// Takes rank, size, rendezvous and all other settings from a launcher or from `HEMIOLA_*`
    /// variables.
    pub fn from_environment(self) -> Result<Self> {
        self.from_variables(&ProcessEnvironment)
    }

    /// Takes all settings from the given variables, like
    /// [`from_environment`](Self::from_environment).
    pub fn from_variables(mut self, variables: &dyn VariableSource) -> Result<Self> {
        let assignment = RankAssignment::detect(variables)?;
        if let Some(RankAssignment { rank, size, rendezvous, job, local_size, cores, .. }) = assignment {
            rendezvous.as_ref().map_or(Ok(()), rank_assignment::prepare)?;
            (self.rank, self.size, self.rendezvous) = (rank, size, rendezvous);
            (self.local_peers, self.assigned_cores) = (local_size.unwrap_or(1), cores);
            self.job = job.map_or(self.job, |name| JobId::from_name(&name));
        }
        self.servers = parsed(variables, environment::SERVERS, "a number of servers")?.unwrap_or(self.servers);
        if let Some(secret) = variables.get_set(environment::SECRET.name) {
            self.secret = Secret::new(secret);
        } else if let Some(path) = variables.get_set(environment::SECRET_FILE.name) {
            let text = std::fs::read_to_string(&path)
                .map_err(|error| setting(environment::SECRET_FILE.name, format!("cannot read `{path}`: {error}")))?;
            if text.trim().is_empty() {
                return Err(setting(environment::SECRET_FILE.name, format!("`{path}` contains no secret")));
            }
            self.secret = Secret::new(text.trim());
        }
        self.temporary = variables.get_set(environment::TMPDIR.name).map_or(self.temporary, PathBuf::from);
        self.workers = parsed(variables, environment::WORKERS, "a number of threads")?.or(self.workers);
        self.bind = parsed(variables, environment::BIND, "an IP address")?.or(self.bind);
        self.advertise = variables.get_set(environment::ADVERTISE.name).or(self.advertise);
        let deadlines = &mut self.deadlines;
        for (name, deadline) in [
            (environment::JOIN_SECONDS, &mut deadlines.join),
            (environment::SILENCE_SECONDS, &mut deadlines.silence),
            (environment::WAIT_SECONDS, &mut deadlines.wait),
            (environment::STALL_SECONDS, &mut deadlines.stall),
        ] {
            if let Some(seconds) = parsed::<f64>(variables, name, "a number of seconds")? {
                *deadline = Duration::try_from_secs_f64(seconds)
                    .ok()
                    .filter(|duration| !duration.is_zero())
                    .ok_or_else(|| setting(name.name, format!("`{seconds}` is not a duration above zero")))?;
            }
        }
        self.tls = tls_from(variables)?.or(self.tls);
        self.status = variables.get_set(environment::STATUS_DIR.name).map(PathBuf::from);
        Ok(self)
    }

    /// Joins the job. Call [`Cluster::leave`] at the end; [`run`](Self::run) does both.
    pub fn build(self) -> Result<Cluster> {
        let workers = self.worker_count()?;
        if self.size == 0 || self.rank.index() >= self.size {
            return Err(setting("peer", format!("rank {} is outside of a job of {} peers", self.rank, self.size)));
        }
        if self.size > MAX_PEERS {
            return Err(setting(
                environment::SIZE.name,
                format!("{} peers exceed the limit of {MAX_PEERS}", self.size),
            ));
        }
        self.check_role()?;
        let env: Arc<dyn Env> = Arc::new(SystemEnv::new());
        let (router, servers) = (Router::new(self.size), self.servers);
        let sink: Arc<dyn MessageSink> = router.clone();
        if self.size == 1 {
            let transport = InProcessTransport::single_peer(sink, &env);
            let (observer, deadlines) = (self.observer, self.deadlines);
            let loops = Vec::new();
            return Cluster::assemble(ClusterParts {
                transport,
                loops,
                router,
                env,
                observer,
                deadlines,
                workers,
                servers,
                shares_process: self.shares_process,
            });
        }
        let rendezvous = self.rendezvous.ok_or_else(|| {
            setting(
                environment::RENDEZVOUS.name,
                format!("a job of {} peers needs a rendezvous: set it to `host:port` or `file:PATH`", self.size),
            )
        })?;
        let secret_file =
            if self.secret.is_none() { secret_file(&self.temporary, &rendezvous, self.job)? } else { None };
        let Self { rank, size, job, secret, bind, advertise, tls, deadlines, limits, observer, .. } = self;
        let config = JoinConfig {
            rank,
            size,
            servers,
            job,
            secret,
            secret_file,
            rendezvous,
            bind,
            advertise,
            tls,
            deadlines: deadlines.clone(),
            limits,
        };
        let (transport, loops) = join(config, &env, &*observer)?.start(sink)?;
        Cluster::assemble(ClusterParts {
            transport,
            loops,
            router,
            env,
            observer,
            deadlines,
            workers,
            servers,
            shares_process: self.shares_process,
        })
    }

    /// Checks that rank and role of this process agree.
    fn check_role(&self) -> Result<()> {
        let Self { rank, size, servers, .. } = self;
        let wrong = |reason| Err(setting(environment::SERVERS.name, reason));
        if servers >= size {
            return wrong(format!("{servers} servers of {size} peers leave no peer to run the program"));
        }
        let to_serve = rank.index() >= size - servers;
        match (self.is_server, to_serve) {
            (true, false) if *servers == 0 => wrong(
                "this job has no dedicated servers; start it with `hemiola run --servers 1`, or set the number of servers"
                    .into(),
            ),
            (true, false) => {
                wrong(format!("peer {rank} of {size} runs the program; the last {servers} are dedicated servers"))
            }
            (false, true) => wrong(format!(
                "peer {rank} of {size} is a dedicated server, as the last {servers} are; run `hemiola serve` there"
            )),
            _ => Ok(()),
        }
    }

    /// Joins the job, runs `program`, and leaves. See [`run`](crate::run).
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
            // Checked before the cluster is closed: the others leave when they learn of the
            // failure, and their leaving is not its cause.
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
            Some(0) => Err(setting(environment::WORKERS.name, "a peer needs at least one worker".into())),
            Some(count) if count > MAX_WORKERS => {
                Err(setting(environment::WORKERS.name, format!("{count} workers exceed the limit of {MAX_WORKERS}")))
            }
            Some(count) => Ok(count),
            None => Ok(HostCores::read().workers(self.local_peers, self.assigned_cores)),
        }
    }
}

/// Returns the file in which peers that meet at an address on loopback exchange a secret. Its name is
/// equal for all peers of a job. Other jobs at the same port have another name, or cannot listen.
fn secret_file(temporary: &Path, rendezvous: &Rendezvous, job: JobId) -> Result<Option<PathBuf>> {
    let Rendezvous::Address(address) = rendezvous else { return Ok(None) };
    let port = address.rsplit_once(':').map_or("", |(_, port)| port);
    // Containers may share the folder, and each have a loopback of its own.
    let network = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
    let network = JobId::from_name(&network.to_string_lossy());
    let folder = private_folder::below(temporary);
    private_folder::ensure(&folder)?;
    Ok(Some(folder.join(format!("secret-{port}-{job}-{network}"))))
}

fn setting(setting: &str, reason: String) -> Error {
    Error::Setting { setting: setting.to_owned(), reason }
}

fn parsed<T: FromStr>(variables: &dyn VariableSource, name: EnvironmentVariable, expected: &str) -> Result<Option<T>> {
    variables
        .get_set(name.name)
        .map(|text| text.trim().parse().map_err(|_| setting(name.name, format!("`{text}` is not {expected}"))))
        .transpose()
}

/// Reads the TLS settings if all three files are named. It is an error to name only some of them.
fn tls_from(variables: &dyn VariableSource) -> Result<Option<TlsConfig>> {
    let names = [environment::TLS_CERT, environment::TLS_KEY, environment::TLS_CA].map(|variable| variable.name);
    let files = names.map(|name| variables.get_set(name));
    let [Some(certificate), Some(key), Some(authority)] = &files else {
        return match names.iter().zip(&files).find(|(_, file)| file.is_none()) {
            Some((missing, _)) if files.iter().any(Option::is_some) => {
                Err(setting(missing, format!("TLS needs {} together", names.join(", "))))
            }
            _ => Ok(None),
        };
    };
    let tls = TlsConfig::from_files(Path::new(certificate), Path::new(key), Path::new(authority))?;
    Ok(Some(match variables.get_set(environment::TLS_NAME.name) {
        Some(name) => tls.with_name(&name)?,
        None => tls,
    }))
}

/// Reports the failure of this peer to the launcher, so that it can name the culprit. If this
/// fails, the launcher still has the exit code.
fn report_status(folder: Option<&Path>, rank: Rank, lost_peer: bool, error: &dyn std::fmt::Display) {
    if let Some(folder) = folder {
        let kind = if lost_peer { StatusKind::LostPeer } else { StatusKind::Failed };
        let report = StatusReport { rank, kind, message: error.to_string() };
        if let Err(problem) = report.write(folder) {
            tracing::warn!(%problem, "cannot write the status report");
        }
    }
}
