//! Tables in the bodies of loops: how `hemiola-loops` drives them, by the traits of [`hemiola_tables_proto::in_loop`].

use crate::table::Table;
use crate::worker::TableWorker;
use hemiola_cluster::Result;
use hemiola_core::WorkerId;
use hemiola_tables_proto::in_loop::{InLoop, LoopHandle, LoopTable};
use hemiola_tables_proto::number::Cell;
use hemiola_tables_proto::{Clock, Ids};

impl<C: Cell> Table<C> {
    /// The table for the body of a `parallel_for!`, where `w[key]` is a row and `w.add(key, &values)` adds to it. The loop finds out which rows
    /// a block reads, announces those of the next block while one runs, and ends the clocks of all workers.
    #[must_use]
    pub fn in_loop(&self) -> InLoop<'_, Self> {
        InLoop::new(self)
    }
}

impl<C: Cell> LoopTable for Table<C> {
    type Value = C::Wide;
    type Error = hemiola_cluster::Error;
    type Handle<'t> = TableWorker<'t, C>;

    fn width(&self) -> usize {
        self.spec().width
    }

    fn row_count(&self) -> Option<u64> {
        match self.spec().ids {
            Ids::Fixed(rows) => Some(rows),
            Ids::Growing => None,
        }
    }

    fn handle(&self, worker: WorkerId) -> Result<TableWorker<'_, C>> {
        TableWorker::new(self, worker)
    }
}

impl<C: Cell> LoopHandle for TableWorker<'_, C> {
    type Value = C::Wide;
    type Error = hemiola_cluster::Error;

    fn at(&self) -> Clock {
        TableWorker::at(self)
    }

    fn copy(&mut self, keys: &[u64], cells: &mut [C::Wide]) -> Result<()> {
        let width = cells.len().checked_div(keys.len()).unwrap_or(0);
        // A sparse row holds some columns only.
        cells.fill(C::Wide::default());
        self.get_many(keys, |place, row| {
            let copy = &mut cells[place * width..][..width];
            row.entries().for_each(|(column, value)| copy[column] = value);
        })
    }

    fn add(&mut self, key: u64, values: &[C::Wide]) -> Result<()> {
        self.inc(key, values)
    }

    fn announce(&mut self, keys: &[u64], from: Clock, to: Clock) -> Result<()> {
        self.intend(keys, from, to)
    }

    fn clock(&mut self) -> Result<()> {
        TableWorker::clock(self)
    }
}
