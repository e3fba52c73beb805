//! The handle a program holds: this peer, its workers, and the way to the others.

use crate::builder::ClusterBuilder;
use crate::crew::{Crew, Muster};
use crate::error::{Result, receive_error};
use crate::exchange::{Call, Exchange, Scope, decode, encode};
use crate::link::Link;
use crate::monitor::Monitor;
use crate::service::{Ending, Service, Services};
use crate::waits::{Reason, WaitGuard, Waits};
use crate::workers::{Worker, Workers};
use hemiola_core::{
    ChannelId, Deadlines, Env, Lane, LossCause, Message, Observer, Outgoing, Parting, PeerLost, Rank, Stall, Task,
    Traffic, Transport, Waiter,
};
use hemiola_net::{IoLoop, Mailbox, Router};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::io::Write;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How long a peer that ends well waits for the others to hear of it.
const GOODBYE: Duration = Duration::from_secs(5);
/// How long a peer that fails waits for the others to hear of it.
const ALARM: Duration = Duration::from_secs(1);

/// This peer's handle to its job. Clones are handles to the same peer.
///
/// Methods marked *collective* must be called by every peer, in the same order, from one thread at a time. A call that
/// another peer does not make fails with a deadline, or at once if that peer makes a different one.
///
/// A job may have *dedicated servers*: further processes that hold tables for the peers and do not run the program
/// ([`servers`](Self::servers)). They have the ranks behind those of the peers, are not counted by [`size`](Self::size), and take part in
/// no collective call but those of a handle [`with_servers`](Self::with_servers).
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
    inner: Arc<Inner>,
    /// Who takes part in the collective calls of this handle.
    scope: Scope,
}

struct Inner {
    exchange: Arc<Exchange>,
    workers: Workers,
    deadlines: Deadlines,
    /// The I/O loops.
    tasks: Mutex<Vec<Task>>,
    services: Services,
    closed: AtomicBool,
    /// By scope: number of the next channel of [`Cluster::next_channel`].
    channels: [AtomicU64; 2],
}

/// What a cluster is made of.
pub(crate) struct Parts {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) loops: Vec<IoLoop>,
    pub(crate) board: Arc<Router>,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) deadlines: Deadlines,
    pub(crate) workers: usize,
    /// How many of the peers, the last ones, are dedicated servers.
    pub(crate) servers: usize,
}

impl Cluster {
    /// Settings for a cluster.
    pub fn builder() -> ClusterBuilder {
        ClusterBuilder::new()
    }

    pub(crate) fn assemble(parts: Parts) -> Result<Self> {
        let Parts { transport, loops, board, env, observer, deadlines, workers, servers } = parts;
        let rank = transport.rank();
        let (worker_count, workers) = (workers, Workers::start(rank, workers)?);
        let mut tasks = Vec::new();
        for io_loop in loops {
            let name = format!("hemiola-{rank}-{}", io_loop.lane());
            tasks.push(env.spawn(name, Box::new(move || io_loop.run())).map_err(crate::Error::Thread)?);
        }
        let waits = Waits::new(worker_count, env.clone());
        let monitor = Monitor::start(&transport, &board, &env, &observer, &deadlines, &waits)?;
        let (peers, next) = (transport.size() - servers, Default::default());
        let scope = if rank.index() < peers { Scope::Program } else { Scope::Everyone };
        let timeout = deadlines.wait;
        let exchange = Arc::new(Exchange { peers, transport, board, env, waits, monitor, timeout, next });
        let (tasks, closed, channels) = (Mutex::new(tasks), AtomicBool::new(false), Default::default());
        let services = Services::default();
        let inner = Inner { exchange, workers, deadlines, tasks, services, closed, channels };
        Ok(Self { inner: Arc::new(inner), scope })
    }

    /// This peer.
    #[must_use]
    pub fn rank(&self) -> Rank {
        self.inner.exchange.transport.rank()
    }

    /// Number of peers that take part in the collective calls of this handle: those that run the program, unless it is one
    /// [with servers](Self::with_servers).
    #[must_use]
    pub fn size(&self) -> usize {
        self.inner.exchange.size(self.scope)
    }

    /// Number of workers of this peer; none if it is a dedicated server.
    #[must_use]
    pub fn workers(&self) -> usize {
        if self.is_server() { 0 } else { self.inner.workers.count() }
    }

    /// The ranks of the job's dedicated servers, which do not run the program.
    #[must_use]
    pub fn servers(&self) -> impl ExactSizeIterator<Item = Rank> + use<> {
        let Exchange { peers, transport, .. } = &*self.inner.exchange;
        Rank::all(transport.size()).skip(*peers)
    }

    /// Whether this is a dedicated server.
    #[must_use]
    pub fn is_server(&self) -> bool {
        self.rank().index() >= self.inner.exchange.peers
    }

    /// A handle whose collective calls dedicated servers take part in, too. Somebody has to tell those of every call, since they do not run the
    /// program; tables do.
    #[must_use]
    pub fn with_servers(&self) -> Self {
        Self { inner: self.inner.clone(), scope: Scope::Everyone }
    }

