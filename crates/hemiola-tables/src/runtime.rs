//! Runtime of a table on one peer: its clients and shards, and the routing of messages between
//! them.
//!
//! Every shard has a client here, behind its own lock; some shards are here themselves. A call
//! locks one state machine, takes its outgoing messages and woken workers, unlocks it, and only
//! then forwards the messages: within the peer as values, to other peers as bytes.

use crate::endpoint::{self, Blocking, RoutedMessage, TableEndpoint, TableSendQueue};
use crate::error::TableFailure;
use crate::servers::TablePlacement;
use crate::sharded_rwlock::ShardedRwLock;
use crate::waiters::{WaitContext, Waiters};
use hemiola_cluster::{ChannelReceiver, Error, Result, ShutdownToken, WaitReason};
use hemiola_core::{Message, Rank, Waiter, WorkerId};
use hemiola_tables_proto::client::{CachedRow, ClientOutgoing};
use hemiola_tables_proto::dtype::StorageType;
use hemiola_tables_proto::server::ServerOutgoing;
use hemiola_tables_proto::{
    ClientId, Clock, RateLimiter, RowCells, SelectionRng, ShardClient, ShardId, ShardServer, TableSpec,
};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Poll interval of the receiver service. It is woken for everything it needs to know.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum interval between eager sends.
const EAGER_SEND_INTERVAL: Duration = Duration::from_millis(2);

/// Rate limiters of eager sending, by direction.
#[derive(Debug)]
pub(crate) struct RateLimiters {
    /// From clients here to shards on other peers.
    pub(crate) up: RateLimiter,
    /// From shards here to clients on other peers.
    pub(crate) down: RateLimiter,
    /// Between clients and shards of this peer; practically unlimited.
    pub(crate) local: RateLimiter,
    pub(crate) random: SelectionRng,
}

/// Runtime of a table on one peer.
pub(crate) struct TableRuntime<C: StorageType> {
    pub(crate) spec: Arc<TableSpec>,
    pub(crate) rank: Rank,
    /// Peers that hold the shards.
    pub(crate) placement: TablePlacement,
    /// Clients by shard; none on a dedicated server. Each worker is a reader of the lock.
    pub(crate) clients: Vec<ShardedRwLock<ShardClient<C>>>,
    /// Servers by shard; only those that are here.
    pub(crate) servers: Vec<Option<Mutex<ShardServer<C>>>>,
    pub(crate) waiters: Waiters,
    /// Endpoint to other peers; `None` if there is no other peer.
    pub(crate) endpoint: Option<TableEndpoint>,
    pub(crate) limiters: Option<Mutex<RateLimiters>>,
    /// Messages that found their state machine locked, and the first error.
    pub(crate) deferred: Mutex<DeferredWork<C>>,
    /// The table handle of this peer was dropped.
    pub(crate) handle_dropped: AtomicBool,
    /// Number of peers whose shards are no longer used.
    pub(crate) finished_peers: AtomicUsize,
}

/// Work that network threads leave to the receiver service.
pub(crate) struct DeferredWork<C: StorageType> {
    messages: Vec<RoutedMessage<C>>,
    error: Option<Error>,
}

impl<C: StorageType> Default for DeferredWork<C> {
    fn default() -> Self {
        Self { messages: Vec::new(), error: None }
    }
}

impl<C: StorageType> TableRuntime<C> {
    fn peers(&self) -> usize {
        self.spec.clients
    }

    fn shards(&self) -> impl Iterator<Item = ShardId> + use<C> {
        (0..self.spec.shards as u32).map(ShardId::new)
    }

    /// Calls the client of a shard, and forwards its outgoing messages.
    fn with_client<T>(
        &self,
        blocking: Blocking,
        shard: ShardId,
        call: impl FnOnce(&mut ShardClient<C>) -> hemiola_tables_proto::Result<T>,
    ) -> Result<T> {
        let mut client = self.clients[shard.index()].write();
        let result = call(&mut client);
        let (out, woken) = (client.take_outgoing(), client.take_ready_workers());
        drop(client);
        self.wake(woken);
        if !out.is_empty() {
            let mut work = VecDeque::new();
            self.route_up(blocking, shard, out, &mut work)?;
            self.forward(blocking, work)?;
        }
        result.map_err(crate::error::table_error)
    }

    fn wake(&self, woken: Vec<WorkerId>) {
        for worker in woken {
            self.waiters.wake(worker);
        }
    }

