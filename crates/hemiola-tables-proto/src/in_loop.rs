//! Interface between tables and parallel loops.
//!
//! A loop drives a table through these traits alone, and a table runtime implements them, so
//! neither depends on the other. [`TableInLoop`] is a table together with its settings for a loop:
//! the clock interval and the announcement of rows.
//!
//! **Contract of a loop.** It requests one handle for each worker of each peer, uses it on that
//! worker, and ends the same number of clocks with every handle. This includes workers without work
//! and workers that failed, so no worker waits for a clock that never ends.

use crate::clock::Clock;
use hemiola_core::WorkerId;
use std::fmt;

/// Table that loop bodies can read and add to.
pub trait LoopTable: Sync {
    /// Element type of the rows.
    type Value: Copy + Default + Send + 'static;
    /// Error type of the table's operations.
    type Error: fmt::Display;
    /// Handle through which one worker uses the table.
    type Handle<'t>: LoopHandle<Value = Self::Value, Error = Self::Error>
    where
        Self: 't;

    /// Number of columns of a row.
    fn width(&self) -> usize;

    /// Number of rows; `None` if any 64-bit key is a row.
    fn row_count(&self) -> Option<u64>;

    /// Creates the handle of a worker. A worker has one handle at a time.
    fn handle(&self, worker: WorkerId) -> Result<Self::Handle<'_>, Self::Error>;
}

/// Operations of a loop on a table on behalf of one worker.
pub trait LoopHandle {
    /// Element type of the rows.
    type Value;
    /// Error type of the operations.
    type Error;

    /// Number of clocks that the worker has ended.
    fn current_clock(&self) -> Clock;

    /// Copies the rows `keys` into `cells`, one after the other. Blocks until all are cached and
    /// fresh enough.
    fn copy(&mut self, keys: &[u64], cells: &mut [Self::Value]) -> Result<(), Self::Error>;

    /// Adds values to a row.
    fn add(&mut self, key: u64, values: &[Self::Value]) -> Result<(), Self::Error>;

    /// Announces that rows will be used in the clocks `from..to`. Does not block.
    fn announce(&mut self, keys: &[u64], from: Clock, to: Clock) -> Result<(), Self::Error>;

    /// Ends the worker's clock. Does not wait for other workers.
    fn clock(&mut self) -> Result<(), Self::Error>;
}

/// Interval at which a loop ends the clocks of its workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockInterval {
    /// Once per run of the loop. The default.
    #[default]
    Run,
    /// After each step of the loop's plan, in which a worker runs one block of each of its parts.
    Step,
}

/// A table with its settings for one loop.
pub struct TableInLoop<'t, T> {
    table: &'t T,
    clocks: ClockInterval,
    announces: bool,
}

impl<'t, T: LoopTable> TableInLoop<'t, T> {
    /// Creates the default settings: rows are announced, and clocks end with each run of the loop.
    pub fn new(table: &'t T) -> Self {
        Self { table, clocks: ClockInterval::Run, announces: true }
    }

    /// Ends clocks after each block instead of each run, so other workers' updates are seen sooner.
    #[must_use]
    pub fn clock_each_block(self) -> Self {
        Self { clocks: ClockInterval::Step, ..self }
    }

    /// Disables announcements: rows are fetched when a block that reads them begins.
    #[must_use]
    pub fn without_announcements(self) -> Self {
        Self { announces: false, ..self }
    }

    /// The table that the loop uses.
    #[must_use]
    pub fn table(&self) -> &'t T {
        self.table
    }

    /// Interval at which clocks end.
    #[must_use]
    pub fn clocks(&self) -> ClockInterval {
        self.clocks
    }

    /// Returns true if rows are announced before their block begins.
    #[must_use]
    pub fn announces(&self) -> bool {
        self.announces
    }
}

impl<T> fmt::Debug for TableInLoop<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("TableInLoop");
        shown.field("clocks", &self.clocks).field("announces", &self.announces).finish_non_exhaustive()
    }
}