    /// Whether this is the peer that prints.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.rank() == Rank::ROOT
    }

    /// *Collective.* Returns when every peer has called it.
    #[track_caller]
    pub fn barrier(&self) -> Result<()> {
        self.inner.exchange.barrier(self.scope, Call::Barrier, Location::caller())
    }

    /// *Collective.* The value the root passed, on every peer; what others pass is dropped.
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

    /// *Collective.* The value that `root` passed, on every peer. All must name the same root.
    #[track_caller]
    pub fn broadcast_from<T: Serialize + DeserializeOwned>(&self, root: Rank, value: T) -> Result<T> {
        let size = self.size();
        if root.index() >= size {
            return Err(hemiola_core::TransportError::NoSuchPeer { peer: root, size }.into());
        }
        let value_bytes = || Ok(encode(&value)?.into());
        let bytes = self.inner.exchange.broadcast(self.scope, root, value_bytes, Location::caller())?;
        if root == self.rank() { Ok(value) } else { decode(&bytes) }
    }

    /// *Collective.* The values of all peers in rank order, on every peer.
    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "callers pass what they have just made, as to `broadcast`")]
    pub fn all_gather<T: Serialize + DeserializeOwned>(&self, value: T) -> Result<Vec<T>> {
        let parts = self.inner.exchange.all_gather(self.scope, encode(&value)?, Location::caller())?;
        parts.iter().map(|part| decode(part)).collect()
    }

    /// Prints a line once for the whole job: on the root.
    pub fn println(&self, line: fmt::Arguments<'_>) {
        if self.is_root() {
            // A reader that has seen enough (`| head`) is no reason to fail.
            let _ = writeln!(std::io::stdout().lock(), "{line}");
        }
    }

    /// Runs `body` once on every worker of this peer and waits for all. Results come in worker order.
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
        let reason = Reason { what: "its workers", number: None, site: Some(Location::caller()) };
        let _waiting = self.waiting(Waiter::Driver, reason, None);
        self.inner.workers.each(body)
    }

    /// Runs `body` once on every worker of this peer and `meanwhile` on the calling thread, which may receive what workers
    /// need or send what they have done; waits for all.
    ///
    /// # Panics
    /// If the workers stand by for a [crew](Self::crew).
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

    /// Holds the workers of this peer while `lead` runs on the calling thread, which hands them work in pieces as small as a microsecond and takes part as worker 0.
    /// Between pieces it may make collective calls; a worker may not. Nothing else may use the workers meanwhile: [`each_worker`](Self::each_worker) and another crew
    /// are refused.
    ///
    /// ```
    /// hemiola_cluster::standalone(1).workers(2).run(|cluster| {
    ///     let mut sums = vec![0; 2];
    ///     cluster.crew(|crew| {
    ///         for piece in 0..100 {
    ///             crew.each_with(&mut sums, |worker, sum| *sum += piece * worker)?;
    ///         }
    ///         Ok(())
    ///     })?;
    ///     assert_eq!(sums, [0, 4950]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), hemiola_cluster::Error>(())
    /// ```
    pub fn crew<T>(&self, lead: impl FnOnce(&mut Crew<'_>) -> Result<T>) -> Result<T> {
        let muster = Muster::new(self.workers());
        let stand_by = |worker: Worker| {
            // The caller is worker 0.
            if worker.index() > 0 {
                muster.stand_by(worker.index());
            }
        };
        self.inner.workers.hold(stand_by, || muster.lead(self.rank(), lead))
    }

    /// Whether the calling thread is a worker of this peer, which must not make collective calls.
    #[must_use]
    pub fn on_worker(&self) -> bool {
        self.inner.workers.include_this_thread()
    }

    /// Messages and bytes this peer has sent and received so far, by peer, lane and purpose.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.inner.exchange.transport.traffic()
    }

    /// Who waits for what, on this peer and as far as known on the others.
    #[must_use]
    pub fn stall_report(&self) -> Stall {
        self.inner.exchange.monitor.report()
    }

    /// Opens a mailbox. `channel` must be open once per peer and belong to the caller (see [`ChannelId::of`]).
    #[must_use]
    pub fn open(&self, channel: ChannelId, lane: Lane) -> Mailbox {
        let Exchange { transport, board, env, .. } = &*self.inner.exchange;
        board.open(channel, lane, transport, env)
    }

    /// *Collective.* A channel that no other call gets, the same on every peer. `owner` is the caller's top byte.
    #[must_use]
    pub fn next_channel(&self, owner: u8) -> ChannelId {
        // Relaxed: collective calls of one peer come one after the other, whichever threads make them.
        let number = self.inner.channels[self.scope as usize].fetch_add(1, Ordering::Relaxed);
        ChannelId::of(owner, self.scope.first_channel() + number)
    }

    /// Sends a message to a mailbox of peer `to`, waiting for room no longer than [`Deadlines::wait`].
    pub fn send(&self, to: Rank, message: Outgoing) -> Result<()> {
        self.inner.exchange.post(to, message)
    }

    /// Takes the next message of `from` out of a mailbox, waiting no longer than [`Deadlines::wait`]. Stall reports and
    /// the error at the deadline name `waiter` and `reason`.
    pub fn receive(&self, mailbox: &Mailbox, from: Rank, waiter: Waiter, reason: Reason) -> Result<Message> {
        let _waiting = self.waiting(waiter, reason, Some(from));
        let report = || format!("\n{}", self.stall_report());
        let explain = |error| receive_error(error, &format_args!("{reason} from peer {from}"), report);
        mailbox.receive_from(from, self.inner.deadlines.wait).map_err(explain)
    }

    /// The same for a message of any peer.
    pub fn receive_any(&self, mailbox: &Mailbox, waiter: Waiter, reason: Reason) -> Result<Message> {
        let _waiting = self.waiting(waiter, reason, None);
        let report = || format!("\n{}", self.stall_report());
        let explain = |error| receive_error(error, &format_args!("{reason} from any peer"), report);
        mailbox.receive(self.inner.deadlines.wait).map_err(explain)
    }

    /// Marks a thread as waiting while the guard lives, so that a stall report can name it.
    pub fn waiting(&self, waiter: Waiter, reason: Reason, peer: Option<Rank>) -> WaitGuard<'_> {
        self.inner.exchange.waits.enter(waiter, reason, peer)
    }

    /// What a thread needs that serves other peers: it sends and waits, and does not keep the cluster from ending.
    #[must_use]
    pub fn link(&self) -> Link {
        Link::new(self.inner.exchange.clone())
    }

    /// Starts a thread that serves other peers while the program computes: it ends when the cluster does, or its [`Service`] is
    /// told to. `wake` is called then, from another thread, and must make `body` look at its [`Ending`]. A body that fails or panics
    /// fails the job: every wait of this peer ends, and the other peers are told why.
    ///
    /// A body must not hold a [`Cluster`], which would then never end; a [`Link`] does.
    pub fn service(
        &self,
        name: &str,
        wake: impl Fn() + Send + Sync + 'static,
        body: impl FnOnce(&Ending) -> Result<()> + Send + 'static,
    ) -> Result<Service> {
        self.inner.services.start(&self.inner.exchange, name, Box::new(wake), Box::new(body))
    }

    /// Does without a peer from now on: its loss, whenever it came or comes, fails only those who wait for it, and barriers, broadcasts and the end of the
    /// program are a matter of those who are left. Gathers then have no value of it.
    ///
    /// For layers whose protocol can go on without a peer. All who are left must agree on it between the same collective calls.
    pub fn forgive(&self, rank: Rank) {
        self.inner.exchange.board.forgive(rank);
    }

    /// The time limits of this cluster.
    #[must_use]
    pub fn deadlines(&self) -> &Deadlines {
        &self.inner.deadlines
    }

    /// Where this cluster's time and randomness come from.
    #[must_use]
    pub fn env(&self) -> &Arc<dyn Env> {
        &self.inner.exchange.env
    }

    /// *Collective.* Waits until every peer has come to its end, then leaves. [`run`](crate::run) does this by itself. A dedicated server waits
    /// for nobody.
    #[track_caller]
    pub fn leave(&self) -> Result<()> {
        let wait = || self.inner.exchange.barrier(Scope::Program, Call::Leave, Location::caller());
        let outcome = if self.is_server() { Ok(()) } else { wait() };
        match &outcome {
            Ok(()) => self.inner.close(Parting::Done),
            Err(error) => self.fail(&error.to_string()),
        }
        outcome
    }

    /// Tells the other peers that this one cannot go on, and leaves. If a peer was lost, that one is blamed.
    pub(crate) fn fail(&self, reason: &str) {
        let parting = match self.inner.exchange.board.failure() {
            // A service of this peer failed.
            Some(PeerLost { rank, cause: LossCause::Failed { reason }, .. }) if rank == self.rank() => {
                Parting::Failed { reason }
            }
            Some(loss) => Parting::Lost(loss),
            None => Parting::Failed { reason: reason.to_owned() },
        };
        self.inner.close(parting);
    }

    /// The loss that made this job fail, if one did.
    pub(crate) fn failure(&self) -> Option<PeerLost> {
        self.inner.exchange.board.failure()
    }
}

impl Inner {
    fn close(&self, parting: Parting) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        let patience = if parting == Parting::Done { GOODBYE } else { ALARM };
        // Before the transport closes, since they may be woken through it; waited for behind it, since they may be sending.
        self.services.call_off();
        self.exchange.transport.close(parting, patience);
        self.services.join();
        self.exchange.monitor.stop();
        for task in self.tasks.lock().drain(..) {
            task.join();
        }
    }
}

impl Drop for Inner {
    /// A cluster that is dropped without [`Cluster::leave`] has failed.
    fn drop(&mut self) {
        let reason = if std::thread::panicking() { "it panicked" } else { "it dropped its cluster without leaving" };
        self.close(Parting::Failed { reason: reason.to_owned() });
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
