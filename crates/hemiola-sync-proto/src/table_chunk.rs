//! One chunk of the model in a table: its client on this peer and, on the owner, its shard.
//!
//! A unit whose method is a table is a row of `hemiola-tables-proto`, the only row of its shard.
//! The chunk drives the machines of that crate without another protocol: a gradient is an update,
//! the end of a step is the end of a clock, and new values are a request whose reply waits for the
//! clock that the consistency model names. Each chunk has its own clock, so it is sent as soon as
//! its gradients are ready.
//!
//! **Invariant:** a chunk has at most one request in flight. Its values are read before its next
//! update is sent, so a peer has at most one update and one reply per chunk on the way.

use crate::effect::SyncEffect;
use crate::error::{Error, Result};
use crate::kernel::UpdateKernel;
use crate::plan::TableChunkPlan;
use crate::table_row::{HEADER_CELLS, UpdateHeader};
use crate::table_rule::ChunkRule;
use hemiola_core::{Moment, Rank, WorkerId};
use hemiola_tables_proto::{
    Clock, NodeLimiters, RowCells, SelectionRng, ShardClient, ShardId, ShardServer, TableHost, TableMessage, TableNode,
    TablePlacement,
};
use std::collections::VecDeque;

/// The synchronization node is the only worker of its client.
const WORKER: WorkerId = WorkerId::new(0);

/// Reason of the request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkRequest {
    /// Values after this peer's update of a step.
    Step(u64),
    /// Newest values, without an update.
    Refresh,
}

/// State machines of one chunk on one peer.
#[derive(Debug)]
pub(crate) struct TableChunk {
    node: TableNode,
    shard: ShardId,
    client: ShardClient<f32>,
    /// The shard, on its owner.
    server: Option<ShardServer<f32>>,
    /// Messages within this peer that are not handled yet.
    local: VecDeque<TableMessage<f32>>,
    in_flight: Option<ChunkRequest>,
    /// The reply to the request has arrived.
    ready: bool,
}

impl TableChunk {
    /// Creates the machines of a chunk. The rule has the first values and states on the owner.
    pub(crate) fn new<K: UpdateKernel>(
        chunk: &TableChunkPlan,
        rank: Rank,
        rule: ChunkRule<K>,
        step: u64,
    ) -> Result<Self> {
        let (spec, shard, start) = (chunk.spec.clone(), chunk.shard, Clock::new(step));
        let placement = TablePlacement::new(chunk.owners.to_vec());
        let node = TableNode::new(spec.clone(), rank, placement, true);
        let client = ShardClient::new(spec.clone(), node.client_id(), shard, &rule, 1, start);
        let random = SelectionRng::new(0);
        let server =
            if node.owns(shard) { Some(ShardServer::new(spec, shard, Box::new(rule), start, random)?) } else { None };
        Ok(Self { node, shard, client, server, local: VecDeque::new(), in_flight: None, ready: false })
    }

    fn key(&self) -> u64 {
        self.shard.index() as u64
    }

    pub(crate) fn in_flight(&self) -> Option<ChunkRequest> {
        self.in_flight
    }

    /// Sends the gradient of a step, ends the clock and requests the values for the next step.
    pub(crate) fn update(
        &mut self,
        step: u64,
        header: UpdateHeader,
        gradient: &[f32],
        effects: &mut VecDeque<SyncEffect>,
    ) -> Result<()> {
        let (key, row) = (self.key(), header.row(gradient));
        self.call(effects, |client| client.update(WORKER, key, &RowCells::Dense(&row), 0))??;
        self.end_clock(false, effects)?;
        self.request(ChunkRequest::Step(step), effects)
    }

    /// Requests the newest values.
    pub(crate) fn refresh(&mut self, effects: &mut VecDeque<SyncEffect>) -> Result<()> {
        self.request(ChunkRequest::Refresh, effects)
    }

    /// Ends the work of this peer. Its shard still serves the others.
    pub(crate) fn finish(&mut self, effects: &mut VecDeque<SyncEffect>) -> Result<()> {
        self.end_clock(true, effects)
    }

    /// Returns true if no peer needs the shard any more, or if another peer has it.
    pub(crate) fn is_served(&self) -> bool {
        self.server.as_ref().is_none_or(|server| server.min() == Clock::INFINITE)
    }

    /// Takes the values of a reply that has arrived, with the reason of the request.
    pub(crate) fn take_reply(&mut self) -> Result<Option<(ChunkRequest, Vec<f32>)>> {
        let (Some(request), true) = (self.in_flight, self.ready) else { return Ok(None) };
        (self.in_flight, self.ready) = (None, false);
        let row = self.client.get(WORKER, self.shard.index() as u64)?;
        let row = row.expect("a row that was fetched stays cached until the next request");
        Ok(Some((request, row.cells.values()[HEADER_CELLS..].to_vec())))
    }

