//! Where tables and loops meet.
//!
//! A loop drives a table of parameters through these traits alone, and whoever has tables implements them; so neither knows the
//! other. [`InLoop`] is a table together with what the loop is to do for it: when clocks end, and whether rows are announced.
//!
//! **What a loop promises.** It asks for one handle for each worker of each peer, uses it on that worker, and ends as many clocks with
//! every handle: those of workers that have nothing to do, or that have failed, included. So nobody waits for a clock that never comes.

use crate::clock::Clock;
use hemiola_core::WorkerId;
use std::fmt;

/// A table that the bodies of loops can read and add to.
pub trait LoopTable: Sync {
    /// What rows are made of.
    type Value: Copy + Default + Send + 'static;
    /// What can go wrong.
    type Error: fmt::Display;
    /// The table in the hands of a worker.
    type Handle<'t>: LoopHandle<Value = Self::Value, Error = Self::Error>
    where
        Self: 't;

    /// Columns of a row.
    fn width(&self) -> usize;

    /// Keys are below this; nothing if any key is a row.
    fn row_count(&self) -> Option<u64>;

    /// The table in the hands of a worker, who has one handle at a time.
    fn handle(&self, worker: WorkerId) -> Result<Self::Handle<'_>, Self::Error>;
}

/// What a loop does with a table on behalf of a worker.
pub trait LoopHandle {
    /// What rows are made of.
    type Value;
    /// What can go wrong.
    type Error;

    /// How many clocks the worker has ended.
    fn at(&self) -> Clock;

    /// Copies rows into `cells`, one after the other, which are as many as those of `keys`. Waits until all are here and fresh enough.
    fn copy(&mut self, keys: &[u64], cells: &mut [Self::Value]) -> Result<(), Self::Error>;

    /// Adds to a row.
    fn add(&mut self, key: u64, values: &[Self::Value]) -> Result<(), Self::Error>;

    /// Says which rows will be used in the clocks `from..to`. Does not wait.
    fn announce(&mut self, keys: &[u64], from: Clock, to: Clock) -> Result<(), Self::Error>;

    /// Ends the worker's clock. Does not wait for others.
    fn clock(&mut self) -> Result<(), Self::Error>;
}

/// When a loop ends the clocks of its workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockEnds {
    /// When the loop has run once.
    #[default]
    Pass,
    /// After each step of the plan, in which a worker runs one block for each of its parts.
    Step,
}

/// A table as a loop uses it.
pub struct InLoop<'t, T> {
    table: &'t T,
    clocks: ClockEnds,
    announces: bool,
}

impl<'t, T: LoopTable> InLoop<'t, T> {
    /// A table whose rows are announced, and whose clocks end with each pass.
    pub fn new(table: &'t T) -> Self {
        Self { table, clocks: ClockEnds::Pass, announces: true }
    }

    /// Ends clocks after each block rather than each pass, so that what others have added is seen sooner.
    #[must_use]
    pub fn clock_each_block(self) -> Self {
        Self { clocks: ClockEnds::Step, ..self }
    }

    /// Announces nothing: rows are fetched when a block begins that reads them.
    #[must_use]
    pub fn unannounced(self) -> Self {
        Self { announces: false, ..self }
    }

    /// The table.
    #[must_use]
    pub fn table(&self) -> &'t T {
        self.table
    }

    /// When clocks end.
    #[must_use]
    pub fn clocks(&self) -> ClockEnds {
        self.clocks
    }

    /// Whether rows are announced.
    #[must_use]
    pub fn announces(&self) -> bool {
        self.announces
    }
}

impl<T> fmt::Debug for InLoop<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("InLoop");
        shown.field("clocks", &self.clocks).field("announces", &self.announces).finish_non_exhaustive()
    }
}
