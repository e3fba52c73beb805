//! Backend of a table on this peer: by messages or in place.
//!
//! A table of several peers has clients and servers that exchange messages; a table of a single
//! process is used in place where its consistency and update rule allow. **Invariant:** this file
//! alone tells the two apart; handles of peers and workers call its methods.

use crate::endpoint::{self, Blocking};
use crate::error::table_error;
use crate::local_table::LocalTable;
use crate::runtime::TableRuntime;
use crate::waiters::Waiters;
use hemiola_cluster::Result;
use hemiola_core::WorkerId;
use hemiola_tables_proto::dtype::StorageType;
use hemiola_tables_proto::server::rows::RowWrite;
use hemiola_tables_proto::{Clock, Error, RowCells, ShardServer, TableSpec};
use parking_lot::Mutex;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Implementation of a table on this peer.
pub(crate) enum TableBackend<C: StorageType> {
    /// Clients and servers that exchange messages, even if there is only one peer.
    Distributed(Arc<TableRuntime<C>>),
    /// Shards of a single process, used in place.
    Local(Arc<LocalTable<C>>),
}

impl<C: StorageType> Clone for TableBackend<C> {
    fn clone(&self) -> Self {
        match self {
            Self::Distributed(runtime) => Self::Distributed(runtime.clone()),
            Self::Local(local) => Self::Local(local.clone()),
        }
    }
}

/// Worker that calls a backend.
#[derive(Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) worker: WorkerId,
    /// Clock of the worker.
    pub(crate) clock: Clock,
    /// Source location of the call, for stall reports.
    pub(crate) site: &'static Location<'static>,
}

/// Row while it is read, with the attachment that updates in place need.
pub(crate) struct BackendRow<'a, W> {
    pub(crate) cells: RowCells<'a, W>,
    pub(crate) version: u64,
    pub(crate) attachment: &'a [W],
}

/// Keys by shard, and their positions in a request.
pub(crate) type KeysByShard = [(Vec<u64>, Vec<usize>)];

impl<C: StorageType> TableBackend<C> {
    pub(crate) fn spec(&self) -> &Arc<TableSpec> {
        match self {
            Self::Distributed(runtime) => runtime.spec(),
            Self::Local(local) => &local.spec,
        }
    }

    pub(crate) fn waiters(&self) -> &Waiters {
        match self {
            Self::Distributed(runtime) => &runtime.waiters,
            Self::Local(local) => &local.waiters,
        }
    }

    /// Shards on this peer, with their numbers.
    pub(crate) fn servers(&self) -> Vec<(usize, &Mutex<ShardServer<C>>)> {
        match self {
            Self::Distributed(runtime) => {
                let servers = runtime.servers.iter().enumerate();
                servers.filter_map(|(shard, server)| Some((shard, server.as_ref()?))).collect()
            }
            Self::Local(local) => local.servers.iter().enumerate().collect(),
        }
    }

    /// Runtime of a table whose clients and servers exchange messages.
    pub(crate) fn runtime(&self) -> Option<&TableRuntime<C>> {
        match self {
            Self::Distributed(runtime) => Some(runtime),
            Self::Local(_) => None,
        }
    }

    /// Calls a shard of this peer, and sends the messages that the call creates.
    pub(crate) fn with_server<T>(&self, shard: usize, call: impl FnOnce(&mut ShardServer<C>) -> T) -> Result<T> {
        match self {
            Self::Distributed(runtime) => runtime.with_server(shard, call),
            Self::Local(local) => Ok(call(&mut local.servers[shard].lock())),
        }
    }

    pub(crate) fn clock_of(&self, worker: WorkerId) -> Clock {
        match self {
            Self::Distributed(runtime) => runtime.clock_of(worker),
            Self::Local(local) => local.clock_of(worker),
        }
    }

    /// Ends a worker's clock.
    pub(crate) fn end_clock(&self, worker: WorkerId, clock: Clock) -> Result<()> {
        match self {
            Self::Distributed(runtime) => runtime.advance(Blocking::Full, worker, false),
            Self::Local(local) => {
                check_active(&local.spec, worker, clock)?;
                local.advance(worker, clock.next())
            }
        }
    }

    /// Ends a worker's work.
    pub(crate) fn finish(&self, worker: WorkerId) -> Result<()> {
        match self {
            Self::Distributed(runtime) => runtime.advance(Blocking::Full, worker, true),
            Self::Local(local) => {
                check_active(&local.spec, worker, local.clock_of(worker))?;
                local.advance(worker, Clock::INFINITE)
            }
        }
    }

