//! Cluster handle of a program: this peer, its workers, and communication with the other peers.

use crate::builder::ClusterBuilder;
use crate::error::Result;
use crate::fork_join::ForkJoinState;
use crate::monitor::Monitor;
use crate::peer_context::{CallScope, ClusterCall, PeerContext, decode, encode};
use crate::peer_handle::PeerHandle;
use crate::service::{ServiceHandle, ServiceRegistry, ShutdownToken};
use crate::waits::{WaitGuard, WaitReason, WaitRegistry};
use crate::work_source::{WorkSource, own_statistics};
use crate::worker_pool::{Worker, WorkerPool};
use crate::worker_team::WorkerTeam;
use bytes::Bytes;
use hemiola_core::{
    ChannelId, ChannelOwner, ClusterEvent, Deadlines, Env, GoodbyeReason, Lane, LossCause, Message, Observer,
    OutgoingMessage, PeerLost, Rank, StallReport, ThreadHandle, Traffic, Transport, Waiter,
};
use hemiola_net::{ChannelReceiver, IoLoop, Router};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::io::Write;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Time that a peer waits at a successful end until the others have received its goodbye.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time that a failing peer waits until the others have received its goodbye.
const FAILURE_TIMEOUT: Duration = Duration::from_secs(1);

/// Handle of this peer to its job. Clones are handles to the same peer.
///
/// Methods marked *collective* must be called by every peer, in the same order, from one thread at
/// a time. A call that another peer does not make fails at its deadline, or at once if that peer
/// makes a different call.
///
/// A job may have *dedicated servers*: further processes that hold tables for the peers and do not
/// run the program ([`servers`](Self::servers)). Their ranks follow those of the peers.
/// [`size`](Self::size) does not count them, and they take part only in collective calls of a
/// handle [`with_servers`](Self::with_servers).
///
/// ```
/// hemiola_cluster::standalone(3).run(|cluster| {
///     let squares = cluster.all_gather(cluster.rank().index().pow(2))?;
///     assert_eq!(squares, [0, 1, 4]);
///     Ok(())
/// })?;
/// # Ok::<(), hemiola_cluster::Error>(())
/// ```
#[derive(Clone)]
pub struct Cluster {
    inner: Arc<ClusterInner>,
    /// Participants of the collective calls of this handle.
    scope: CallScope,
}

struct ClusterInner {
    context: Arc<PeerContext>,
    workers: WorkerPool,
    deadlines: Deadlines,
    /// Threads of the I/O loops.
    io_threads: Mutex<Vec<ThreadHandle>>,
    services: ServiceRegistry,
    closed: AtomicBool,
    /// By scope: number of the next channel of [`Cluster::next_channel`].
    channels: [AtomicU64; 2],
}

/// Components of a cluster.
pub(crate) struct ClusterParts {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) loops: Vec<IoLoop>,
    pub(crate) router: Arc<Router>,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) deadlines: Deadlines,
    pub(crate) workers: usize,
    /// Number of dedicated servers, which have the highest ranks.
    pub(crate) servers: usize,
    /// Other peers may live in this process.
    pub(crate) shares_process: bool,
}

impl Cluster {
    /// Returns a builder with default settings.
    pub fn builder() -> ClusterBuilder {
        ClusterBuilder::new()
    }

    pub(crate) fn assemble(parts: ClusterParts) -> Result<Self> {
        let ClusterParts { transport, loops, router, env, observer, deadlines, workers, servers, shares_process } =
            parts;
        let rank = transport.rank();
        let (worker_count, workers) = (workers, WorkerPool::start(rank, workers)?);
        let mut io_threads = Vec::new();
        for io_loop in loops {
            let name = format!("hemiola-{rank}-{}", io_loop.lane());
            io_threads.push(env.spawn(name, Box::new(move || io_loop.run())).map_err(crate::Error::Thread)?);
        }
        let waits = WaitRegistry::new(worker_count, env.clone());
        let work = if shares_process {
            WorkSource::Threads(std::iter::once(own_statistics()).chain(workers.statistics()).collect())
        } else {
            WorkSource::Process
        };
        let monitor = Monitor::start(&transport, &router, &env, &observer, &deadlines, &waits, work)?;
        let (peers, next) = (transport.size() - servers, Default::default());
        let scope = if rank.index() < peers { CallScope::Program } else { CallScope::WithServers };
        let timeout = deadlines.wait;
        let context = Arc::new(PeerContext { peers, transport, router, env, waits, monitor, timeout, next });
        let (io_threads, closed, channels) = (Mutex::new(io_threads), AtomicBool::new(false), Default::default());
        let services = ServiceRegistry::default();
        let inner = ClusterInner { context, workers, deadlines, io_threads, services, closed, channels };
        Ok(Self { inner: Arc::new(inner), scope })
    }

