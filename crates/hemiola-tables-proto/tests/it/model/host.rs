//! Host of the nodes in the model check: messages wait until the schedule delivers them, in any
//! order and sometimes twice.
//!
//! Messages within a peer are delivered like others. On a cluster, threads that work for the same
//! peer interleave, so these messages overtake each other too.

use super::faults::InjectedFault;
use super::schedule::TestRng;
use hemiola_core::{Moment, Rank, WorkerId};
use hemiola_tables_proto::{
    Clock, Error, NodeLimiters, ShardClient, ShardId, ShardServer, TableHost, TableMessage, TableSpec,
};
use std::sync::Arc;

/// Messages in flight, by sender or receiver and shard.
pub(super) struct ModelNetwork {
    spec: Arc<TableSpec>,
    /// Messages are encoded and decoded.
    encodes: bool,
    fault: Option<InjectedFault>,
    /// Queues of messages to shards, and behind them those of messages to clients.
    queues: Vec<Vec<TableMessage<i32>>>,
    /// Number of messages sent so far.
    pub(super) sent: u64,
    problem: Option<String>,
}

impl ModelNetwork {
    pub(super) fn new(spec: &Arc<TableSpec>, encodes: bool, fault: Option<InjectedFault>) -> Self {
        let queues = vec![Vec::new(); 2 * spec.clients * spec.shards];
        Self { spec: spec.clone(), encodes, fault, queues, sent: 0, problem: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queues.iter().all(Vec::is_empty)
    }

    /// First queue with messages from `start` on.
    pub(super) fn first_queue(&self, start: usize) -> Option<usize> {
        let count = self.queues.len();
        (0..count).map(|step| (start + step) % count).find(|queue| !self.queues[*queue].is_empty())
    }

    pub(super) fn queues(&self) -> usize {
        self.queues.len()
    }

    pub(super) fn queue(&mut self, queue: usize) -> &mut Vec<TableMessage<i32>> {
        &mut self.queues[queue]
    }

    /// Peer that receives the messages of a queue.
    pub(super) fn receiver(&self, queue: usize) -> usize {
        let to_shards = self.queues.len() / 2;
        if queue < to_shards {
            queue % self.spec.shards % self.spec.clients
        } else {
            (queue - to_shards) / self.spec.shards
        }
    }

    /// First problem of a message that was sent since the last call.
    pub(super) fn check(&mut self) -> Result<(), String> {
        self.problem.take().map_or(Ok(()), Err)
    }

    fn put(&mut self, to: Rank, mut message: TableMessage<i32>, rng: &mut TestRng) -> usize {
        self.sent += 1;
        match (self.fault, &mut message) {
            (Some(fault), TableMessage::ToShard { message, .. }) => fault.to_shard(message, rng),
            (Some(fault), TableMessage::ToClient { message, .. }) => fault.to_client(message, rng),
            _ => {}
        }
        let shards = self.spec.shards;
        let (queue, from) = match &message {
            TableMessage::ToShard { shard, from, .. } => (from.index() * shards + shard.index(), from.index()),
            TableMessage::ToClient { shard, .. } => {
                ((self.spec.clients + to.index()) * shards + shard.index(), shard.index() % self.spec.clients)
            }
            TableMessage::Finished => return 0,
        };
        let (lane, bytes) = message.lane_and_bytes();
        if self.encodes {
            let (encoded_lane, payload) = message.clone().encode();
            match TableMessage::decode(&payload.clone().into_bytes(), Rank::new(from as u32), &self.spec) {
                Ok(read) if read == message && (encoded_lane, payload.len()) == (lane, bytes) => message = read,
                Ok(read) => self.problem = Some(format!("{message:?} became {read:?}, or has another size")),
                Err(error) => self.problem = Some(error.to_string()),
            }
        }
        self.queues[queue].push(message);
        bytes
    }
}

/// Host of one peer's node for one call.
pub(super) struct ModelHost<'a> {
    pub(super) rank: Rank,
    pub(super) now: Moment,
    /// Clients of this peer, by shard.
    pub(super) clients: &'a mut [ShardClient<i32>],
    /// Shards of all peers.
    pub(super) servers: &'a mut [ShardServer<i32>],
    pub(super) limiters: &'a mut NodeLimiters,
    pub(super) network: &'a mut ModelNetwork,
    pub(super) rng: &'a mut TestRng,
    /// Workers of this peer that were woken, once for each shard.
    pub(super) woken: Vec<WorkerId>,
}

impl TableHost<i32> for ModelHost<'_> {
    type Client<'m>
        = &'m mut ShardClient<i32>
    where
        Self: 'm;
    type Server<'m>
        = &'m mut ShardServer<i32>
    where
        Self: 'm;
    type Limiters<'m>
        = &'m mut NodeLimiters
    where
        Self: 'm;
    type Error = String;

    fn client(&mut self, shard: ShardId) -> &mut ShardClient<i32> {
        &mut self.clients[shard.index()]
    }

    fn server(&mut self, shard: ShardId) -> &mut ShardServer<i32> {
        &mut self.servers[shard.index()]
    }

    fn limiters(&mut self) -> Option<(Moment, &mut NodeLimiters)> {
        Some((self.now, self.limiters))
    }

    fn client_and_limiters(&mut self, shard: ShardId) -> Option<(Moment, &mut ShardClient<i32>, &mut NodeLimiters)> {
        Some((self.now, &mut self.clients[shard.index()], self.limiters))
    }

    fn server_and_limiters(&mut self, shard: ShardId) -> Option<(Moment, &mut ShardServer<i32>, &mut NodeLimiters)> {
        Some((self.now, &mut self.servers[shard.index()], self.limiters))
    }

    fn send(&mut self, to: Rank, message: TableMessage<i32>) -> Result<usize, String> {
        Ok(self.network.put(to, message, self.rng))
    }

    fn send_local(&mut self, message: TableMessage<i32>) {
        self.network.put(self.rank, message, self.rng);
    }

    fn next_local(&mut self) -> Option<TableMessage<i32>> {
        None
    }

    fn defer(&mut self, message: TableMessage<i32>) {
        unreachable!("{message:?} was deferred, although no machine is ever in use");
    }

    fn wake(&mut self, worker: WorkerId) {
        self.woken.push(worker);
    }

    fn shard_advanced(&mut self, _: Clock) {}

    fn peer_finished(&mut self) {}

    fn message_rejected(&mut self, error: Error) -> String {
        error.to_string()
    }
}
