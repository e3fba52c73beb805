//! Handle of a worker to a table.

use crate::backend::Caller;
use crate::error::{Error, TableFailure};
use crate::table::Table;
use hashbrown::HashMap;
use hemiola_cluster::Result;
use hemiola_core::WorkerId;
use hemiola_tables_proto::dtype::StorageType;
use hemiola_tables_proto::server::rows::RowWrite;
use hemiola_tables_proto::{Clock, RowCells};
use rustc_hash::FxBuildHasher;
use std::fmt;
use std::ops::Deref;
use std::panic::Location;
use std::sync::atomic::Ordering;

/// Row while it is read. It derefs to a slice of its values; a sparse row, to those that are not
/// zero.
#[derive(Clone, Copy, Debug)]
pub struct TableRow<'a, W> {
    cells: RowCells<'a, W>,
    version: u64,
}

impl<'a, W: Copy> TableRow<'a, W> {
    /// Iterates over pairs of column and value.
    pub fn entries(&self) -> impl Iterator<Item = (usize, W)> + 'a {
        self.cells.iter()
    }

    /// Value of a column; `None` if a sparse row does not store it.
    #[must_use]
    pub fn column(&self, column: usize) -> Option<W> {
        self.cells.get(column)
    }

    /// Number of updates applied to the row, as far as this copy knows.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }
}

impl<W: Copy> Deref for TableRow<'_, W> {
    type Target = [W];

    fn deref(&self) -> &[W] {
        self.cells.values()
    }
}

/// Version and attachment of a row when it was read, for updates that are computed from it.
struct ReadVersion<W> {
    version: u64,
    attachment: Vec<W>,
}

/// Handle of one worker to a table.
///
/// A worker proceeds from clock to clock. In each clock it reads rows ([`get`](Self::get)), adds to
/// them ([`inc`](Self::inc)), and then ends the clock ([`clock`](Self::clock)). Reads block until
/// they are fresh enough; nothing else blocks, except for room in the network.
pub struct TableWorker<'t, C: StorageType> {
    table: &'t Table<C>,
    worker: WorkerId,
    clock: Clock,
    /// Rows read in this clock, if updates must name the version they were computed from.
    read_versions: HashMap<u64, ReadVersion<C::Compute>, FxBuildHasher>,
    /// Keys by shard, and their positions in the request.
    by_shard: Vec<(Vec<u64>, Vec<usize>)>,
    /// Scratch row in the compute type, where the storage type differs.
    compute_row: Vec<C::Compute>,
}

impl<'t, C: StorageType> TableWorker<'t, C> {
    pub(crate) fn new(table: &'t Table<C>, worker: WorkerId) -> Result<Self> {
        if table.in_use[worker.index()].swap(true, Ordering::AcqRel) {
            return Err(Error::InUse { table: table.name().to_owned(), worker }.into());
        }
        let clock = table.backend.clock_of(worker);
        let by_shard = vec![(Vec::new(), Vec::new()); table.spec().shards];
        let read_versions = HashMap::with_hasher(FxBuildHasher);
        Ok(Self { table, worker, clock, read_versions, by_shard, compute_row: Vec::new() })
    }

    /// Id of the worker.
    #[must_use]
    pub fn id(&self) -> WorkerId {
        self.worker
    }

    /// Number of clocks that the worker has ended.
    #[must_use]
    pub fn current_clock(&self) -> Clock {
        self.clock
    }

