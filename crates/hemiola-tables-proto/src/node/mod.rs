//! Node of a table: routing and policy of one peer, without I/O.
//!
//! A [`TableNode`] connects the [clients](ShardClient) and [shards](ShardServer) of a peer with
//! each other and with those of other peers. It owns everything that a driver could decide
//! differently: the peer of a message, its lane and header, the order in which outputs are taken,
//! eager sending and acknowledgements, and the intervals of both. The node is immutable and holds
//! no machine. Its [host](TableHost) keeps the machines: behind one lock each on a cluster
//! (`hemiola-tables`), as plain fields in the simulator (`hemiola-sim`) and in the model check.
//! All three run this code; see "The node" in the README of this crate.
//!
//! **Invariants**
//! 1. Outputs of a machine are taken in the access that created them, and routed after it.
//! 2. Messages within the peer are handled in the order of their creation, after the current one.
//! 3. A message whose machine is in use is deferred whole; nothing of it has happened.
//!
//! | file | concept |
//! |---|---|
//! | [`host`] | [`TableHost`]: access to the machines, and effects |
//! | [`table_message`] | [`TableMessage`]: messages between nodes, their lanes and encoding |
//! | [`placement`] | [`TablePlacement`]: the peers that hold shards |
//! | [`limiters`] | [`NodeLimiters`]: budget of a peer, tick interval and timeouts |

pub mod host;
pub mod limiters;
pub mod placement;
pub mod table_message;

use crate::client::{ClientOutgoing, ShardClient};
use crate::dtype::StorageType;
use crate::error::Error;
use crate::server::{ServerOutgoing, ShardServer};
use crate::spec::{ClientId, ShardId, TableSpec};
use hemiola_core::{Rank, WorkerId};
pub use host::TableHost;
pub use limiters::NodeLimiters;
pub use placement::TablePlacement;
use std::sync::Arc;
pub use table_message::TableMessage;

/// Shards that a worker must wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AwaitedShards {
    /// Number of shards whose rows are missing or too old.
    pub count: usize,
    /// One of these shards, if there are any.
    pub last: Option<ShardId>,
}

/// Routing and policy of a table on one peer.
#[derive(Clone, Debug)]
pub struct TableNode {
    spec: Arc<TableSpec>,
    rank: Rank,
    placement: TablePlacement,
    has_clients: bool,
}

impl TableNode {
    /// Creates the node of a peer. Its clients, if it has any, have the peer's number as id.
    #[must_use]
    pub fn new(spec: Arc<TableSpec>, rank: Rank, placement: TablePlacement, has_clients: bool) -> Self {
        Self { spec, rank, placement, has_clients }
    }

    /// Specification of the table.
    #[must_use]
    pub fn spec(&self) -> &Arc<TableSpec> {
        &self.spec
    }

    /// Rank of this peer.
    #[must_use]
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Id of the clients of this peer.
    #[must_use]
    pub fn client_id(&self) -> ClientId {
        ClientId::new(self.rank.number())
    }

    /// Peers that hold the shards.
    #[must_use]
    pub fn placement(&self) -> &TablePlacement {
        &self.placement
    }

