//! Runtime of a table on one peer: locks and threads around its [node](TableNode).
//!
//! Every shard has a client here, behind its own lock; some shards are here themselves. The node
//! routes messages; a [`RuntimeHost`] gives it the locks and the network for one call. A call
//! locks one state machine, takes its outgoing messages and woken workers, unlocks it, and only
//! then forwards the messages: within the peer as values, to other peers as bytes.

use crate::endpoint::{self, Blocking, TableEndpoint, TableSendQueue};
use crate::error::{TableFailure, table_error};
use crate::host::RuntimeHost;
use crate::sharded_rwlock::ShardedRwLock;
use crate::waiters::Waiters;
use hemiola_cluster::{ChannelReceiver, Error, Result, ShutdownToken, WaitContext, WaitReason};
use hemiola_core::{Message, RECHECK_INTERVAL, Waiter, WorkerId};
use hemiola_tables_proto::client::CachedRow;
use hemiola_tables_proto::dtype::StorageType;
use hemiola_tables_proto::node::limiters::TICK_INTERVAL;
use hemiola_tables_proto::{
    Clock, NodeLimiters, RowCells, ShardClient, ShardId, ShardServer, TableMessage, TableNode, TableSpec,
};
use parking_lot::Mutex;
use std::fmt::Write as _;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Runtime of a table on one peer.
pub(crate) struct TableRuntime<C: StorageType> {
    /// Routing and policy, identical in the simulator.
    pub(crate) node: TableNode,
    /// Clients by shard; none on a dedicated server. Each worker is a reader of the lock.
    pub(crate) clients: Vec<ShardedRwLock<ShardClient<C>>>,
    /// Servers by shard; only those that are here.
    pub(crate) servers: Vec<Option<Mutex<ShardServer<C>>>>,
    pub(crate) waiters: Waiters,
    /// Endpoint to other peers; `None` if there is no other peer.
    pub(crate) endpoint: Option<TableEndpoint>,
    pub(crate) limiters: Option<Mutex<NodeLimiters>>,
    /// Messages that found their state machine locked, and the first error.
    pub(crate) deferred: Mutex<DeferredWork<C>>,
    /// The table handle of this peer was dropped.
    pub(crate) handle_dropped: AtomicBool,
    /// Number of peers whose shards are no longer used.
    pub(crate) finished_peers: AtomicUsize,
}

/// Size of deferred messages from which on network threads leave arriving ones in the channel. Its
/// receive buffer is bounded, too, and senders wait when it is full; the receiver service reads it.
const DEFERRED_BYTES: usize = 4 << 20;

/// Work that network threads leave to the receiver service: at most [`DEFERRED_BYTES`], and the
/// follow-ups of one message per network thread.
pub(crate) struct DeferredWork<C: StorageType> {
    messages: Vec<TableMessage<C>>,
    bytes: usize,
    error: Option<Error>,
}

impl<C: StorageType> Default for DeferredWork<C> {
    fn default() -> Self {
        Self { messages: Vec::new(), bytes: 0, error: None }
    }
}

impl<C: StorageType> TableRuntime<C> {
    pub(crate) fn spec(&self) -> &Arc<TableSpec> {
        self.node.spec()
    }

    fn shards(&self) -> impl Iterator<Item = ShardId> + use<C> {
        self.node.shards()
    }

    /// Calls the client of a shard on the thread of a worker, and forwards its messages.
    fn with_client<T>(
        &self,
        shard: ShardId,
        call: impl FnOnce(&mut ShardClient<C>) -> hemiola_tables_proto::Result<T>,
    ) -> Result<T> {
        let result = self.node.with_client(&mut RuntimeHost::new(self, Blocking::Full), shard, call)?;
        result.map_err(table_error)
    }

    /// Keeps a message for the receiver service.
    pub(crate) fn defer(&self, message: TableMessage<C>) {
        let mut deferred = self.deferred.lock();
        deferred.bytes += message.lane_and_bytes().1;
        deferred.messages.push(message);
        drop(deferred);
        self.wake_service();
    }

    pub(crate) fn wake_service(&self) {
        if let Some(endpoint) = &self.endpoint {
            endpoint::wake_receiver(endpoint.peer_handle(), endpoint.channel());
        }
    }

    /// Calls a shard of this peer, and forwards its messages.
    pub(crate) fn with_server<T>(&self, shard: usize, call: impl FnOnce(&mut ShardServer<C>) -> T) -> Result<T> {
        self.node.with_server(&mut RuntimeHost::new(self, Blocking::Full), ShardId::new(shard as u32), call)
    }

