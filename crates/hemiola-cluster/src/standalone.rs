//! Standalone cluster: a whole job inside one process, for tests and notebooks.

use crate::cluster::{Cluster, ClusterParts};
use crate::error::{Error, Result};
use crate::run::run_on;
use crate::stderr_observer::StderrObserver;
use crate::system_env::SystemEnv;
use crate::worker_pool::panic_message;
use hemiola_core::{Deadlines, Env, GoodbyeReason, LossCause, MessageSink, Observer, Rank, Transport};
use hemiola_net::{InProcessTransport, Router};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// Creates a cluster of `peers` threads in this process, with one worker each by default.
///
/// A program runs as on real peers and gives the same results. Any number of clusters can live in
/// one process.
///
/// ```
/// let ranks = hemiola_cluster::standalone(4).run(|cluster| Ok(cluster.rank().index()))?;
/// assert_eq!(ranks, [0, 1, 2, 3]);
/// # Ok::<(), hemiola_cluster::Error>(())
/// ```
pub fn standalone(peers: usize) -> Standalone {
    Standalone::new(peers)
}

/// Function that a dedicated server runs.
type ServerFunction = fn(&Cluster) -> Result<()>;

/// Settings of a standalone cluster whose program fails with an error `E`.
#[derive(Debug)]
#[must_use = "nothing happens until `run`"]
pub struct Standalone<E = Error> {
    peers: usize,
    /// Number of dedicated servers, and the function that they run.
    servers: Option<(usize, ServerFunction)>,
    workers: usize,
    deadlines: Deadlines,
    observer: Arc<dyn Observer>,
    error: PhantomData<fn() -> E>,
}

impl<E: From<Error> + Into<Error>> Standalone<E> {
    /// Creates a cluster of `peers` threads in this process. See [`standalone`].
    pub fn new(peers: usize) -> Self {
        let (deadlines, observer) = (Deadlines::default(), Arc::new(StderrObserver));
        Self { peers, servers: None, workers: 1, deadlines, observer, error: PhantomData }
    }

    /// Sets the number of workers of each peer. Default: 1.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// Adds dedicated servers. Each runs `serve` instead of the program.
    pub fn servers(mut self, servers: usize, serve: fn(&Cluster) -> Result<()>) -> Self {
        self.servers = Some((servers, serve));
        self
    }

    /// Sets the timeouts of the cluster.
    pub fn deadlines(mut self, deadlines: Deadlines) -> Self {
        self.deadlines = deadlines;
        self
    }

    /// Sets the observer of cluster events.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = observer;
        self
    }

    /// Runs `program` on every peer and returns the results in rank order. If peers fail, returns
    /// the error of the peer that failed by itself rather than those of the peers that failed
    /// because of it.
    pub fn run<T: Send>(self, program: impl Fn(&Cluster) -> Result<T, E> + Sync) -> Result<Vec<T>, E> {
        Ok(self.run_peers(|cluster| program(cluster).map_err(Into::into))?)
    }

    fn run_peers<T: Send>(self, program: impl Fn(&Cluster) -> Result<T> + Sync) -> Result<Vec<T>> {
        if self.peers == 0 || self.workers == 0 {
            let setting = if self.peers == 0 { "peers" } else { "workers" };
            return Err(Error::Setting { setting: setting.into(), reason: "there must be at least one".into() });
        }
        let env: Arc<dyn Env> = Arc::new(SystemEnv::new());
        let servers = self.servers.map_or(0, |(servers, _)| servers);
        let size = self.peers + servers;
        let routers: Vec<_> = (0..size).map(|_| Router::new(size)).collect();
        let sinks = routers.iter().map(|router| router.clone() as Arc<dyn MessageSink>).collect();
        let transports = InProcessTransport::connect(sinks, &env);
        let outcomes: Vec<Result<Option<T>>> = std::thread::scope(|scope| {
            let peers: Vec<_> = transports
                .into_iter()
                .zip(routers)
                .map(|(transport, router)| {
                    let rank = transport.rank();
                    let endpoint = transport.clone();
                    let components = ClusterParts {
                        transport,
                        loops: Vec::new(),
                        router,
                        env: env.clone(),
                        observer: self.observer.clone(),
                        deadlines: self.deadlines.clone(),
                        workers: self.workers,
                        servers,
                        shares_process: true,
                    };
                    let program = &program;
                    let role = |cluster: &Cluster| match self.servers {
                        Some((_, serve)) if cluster.is_server() => serve(cluster).map(|()| None),
                        _ => program(cluster).map(Some),
                    };
                    let body = move || {
                        let peer = || Cluster::assemble(components).and_then(|cluster| run_on(&cluster, role));
                        // Unwind safety: all state of the panicked peer is dropped here.
                        catch_unwind(AssertUnwindSafe(peer))
                            .unwrap_or_else(|panic| Err(Error::Panicked { rank, message: panic_message(&*panic) }))
                    };
                    let name = format!("hemiola-{rank}-driver");
                    std::thread::Builder::new().name(name).spawn_scoped(scope, body).map_err(|error| {
                        // The others must not wait for a peer that never starts.
                        endpoint
                            .close(GoodbyeReason::Failed { reason: "it could not be started".into() }, Duration::ZERO);
                        Error::Thread(error)
                    })
                })
                .collect();
            let panicked = |_| Err(Error::Thread(std::io::Error::other("a driver thread panicked")));
            peers.into_iter().map(|peer| peer?.join().unwrap_or_else(panicked)).collect()
        });
        let mut values = Vec::new();
        let mut errors = Vec::new();
        for (rank, outcome) in Rank::all(size).zip(outcomes) {
            match outcome {
                Ok(value) => values.extend(value),
                Err(error) => errors.push((is_consequence(&error, rank), error)),
            }
        }
        let culprit = errors.into_iter().min_by_key(|(consequence, _)| *consequence);
        culprit.map_or(Ok(values), |(_, error)| Err(error))
    }
}

/// Returns true if a peer failed only because another did.
fn is_consequence(error: &Error, rank: Rank) -> bool {
    error.lost_peer().is_some_and(|loss| loss.rank != rank && !matches!(loss.cause, LossCause::Silent { .. }))
}