    /// Forwards the outgoing messages of the client of a shard.
    fn route_up(
        &self,
        blocking: Blocking,
        shard: ShardId,
        out: Vec<ClientOutgoing<C::Compute>>,
        work: &mut VecDeque<RoutedMessage<C>>,
    ) -> Result<()> {
        let owner = self.placement.rank_of(shard);
        for ClientOutgoing { message, urgent } in out {
            match &self.endpoint {
                Some(endpoint) if owner != self.rank => {
                    let bytes = endpoint.to_shard::<C>(blocking, owner, shard, message)?;
                    if let Some(limiters) = &self.limiters {
                        let bytes = if urgent { bytes } else { endpoint::MESSAGE_OVERHEAD_BYTES };
                        limiters.lock().up.charge(endpoint.peer_handle().env().now(), bytes);
                    }
                }
                _ => work.push_back(RoutedMessage::ToShard(shard, self.rank, message)),
            }
        }
        Ok(())
    }

    /// Forwards the outgoing messages of a shard.
    fn route_down(
        &self,
        blocking: Blocking,
        shard: ShardId,
        out: Vec<ServerOutgoing<C>>,
        work: &mut VecDeque<RoutedMessage<C>>,
    ) -> Result<()> {
        for ServerOutgoing { to, message, urgent } in out {
            let to = Rank::new(to.index() as u32);
            match &self.endpoint {
                Some(endpoint) if to != self.rank => {
                    let bytes = endpoint.to_client::<C>(blocking, to, shard, message)?;
                    if let Some(limiters) = &self.limiters {
                        let bytes = if urgent { bytes } else { endpoint::MESSAGE_OVERHEAD_BYTES };
                        limiters.lock().down.charge(endpoint.peer_handle().env().now(), bytes);
                    }
                }
                _ => work.push_back(RoutedMessage::ToClient(shard, message)),
            }
        }
        Ok(())
    }

    /// Handles messages for state machines of this peer until there are none.
    fn forward(&self, blocking: Blocking, mut work: VecDeque<RoutedMessage<C>>) -> Result<()> {
        while let Some(message) = work.pop_front() {
            match message {
                RoutedMessage::Finished => {}
                RoutedMessage::ToShard(shard, from, message) => {
                    let Some(server) = &self.servers[shard.index()] else {
                        let problem = format!("shard {shard} is not on peer {}", self.rank);
                        return self.fail_with(hemiola_tables_proto::Error::BadMessage {
                            table: self.spec.name.clone(),
                            problem,
                        });
                    };
                    let locked = if blocking == Blocking::Never { server.try_lock() } else { Some(server.lock()) };
                    let Some(mut server) = locked else {
                        self.defer(RoutedMessage::ToShard(shard, from, message));
                        continue;
                    };
                    let before = (server.min(), server.awaits_leases());
                    let received = server.receive(ClientId::new(from.number()), message);
                    let (out, now, awaits) = (server.take_outgoing(), server.min(), server.awaits_leases());
                    drop(server);
                    if let Err(error) = received {
                        return self.fail_with(error);
                    }
                    if (now, awaits) != before {
                        self.waiters.notify_clock();
                    }
                    if now == Clock::INFINITE && blocking == Blocking::Never {
                        // This may have been the last message.
                        self.wake_service();
                    }
                    self.route_down(blocking, shard, out, &mut work)?;
                }
                RoutedMessage::ToClient(shard, message) => {
                    let Some(client) = self.clients.get(shard.index()) else {
                        let problem = format!("peer {} has no clients, but received rows", self.rank);
                        return self.fail_with(hemiola_tables_proto::Error::BadMessage {
                            table: self.spec.name.clone(),
                            problem,
                        });
                    };
                    let locked = if blocking == Blocking::Never { client.try_write() } else { Some(client.write()) };
                    let Some(mut client) = locked else {
                        self.defer(RoutedMessage::ToClient(shard, message));
                        continue;
                    };
                    let received = client.receive(message);
                    let (out, woken) = (client.take_outgoing(), client.take_ready_workers());
                    drop(client);
                    if let Err(error) = received {
                        return self.fail_with(error);
                    }
                    self.wake(woken);
                    self.route_up(blocking, shard, out, &mut work)?;
                }
            }
        }
        Ok(())
    }

    fn defer(&self, message: RoutedMessage<C>) {
        self.deferred.lock().messages.push(message);
        self.wake_service();
    }

    fn wake_service(&self) {
        if let Some(endpoint) = &self.endpoint {
            endpoint::wake_receiver(endpoint.peer_handle(), endpoint.channel());
        }
    }

