//! A whole cluster inside one process, for tests and notebooks.

use crate::cluster::{Cluster, Parts};
use crate::error::{Error, Result};
use crate::narrator::Narrator;
use crate::run::run_on;
use crate::system_env::SystemEnv;
use crate::workers::panic_message;
use hemiola_core::{Deadlines, Env, Inbox, LossCause, Observer, Parting, Rank, Transport};
use hemiola_net::{InProcess, Router};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// A cluster of `peers` threads in this process, one worker each unless told otherwise.
///
/// The program is the same as for real peers, and so are its results. Any number of clusters can live in one process.
///
/// ```
/// let ranks = hemiola_cluster::standalone(4).run(|cluster| Ok(cluster.rank().index()))?;
/// assert_eq!(ranks, [0, 1, 2, 3]);
/// # Ok::<(), hemiola_cluster::Error>(())
/// ```
pub fn standalone(peers: usize) -> Standalone {
    let (deadlines, observer) = (Deadlines::default(), Arc::new(Narrator));
    Standalone { peers, servers: None, workers: 1, deadlines, observer }
}

/// What a dedicated server does.
type Serve = fn(&Cluster) -> Result<()>;

/// Settings of a standalone cluster.
#[derive(Clone, Debug)]
#[must_use = "nothing happens until `run`"]
pub struct Standalone {
    peers: usize,
    /// How many dedicated servers, and what they do.
    servers: Option<(usize, Serve)>,
    workers: usize,
    deadlines: Deadlines,
    observer: Arc<dyn Observer>,
}

impl Standalone {
    /// Workers of each peer.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// Dedicated servers, besides the peers. Each runs `serve` instead of the program.
    pub fn servers(mut self, servers: usize, serve: fn(&Cluster) -> Result<()>) -> Self {
        self.servers = Some((servers, serve));
        self
    }

    /// Time limits.
    pub fn deadlines(mut self, deadlines: Deadlines) -> Self {
        self.deadlines = deadlines;
        self
    }

    /// Who hears of events.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = observer;
        self
    }

    /// Runs `program` on every peer; their results in rank order. If peers fail, the error of the one that failed by
    /// itself is returned rather than those of the ones it took down.
    pub fn run<T: Send>(self, program: impl Fn(&Cluster) -> Result<T> + Sync) -> Result<Vec<T>> {
        if self.peers == 0 || self.workers == 0 {
            let setting = if self.peers == 0 { "peers" } else { "workers" };
            return Err(Error::Setting { setting: setting.into(), reason: "there must be at least one".into() });
        }
        let env: Arc<dyn Env> = Arc::new(SystemEnv::new());
        let servers = self.servers.map_or(0, |(servers, _)| servers);
        let size = self.peers + servers;
        let boards: Vec<_> = (0..size).map(|_| Router::new(size)).collect();
        let inboxes = boards.iter().map(|board| board.clone() as Arc<dyn Inbox>).collect();
        let transports = InProcess::connect(inboxes, &env);
        let outcomes: Vec<Result<Option<T>>> = std::thread::scope(|scope| {
            let peers: Vec<_> = transports
                .into_iter()
                .zip(boards)
                .map(|(transport, board)| {
                    let rank = transport.rank();
                    let end = transport.clone();
                    let parts = Parts {
                        transport,
                        loops: Vec::new(),
                        board,
                        env: env.clone(),
                        observer: self.observer.clone(),
                        deadlines: self.deadlines.clone(),
                        workers: self.workers,
                        servers,
                    };
                    let program = &program;
                    let role = |cluster: &Cluster| match self.servers {
                        Some((_, serve)) if cluster.is_server() => serve(cluster).map(|()| None),
                        _ => program(cluster).map(Some),
                    };
                    let body = move || {
                        let peer = || Cluster::assemble(parts).and_then(|cluster| run_on(&cluster, role));
                        // Unwind safety: what the panic left behind is dropped here.
                        catch_unwind(AssertUnwindSafe(peer))
                            .unwrap_or_else(|panic| Err(Error::Panicked { rank, message: panic_message(&*panic) }))
                    };
                    let name = format!("hemiola-{rank}-driver");
                    std::thread::Builder::new().name(name).spawn_scoped(scope, body).map_err(|error| {
                        // The others must not wait for a peer that will never be.
                        end.close(Parting::Failed { reason: "it could not be started".into() }, Duration::ZERO);
                        Error::Thread(error)
                    })
                })
                .collect();
            let panicked = |_| Err(Error::Thread(std::io::Error::other("a driver thread ended by a panic of its own")));
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

/// Whether a peer failed only because another did.
fn is_consequence(error: &Error, rank: Rank) -> bool {
    error.lost_peer().is_some_and(|loss| loss.rank != rank && !matches!(loss.cause, LossCause::Silent { .. }))
}
