//! Host of a table's node on a cluster: a thread that works for the table, and the locks of the
//! clients and shards.
//!
//! A host lives for one call. It knows what its thread may wait for ([`Blocking`]), and it queues
//! the messages within the peer, so no other thread has to be woken for them. **Invariant:** locks
//! are taken one at a time, except for the rate limiters, which are the innermost lock.

use crate::endpoint::Blocking;
use crate::error::TableFailure;
use crate::runtime::TableRuntime;
use crate::sharded_rwlock::ShardedWriteGuard;
use hemiola_cluster::{Error, Result};
use hemiola_core::{Moment, Rank, WorkerId};
use hemiola_tables_proto::dtype::StorageType;
use hemiola_tables_proto::{Clock, NodeLimiters, ShardClient, ShardId, ShardServer, TableHost, TableMessage};
use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;

/// Host of a table's node for one call on one thread.
pub(crate) struct RuntimeHost<'r, C: StorageType> {
    runtime: &'r TableRuntime<C>,
    blocking: Blocking,
    /// Messages within this peer that are not handled yet.
    local: VecDeque<TableMessage<C>>,
}

impl<'r, C: StorageType> RuntimeHost<'r, C> {
    pub(crate) fn new(runtime: &'r TableRuntime<C>, blocking: Blocking) -> Self {
        Self { runtime, blocking, local: VecDeque::new() }
    }

    fn server_lock(&self, shard: ShardId) -> &'r Mutex<ShardServer<C>> {
        self.runtime.servers[shard.index()].as_ref().expect("the node asks only for shards of this peer")
    }

    fn now_and_limiters(&self) -> Option<(Moment, MutexGuard<'r, NodeLimiters>)> {
        let (limiters, endpoint) = (self.runtime.limiters.as_ref()?, self.runtime.endpoint.as_ref()?);
        Some((endpoint.peer_handle().env().now(), limiters.lock()))
    }
}

impl<'r, C: StorageType> TableHost<C> for RuntimeHost<'r, C> {
    type Client<'a>
        = ShardedWriteGuard<'r, ShardClient<C>>
    where
        Self: 'a;
    type Server<'a>
        = MutexGuard<'r, ShardServer<C>>
    where
        Self: 'a;
    type Limiters<'a>
        = MutexGuard<'r, NodeLimiters>
    where
        Self: 'a;
    type Error = Error;

    fn client(&mut self, shard: ShardId) -> Self::Client<'_> {
        self.runtime.clients[shard.index()].write()
    }

    fn server(&mut self, shard: ShardId) -> Self::Server<'_> {
        self.server_lock(shard).lock()
    }

    fn try_client(&mut self, shard: ShardId) -> Option<Self::Client<'_>> {
        let client = &self.runtime.clients[shard.index()];
        if self.blocking == Blocking::Never { client.try_write() } else { Some(client.write()) }
    }

    fn try_server(&mut self, shard: ShardId) -> Option<Self::Server<'_>> {
        let server = self.server_lock(shard);
        if self.blocking == Blocking::Never { server.try_lock() } else { Some(server.lock()) }
    }

    fn limiters(&mut self) -> Option<(Moment, Self::Limiters<'_>)> {
        self.now_and_limiters()
    }

    fn client_and_limiters(&mut self, shard: ShardId) -> Option<(Moment, Self::Client<'_>, Self::Limiters<'_>)> {
        self.runtime.limiters.as_ref()?;
        let client = self.client(shard);
        self.now_and_limiters().map(|(now, limiters)| (now, client, limiters))
    }

    fn server_and_limiters(&mut self, shard: ShardId) -> Option<(Moment, Self::Server<'_>, Self::Limiters<'_>)> {
        self.runtime.limiters.as_ref()?;
        let server = self.server(shard);
        self.now_and_limiters().map(|(now, limiters)| (now, server, limiters))
    }

    fn send(&mut self, to: Rank, message: TableMessage<C>) -> Result<usize> {
        let Some(endpoint) = &self.runtime.endpoint else {
            return Err(format!("table `{}` has no peer {to}", self.runtime.spec().name).into());
        };
        endpoint.send(self.blocking, to, message)
    }

    fn send_local(&mut self, message: TableMessage<C>) {
        self.local.push_back(message);
    }

    fn next_local(&mut self) -> Option<TableMessage<C>> {
        self.local.pop_front()
    }

    fn defer(&mut self, message: TableMessage<C>) {
        self.runtime.defer(message);
    }

    fn wake(&mut self, worker: WorkerId) {
        self.runtime.waiters.wake(worker);
    }

    fn shard_advanced(&mut self, min: Clock) {
        self.runtime.waiters.notify_clock();
        if min == Clock::INFINITE && self.blocking == Blocking::Never {
            // This may have been the last message.
            self.runtime.wake_service();
        }
    }

    fn peer_finished(&mut self) {
        self.runtime.finished_peers.fetch_add(1, Ordering::AcqRel); // pairs with the load in `is_finished`
        self.runtime.wake_service();
    }

    fn message_rejected(&mut self, error: hemiola_tables_proto::Error) -> Error {
        let failure = TableFailure::Table(error);
        self.runtime.waiters.fail(failure.clone());
        failure.error(&self.runtime.spec().name)
    }
}