    /// Fails the table, because a state machine rejected a message.
    fn fail_with<T>(&self, error: hemiola_tables_proto::Error) -> Result<T> {
        let failure = TableFailure::Table(error);
        self.waiters.fail(failure.clone());
        Err(failure.error(&self.spec.name))
    }

    /// Forwards messages that a local shard created without a request.
    pub(crate) fn flush_shard(&self, shard: ShardId) -> Result<()> {
        let Some(server) = &self.servers[shard.index()] else { return Ok(()) };
        let out = server.lock().take_outgoing();
        let mut work = VecDeque::new();
        self.route_down(Blocking::Full, shard, out, &mut work)?;
        self.forward(Blocking::Full, work)
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
                self.spec.name,
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
        let shard = self.spec.shard_of(key);
        let client = &self.clients[shard.index()];
        // Fast path: writes nothing that another worker uses.
        if let Some(reading) = client.read(worker.index()).peek(worker, key).map_err(crate::error::table_error)? {
            return Ok(read(reading));
        }
        loop {
            if let Some(reading) = client.write().get(worker, key).map_err(crate::error::table_error)? {
                return Ok(read(reading));
            }
            self.waiters.check()?;
            if !self.with_client(Blocking::Full, shard, |client| client.fetch(worker, &[key]))? {
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
        let (mut awaited_shards, mut last) = (0, None);
        for shard in self.shards() {
            let (keys, _) = &by_shard[shard.index()];
            if !keys.is_empty() && !self.with_client(Blocking::Full, shard, |client| client.fetch(worker, keys))? {
                (awaited_shards, last) = (awaited_shards + 1, Some(shard));
            }
        }
        if let Some(shard) = last {
            self.park(worker, awaited_shards, shard, site)?;
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
                let Some(reading) = cache.peek(worker, **key).map_err(crate::error::table_error)? else { break };
                read(**position, **key, reading);
                rest.next();
            }
            drop(cache);
            if rest.peek().is_none() {
                continue;
            }
            let mut client = client.write();
            for (key, position) in rest {
                let Some(reading) = client.get(worker, *key).map_err(crate::error::table_error)? else {
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
        let (waiter, peer) = (Waiter::Worker(worker), Some(self.placement.rank_of(shard)));
        self.waiters.wait(worker, awaited_shards, WaitContext { waiter, reason, peer, details: &|| self.details() })
    }

    pub(crate) fn update(&self, worker: WorkerId, key: u64, cells: &RowCells<'_, C::Compute>, seen: u64) -> Result<()> {
        // Fast path: an update creates no message.
        let client = &self.clients[self.spec.shard_of(key).index()];
        client.write().update(worker, key, cells, seen).map_err(crate::error::table_error)
    }

    /// Adds to many rows, given by shard with their positions in the request.
    pub(crate) fn update_many(
        &self,
        worker: WorkerId,
        by_shard: &[(Vec<u64>, Vec<usize>)],
        values: &[C::Compute],
        seen: impl Fn(u64) -> u64,
    ) -> Result<()> {
        let width = self.spec.width;
        for (client, (keys, positions)) in self.clients.iter().zip(by_shard).filter(|(_, (keys, _))| !keys.is_empty()) {
            let mut client = client.write();
            for (key, position) in keys.iter().zip(positions) {
                let cells = RowCells::Dense(&values[position * width..][..width]);
                client.update(worker, *key, &cells, seen(*key)).map_err(crate::error::table_error)?;
            }
        }
        Ok(())
    }

    /// Ends a worker's clock, or its work.
    pub(crate) fn advance(&self, blocking: Blocking, worker: WorkerId, finish: bool) -> Result<()> {
        self.waiters.check()?;
        for shard in self.shards() {
            let call = |client: &mut ShardClient<C>| if finish { client.finish(worker) } else { client.clock(worker) };
            self.with_client(blocking, shard, call)?;
            // Each message is sent before the next is created: it is still in the CPU cache, and
            // the lock is free in between.
            while self.with_client(blocking, shard, |client| Ok(client.close_some()))? {}
        }
        Ok(())
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
                self.with_client(Blocking::Full, shard, |client| client.intend(worker, keys, from, to))?;
            }
        }
        Ok(())
    }

    /// Returns true if this peer's part of the table is no longer needed.
    fn is_finished(&self) -> bool {
        if !self.handle_dropped.load(Ordering::Acquire) {
            return false;
        }
        if !self.placement.contains(self.rank) {
            // Shards may recall leases of this peer.
            return self.finished_peers.load(Ordering::Acquire) >= self.placement.len();
        }
        self.servers.iter().flatten().all(|server| server.lock().min() == Clock::INFINITE)
    }

    /// Tells peers without shards that the shards of this peer are no longer used.
    fn announce_finished(&self, endpoint: &TableEndpoint) -> Result<()> {
        let peers = Rank::all(self.peers())
            .filter(|peer| self.placement.contains(self.rank) && !self.placement.contains(*peer));
        peers.into_iter().try_for_each(|peer| endpoint.send_finished(peer))
    }

    /// Handles a message on the network thread that read it. Returns wake-up messages, which are
    /// for the service.
    pub(crate) fn handle_inline(&self, message: Message) -> Option<Message> {
        if message.payload.is_empty() {
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
            let received = endpoint.peer_handle().receive_within(receiver, POLL_INTERVAL);
            let handled = received.and_then(|message| {
                let DeferredWork { messages, error } = std::mem::take(&mut *self.deferred.lock());
                if let Some(error) = error {
                    return Err(error);
                }
                if let Some(message) = message {
                    self.handle(&message, Blocking::LocksOnly)?;
                }
                self.forward(Blocking::LocksOnly, messages.into())
            });
            if let Err(error) = handled {
                self.waiters.fail(TableFailure::of(&error));
                return Err(error);
            }
        }
        if shutdown.is_shutdown_requested() { Ok(()) } else { self.announce_finished(endpoint) }
    }

    fn handle(&self, message: &Message, blocking: Blocking) -> Result<()> {
        match endpoint::decode::<C>(message, &self.spec) {
            Ok(None) => Ok(()),
            Ok(Some(RoutedMessage::Finished)) => {
                self.finished_peers.fetch_add(1, Ordering::AcqRel); // pairs with the load in `is_finished`
                self.wake_service();
                Ok(())
            }
            Ok(Some(message)) => self.forward(blocking, VecDeque::from([message])),
            Err(failure) => Err(failure.error(&self.spec.name)),
        }
    }

    /// Runs the sender service: sends queued and eager messages until the receiver service has
    /// ended.
    pub(crate) fn run_sender(&self, shutdown: &ShutdownToken) -> Result<()> {
        let Some(endpoint) = &self.endpoint else { return Ok(()) };
        let interval = if self.limiters.is_some() { EAGER_SEND_INTERVAL } else { POLL_INTERVAL };
        loop {
            let (next, closed) = endpoint.send_queue.next(interval);
            let sent = match next {
                Some((to, message)) => endpoint.peer_handle().send(to, message),
                None if closed || shutdown.is_shutdown_requested() => return Ok(()),
                None => self.send_eagerly(endpoint),
            };
            if let Err(error) = sent {
                self.waiters.fail(TableFailure::of(&error));
                return Err(error);
            }
        }
    }

    /// Sends rows and sums eagerly, as far as the rate limiters allow, and acknowledges received
    /// messages.
    fn send_eagerly(&self, endpoint: &TableEndpoint) -> Result<()> {
        let Some(limiters) = &self.limiters else { return Ok(()) };
        for shard in self.shards() {
            let now = endpoint.peer_handle().env().now();
            let mut work = VecDeque::new();
            if let Some(client) = self.clients.get(shard.index()) {
                let mut client = client.write();
                {
                    let RateLimiters { up, local, random, .. } = &mut *limiters.lock();
                    let limiter = if self.placement.rank_of(shard) == self.rank { local } else { up };
                    client.send_eagerly(now, limiter, shard.index() as u64, random);
                }
                client.acknowledge();
                let out = client.take_outgoing();
                drop(client);
                self.route_up(Blocking::Full, shard, out, &mut work)?;
            }
            if let Some(server) = &self.servers[shard.index()] {
                // Streams to clients are numbered after those to shards.
                let number =
                    |client: ClientId| (self.spec.shards + shard.index() * self.peers() + client.index()) as u64;
                let is_here = |client: ClientId| client.index() == self.rank.index();
                let mut server = server.lock();
                {
                    let RateLimiters { down, local, .. } = &mut *limiters.lock();
                    server.send_eagerly(now, down, |client| (!is_here(client)).then(|| number(client)));
                    server.send_eagerly(now, local, |client| is_here(client).then(|| number(client)));
                }
                server.acknowledge();
                let out = server.take_outgoing();
                drop(server);
                self.route_down(Blocking::Full, shard, out, &mut work)?;
            }
            self.forward(Blocking::Full, work)?;
        }
        Ok(())
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
