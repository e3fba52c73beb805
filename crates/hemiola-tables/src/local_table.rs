//! Table of a single process: workers read and update the shards in place, each behind its lock,
//! without messages or copies.

use crate::error::table_error;
use crate::waiters::Waiters;
use hemiola_cluster::{Result, WaitContext, WaitReason};
use hemiola_core::{Waiter, WorkerId};
use hemiola_tables_proto::dtype::StorageType;
use hemiola_tables_proto::server::in_place::InPlaceRow;
use hemiola_tables_proto::server::rows::RowWrite;
use hemiola_tables_proto::{ClientId, Clock, ShardServer, TableSpec};
use parking_lot::Mutex;
use std::panic::Location;
use std::sync::Arc;

/// Shards of the only peer.
pub(crate) struct LocalTable<C: StorageType> {
    pub(crate) spec: Arc<TableSpec>,
    pub(crate) servers: Vec<Mutex<ShardServer<C>>>,
    pub(crate) waiters: Waiters,
}

fn client(worker: WorkerId) -> ClientId {
    ClientId::new(worker.index() as u32)
}

impl<C: StorageType> LocalTable<C> {
    pub(crate) fn get<T>(
        &self,
        worker: WorkerId,
        clock: Clock,
        key: u64,
        site: &'static Location<'static>,
        read: impl FnOnce(InPlaceRow<'_, C>) -> T,
    ) -> Result<T> {
        let server = &self.servers[self.spec.shard_of(key).index()];
        loop {
            if let Some(row) = server.lock().read_in_place(clock, key).map_err(table_error)? {
                return Ok(read(row));
            }
            let need = clock.saturating_sub(self.spec.consistency.staleness());
            let reason = WaitReason {
                operation: "other workers of a table to reach clock",
                number: Some(need.units()),
                site: Some(site),
            };
            let wait = WaitContext::new(Waiter::Worker(worker), reason, None);
            self.waiters.wait_until(|| server.lock().min() >= need, wait)?;
        }
    }

    pub(crate) fn update(
        &self,
        worker: WorkerId,
        clock: Clock,
        key: u64,
        write: &RowWrite<'_, C::Compute>,
    ) -> Result<()> {
        let server = &self.servers[self.spec.shard_of(key).index()];
        server.lock().update_in_place(client(worker), clock, key, write).map_err(table_error)
    }

    /// Adds to many rows, given by shard with their positions in the request. Shards that other
    /// workers have locked come later, so workers seldom wait for each other.
    pub(crate) fn update_many(
        &self,
        worker: WorkerId,
        clock: Clock,
        by_shard: &[(Vec<u64>, Vec<usize>)],
        values: &[C::Compute],
    ) -> Result<()> {
        let shards = self.servers.len();
        // Workers start at different shards.
        let first = worker.index() * shards / self.spec.clients.max(1);
        let order = (0..shards).map(|at| (first + at) % shards).filter(|shard| !by_shard[*shard].0.is_empty());
        let mut left: Vec<usize> = order.collect();
        let mut block = false;
        while !left.is_empty() {
            let before = left.len();
            let mut result = Ok(());
            left.retain(|shard| {
                let (keys, positions) = &by_shard[*shard];
                let locked = if block { Some(self.servers[*shard].lock()) } else { self.servers[*shard].try_lock() };
                let Some(mut server) = locked.filter(|_| result.is_ok()) else { return true };
                block = false;
                result = server.update_many_in_place(client(worker), clock, keys, positions, values);
                false
            });
            result.map_err(table_error)?;
            block = left.len() == before;
        }
        Ok(())
    }

    pub(crate) fn advance(&self, worker: WorkerId, to: Clock) -> Result<()> {
        self.waiters.check()?;
        let mut moved = false;
        for server in &self.servers {
            moved |= server.lock().clock_in_place(client(worker), to).map_err(table_error)?.is_some();
        }
        if moved {
            self.waiters.notify_clock();
        }
        Ok(())
    }

    pub(crate) fn clock_of(&self, worker: WorkerId) -> Clock {
        self.servers
            .iter()
            .map(|server| server.lock().clocks().clock_of(worker.index()))
            .min()
            .unwrap_or(Clock::INFINITE)
    }
}
