//! What a worker does with a table.

use crate::error::{Error, Failure};
use crate::post::Way;
use crate::table::{Engine, Table};
use hashbrown::HashMap;
use hemiola_cluster::Result;
use hemiola_core::WorkerId;
use hemiola_tables_proto::number::Cell;
use hemiola_tables_proto::server::rows::Write;
use hemiola_tables_proto::{Cells, Clock};
use rustc_hash::FxBuildHasher;
use std::fmt;
use std::ops::Deref;
use std::panic::Location;
use std::sync::atomic::Ordering;

/// A row, while it is read. It is a slice of its values: of a sparse row, of those that are not zero.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a, W> {
    cells: Cells<'a, W>,
    version: u64,
}

impl<'a, W: Copy> Row<'a, W> {
    /// Columns and values.
    pub fn entries(&self) -> impl Iterator<Item = (usize, W)> + 'a {
        self.cells.iter()
    }

    /// The value in a column; nothing if a sparse row has none there.
    #[must_use]
    pub fn at(&self, column: usize) -> Option<W> {
        self.cells.get(column)
    }

    /// How often the row was changed, as far as this copy knows.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }
}

impl<W: Copy> Deref for Row<'_, W> {
    type Target = [W];

    fn deref(&self) -> &[W] {
        self.cells.values()
    }
}

/// The state of a row when it was read, for updates that are computed from it.
struct Seen<W> {
    version: u64,
    carried: Vec<W>,
}

/// A table in the hands of one worker.
///
/// A worker goes from clock to clock. In each it reads rows ([`get`](Self::get)), adds to them ([`inc`](Self::inc)), and then says that it has
/// done ([`clock`](Self::clock)). Reads wait until they are fresh enough; nothing else waits, except for room in the network.
pub struct TableWorker<'t, C: Cell> {
    table: &'t Table<C>,
    worker: WorkerId,
    /// Its clock.
    at: Clock,
    /// What was read in this clock, if updates must say what they were computed from.
    seen: HashMap<u64, Seen<C::Wide>, FxBuildHasher>,
    /// Keys by shard, and their places among those given.
    by_shard: Vec<(Vec<u64>, Vec<usize>)>,
    /// A row as numbers, where cells are something else.
    wide: Vec<C::Wide>,
}

impl<'t, C: Cell> TableWorker<'t, C> {
    pub(crate) fn new(table: &'t Table<C>, worker: WorkerId) -> Result<Self> {
        if table.in_use[worker.index()].swap(true, Ordering::AcqRel) {
            return Err(Error::InUse { table: table.name().to_owned(), worker }.into());
        }
        let at = match &table.engine {
            Engine::Hub(hub) => hub.clock_of(worker),
            Engine::Place(place) => place.clock_of(worker),
        };
        let by_shard = vec![(Vec::new(), Vec::new()); table.spec().shards];
        let seen = HashMap::with_hasher(FxBuildHasher);
        Ok(Self { table, worker, at, seen, by_shard, wide: Vec::new() })
    }

    /// Which worker this is.
    #[must_use]
    pub fn id(&self) -> WorkerId {
        self.worker
    }

    /// How many clocks it has ended.
    #[must_use]
    pub fn at(&self) -> Clock {
        self.at
    }