    /// Returns the rank of this peer.
    #[must_use]
    pub fn rank(&self) -> Rank {
        self.inner.context.transport.rank()
    }

    /// Returns the number of peers that take part in the collective calls of this handle: those
    /// that run the program, and also the servers if the handle is one [with
    /// servers](Self::with_servers).
    #[must_use]
    pub fn size(&self) -> usize {
        self.inner.context.size(self.scope)
    }

    /// Returns the number of workers of this peer; zero on a dedicated server.
    #[must_use]
    pub fn workers(&self) -> usize {
        if self.is_server() { 0 } else { self.inner.workers.count() }
    }

    /// Returns the ranks of the dedicated servers, which do not run the program.
    #[must_use]
    pub fn servers(&self) -> impl ExactSizeIterator<Item = Rank> + use<> {
        let PeerContext { peers, transport, .. } = &*self.inner.context;
        Rank::all(transport.size()).skip(*peers)
    }

    /// Returns true on a dedicated server.
    #[must_use]
    pub fn is_server(&self) -> bool {
        self.rank().index() >= self.inner.context.peers
    }

    /// Sends a warning to the observer of cluster events: something was wrong, and the job
    /// continues.
    pub fn warn(&self, message: impl Into<String>) {
        self.inner.context.monitor.observe(&ClusterEvent::Warning { message: message.into() });
    }

    /// Returns a handle whose collectives include the dedicated servers. Servers do not run the
    /// user program, so each call must be announced to them; `Table` does this.
    #[must_use]
    pub fn with_servers(&self) -> Self {
        Self { inner: self.inner.clone(), scope: CallScope::WithServers }
    }