    /// Handles a message of another peer.
    pub(crate) fn receive(&mut self, message: TableMessage<f32>, effects: &mut VecDeque<SyncEffect>) -> Result<()> {
        let node = self.node.clone();
        node.on_message(&mut self.host(effects), message)
    }

    /// Optimizer states of the pieces, on the owner.
    pub(crate) fn states<K: UpdateKernel>(&self) -> Option<Vec<K::State>> {
        let rule = self.server.as_ref()?.rule().as_any()?.downcast_ref::<ChunkRule<K>>()?;
        Some(rule.states())
    }

    fn request(&mut self, request: ChunkRequest, effects: &mut VecDeque<SyncEffect>) -> Result<()> {
        let key = self.key();
        self.in_flight = Some(request);
        // Local messages are handled within the call, so the reply may be here already.
        if self.call(effects, |client| client.refresh(WORKER, &[key]))?? {
            self.ready = true;
        }
        Ok(())
    }

    fn end_clock(&mut self, finish: bool, effects: &mut VecDeque<SyncEffect>) -> Result<()> {
        let (node, shard) = (self.node.clone(), self.shard);
        let mut host = self.host(effects);
        node.end_clock(&mut host, shard, WORKER, finish)??;
        while node.close_clock(&mut host, shard)? {}
        Ok(())
    }

    fn call<T>(
        &mut self,
        effects: &mut VecDeque<SyncEffect>,
        call: impl FnOnce(&mut ShardClient<f32>) -> T,
    ) -> Result<T> {
        let (node, shard) = (self.node.clone(), self.shard);
        node.with_client(&mut self.host(effects), shard, call)
    }

    fn host<'a>(&'a mut self, effects: &'a mut VecDeque<SyncEffect>) -> ChunkHost<'a> {
        let Self { client, server, local, ready, .. } = self;
        ChunkHost { client, server, local, ready, effects }
    }
}

/// Host of a chunk's table node for one call: plain fields, and messages as effects.
struct ChunkHost<'a> {
    client: &'a mut ShardClient<f32>,
    server: &'a mut Option<ShardServer<f32>>,
    local: &'a mut VecDeque<TableMessage<f32>>,
    ready: &'a mut bool,
    effects: &'a mut VecDeque<SyncEffect>,
}

impl ChunkHost<'_> {
    fn shard(&mut self) -> &mut ShardServer<f32> {
        self.server.as_mut().expect("the node asks only for shards of this peer")
    }
}

impl TableHost<f32> for ChunkHost<'_> {
    type Client<'m>
        = &'m mut ShardClient<f32>
    where
        Self: 'm;
    type Server<'m>
        = &'m mut ShardServer<f32>
    where
        Self: 'm;
    type Limiters<'m>
        = &'m mut NodeLimiters
    where
        Self: 'm;
    type Error = Error;

    fn client(&mut self, _: ShardId) -> Self::Client<'_> {
        self.client
    }

    fn server(&mut self, _: ShardId) -> Self::Server<'_> {
        self.shard()
    }

    fn limiters(&mut self) -> Option<(Moment, Self::Limiters<'_>)> {
        None
    }

    fn client_and_limiters(&mut self, _: ShardId) -> Option<(Moment, Self::Client<'_>, Self::Limiters<'_>)> {
        None
    }

    fn server_and_limiters(&mut self, _: ShardId) -> Option<(Moment, Self::Server<'_>, Self::Limiters<'_>)> {
        None
    }

    fn send(&mut self, to: Rank, message: TableMessage<f32>) -> Result<usize> {
        let (_, bytes) = message.lane_and_bytes();
        self.effects.push_back(SyncEffect::SendTable { to, message });
        Ok(bytes)
    }

    fn send_local(&mut self, message: TableMessage<f32>) {
        self.local.push_back(message);
    }

    fn next_local(&mut self) -> Option<TableMessage<f32>> {
        self.local.pop_front()
    }

    fn defer(&mut self, message: TableMessage<f32>) {
        self.local.push_back(message);
    }

    fn wake(&mut self, _: WorkerId) {
        *self.ready = true;
    }

    fn shard_advanced(&mut self, _: Clock) {}

    fn peer_finished(&mut self) {}

    fn message_rejected(&mut self, error: hemiola_tables_proto::Error) -> Error {
        error.into()
    }
}
