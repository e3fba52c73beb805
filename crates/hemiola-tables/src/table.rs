//! Handle of a peer to a table.

use crate::backend::TableBackend;
use crate::commands::{self, ServerCommand};
use crate::error::{Error, TableFailure};
use crate::waiters::Waiters;
use crate::worker::TableWorker;
use hemiola_cluster::{Cluster, Result, WaitContext, WaitReason, Worker};
use hemiola_core::{ChannelId, Rank, Waiter, WorkerId};
use hemiola_tables_proto::dtype::StorageType;
use hemiola_tables_proto::{Clock, ShardServer, TableSpec};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Table that the workers of all peers share. Dropping it finishes the remaining workers of this
/// peer.
pub struct Table<C: StorageType> {
    pub(crate) cluster: Cluster,
    pub(crate) backend: TableBackend<C>,
    /// Updates must name the version that they were computed from.
    pub(crate) versioned: bool,
    /// By worker: true while it has a handle.
    pub(crate) in_use: Vec<AtomicBool>,
    pub(crate) start_clock: Clock,
    /// A loop has given advice on the use of this table.
    pub(crate) advised: AtomicBool,
    /// Channel of the table, if dedicated servers hold it and must be sent commands.
    pub(crate) server_channel: Option<ChannelId>,
}

impl<C: StorageType> Table<C> {
    pub(crate) fn spec(&self) -> &Arc<TableSpec> {
        self.backend.spec()
    }

    pub(crate) fn waiters(&self) -> &Waiters {
        self.backend.waiters()
    }

    /// Shards on this peer, with their numbers.
    pub(crate) fn servers(&self) -> Vec<(usize, &Mutex<ShardServer<C>>)> {
        self.backend.servers()
    }