    /// Returns true on the root, which is the peer that prints.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.rank() == Rank::ROOT
    }

    /// *Collective.* Returns when every peer has called it.
    #[track_caller]
    pub fn barrier(&self) -> Result<()> {
        self.inner.context.barrier(self.scope, ClusterCall::Barrier, Location::caller())
    }

    /// *Collective.* Returns the value of the root on every peer; the values of other peers are
    /// dropped.
    ///
    /// ```
    /// hemiola_cluster::standalone(2).run(|cluster| {
    ///     let seed = cluster.broadcast(cluster.rank().number() + 7)?;
    ///     assert_eq!(seed, 7);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), hemiola_cluster::Error>(())
    /// ```
    #[track_caller]
    pub fn broadcast<T: Serialize + DeserializeOwned>(&self, value: T) -> Result<T> {
        self.broadcast_from(Rank::ROOT, value)
    }

    /// *Collective.* Returns the value of `root` on every peer. All peers must name the same root.
    #[track_caller]
    pub fn broadcast_from<T: Serialize + DeserializeOwned>(&self, root: Rank, value: T) -> Result<T> {
        let size = self.size();
        if root.index() >= size {
            return Err(hemiola_core::TransportError::NoSuchPeer { peer: root, size }.into());
        }
        let value_bytes = || Ok(encode(&value)?.into());
        let bytes = self.inner.context.broadcast(self.scope, root, value_bytes, Location::caller())?;
        if root == self.rank() { Ok(value) } else { decode(&bytes) }
    }

    /// *Collective.* Returns the values of all peers in rank order, on every peer.
    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "callers pass a fresh value, as to `broadcast`")]
    pub fn all_gather<T: Serialize + DeserializeOwned>(&self, value: T) -> Result<Vec<T>> {
        let parts = self.inner.context.all_gather(self.scope, encode(&value)?, Location::caller())?;
        parts.iter().map(|part| decode(part)).collect()
    }

    /// *Collective.* Returns the combination of the values of all peers on every peer. `merge` adds
    /// a value to another. The order is fixed by the number of peers. No peer holds more than two
    /// values at once, so this is the way to sum large ones; see
    /// [`all_gather`](Self::all_gather) for the values themselves.
    ///
    /// ```
    /// hemiola_cluster::standalone(3).run(|cluster| {
    ///     let sum = cluster.all_reduce(vec![cluster.rank().number(); 2], |sum: &mut Vec<u32>, other| {
    ///         sum.iter_mut().zip(other).for_each(|(sum, other)| *sum += other);
    ///     })?;
    ///     assert_eq!(sum, [3, 3]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), hemiola_cluster::Error>(())
    /// ```
    #[track_caller]
    pub fn all_reduce<T: Serialize + DeserializeOwned>(
        &self,
        mut value: T,
        mut merge: impl FnMut(&mut T, T),
    ) -> Result<T> {
        let add = |child: Option<Bytes>| match child {
            Some(child) => {
                merge(&mut value, decode(&child)?);
                Ok(Bytes::new())
            }
            None => Ok(encode(&value)?.into()),
        };
        decode(&self.inner.context.all_reduce(self.scope, add, Location::caller())?)
    }

    /// Prints a line once for the whole job, on the root.
    pub fn println(&self, line: fmt::Arguments<'_>) {
        if self.is_root() {
            // A closed pipe (`| head`) is no reason to fail.
            let _ = writeln!(std::io::stdout().lock(), "{line}");
        }
    }

    /// Runs `body` once on every worker of this peer and waits for all. Results are in worker
    /// order.
    ///
    /// ```
    /// hemiola_cluster::standalone(1).workers(3).run(|cluster| {
    ///     let doubled = cluster.each_worker(|worker| worker.index() * 2)?;
    ///     assert_eq!(doubled, [0, 2, 4]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), hemiola_cluster::Error>(())
    /// ```
    #[track_caller]
    pub fn each_worker<T: Send>(&self, body: impl Fn(Worker) -> T + Sync) -> Result<Vec<T>> {
        let reason = WaitReason { operation: "its workers", number: None, site: Some(Location::caller()) };
        let _waiting = self.waiting(Waiter::Driver, reason, None);
        self.inner.workers.each(body)
    }

    /// Runs `body` once on every worker of this peer and `meanwhile` on the calling thread, then
    /// waits for all. The calling thread may receive data that workers need, or send their results.
    ///
    /// # Panics
    /// If the workers are reserved by a [worker team](Self::worker_team).
    ///
    /// ```
    /// hemiola_cluster::standalone(1).workers(2).run(|cluster| {
    ///     let (workers, here) = cluster.each_worker_while(|worker| worker.index(), || "driver");
    ///     assert_eq!((workers?, here), (vec![0, 1], "driver"));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), hemiola_cluster::Error>(())
    /// ```
    pub fn each_worker_while<T: Send, R>(
        &self,
        body: impl Fn(Worker) -> T + Sync,
        meanwhile: impl FnOnce() -> R,
    ) -> (Result<Vec<T>>, R) {
        self.inner.workers.each_while(body, meanwhile)
    }

    /// Reserves the workers of this peer as a fork-join team while `lead` runs on the calling
    /// thread. The calling thread hands out tasks as small as a microsecond and takes part as
    /// worker 0. Between tasks it may make collective calls; a worker may not. The workers are not
    /// available for anything else: [`each_worker`](Self::each_worker) and a second team return an
    /// error.
    ///
    /// ```
    /// hemiola_cluster::standalone(1).workers(2).run(|cluster| {
    ///     let mut sums = vec![0; 2];
    ///     cluster.worker_team(|team| {
    ///         for task in 0..100 {
    ///             team.each_with(&mut sums, |worker, sum| *sum += task * worker)?;
    ///         }
    ///         Ok(())
    ///     })?;
    ///     assert_eq!(sums, [0, 4950]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), hemiola_cluster::Error>(())
    /// ```
    pub fn worker_team<T>(&self, lead: impl FnOnce(&mut WorkerTeam<'_>) -> Result<T>) -> Result<T> {
        let fork_join = ForkJoinState::new(self.workers());
        let run_worker = |worker: Worker| {
            // The caller is worker 0.
            if worker.index() > 0 {
                fork_join.run_worker(worker.index());
            }
        };
        self.inner.workers.reserve(run_worker, || WorkerTeam::lead(&fork_join, self.rank(), lead))
    }

    /// Returns true if the calling thread is a worker of this peer. Workers must not make
    /// collective calls.
    #[must_use]
    pub fn on_worker(&self) -> bool {
        self.inner.workers.include_this_thread()
    }

    /// Returns the messages and bytes that this peer has sent and received, by peer, lane and
    /// purpose.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.inner.context.transport.traffic()
    }

    /// Returns the current waits of this peer and the last reported waits of the others.
    #[must_use]
    pub fn stall_report(&self) -> StallReport {
        self.inner.context.monitor.report()
    }

    /// Opens a channel. A peer may open `channel` once at a time, and it must belong to the caller
    /// (see [`ChannelId::of`]).
    #[must_use]
    pub fn open_channel(&self, channel: ChannelId, lane: Lane) -> ChannelReceiver {
        let PeerContext { transport, router, env, .. } = &*self.inner.context;
        router.open_channel(channel, lane, transport, env)
    }

    /// *Collective.* Returns a channel that no other call gets, equal on every peer. `owner` is the
    /// subsystem that opens it.
    #[must_use]
    pub fn next_channel(&self, owner: ChannelOwner) -> ChannelId {
        // Relaxed: collective calls of one peer are sequential, on whatever threads they run.
        let number = self.inner.channels[self.scope as usize].fetch_add(1, Ordering::Relaxed);
        ChannelId::of(owner, self.scope.first_channel() + number)
    }

    /// Sends a message to a channel of peer `to`, waiting for room no longer than
    /// [`Deadlines::wait`].
    pub fn send(&self, to: Rank, message: OutgoingMessage) -> Result<()> {
        self.inner.context.send(to, message)
    }

    /// Receives the next message of `from`, waiting no longer than [`Deadlines::wait`]. Stall
    /// reports and the error at the deadline name `waiter` and `reason`.
    pub fn receive(
        &self,
        receiver: &ChannelReceiver,
        from: Rank,
        waiter: Waiter,
        reason: WaitReason,
    ) -> Result<Message> {
        let _waiting = self.waiting(waiter, reason, Some(from));
        self.inner.context.receive(receiver, Some(from), &format_args!("{reason} from peer {from}"))
    }

    /// Receives the next message of any peer, like [`receive`](Self::receive).
    pub fn receive_any(&self, receiver: &ChannelReceiver, waiter: Waiter, reason: WaitReason) -> Result<Message> {
        let _waiting = self.waiting(waiter, reason, None);
        self.inner.context.receive(receiver, None, &format_args!("{reason} from any peer"))
    }

    pub(crate) fn monitor(&self) -> &Monitor {
        &self.inner.context.monitor
    }

    pub(crate) fn context(&self) -> &PeerContext {
        &self.inner.context
    }

    /// Marks a thread as waiting while the guard lives, so that a stall report can name it.
    pub fn waiting(&self, waiter: Waiter, reason: WaitReason, peer: Option<Rank>) -> WaitGuard<'_> {
        self.inner.context.waits.enter(waiter, reason, peer)
    }

    /// Returns a non-owning handle for threads that serve other peers: it sends and waits, but does
    /// not keep the cluster alive.
    #[must_use]
    pub fn peer_handle(&self) -> PeerHandle {
        PeerHandle::new(self.inner.context.clone())
    }

    /// Starts a thread that serves other peers while the program computes. It ends with the
    /// cluster, or when its [`ServiceHandle`] shuts it down. `wake` is called then, from another
    /// thread, and must make `body` check its [`ShutdownToken`]. A body that fails or panics fails
    /// the job: every wait of this peer ends, and the other peers receive the reason.
    ///
    /// A body must not hold a [`Cluster`], which would then never end; use a [`PeerHandle`].
    pub fn service(
        &self,
        name: &str,
        wake: impl Fn() + Send + Sync + 'static,
        body: impl FnOnce(&ShutdownToken) -> Result<()> + Send + 'static,
    ) -> Result<ServiceHandle> {
        self.inner.services.start(&self.inner.context, name, Box::new(wake), Box::new(body))
    }

    /// Excludes a peer from now on: its loss, past or future, fails only the threads that wait for
    /// it. Barriers, broadcasts and the end of the program involve the remaining peers only, and
    /// gathers have no value of it.
    ///
    /// For layers whose protocol can continue without a peer. All remaining peers must exclude it
    /// between the same two collective calls.
    pub fn exclude(&self, rank: Rank) {
        self.inner.context.router.exclude(rank);
    }

    /// Returns the timeouts of this cluster.
    #[must_use]
    pub fn deadlines(&self) -> &Deadlines {
        &self.inner.deadlines
    }

    /// Returns the source of time and randomness of this cluster.
    #[must_use]
    pub fn env(&self) -> &Arc<dyn Env> {
        &self.inner.context.env
    }

    /// *Collective.* Waits until every peer has reached its end, then leaves. [`run`](crate::run)
    /// calls it. A dedicated server does not wait for other peers.
    #[track_caller]
    pub fn leave(&self) -> Result<()> {
        let wait = || self.inner.context.barrier(CallScope::Program, ClusterCall::Leave, Location::caller());
        let outcome = if self.is_server() { Ok(()) } else { wait() };
        match &outcome {
            Ok(()) => self.inner.close(GoodbyeReason::Done),
            Err(error) => self.fail(&error.to_string()),
        }
        outcome
    }

    /// Notifies the other peers that this one has failed, and leaves. If a peer was lost, that peer
    /// is blamed. Over TCP, calls that wait on other threads of this peer end with an error; in a
    /// standalone cluster they end with the peer that they wait for. [`run`](crate::run) calls it for
    /// a program that returns an error.
    pub fn fail(&self, reason: &str) {
        let goodbye = match self.inner.context.router.failure() {
            // A service of this peer failed.
            Some(PeerLost { rank, cause: LossCause::Failed { reason }, .. }) if rank == self.rank() => {
                GoodbyeReason::Failed { reason }
            }
            Some(loss) => GoodbyeReason::Lost(loss),
            None => GoodbyeReason::Failed { reason: reason.to_owned() },
        };
        self.inner.close(goodbye);
    }

    /// Returns the loss that made this job fail, if any.
    pub(crate) fn failure(&self) -> Option<PeerLost> {
        self.inner.context.router.failure()
    }
}

impl ClusterInner {
    fn close(&self, goodbye: GoodbyeReason) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        let timeout = if goodbye == GoodbyeReason::Done { GOODBYE_TIMEOUT } else { FAILURE_TIMEOUT };
        // Requested before the transport closes, since services may be woken through it; joined
        // afterwards, since they may be sending.
        self.services.request_shutdown();
        self.context.transport.close(goodbye, timeout);
        self.services.join();
        self.context.monitor.stop();
        for task in self.io_threads.lock().drain(..) {
            task.join();
        }
    }
}

impl Drop for ClusterInner {
    /// A cluster that is dropped without [`Cluster::leave`] has failed.
    fn drop(&mut self) {
        let reason = if std::thread::panicking() { "it panicked" } else { "it dropped its cluster without leaving" };
        self.close(GoodbyeReason::Failed { reason: reason.to_owned() });
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Cluster")
            .field("rank", &self.rank())
            .field("size", &self.size())
            .field("workers", &self.workers())
            .finish_non_exhaustive()
    }
}
