//! Host of a node: the thread, simulated peer or test that runs it.
//!
//! A host gives a [`TableNode`](super::TableNode) access to its state machines and carries out its
//! effects. Locks, threads, sockets and time belong to hosts, and routing belongs to the node.
//! **Invariant:** the node holds at most one machine at a time, and none while it calls an effect;
//! so a host may block in [`TableHost::send`], and machines need no lock order.

use crate::client::ShardClient;
use crate::clock::Clock;
use crate::dtype::StorageType;
use crate::error::Error;
use crate::node::NodeLimiters;
use crate::node::table_message::TableMessage;
use crate::server::ShardServer;
use crate::spec::ShardId;
use hemiola_core::{Moment, Rank, WorkerId};
use std::ops::DerefMut;

/// Access to the state machines of a node, and its effects.
pub trait TableHost<C: StorageType> {
    /// Exclusive access to a client.
    type Client<'a>: DerefMut<Target = ShardClient<C>>
    where
        Self: 'a;
    /// Exclusive access to a shard.
    type Server<'a>: DerefMut<Target = ShardServer<C>>
    where
        Self: 'a;
    /// Exclusive access to the rate limiters.
    type Limiters<'a>: DerefMut<Target = NodeLimiters>
    where
        Self: 'a;
    /// Error of an effect, or of a message that a machine rejects.
    type Error;

    /// Waits for the client of a shard.
    fn client(&mut self, shard: ShardId) -> Self::Client<'_>;

    /// Waits for a shard of this peer.
    fn server(&mut self, shard: ShardId) -> Self::Server<'_>;

    /// Client of a shard; `None` if it is in use and the host must not wait.
    fn try_client(&mut self, shard: ShardId) -> Option<Self::Client<'_>> {
        Some(self.client(shard))
    }

    /// Shard of this peer; `None` if it is in use and the host must not wait.
    fn try_server(&mut self, shard: ShardId) -> Option<Self::Server<'_>> {
        Some(self.server(shard))
    }

    /// Current time and the rate limiters; `None` without a bandwidth budget.
    fn limiters(&mut self) -> Option<(Moment, Self::Limiters<'_>)>;

    /// Client of a shard together with the limiters.
    fn client_and_limiters(&mut self, shard: ShardId) -> Option<(Moment, Self::Client<'_>, Self::Limiters<'_>)>;

    /// Shard of this peer together with the limiters.
    fn server_and_limiters(&mut self, shard: ShardId) -> Option<(Moment, Self::Server<'_>, Self::Limiters<'_>)>;

    /// Sends a message to another peer. Returns its encoded size in bytes.
    fn send(&mut self, to: Rank, message: TableMessage<C>) -> Result<usize, Self::Error>;

    /// Queues a message for a machine of this peer.
    fn send_local(&mut self, message: TableMessage<C>);

    /// Next queued message for a machine of this peer. A host that delivers these messages itself
    /// returns `None`.
    fn next_local(&mut self) -> Option<TableMessage<C>>;

    /// Keeps a message whose machine is in use, to pass it to the node again.
    fn defer(&mut self, message: TableMessage<C>);

    /// Records that one shard has all rows that a worker waits for.
    fn wake(&mut self, worker: WorkerId);

    /// Records that the minimum clock of a shard or its outstanding leases have changed.
    fn shard_advanced(&mut self, min: Clock);

    /// Records that a peer no longer needs this one.
    fn peer_finished(&mut self);

    /// Converts the error of a machine that rejects a message. The table has failed.
    fn message_rejected(&mut self, error: Error) -> Self::Error;
}