    /// All shards of the table.
    pub fn shards(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.spec.shards as u32).map(ShardId::new)
    }

    /// Returns true if the shard is on this peer.
    #[must_use]
    pub fn owns(&self, shard: ShardId) -> bool {
        self.placement.rank_of(shard) == self.rank
    }

    /// Handles a message for a machine of this peer, and all messages within the peer that follow.
    pub fn on_message<C: StorageType, H: TableHost<C>>(
        &self,
        host: &mut H,
        message: TableMessage<C>,
    ) -> Result<(), H::Error> {
        self.handle(host, message)?;
        self.handle_local(host)
    }

    /// Sends rows and sums of one shard eagerly, as far as the rate limiters allow, and
    /// acknowledges received messages. Does nothing without a bandwidth budget. Hosts call it for
    /// all shards every [`TICK_INTERVAL`](limiters::TICK_INTERVAL).
    pub fn on_tick<C: StorageType, H: TableHost<C>>(&self, host: &mut H, shard: ShardId) -> Result<(), H::Error> {
        if self.has_clients {
            let Some((now, mut client, mut limiters)) = host.client_and_limiters(shard) else { return Ok(()) };
            let NodeLimiters { up, local, random, .. } = &mut *limiters;
            let limiter = if self.owns(shard) { local } else { up };
            client.send_eagerly(now, limiter, limiters::stream_to_shard(shard), random);
            drop(limiters);
            client.acknowledge();
            let out = client.take_outgoing();
            drop(client);
            self.route_up(host, shard, out)?;
        }
        if self.owns(shard) {
            let Some((now, mut server, mut limiters)) = host.server_and_limiters(shard) else { return Ok(()) };
            let number = |client| limiters::stream_to_client(&self.spec, shard, client);
            let is_here = |client: ClientId| client == self.client_id();
            let NodeLimiters { down, local, .. } = &mut *limiters;
            server.send_eagerly(now, down, |client| (!is_here(client)).then(|| number(client)));
            server.send_eagerly(now, local, |client| is_here(client).then(|| number(client)));
            drop(limiters);
            server.acknowledge();
            let out = server.take_outgoing();
            drop(server);
            self.route_down(host, shard, out)?;
        }
        self.handle_local(host)
    }

    /// Calls the client of a shard, and sends the messages that the call creates.
    pub fn with_client<C: StorageType, H: TableHost<C>, T>(
        &self,
        host: &mut H,
        shard: ShardId,
        call: impl FnOnce(&mut ShardClient<C>) -> T,
    ) -> Result<T, H::Error> {
        let mut client = host.client(shard);
        let result = call(&mut client);
        let (out, woken) = (client.take_outgoing(), client.take_ready_workers());
        drop(client);
        self.client_called(host, shard, out, woken)?;
        self.handle_local(host)?;
        Ok(result)
    }

    /// Calls a shard of this peer, and sends the messages that the call creates.
    pub fn with_server<C: StorageType, H: TableHost<C>, T>(
        &self,
        host: &mut H,
        shard: ShardId,
        call: impl FnOnce(&mut ShardServer<C>) -> T,
    ) -> Result<T, H::Error> {
        let mut server = host.server(shard);
        let result = call(&mut server);
        let out = server.take_outgoing();
        drop(server);
        self.route_down(host, shard, out)?;
        self.handle_local(host)?;
        Ok(result)
    }

    /// Requests the rows that a worker is going to read. `keys` returns those of a shard; shards
    /// without keys are not asked. The host wakes the worker once for each awaited shard.
    pub fn fetch<'k, C: StorageType, H: TableHost<C>>(
        &self,
        host: &mut H,
        worker: WorkerId,
        keys: impl Fn(ShardId) -> &'k [u64],
    ) -> Result<crate::Result<AwaitedShards>, H::Error> {
        let mut awaited = AwaitedShards { count: 0, last: None };
        for shard in self.shards() {
            let keys = keys(shard);
            // An empty request would make the client forget the last one.
            if keys.is_empty() {
                continue;
            }
            match self.with_client(host, shard, |client| client.fetch(worker, keys))? {
                Ok(true) => {}
                Ok(false) => awaited = AwaitedShards { count: awaited.count + 1, last: Some(shard) },
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(awaited))
    }

    /// Ends the clock of a worker, or its work, and sends what this requires.
    pub fn advance<C: StorageType, H: TableHost<C>>(
        &self,
        host: &mut H,
        worker: WorkerId,
        finish: bool,
    ) -> Result<crate::Result<()>, H::Error> {
        for shard in self.shards() {
            if let Err(error) = self.end_clock(host, shard, worker, finish)? {
                return Ok(Err(error));
            }
            while self.close_clock(host, shard)? {}
        }
        Ok(Ok(()))
    }

    /// First step of [`advance`](Self::advance), for one shard: ends the worker's clock.
    pub fn end_clock<C: StorageType, H: TableHost<C>>(
        &self,
        host: &mut H,
        shard: ShardId,
        worker: WorkerId,
        finish: bool,
    ) -> Result<crate::Result<()>, H::Error> {
        self.with_client(host, shard, |client| if finish { client.finish(worker) } else { client.clock(worker) })
    }

    /// Further steps of [`advance`](Self::advance), for one shard: sends one message. Returns true
    /// if there are more. A message is sent before the next is created: it is still in the CPU
    /// cache, and the client is free in between.
    pub fn close_clock<C: StorageType, H: TableHost<C>>(&self, host: &mut H, shard: ShardId) -> Result<bool, H::Error> {
        self.with_client(host, shard, ShardClient::close_some)
    }

    /// Tells peers without shards that the shards of this peer are no longer used.
    pub fn announce_finished<C: StorageType, H: TableHost<C>>(&self, host: &mut H) -> Result<(), H::Error> {
        if self.placement.contains(self.rank) {
            for peer in Rank::all(self.spec.clients).filter(|peer| !self.placement.contains(*peer)) {
                host.send(peer, TableMessage::Finished)?;
            }
        }
        Ok(())
    }

    fn handle_local<C: StorageType, H: TableHost<C>>(&self, host: &mut H) -> Result<(), H::Error> {
        while let Some(message) = host.next_local() {
            self.handle(host, message)?;
        }
        Ok(())
    }

    fn handle<C: StorageType, H: TableHost<C>>(&self, host: &mut H, message: TableMessage<C>) -> Result<(), H::Error> {
        match message {
            TableMessage::ToShard { shard, from, message } => {
                if !self.owns(shard) {
                    return self.reject(host, format!("shard {shard} is not on peer {}", self.rank));
                }
                let Some(mut server) = host.try_server(shard) else {
                    host.defer(TableMessage::ToShard { shard, from, message });
                    return Ok(());
                };
                let before = (server.min(), server.awaits_leases());
                let received = server.receive(from, message);
                let (out, after) = (server.take_outgoing(), (server.min(), server.awaits_leases()));
                drop(server);
                if let Err(error) = received {
                    return Err(host.message_rejected(error));
                }
                if after != before {
                    host.shard_advanced(after.0);
                }
                self.route_down(host, shard, out)
            }
            TableMessage::ToClient { shard, message } => {
                if !self.has_clients {
                    return self.reject(host, format!("peer {} has no clients, but received rows", self.rank));
                }
                let Some(mut client) = host.try_client(shard) else {
                    host.defer(TableMessage::ToClient { shard, message });
                    return Ok(());
                };
                let received = client.receive(message);
                let (out, woken) = (client.take_outgoing(), client.take_ready_workers());
                drop(client);
                if let Err(error) = received {
                    return Err(host.message_rejected(error));
                }
                self.client_called(host, shard, out, woken)
            }
            TableMessage::Finished => {
                host.peer_finished();
                Ok(())
            }
        }
    }

    fn reject<C: StorageType, H: TableHost<C>>(&self, host: &mut H, problem: String) -> Result<(), H::Error> {
        Err(host.message_rejected(Error::BadMessage { table: self.spec.name.clone(), problem }))
    }

    fn client_called<C: StorageType, H: TableHost<C>>(
        &self,
        host: &mut H,
        shard: ShardId,
        out: Vec<ClientOutgoing<C::Compute>>,
        woken: Vec<WorkerId>,
    ) -> Result<(), H::Error> {
        for worker in woken {
            host.wake(worker);
        }
        self.route_up(host, shard, out)
    }

    /// Routes messages of a client to its shard.
    fn route_up<C: StorageType, H: TableHost<C>>(
        &self,
        host: &mut H,
        shard: ShardId,
        out: Vec<ClientOutgoing<C::Compute>>,
    ) -> Result<(), H::Error> {
        let (to, from) = (self.placement.rank_of(shard), self.client_id());
        for ClientOutgoing { message, urgent } in out {
            let message = TableMessage::ToShard { shard, from, message };
            if to == self.rank {
                host.send_local(message);
                continue;
            }
            let bytes = host.send(to, message)?;
            if let Some((now, mut limiters)) = host.limiters() {
                limiters::charge(&mut limiters.up, now, urgent, bytes);
            }
        }
        Ok(())
    }

    /// Routes messages of a shard to clients.
    fn route_down<C: StorageType, H: TableHost<C>>(
        &self,
        host: &mut H,
        shard: ShardId,
        out: Vec<ServerOutgoing<C>>,
    ) -> Result<(), H::Error> {
        for ServerOutgoing { to, message, urgent } in out {
            let (to, message) = (Rank::new(to.index() as u32), TableMessage::ToClient { shard, message });
            if to == self.rank {
                host.send_local(message);
                continue;
            }
            let bytes = host.send(to, message)?;
            if let Some((now, mut limiters)) = host.limiters() {
                limiters::charge(&mut limiters.down, now, urgent, bytes);
            }
        }
        Ok(())
    }
}
