//! Host of a table's node on a simulated peer: clients and shards as plain fields, and messages as
//! events.
//!
//! The node is that of `hemiola-tables-proto`, which a cluster runs as well. It decides about
//! routes, lanes, sizes and ticks; this host adds the frame of the transport.

use super::FRAME;
use crate::actor::ActorContext;
use hemiola_core::{Moment, Rank, WorkerId};
use hemiola_tables_proto::dtype::StorageType;
use hemiola_tables_proto::message::{ClientMessage, ServerMessage};
use hemiola_tables_proto::stream::Sequenced;
use hemiola_tables_proto::{Clock, Error, NodeLimiters, ShardClient, ShardId, ShardServer, TableHost, TableMessage};
use std::collections::VecDeque;
use std::fmt;

/// Injected fault: changes messages before they are sent.
pub trait TableFaultInjector<C: StorageType>: fmt::Debug {
    /// Changes a message from a client.
    fn to_shard(&mut self, message: &mut Sequenced<ClientMessage<C::Compute>>);
    /// Changes a message from a shard.
    fn to_client(&mut self, message: &mut Sequenced<ServerMessage<C, C::Compute>>);
}

/// State machines of a table on one peer.
pub(super) struct TableMachines<C: StorageType> {
    /// One client for each shard.
    pub(super) clients: Vec<ShardClient<C>>,
    /// Shards of this peer, with their indices.
    pub(super) servers: Vec<(usize, ShardServer<C>)>,
    pub(super) limiters: Option<NodeLimiters>,
    pub(super) faults: Option<Box<dyn TableFaultInjector<C>>>,
    /// Workers that have been woken, once for each shard.
    pub(super) woken: Vec<WorkerId>,
    /// Messages within this peer that are not handled yet.
    pub(super) local: VecDeque<TableMessage<C>>,
}

impl<C: StorageType> TableMachines<C> {
    /// Returns true if a tick of the node would do something.
    pub(super) fn need_tick(&self) -> bool {
        self.limiters.is_some()
            && (self.clients.iter().any(ShardClient::needs_tick)
                || self.servers.iter().any(|(_, server)| server.needs_tick()))
    }

    fn server(&mut self, shard: ShardId) -> &mut ShardServer<C> {
        let server = self.servers.iter_mut().find(|(number, _)| *number == shard.index());
        server.map(|(_, server)| server).expect("the node asks only for shards of this peer")
    }

    fn inject_fault(&mut self, message: &mut TableMessage<C>) {
        match (&mut self.faults, message) {
            (Some(faults), TableMessage::ToShard { message, .. }) => faults.to_shard(message),
            (Some(faults), TableMessage::ToClient { message, .. }) => faults.to_client(message),
            _ => {}
        }
    }
}

/// Host of a table's node for one event.
pub(super) struct SimTableHost<'a, 'c, C: StorageType> {
    pub(super) machines: &'a mut TableMachines<C>,
    pub(super) context: &'a mut ActorContext<'c, TableMessage<C>>,
}

impl<C: StorageType> TableHost<C> for SimTableHost<'_, '_, C> {
    type Client<'m>
        = &'m mut ShardClient<C>
    where
        Self: 'm;
    type Server<'m>
        = &'m mut ShardServer<C>
    where
        Self: 'm;
    type Limiters<'m>
        = &'m mut NodeLimiters
    where
        Self: 'm;
    type Error = String;

    fn client(&mut self, shard: ShardId) -> Self::Client<'_> {
        &mut self.machines.clients[shard.index()]
    }

    fn server(&mut self, shard: ShardId) -> Self::Server<'_> {
        self.machines.server(shard)
    }

    fn limiters(&mut self) -> Option<(Moment, Self::Limiters<'_>)> {
        Some((self.context.now(), self.machines.limiters.as_mut()?))
    }

    fn client_and_limiters(&mut self, shard: ShardId) -> Option<(Moment, Self::Client<'_>, Self::Limiters<'_>)> {
        let TableMachines { clients, limiters, .. } = &mut *self.machines;
        Some((self.context.now(), &mut clients[shard.index()], limiters.as_mut()?))
    }

    fn server_and_limiters(&mut self, shard: ShardId) -> Option<(Moment, Self::Server<'_>, Self::Limiters<'_>)> {
        let TableMachines { servers, limiters, .. } = &mut *self.machines;
        let (_, server) = servers.iter_mut().find(|(number, _)| *number == shard.index())?;
        Some((self.context.now(), server, limiters.as_mut()?))
    }

    fn send(&mut self, to: Rank, mut message: TableMessage<C>) -> Result<usize, String> {
        self.machines.inject_fault(&mut message);
        let (lane, bytes) = message.lane_and_bytes();
        self.context.send(to, lane, bytes + FRAME, message);
        Ok(bytes)
    }

    fn send_local(&mut self, mut message: TableMessage<C>) {
        self.machines.inject_fault(&mut message);
        self.machines.local.push_back(message);
    }

    fn next_local(&mut self) -> Option<TableMessage<C>> {
        self.machines.local.pop_front()
    }

    fn defer(&mut self, message: TableMessage<C>) {
        self.machines.local.push_back(message);
    }

    fn wake(&mut self, worker: WorkerId) {
        self.machines.woken.push(worker);
    }

    fn shard_advanced(&mut self, _: Clock) {}

    fn peer_finished(&mut self) {}

    fn message_rejected(&mut self, error: Error) -> String {
        error.to_string()
    }
}
