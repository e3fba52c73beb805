//! Clients and shards of one table, and the messages between them, delivered in random order.

use crate::model::TestRng;
use hemiola_core::WorkerId;
use hemiola_tables_proto::dtype::StorageType;
use hemiola_tables_proto::message::{ClientMessage, ServerMessage};
use hemiola_tables_proto::stream::Sequenced;
use hemiola_tables_proto::wire;
use hemiola_tables_proto::{
    ClientId, Clock, Error, SelectionRng, ShardClient, ShardId, ShardServer, TableSpec, UpdateRule,
};
use std::collections::VecDeque;
use std::sync::Arc;

type MessageQueue<M> = VecDeque<Sequenced<M>>;

/// All clients and shards of a table.
pub(crate) struct TestNetwork<C: StorageType> {
    pub(crate) spec: Arc<TableSpec>,
    /// Clients by id, then by shard.
    pub(crate) clients: Vec<Vec<ShardClient<C>>>,
    pub(crate) servers: Vec<ShardServer<C>>,
    to_shard: Vec<MessageQueue<ClientMessage<C::Compute>>>,
    to_client: Vec<MessageQueue<ServerMessage<C, C::Compute>>>,
}

impl<C: StorageType> TestNetwork<C> {
    /// Creates a table whose clients all have the same number of workers.
    pub(crate) fn new(
        spec: TableSpec,
        workers: usize,
        start: Clock,
        rule: &dyn Fn() -> Box<dyn UpdateRule<C::Compute>>,
    ) -> Self {
        let spec = Arc::new(spec);
        let server =
            |shard| ShardServer::new(spec.clone(), ShardId::new(shard), rule(), start, SelectionRng::new(1)).unwrap();
        let servers = (0..spec.shards as u32).map(server).collect();
        Self::with_servers(&spec, workers, start, rule, servers)
    }

    pub(crate) fn with_servers(
        spec: &Arc<TableSpec>,
        workers: usize,
        start: Clock,
        rule: &dyn Fn() -> Box<dyn UpdateRule<C::Compute>>,
        servers: Vec<ShardServer<C>>,
    ) -> Self {
        let shards = spec.shards as u32;
        let client = |id, shard| {
            ShardClient::new(spec.clone(), ClientId::new(id), ShardId::new(shard), &*rule(), workers, start)
        };
        let queues = spec.clients * spec.shards;
        Self {
            clients: (0..spec.clients as u32).map(|id| (0..shards).map(|shard| client(id, shard)).collect()).collect(),
            servers,
            to_shard: (0..queues).map(|_| VecDeque::new()).collect(),
            to_client: (0..queues).map(|_| VecDeque::new()).collect(),
            spec: spec.clone(),
        }
    }

    fn collect_outgoing(&mut self) {
        let shards = self.servers.len();
        for (client, machines) in self.clients.iter_mut().enumerate() {
            for (shard, machine) in machines.iter_mut().enumerate() {
                self.to_shard[client * shards + shard]
                    .extend(machine.take_outgoing().into_iter().map(|sent| sent.message));
            }
        }
        for (shard, server) in self.servers.iter_mut().enumerate() {
            for sent in server.take_outgoing() {
                self.to_client[sent.to.index() * shards + shard].push_back(sent.message);
            }
        }
    }

    /// Delivers the first message of a random queue. Returns false if there is none.
    pub(crate) fn deliver(&mut self, rng: &mut TestRng) -> Result<bool, Error> {
        self.collect_outgoing();
        let (shards, queues) = (self.servers.len(), self.to_shard.len());
        let start = rng.below(2 * queues);
        for queue in (0..2 * queues).map(|step| (start + step) % (2 * queues)) {
            if queue < queues {
                if let Some(message) = self.to_shard[queue].pop_front() {
                    self.servers[queue % shards].receive(ClientId::new((queue / shards) as u32), message)?;
                    return Ok(true);
                }
            } else if let Some(message) = self.to_client[queue - queues].pop_front() {
                self.clients[(queue - queues) / shards][(queue - queues) % shards].receive(message)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Delivers everything except messages from shards to one client, whose network is stuck.
    pub(crate) fn deliver_except_to(&mut self, stuck: usize) {
        let shards = self.servers.len();
        let held: Vec<_> = (stuck * shards..(stuck + 1) * shards).collect();
        let mut kept: Vec<_> = held.iter().map(|_| VecDeque::new()).collect();
        loop {
            self.collect_outgoing();
            for (queue, kept) in held.iter().zip(&mut kept) {
                kept.append(&mut self.to_client[*queue]);
            }
            if !self.deliver(&mut TestRng::new(0)).unwrap() {
                break;
            }
        }
        for (queue, kept) in held.into_iter().zip(kept) {
            self.to_client[queue] = kept;
        }
    }

    /// Encoded size in bytes and number of rows of the messages on their way to a client.
    pub(crate) fn in_flight_to(&mut self, client: usize) -> (usize, usize) {
        self.collect_outgoing();
        let shards = self.servers.len();
        let queues = &self.to_client[client * shards..(client + 1) * shards];
        let rows = |message: &Sequenced<ServerMessage<C, C::Compute>>| match &message.body {
            Some(ServerMessage::Rows { batch, .. }) => batch.len(),
            _ => 0,
        };
        let messages = || queues.iter().flatten();
        (messages().map(wire::client_bytes).sum(), messages().map(rows).sum())
    }

    /// Delivers all messages.
    pub(crate) fn deliver_all(&mut self) {
        let mut rng = TestRng::new(0);
        while self.deliver(&mut rng).unwrap() {}
    }

    /// Client of the shard that owns a row.
    pub(crate) fn client_for(&mut self, client: usize, key: u64) -> &mut ShardClient<C> {
        let shard = self.spec.shard_of(key).index();
        &mut self.clients[client][shard]
    }

    /// Fetches rows. Returns true if all are cached.
    pub(crate) fn fetch(&mut self, client: usize, worker: WorkerId, keys: &[u64]) -> bool {
        let mut ready = true;
        for shard in 0..self.servers.len() {
            let own: Vec<u64> = keys.iter().copied().filter(|key| self.spec.shard_of(*key).index() == shard).collect();
            ready &= self.clients[client][shard].fetch(worker, &own).unwrap();
        }
        ready
    }

    /// Ends a worker's clock, or its work.
    pub(crate) fn clock(&mut self, client: usize, worker: WorkerId, end: bool) {
        for machine in &mut self.clients[client] {
            if end { machine.finish(worker) } else { machine.clock(worker) }.unwrap();
            while machine.close_some() {}
        }
    }

    /// Cells of a row at its shard.
    pub(crate) fn row(&self, key: u64) -> Vec<C> {
        let server = &self.servers[self.spec.shard_of(key).index()];
        server.rows().find(key).map_or_else(Vec::new, |slot| server.rows().cells(slot).values().to_vec())
    }
}