    /// Calls `read` with a row, without copying it. Waits until the row is here and fresh enough.
    ///
    /// The row is locked while `read` runs: it should do little, and must not use another table.
    #[track_caller]
    pub fn get<T>(&mut self, key: u64, read: impl FnOnce(Row<'_, C::Wide>) -> T) -> Result<T> {
        let site = Location::caller();
        let Self { table, worker, at, seen, wide, .. } = self;
        let versioned = table.versioned;
        match &table.engine {
            Engine::Hub(hub) => hub.get(*worker, key, site, |reading| {
                if versioned {
                    seen.insert(key, Seen { version: reading.version, carried: Vec::new() });
                }
                read(Row { cells: reading.cells, version: reading.version })
            }),
            Engine::Place(place) => {
                self.table.must_go_on(*worker, *at)?;
                place.get(*worker, *at, key, site, |standing| {
                    if versioned {
                        seen.insert(key, Seen { version: standing.version, carried: standing.carried.to_vec() });
                    }
                    read(Row { cells: widened(&standing.cells, wide), version: standing.version })
                })
            }
        }
    }

    /// Copies a dense row, or the values of a sparse one, into a vector.
    #[track_caller]
    pub fn read(&mut self, key: u64) -> Result<Vec<C::Wide>> {
        self.get(key, |row| row.to_vec())
    }

    /// Calls `read` with each of many rows and its place among `keys`, in any order, and fetches those that are missing together.
    #[track_caller]
    pub fn get_many(&mut self, keys: &[u64], mut read: impl FnMut(usize, Row<'_, C::Wide>)) -> Result<()> {
        let site = Location::caller();
        if let Engine::Hub(hub) = &self.table.engine {
            self.deal(keys);
            let Self { worker, seen, by_shard, table, .. } = self;
            let versioned = table.versioned;
            return hub.get_many(*worker, by_shard, site, |place, key, reading| {
                if versioned {
                    seen.insert(key, Seen { version: reading.version, carried: Vec::new() });
                }
                read(place, Row { cells: reading.cells, version: reading.version });
            });
        }
        for (place, key) in keys.iter().enumerate() {
            self.get(*key, |row| read(place, row))?;
        }
        Ok(())
    }

    /// Adds to a dense row. What "adds" means is up to the table's procedure.
    #[track_caller]
    pub fn inc(&mut self, key: u64, values: &[C::Wide]) -> Result<()> {
        self.inc_cells(key, &Cells::Dense(values))
    }

    /// Adds to some columns of a row, which must ascend.
    #[track_caller]
    pub fn inc_columns(&mut self, key: u64, columns: &[u32], values: &[C::Wide]) -> Result<()> {
        self.inc_cells(key, &Cells::Sparse { columns, values })
    }

    #[track_caller]
    fn inc_cells(&mut self, key: u64, cells: &Cells<'_, C::Wide>) -> Result<()> {
        self.look_if_needed(key)?;
        let seen = self.seen.get(&key);
        let version = seen.map_or(0, |seen| seen.version);
        match &self.table.engine {
            Engine::Hub(hub) => hub.update(self.worker, key, cells, version),
            Engine::Place(place) => {
                self.table.must_go_on(self.worker, self.at)?;
                let carried = seen.map_or(&[][..], |seen| &seen.carried);
                place.update(self.worker, self.at, key, &Write { version, cells: *cells, carried })
            }
        }
    }

    /// Adds to many dense rows: `values` are those of the first row, then those of the second, and so on. Rows before one that is
    /// refused may have been added to.
    #[track_caller]
    pub fn inc_many(&mut self, keys: &[u64], values: &[C::Wide]) -> Result<()> {
        let width = self.table.spec().width;
        if values.len() != keys.len() * width {
            let (table, row) = (self.table.name().to_owned(), keys.first().copied().unwrap_or(0));
            let (expected, found) = (keys.len() * width, values.len());
            return Err(crate::error::refused(hemiola_tables_proto::Error::WrongWidth { table, row, expected, found }));
        }
        for key in keys {
            self.look_if_needed(*key)?;
        }
        match &self.table.engine {
            Engine::Hub(hub) => {
                self.deal(keys);
                let seen = &self.seen;
                let version = |key: u64| seen.get(&key).map_or(0, |seen| seen.version);
                hub.update_many(self.worker, &self.by_shard, values, version)
            }
            Engine::Place(_) if self.table.versioned || self.table.spec().sparse => {
                let mut rows = keys.iter().zip(values.chunks(width));
                rows.try_for_each(|(key, values)| self.inc(*key, values))
            }
            Engine::Place(place) => {
                self.table.must_go_on(self.worker, self.at)?;
                self.deal(keys);
                place.update_many(self.worker, self.at, &self.by_shard, values)
            }
        }
    }

    /// In a table whose procedure asks what an update was computed from: reads the row if it was not read in this clock.
    #[track_caller]
    fn look_if_needed(&mut self, key: u64) -> Result<()> {
        if self.table.versioned && !self.seen.contains_key(&key) { self.get(key, |_| ()) } else { Ok(()) }
    }

    fn deal(&mut self, keys: &[u64]) {
        for (keys, places) in &mut self.by_shard {
            keys.clear();
            places.clear();
        }
        for (place, key) in keys.iter().enumerate() {
            let (keys, places) = &mut self.by_shard[self.table.spec().shard_of(*key).index()];
            keys.push(*key);
            places.push(place);
        }
    }

    /// Ends this worker's clock.
    pub fn clock(&mut self) -> Result<()> {
        match &self.table.engine {
            Engine::Hub(hub) => hub.advance(Way::Patient, self.worker, false)?,
            Engine::Place(place) => {
                self.table.must_go_on(self.worker, self.at)?;
                place.advance(self.worker, self.at.next())?;
            }
        }
        self.seen.clear();
        self.at = self.at.next();
        Ok(())
    }

    /// Ends this worker's work with the table for good: it counts as infinitely far from now on, and holds nobody back.
    pub fn finish(&mut self) -> Result<()> {
        self.table.finish(self.worker, Way::Patient)?;
        self.at = Clock::INFINITE;
        Ok(())
    }

    /// Says that workers of this peer are going to use rows in the clocks `from..to`, so that they are fetched ahead of use. It is
    /// advice: nothing goes wrong if they do not.
    pub fn intend(&mut self, keys: &[u64], from: Clock, to: Clock) -> Result<()> {
        self.deal(keys);
        match &self.table.engine {
            Engine::Hub(hub) => hub.intend(self.worker, &self.by_shard, from, to),
            // Everything is here.
            Engine::Place(_) => Ok(()),
        }
    }
}

/// Cells as values; in `wide` where they are something else.
fn widened<'a, C: Cell>(cells: &Cells<'a, C>, wide: &'a mut Vec<C::Wide>) -> Cells<'a, C::Wide> {
    let values = if let Some(values) = C::as_wide(cells.values()) {
        values
    } else {
        wide.clear();
        wide.extend(cells.values().iter().map(|cell| cell.widen()));
        &wide[..]
    };
    match *cells {
        Cells::Dense(_) => Cells::Dense(values),
        Cells::Sparse { columns, .. } => Cells::Sparse { columns, values },
    }
}

impl<C: Cell> Drop for TableWorker<'_, C> {
    /// A worker that panics ends everything: others would wait for its clock in vain.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.table.fail(Failure::Stopped(format!("worker {} of this peer panicked", self.worker)));
        }
        self.table.in_use[self.worker.index()].store(false, Ordering::Release);
    }
}

impl<C: Cell> fmt::Debug for TableWorker<'_, C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("TableWorker");
        shown
            .field("table", &self.table.name())
            .field("worker", &self.worker)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}
