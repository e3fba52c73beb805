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
use crate::spec::Consistency;
use hemiola_core::WorkerId;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::num::NonZeroU64;

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

    /// Consistency model of the table.
    fn consistency(&self) -> Consistency;

    /// Returns true in the first call of a peer. A loop that has advice on the use of the table
    /// asks, so that it gives it once.
    fn takes_advice(&self) -> bool;

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClockInterval {
    /// Once per run of the loop. The default.
    #[default]
    Run,
    /// After each step of the loop's plan, in which a worker runs one block of each of its parts.
    Step,
    /// After this many iterations of a worker, and at the end of each of its blocks.
    Iterations(NonZeroU64),
}

impl ClockInterval {
    /// Returns true if a worker that has run `position` iterations of a block ends a clock. `last`
    /// tells that the block has no more iterations.
    #[must_use]
    pub fn ends_inside_step(self, position: u64, last: bool) -> bool {
        matches!(self, Self::Iterations(count) if last || position.is_multiple_of(count.get()))
    }

    /// Number of clocks that end while a worker runs a block of `iterations` iterations.
    #[must_use]
    pub fn clocks_in_block(self, iterations: u64) -> u64 {
        match self {
            Self::Iterations(count) => iterations.div_ceil(count.get()),
            Self::Run | Self::Step => 0,
        }
    }
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
    /// A 1D loop has one block for each worker, where [`every`](Self::every) is needed.
    #[must_use]
    pub fn clock_each_block(self) -> Self {
        Self { clocks: ClockInterval::Step, ..self }
    }

    /// Ends the clock of a worker after every `iterations` of its iterations, so that other peers
    /// see its updates sooner. Rows are read again after each clock.
    ///
    /// All workers end the same number of clocks in a step of the plan: the number of the worker
    /// with the most iterations. A worker with fewer ends the others when it has run its last
    /// iteration of the step, so nobody waits for it.
    ///
    /// # Panics
    /// If `iterations` is 0.
    #[must_use]
    pub fn every(self, iterations: u64) -> Self {
        let count = NonZeroU64::new(iterations).expect("a clock has at least one iteration");
        Self { clocks: ClockInterval::Iterations(count), ..self }
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
