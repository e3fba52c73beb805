//! Tables in parallel loops: implementation of the traits of [`hemiola_tables_proto::in_loop`].

use crate::table::Table;
use crate::worker::TableWorker;
use hemiola_cluster::Result;
use hemiola_core::WorkerId;
use hemiola_tables_proto::dtype::StorageType;
use hemiola_tables_proto::in_loop::{LoopHandle, LoopTable, TableInLoop};
use hemiola_tables_proto::{Clock, Consistency, KeySpace};
use std::ops::Index;
use std::sync::atomic::Ordering;

impl<C: StorageType> Table<C> {
    /// The table for the body of a `parallel_for!`, where `w[key]` is a row and `w.add(key,
    /// &values)` adds to it. The loop predicts which rows a block reads, announces those of the
    /// next block while one runs, and ends the clocks of all workers.
    #[must_use]
    pub fn in_loop(&self) -> TableInLoop<'_, Self> {
        TableInLoop::new(self)
    }
}

/// Index of a table. No type implements it: rows are read through handles and in loops. It exists for
/// the message of the compiler.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a table has no rows to index here; a loop reads them through `in_loop()`",
    label = "this is a table, not a table in a loop",
    note = "before the loop: `let w = table.in_loop();`, in the body: `w[key]` and `w.add(key, &values)`",
    note = "outside of a loop, the handle of a worker reads a row: `table.each_worker(|worker| worker.read(key))`"
)]
pub trait TableIndex {}

impl<C: StorageType, I: TableIndex> Index<I> for Table<C> {
    type Output = [C::Compute];

    fn index(&self, _: I) -> &[C::Compute] {
        unreachable!("no type is an index of a table")
    }
}

impl<C: StorageType> LoopTable for Table<C> {
    type Value = C::Compute;
    type Error = hemiola_cluster::Error;
    type Handle<'t> = TableWorker<'t, C>;

    fn width(&self) -> usize {
        self.spec().width
    }

    fn row_count(&self) -> Option<u64> {
        match self.spec().key_space {
            KeySpace::Fixed(rows) => Some(rows),
            KeySpace::Growing => None,
        }
    }

    fn consistency(&self) -> Consistency {
        self.spec().consistency
    }

    fn takes_advice(&self) -> bool {
        // Relaxed: nothing is published through the flag.
        !self.advised.swap(true, Ordering::Relaxed)
    }

    fn handle(&self, worker: WorkerId) -> Result<TableWorker<'_, C>> {
        TableWorker::new(self, worker)
    }
}

impl<C: StorageType> LoopHandle for TableWorker<'_, C> {
    type Value = C::Compute;
    type Error = hemiola_cluster::Error;

    fn current_clock(&self) -> Clock {
        TableWorker::current_clock(self)
    }

    fn copy(&mut self, keys: &[u64], cells: &mut [C::Compute]) -> Result<()> {
        let width = cells.len().checked_div(keys.len()).unwrap_or(0);
        // A sparse row holds some columns only.
        cells.fill(C::Compute::default());
        self.get_many(keys, |position, row| {
            let copy = &mut cells[position * width..][..width];
            row.entries().for_each(|(column, value)| copy[column] = value);
        })
    }

    fn add(&mut self, key: u64, values: &[C::Compute]) -> Result<()> {
        self.inc(key, values)
    }

    fn announce(&mut self, keys: &[u64], from: Clock, to: Clock) -> Result<()> {
        self.intend(keys, from, to)
    }

    fn clock(&mut self) -> Result<()> {
        TableWorker::clock(self)
    }
}