    /// Name of the table.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.spec().name
    }

    /// Number of columns of a row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.spec().width
    }

    /// Clock at which the workers started: 0, or that of the restored checkpoint.
    #[must_use]
    pub fn start_clock(&self) -> Clock {
        self.start_clock
    }

    /// Eager and urgent bytes that this peer has sent for this table. Both are 0 without a
    /// [budget](crate::TableBuilder::budget).
    #[must_use]
    pub fn eager_and_urgent_bytes(&self) -> (u64, u64) {
        self.backend.eager_and_urgent_bytes()
    }

    /// Number of rows leased to this peer at present, because it is their only user.
    #[must_use]
    pub fn leased_rows(&self) -> usize {
        self.backend.leased_rows()
    }

    /// Creates the handle of a worker. A worker has one handle at a time.
    pub fn worker(&self, worker: Worker) -> Result<TableWorker<'_, C>> {
        TableWorker::new(self, worker.id())
    }

    /// Runs `body` once on every worker of this peer and waits for all, like
    /// [`Cluster::each_worker`]. If it fails on one worker, the table fails for all: others would
    /// wait for a clock that never ends.
    ///
    /// With several tables, use [`Cluster::each_worker`], take a handle of each, and report an
    /// error to every table with [`Table::stop`].
    #[track_caller]
    pub fn each_worker<T: Send>(&self, body: impl Fn(&mut TableWorker<'_, C>) -> Result<T> + Sync) -> Result<Vec<T>> {
        let first: Mutex<Option<hemiola_cluster::Error>> = Mutex::new(None);
        let done = self.cluster.each_worker(|worker| {
            let outcome = self.worker(worker).and_then(|mut handle| body(&mut handle));
            outcome.map_err(|error| {
                let mut first = first.lock();
                if first.is_none() {
                    self.stop(&format!("worker {} of peer {} failed: {error}", worker.id(), self.cluster.rank()));
                    *first = Some(error);
                }
            })
        })?;
        if let Some(error) = first.into_inner() {
            return Err(error);
        }
        Ok(done.into_iter().flatten().collect())
    }

    /// Fails all waits for this table on this peer, with an error that contains `reason`. The job
    /// cannot continue with it.
    pub fn stop(&self, reason: &str) {
        self.fail(TableFailure::Stopped(reason.to_owned()));
    }

    pub(crate) fn fail(&self, failure: TableFailure) {
        self.waiters().fail(failure);
    }

    fn workers(&self) -> impl Iterator<Item = WorkerId> {
        (0..self.in_use.len() as u32).map(WorkerId::new)
    }

    /// *Collective.* Waits until the shards of this peer have all updates before the common clock
    /// of all workers, and returns that clock. Workers that have finished are ignored.
    #[track_caller]
    pub(crate) fn await_common_clock(&self) -> Result<Clock> {
        let site = Location::caller();
        self.waiters().check()?;
        let mine: Vec<Clock> = self.workers().map(|worker| self.backend.clock_of(worker)).collect();
        let all = self.cluster.all_gather(mine)?;
        let at = all.iter().flatten().copied().min().unwrap_or(Clock::INFINITE);
        for (rank, clocks) in all.iter().enumerate() {
            let uneven = clocks.iter().position(|clock| *clock != at && *clock != Clock::INFINITE);
            if let Some(worker) = uneven {
                let (rank, expected) = (Rank::new(rank as u32), at);
                let (table, worker, at) = (self.name().to_owned(), WorkerId::new(worker as u32), clocks[worker]);
                return Err(Error::UnevenClocks { table, rank, worker, at, expected }.into());
            }
        }
        let servers = self.servers();
        let reason =
            WaitReason { operation: "all updates of a table before clock", number: Some(at.units()), site: Some(site) };
        let details = || self.backend.details();
        let wait = WaitContext::new(Waiter::Driver, reason, None).with_details(&details);
        self.waiters().wait_until(|| servers.iter().all(|(_, server)| server.lock().min() >= at), wait)?;
        Ok(at)
    }

    /// Recalls all leases and waits until the shards of this peer have the sums of the leased rows.
    #[track_caller]
    fn recall(&self) -> Result<()> {
        let site = Location::caller();
        if self.backend.runtime().is_none() {
            // There are no leases.
            return Ok(());
        }
        let servers = self.servers();
        for (shard, _) in &servers {
            self.backend.with_server(*shard, ShardServer::recall_all)?;
        }
        let reason = WaitReason { operation: "leased rows of a table", number: None, site: Some(site) };
        let details = || self.backend.details();
        let wait = WaitContext::new(Waiter::Driver, reason, None).with_details(&details);
        self.waiters().wait_until(|| servers.iter().all(|(_, server)| !server.lock().awaits_leases()), wait)
    }

    /// Sends a command to the dedicated servers, if they hold this table.
    pub(crate) fn command(&self, command: impl FnOnce(ChannelId) -> ServerCommand) -> Result<()> {
        self.server_channel.map_or(Ok(()), |table| commands::broadcast_command(&self.cluster, &command(table)))
    }

    /// *Collective.* All rows that were read or updated, with all updates of ended clocks, on every
    /// peer. All workers must be at the same clock or have finished. Missing columns of sparse rows
    /// are zero.
    #[track_caller]
    pub fn collect(&self) -> Result<BTreeMap<u64, Vec<C::Compute>>>
    where
        C::Compute: Serialize + DeserializeOwned,
    {
        self.command(ServerCommand::Collect)?;
        self.await_common_clock()?;
        self.recall()?;
        let mut mine = Vec::new();
        for (_, server) in self.servers() {
            let server = server.lock();
            let rows = server.rows();
            for slot in 0..rows.len() as u32 {
                let mut values = vec![C::Compute::default(); self.width()];
                rows.cells(slot).iter().for_each(|(column, cell)| values[column] = cell.to_compute());
                mine.push((rows.key(slot), values));
            }
        }
        Ok(self.cluster.all_gather(mine)?.into_iter().flatten().collect())
    }

    /// Memory of the shards of this peer in bytes: rows, rule state and indexes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.servers().iter().map(|(_, server)| server.lock().rows().bytes()).sum()
    }

    /// Number of updates of this peer that were dropped because they were not finite.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.backend.dropped()
    }
}

impl<C: StorageType> Drop for Table<C> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.stop("the program of this peer panicked");
            return;
        }
        if self.backend.runtime().is_none() {
            return;
        }
        self.backend.finish_remaining(self.workers());
        // The job fails, and the other peers learn it from the loss of this one.
        let _ = self.command(ServerCommand::DropTable);
        self.backend.drop_handle();
    }
}

impl<C: StorageType> fmt::Debug for Table<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let backend = if self.backend.runtime().is_some() { "by messages" } else { "in place" };
        formatter.debug_struct("Table").field("name", &self.name()).field("backend", &backend).finish_non_exhaustive()
    }
}