    /// State of the table's clocks here, for the error at a deadline.
    pub(crate) fn details(&self) -> String {
        let mut text = String::new();
        for (shard, server) in self.servers.iter().enumerate() {
            let Some(server) = server else { continue };
            let server = server.lock();
            let clocks: Vec<String> = server.clocks().as_slice().iter().map(ToString::to_string).collect();
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "  shard {shard} of table `{}`: peers are at clocks {}",
                self.spec().name,
                clocks.join(", ")
            );
            for (client, until) in server.waiting() {
                let _ = write!(text, "; peer {client} waits for {until}");
            }
            text.push('\n');
        }
        text
    }

    /// Calls `read` with a row as soon as the row is cached and fresh enough.
    pub(crate) fn get<T>(
        &self,
        worker: WorkerId,
        key: u64,
        site: &'static Location<'static>,
        read: impl FnOnce(CachedRow<'_, C::Compute>) -> T,
    ) -> Result<T> {
        let shard = self.spec().shard_of(key);
        let client = &self.clients[shard.index()];
        // Fast path: writes nothing that another worker uses.
        if let Some(reading) = client.read(worker.index()).peek(worker, key).map_err(table_error)? {
            return Ok(read(reading));
        }
        loop {
            if let Some(reading) = client.write().get(worker, key).map_err(table_error)? {
                return Ok(read(reading));
            }
            self.waiters.check()?;
            if !self.with_client(shard, |client| client.fetch(worker, &[key]))? {
                self.park(worker, 1, shard, site)?;
            }
        }
    }

    /// Reads many rows, given by shard with their positions in the request.
    pub(crate) fn get_many(
        &self,
        worker: WorkerId,
        by_shard: &[(Vec<u64>, Vec<usize>)],
        site: &'static Location<'static>,
        mut read: impl FnMut(usize, u64, CachedRow<'_, C::Compute>),
    ) -> Result<()> {
        let mut host = RuntimeHost::new(self, Blocking::Full);
        let keys = |shard: ShardId| &by_shard[shard.index()].0[..];
        let awaited = self.node.fetch(&mut host, worker, keys)?.map_err(table_error)?;
        if let Some(shard) = awaited.last {
            self.park(worker, awaited.count.cast_signed() as i64, shard, site)?;
        }
        for shard in self.shards() {
            let (keys, positions) = &by_shard[shard.index()];
            if keys.is_empty() {
                continue;
            }
            let client = &self.clients[shard.index()];
            let mut rest = keys.iter().zip(positions).peekable();
            let cache = client.read(worker.index());
            while let Some((key, position)) = rest.peek() {
                let Some(reading) = cache.peek(worker, **key).map_err(table_error)? else { break };
                read(**position, **key, reading);
                rest.next();
            }
            drop(cache);
            if rest.peek().is_none() {
                continue;
            }
            let mut client = client.write();
            for (key, position) in rest {
                let Some(reading) = client.get(worker, *key).map_err(table_error)? else {
                    // Fetched rows stay cached until the worker fetches again.
                    unreachable!("row {key} was fetched and must be cached");
                };
                read(*position, *key, reading);
            }
        }
        Ok(())
    }

    fn park(
        &self,
        worker: WorkerId,
        awaited_shards: i64,
        shard: ShardId,
        site: &'static Location<'static>,
    ) -> Result<()> {
        let reason = WaitReason {
            operation: "rows of a table, from shard",
            number: Some(shard.index() as u64),
            site: Some(site),
        };
        let (waiter, peer) = (Waiter::Worker(worker), Some(self.node.placement().rank_of(shard)));
        self.waiters.wait(
            worker,
            awaited_shards,
            WaitContext::new(waiter, reason, peer).with_details(&|| self.details()),
        )
    }

    pub(crate) fn update(&self, worker: WorkerId, key: u64, cells: &RowCells<'_, C::Compute>, seen: u64) -> Result<()> {
        // Fast path: an update creates no message.
        let client = &self.clients[self.spec().shard_of(key).index()];
        client.write().update(worker, key, cells, seen).map_err(table_error)
    }

    /// Adds to many rows, given by shard with their positions in the request.
    pub(crate) fn update_many(
        &self,
        worker: WorkerId,
        by_shard: &[(Vec<u64>, Vec<usize>)],
        values: &[C::Compute],
        seen: impl Fn(u64) -> u64,
    ) -> Result<()> {
        let width = self.spec().width;
        for (client, (keys, positions)) in self.clients.iter().zip(by_shard).filter(|(_, (keys, _))| !keys.is_empty()) {
            let mut client = client.write();
            for (key, position) in keys.iter().zip(positions) {
                let cells = RowCells::Dense(&values[position * width..][..width]);
                client.update(worker, *key, &cells, seen(*key)).map_err(table_error)?;
            }
        }
        Ok(())
    }

    /// Ends a worker's clock, or its work.
    pub(crate) fn advance(&self, blocking: Blocking, worker: WorkerId, finish: bool) -> Result<()> {
        self.waiters.check()?;
        let advanced = self.node.advance(&mut RuntimeHost::new(self, blocking), worker, finish)?;
        advanced.map_err(table_error)
    }

    pub(crate) fn clock_of(&self, worker: WorkerId) -> Clock {
        self.clocks_of(worker).min().unwrap_or(Clock::INFINITE)
    }

    fn clocks_of(&self, worker: WorkerId) -> impl Iterator<Item = Clock> {
        self.clients.iter().map(move |client| client.write().clock_at(worker))
    }

    pub(crate) fn intend(
        &self,
        worker: WorkerId,
        by_shard: &[(Vec<u64>, Vec<usize>)],
        from: Clock,
        to: Clock,
    ) -> Result<()> {
        for shard in self.shards() {
            let (keys, _) = &by_shard[shard.index()];
            if !keys.is_empty() {
                self.with_client(shard, |client| client.intend(worker, keys, from, to))?;
            }
        }
        Ok(())
    }

    /// Returns true if this peer's part of the table is no longer needed.
    fn is_finished(&self) -> bool {
        if !self.handle_dropped.load(Ordering::Acquire) {
            return false;
        }
        if !self.node.placement().contains(self.node.rank()) {
            // Shards may recall leases of this peer.
            return self.finished_peers.load(Ordering::Acquire) >= self.node.placement().peers();
        }
        self.servers.iter().flatten().all(|server| server.lock().min() == Clock::INFINITE)
    }

    /// Handles a message on the network thread that read it. Returns messages for the service:
    /// wake-ups, and all while much is deferred.
    pub(crate) fn handle_inline(&self, message: Message) -> Option<Message> {
        if message.payload.is_empty() || self.deferred.lock().bytes >= DEFERRED_BYTES {
            return Some(message);
        }
        if let Err(error) = self.handle(&message, Blocking::Never) {
            self.waiters.fail(TableFailure::of(&error));
            self.deferred.lock().error.get_or_insert(error);
            self.wake_service();
        }
        None
    }

    /// Runs the receiver service: handles deferred messages until the table is no longer needed.
    pub(crate) fn run_receiver(&self, receiver: &ChannelReceiver, shutdown: &ShutdownToken) -> Result<()> {
        let Some(endpoint) = &self.endpoint else { return Ok(()) };
        let _close_guard = CloseGuard(&self.waiters, &endpoint.send_queue);
        while !shutdown.is_shutdown_requested() && !self.is_finished() {
            let received = endpoint.peer_handle().receive_within(receiver, RECHECK_INTERVAL);
            let handled = received.and_then(|message| {
                let DeferredWork { messages, error, .. } = std::mem::take(&mut *self.deferred.lock());
                if let Some(error) = error {
                    return Err(error);
                }
                if let Some(message) = message {
                    self.handle(&message, Blocking::LocksOnly)?;
                }
                let mut host = RuntimeHost::new(self, Blocking::LocksOnly);
                messages.into_iter().try_for_each(|message| self.node.on_message(&mut host, message))
            });
            if let Err(error) = handled {
                self.waiters.fail(TableFailure::of(&error));
                return Err(error);
            }
        }
        if shutdown.is_shutdown_requested() {
            return Ok(());
        }
        self.node.announce_finished(&mut RuntimeHost::new(self, Blocking::Full))
    }

    fn handle(&self, message: &Message, blocking: Blocking) -> Result<()> {
        if message.payload.is_empty() {
            // A wake-up of the service.
            return Ok(());
        }
        let message = TableMessage::decode(&message.payload, message.from, self.spec()).map_err(table_error)?;
        self.node.on_message(&mut RuntimeHost::new(self, blocking), message)
    }

    /// Runs the sender service: sends queued and eager messages until the receiver service has
    /// ended.
    pub(crate) fn run_sender(&self, shutdown: &ShutdownToken) -> Result<()> {
        let Some(endpoint) = &self.endpoint else { return Ok(()) };
        let interval = if self.limiters.is_some() { TICK_INTERVAL } else { RECHECK_INTERVAL };
        loop {
            let (next, closed) = endpoint.send_queue.next(interval);
            let sent = match next {
                Some((to, message)) => endpoint.peer_handle().send(to, message),
                None if closed || shutdown.is_shutdown_requested() => return Ok(()),
                None => self.tick(),
            };
            if let Err(error) = sent {
                self.waiters.fail(TableFailure::of(&error));
                return Err(error);
            }
        }
    }

    fn tick(&self) -> Result<()> {
        let mut host = RuntimeHost::new(self, Blocking::Full);
        self.shards().try_for_each(|shard| self.node.on_tick(&mut host, shard))
    }
}

/// Fails the table here when the receiver service ends for any reason.
struct CloseGuard<'a>(&'a Waiters, &'a Arc<TableSendQueue>);

impl Drop for CloseGuard<'_> {
    fn drop(&mut self) {
        self.0.fail(TableFailure::Stopped("its receiver service has ended".to_owned()));
        self.1.close();
    }
}