    /// Calls `read` with a row that is fresh enough, waiting for it if necessary. `compute_row` is
    /// a scratch row in the compute type.
    #[inline]
    pub(crate) fn get<T>(
        &self,
        caller: Caller,
        key: u64,
        compute_row: &mut Vec<C::Compute>,
        read: impl FnOnce(BackendRow<'_, C::Compute>) -> T,
    ) -> Result<T> {
        let Caller { worker, clock, site } = caller;
        match self {
            Self::Distributed(runtime) => runtime.get(worker, key, site, |row| {
                read(BackendRow { cells: row.cells, version: row.version, attachment: &[] })
            }),
            Self::Local(local) => {
                check_active(&local.spec, worker, clock)?;
                local.get(worker, clock, key, site, |row| {
                    let cells = to_compute_cells(&row.cells, compute_row);
                    read(BackendRow { cells, version: row.version, attachment: row.attachment })
                })
            }
        }
    }

    /// Adds to a row.
    #[inline]
    pub(crate) fn update(
        &self,
        worker: WorkerId,
        clock: Clock,
        key: u64,
        write: &RowWrite<'_, C::Compute>,
    ) -> Result<()> {
        match self {
            Self::Distributed(runtime) => runtime.update(worker, key, &write.cells, write.version),
            Self::Local(local) => {
                check_active(&local.spec, worker, clock)?;
                local.update(worker, clock, key, write)
            }
        }
    }

    /// Returns true if [`update_many`](Self::update_many) works for a table of this kind.
    pub(crate) fn updates_many(&self, versioned: bool) -> bool {
        match self {
            Self::Distributed(_) => true,
            Self::Local(local) => !versioned && !local.spec.sparse,
        }
    }

    /// Adds to many dense rows. `version` returns the version that an update was computed from.
    pub(crate) fn update_many(
        &self,
        worker: WorkerId,
        clock: Clock,
        by_shard: &KeysByShard,
        values: &[C::Compute],
        version: impl Fn(u64) -> u64,
    ) -> Result<()> {
        match self {
            Self::Distributed(runtime) => runtime.update_many(worker, by_shard, values, version),
            Self::Local(local) => {
                check_active(&local.spec, worker, clock)?;
                local.update_many(worker, clock, by_shard, values)
            }
        }
    }

    /// Signals that rows will be used. In place, all rows are here already.
    pub(crate) fn intend(&self, worker: WorkerId, by_shard: &KeysByShard, from: Clock, to: Clock) -> Result<()> {
        self.runtime().map_or(Ok(()), |runtime| runtime.intend(worker, by_shard, from, to))
    }

    /// State of the table's clocks here, for the error at a deadline.
    pub(crate) fn details(&self) -> String {
        self.runtime().map_or_else(String::new, TableRuntime::details)
    }

    /// Number of rows leased to this peer.
    pub(crate) fn leased_rows(&self) -> usize {
        let clients = self.runtime().into_iter().flat_map(|runtime| &runtime.clients);
        clients.map(|client| client.write().leases()).sum()
    }

    /// Number of updates of this peer that were dropped because they were not finite.
    pub(crate) fn dropped(&self) -> u64 {
        match self {
            Self::Distributed(runtime) => runtime.clients.iter().map(|client| client.write().dropped()).sum(),
            Self::Local(local) => local.servers.iter().map(|server| server.lock().dropped()).sum(),
        }
    }

    /// Eager and urgent bytes that this peer has sent.
    pub(crate) fn eager_and_urgent_bytes(&self) -> (u64, u64) {
        let limiters = self.runtime().and_then(|runtime| runtime.limiters.as_ref());
        limiters.map_or((0, 0), |limiters| limiters.lock().bytes())
    }

    /// Finishes the remaining workers when the handle of the table is dropped; nothing may block.
    pub(crate) fn finish_remaining(&self, workers: impl Iterator<Item = WorkerId>) {
        let Some(runtime) = self.runtime() else { return };
        for worker in workers.filter(|worker| runtime.clock_of(*worker) != Clock::INFINITE) {
            if runtime.advance(Blocking::LocksOnly, worker, true).is_err() {
                // The job fails; the other peers learn it from the loss of this one.
                break;
            }
        }
    }

    /// Tells the services that the handle of the table is dropped.
    pub(crate) fn drop_handle(&self) {
        let Some(runtime) = self.runtime() else { return };
        runtime.handle_dropped.store(true, Ordering::Release);
        if let Some(endpoint) = &runtime.endpoint {
            endpoint::wake_receiver(endpoint.peer_handle(), endpoint.channel());
        }
    }
}

/// Returns an error if the worker has finished.
fn check_active(spec: &TableSpec, worker: WorkerId, clock: Clock) -> Result<()> {
    if clock == Clock::INFINITE {
        return Err(table_error(Error::Finished { table: spec.name.clone(), worker }));
    }
    Ok(())
}

/// Views cells in the compute type, through `compute_row` where the storage type differs.
fn to_compute_cells<'a, C: StorageType>(
    cells: &RowCells<'a, C>,
    compute_row: &'a mut Vec<C::Compute>,
) -> RowCells<'a, C::Compute> {
    let values = if let Some(values) = C::as_compute(cells.values()) {
        values
    } else {
        compute_row.clear();
        compute_row.extend(cells.values().iter().map(|cell| cell.to_compute()));
        &compute_row[..]
    };
    match *cells {
        RowCells::Dense(_) => RowCells::Dense(values),
        RowCells::Sparse { columns, .. } => RowCells::Sparse { columns, values },
    }
}