    /// Calls `read` with a row, without copying it. Blocks until the row is cached and fresh
    /// enough.
    ///
    /// The row is locked while `read` runs: it should do little, and must not use another table.
    #[track_caller]
    pub fn get<T>(&mut self, key: u64, read: impl FnOnce(TableRow<'_, C::Compute>) -> T) -> Result<T> {
        let site = Location::caller();
        let Self { table, worker, clock, read_versions, compute_row, .. } = self;
        let (versioned, caller) = (table.versioned, Caller { worker: *worker, clock: *clock, site });
        table.backend.get(caller, key, compute_row, |row| {
            if versioned {
                read_versions.insert(key, ReadVersion { version: row.version, attachment: row.attachment.to_vec() });
            }
            read(TableRow { cells: row.cells, version: row.version })
        })
    }

    /// Copies the values of a row into a vector; of a sparse row, those that are not zero.
    #[track_caller]
    pub fn read(&mut self, key: u64) -> Result<Vec<C::Compute>> {
        self.get(key, |row| row.to_vec())
    }

    /// Calls `read` with each row and its position in `keys`, in any order. Missing rows are
    /// fetched together.
    #[track_caller]
    pub fn get_many(&mut self, keys: &[u64], mut read: impl FnMut(usize, TableRow<'_, C::Compute>)) -> Result<()> {
        let site = Location::caller();
        let table = self.table;
        if let Some(runtime) = table.backend.runtime() {
            self.group_by_shard(keys);
            let Self { worker, read_versions, by_shard, .. } = self;
            let versioned = table.versioned;
            return runtime.get_many(*worker, by_shard, site, |position, key, reading| {
                if versioned {
                    read_versions.insert(key, ReadVersion { version: reading.version, attachment: Vec::new() });
                }
                read(position, TableRow { cells: reading.cells, version: reading.version });
            });
        }
        for (position, key) in keys.iter().enumerate() {
            self.get(*key, |row| read(position, row))?;
        }
        Ok(())
    }

    /// Adds to a dense row. The table's update rule defines the effect.
    #[track_caller]
    pub fn inc(&mut self, key: u64, values: &[C::Compute]) -> Result<()> {
        self.inc_cells(key, &RowCells::Dense(values))
    }

    /// Adds to some columns of a row. The columns must ascend.
    #[track_caller]
    pub fn inc_columns(&mut self, key: u64, columns: &[u32], values: &[C::Compute]) -> Result<()> {
        self.inc_cells(key, &RowCells::Sparse { columns, values })
    }

    #[track_caller]
    fn inc_cells(&mut self, key: u64, cells: &RowCells<'_, C::Compute>) -> Result<()> {
        self.read_if_unread(key)?;
        let seen = self.read_versions.get(&key);
        let version = seen.map_or(0, |seen| seen.version);
        let attachment = seen.map_or(&[][..], |seen| &seen.attachment);
        let write = RowWrite { version, cells: *cells, attachment };
        self.table.backend.update(self.worker, self.clock, key, &write)
    }

    /// Adds to many dense rows: `values` holds the rows one after the other. If a row is rejected,
    /// rows before it may have been updated.
    #[track_caller]
    pub fn inc_many(&mut self, keys: &[u64], values: &[C::Compute]) -> Result<()> {
        let width = self.table.spec().width;
        if values.len() != keys.len() * width {
            let (table, row) = (self.table.name().to_owned(), keys.first().copied().unwrap_or(0));
            let (expected, found) = (keys.len() * width, values.len());
            return Err(crate::error::table_error(hemiola_tables_proto::Error::WrongWidth {
                table,
                row,
                expected,
                found,
            }));
        }
        for key in keys {
            self.read_if_unread(*key)?;
        }
        if !self.table.backend.updates_many(self.table.versioned) {
            let mut rows = keys.iter().zip(values.chunks(width));
            return rows.try_for_each(|(key, values)| self.inc(*key, values));
        }
        self.group_by_shard(keys);
        let seen = &self.read_versions;
        let version = |key: u64| seen.get(&key).map_or(0, |seen| seen.version);
        self.table.backend.update_many(self.worker, self.clock, &self.by_shard, values, version)
    }

    /// Reads a row that was not read in this clock, in tables whose update rule needs versions.
    #[track_caller]
    fn read_if_unread(&mut self, key: u64) -> Result<()> {
        if self.table.versioned && !self.read_versions.contains_key(&key) { self.get(key, |_| ()) } else { Ok(()) }
    }

    fn group_by_shard(&mut self, keys: &[u64]) {
        for (keys, positions) in &mut self.by_shard {
            keys.clear();
            positions.clear();
        }
        for (position, key) in keys.iter().enumerate() {
            let (keys, positions) = &mut self.by_shard[self.table.spec().shard_of(*key).index()];
            keys.push(*key);
            positions.push(position);
        }
    }

    /// Ends this worker's clock.
    pub fn clock(&mut self) -> Result<()> {
        self.table.backend.end_clock(self.worker, self.clock)?;
        self.read_versions.clear();
        self.clock = self.clock.next();
        Ok(())
    }

    /// Ends this worker's use of the table for good: it counts as infinitely far and holds no other
    /// worker back.
    pub fn finish(&mut self) -> Result<()> {
        self.table.backend.finish(self.worker)?;
        self.clock = Clock::INFINITE;
        Ok(())
    }

    /// Signals that workers of this peer will use rows in the clocks `from..to`, so that they are
    /// prefetched. It is advice: unused rows do no harm.
    pub fn intend(&mut self, keys: &[u64], from: Clock, to: Clock) -> Result<()> {
        self.group_by_shard(keys);
        self.table.backend.intend(self.worker, &self.by_shard, from, to)
    }
}

impl<C: StorageType> Drop for TableWorker<'_, C> {
    /// A panicking worker fails the table: others would wait for its clock in vain.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.table.fail(TableFailure::Stopped(format!("worker {} of this peer panicked", self.worker)));
        }
        self.table.in_use[self.worker.index()].store(false, Ordering::Release);
    }
}

impl<C: StorageType> fmt::Debug for TableWorker<'_, C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("TableWorker");
        shown
            .field("table", &self.table.name())
            .field("worker", &self.worker)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
