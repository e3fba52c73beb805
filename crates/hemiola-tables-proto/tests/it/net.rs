//! Clients and shards of one table, and the messages between them, delivered in the order that dice choose.

use crate::model::Dice;
use hemiola_core::WorkerId;
use hemiola_tables_proto::message::{ToClient, ToShard};
use hemiola_tables_proto::number::Cell;
use hemiola_tables_proto::stream::Envelope;
use hemiola_tables_proto::{Client, ClientId, Clock, Error, Procedure, Random, Server, ShardId, Spec};
use std::collections::VecDeque;
use std::sync::Arc;

type Way<M> = VecDeque<Envelope<M>>;

/// A table with everybody who uses it.
pub(crate) struct Net<C: Cell> {
    pub(crate) spec: Arc<Spec>,
    /// By client, then by shard.
    pub(crate) clients: Vec<Vec<Client<C>>>,
    pub(crate) servers: Vec<Server<C>>,
    to_shard: Vec<Way<ToShard<C::Wide>>>,
    to_client: Vec<Way<ToClient<C, C::Wide>>>,
}

impl<C: Cell> Net<C> {
    /// A table whose clients all have the same number of workers.
    pub(crate) fn new(
        spec: Spec,
        workers: usize,
        start: Clock,
        procedure: &dyn Fn() -> Box<dyn Procedure<C::Wide>>,
    ) -> Self {
        let spec = Arc::new(spec);
        let server =
            |shard| Server::new(spec.clone(), ShardId::new(shard), procedure(), start, Random::new(1)).unwrap();
        let servers = (0..spec.shards as u32).map(server).collect();
        Self::with_servers(&spec, workers, start, procedure, servers)
    }

    pub(crate) fn with_servers(
        spec: &Arc<Spec>,
        workers: usize,
        start: Clock,
        procedure: &dyn Fn() -> Box<dyn Procedure<C::Wide>>,
        servers: Vec<Server<C>>,
    ) -> Self {
        let shards = spec.shards as u32;
        let client = |id, shard| {
            Client::new(spec.clone(), ClientId::new(id), ShardId::new(shard), &*procedure(), workers, start)
        };
        let ways = spec.clients * spec.shards;
        Self {
            clients: (0..spec.clients as u32).map(|id| (0..shards).map(|shard| client(id, shard)).collect()).collect(),
            servers,
            to_shard: (0..ways).map(|_| VecDeque::new()).collect(),
            to_client: (0..ways).map(|_| VecDeque::new()).collect(),
            spec: spec.clone(),
        }
    }

    fn post(&mut self) {
        let shards = self.servers.len();
        for (client, machines) in self.clients.iter_mut().enumerate() {
            for (shard, machine) in machines.iter_mut().enumerate() {
                self.to_shard[client * shards + shard]
                    .extend(machine.take_outgoing().into_iter().map(|sent| sent.envelope));
            }
        }
        for (shard, server) in self.servers.iter_mut().enumerate() {
            for sent in server.take_outgoing() {
                self.to_client[sent.to.index() * shards + shard].push_back(sent.envelope);
            }
        }
    }

    /// Delivers one message of any way. False if there is none.
    pub(crate) fn deliver(&mut self, dice: &mut Dice) -> Result<bool, Error> {
        self.post();
        let (shards, ways) = (self.servers.len(), self.to_shard.len());
        let start = dice.below(2 * ways);
        for way in (0..2 * ways).map(|step| (start + step) % (2 * ways)) {
            if way < ways {
                if let Some(envelope) = self.to_shard[way].pop_front() {
                    self.servers[way % shards].receive(ClientId::new((way / shards) as u32), envelope)?;
                    return Ok(true);
                }
            } else if let Some(envelope) = self.to_client[way - ways].pop_front() {
                self.clients[(way - ways) / shards][(way - ways) % shards].receive(envelope)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Delivers everything.
    pub(crate) fn settle(&mut self) {
        let mut dice = Dice::new(0);
        while self.deliver(&mut dice).unwrap() {}
    }

    /// The machine of a client for a row.
    pub(crate) fn machine(&mut self, client: usize, key: u64) -> &mut Client<C> {
        let shard = self.spec.shard_of(key).index();
        &mut self.clients[client][shard]
    }

    /// Asks for rows. True if all are there.
    pub(crate) fn ask(&mut self, client: usize, worker: WorkerId, keys: &[u64]) -> bool {
        let mut ready = true;
        for shard in 0..self.servers.len() {
            let own: Vec<u64> = keys.iter().copied().filter(|key| self.spec.shard_of(*key).index() == shard).collect();
            ready &= self.clients[client][shard].ask(worker, &own).unwrap();
        }
        ready
    }

    /// Ends a clock, or everything.
    pub(crate) fn clock(&mut self, client: usize, worker: WorkerId, end: bool) {
        for machine in &mut self.clients[client] {
            if end { machine.finish(worker) } else { machine.clock(worker) }.unwrap();
            while machine.close_some() {}
        }
    }

    /// The cells of a row at its shard.
    pub(crate) fn row(&self, key: u64) -> Vec<C> {
        let server = &self.servers[self.spec.shard_of(key).index()];
        server.rows().find(key).map_or_else(Vec::new, |slot| server.rows().cells(slot).values().to_vec())
    }
}
