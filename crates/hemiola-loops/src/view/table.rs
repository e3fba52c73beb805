//! View of a table of the parameter server.
//!
//! `view[key]` is a row and `view[[key, column]]` a cell of it. A row is a copy. All predicted rows
//! are copied in bulk at the start of a block or chunk; other rows are copied when they are read.
//! Copies are kept until the block or chunk ends. `add` goes to the table at once, and refreshes the copy of the row.
//!
//! **Invariant:** a copy is the last value that the worker's handle has read. So a body sees the
//! values of a program that reads the table once per block and after each of its own additions
//! (read-your-writes).

use crate::run::clock_schedule::ClockSchedule;
use hashbrown::HashMap;
use hemiola_core::WorkerId;
use hemiola_tables_proto::Clock;
use hemiola_tables_proto::in_loop::{LoopHandle, LoopTable, TableInLoop};
use rustc_hash::FxBuildHasher;
use std::cell::{OnceCell, RefCell};
use std::fmt;
use std::ops::Index;
use std::sync::Arc;

/// Number of hash buckets for rows that were not prefetched, selected by the last bits of the key.
const BUCKETS: usize = 256;

/// End of a chunk of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkEnd {
    /// Number of entries of the block that have run.
    pub(crate) position: u64,
    /// The block has no more entries.
    pub(crate) last: bool,
}

/// Distance of an announced block or chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookahead {
    /// It runs in the same step, after a chunk with this end.
    SameStep(ChunkEnd),
    /// It runs in another step.
    Step {
        /// Passes from now: 0, or 1 for the first block of the next pass.
        passes: u64,
        /// Step of its pass.
        step: usize,
    },
}

/// A worker's view of a table.
pub struct TableView<'a, T: LoopTable + 'a> {
    name: &'static str,
    width: usize,
    clocks: Arc<ClockSchedule>,
    announces: bool,
    /// Handle of the worker, or the reason why it has none.
    handle: Result<RefCell<T::Handle<'a>>, String>,
    /// Start of each row's copy in `cells`, by key.
    offsets: HashMap<u64, usize, FxBuildHasher>,
    cells: Vec<T::Value>,
    on_demand: OnDemandRows<T::Value>,
    /// Number of clocks advanced in this pass.
    clocks_ended: u64,
}

impl<'a, T: LoopTable> TableView<'a, T> {
    pub(crate) fn new(
        name: &'static str,
        table: &'a TableInLoop<'_, T>,
        clocks: Arc<ClockSchedule>,
        worker: WorkerId,
    ) -> Self {
        Self {
            name,
            width: table.table().width(),
            clocks,
            announces: table.announces(),
            handle: table.table().handle(worker).map(RefCell::new).map_err(|error| error.to_string()),
            offsets: HashMap::with_hasher(FxBuildHasher),
            cells: Vec::new(),
            on_demand: OnDemandRows::default(),
            clocks_ended: 0,
        }
    }

    /// Returns the view itself. Generated code calls it for every captured name.
    #[doc(hidden)]
    #[inline]
    pub fn resolve(&mut self) -> &mut Self {
        self
    }

    /// Adds to all columns of a row. The update rule of the table decides how.
    ///
    /// # Panics
    /// If the table rejects the update; the loop ends with its message.
    pub fn add(&mut self, key: usize, values: &[T::Value]) {
        let key = key as u64;
        let width = self.width;
        let copy = match self.offsets.get(&key) {
            Some(start) => Some(&mut self.cells[*start..][..width]),
            None => self.on_demand.find_mut(key),
        };
        let handle = self.handle.as_mut().map(RefCell::get_mut);
        let added = handle.map_err(|problem| problem.clone()).and_then(|handle| {
            let copied = |handle: &mut T::Handle<'a>| copy.map_or(Ok(()), |copy| handle.copy(&[key], copy));
            handle.add(key, values).and_then(|()| copied(handle)).map_err(|error| error.to_string())
        });
        if let Err(problem) = added {
            abort_block(format!("cannot add to row {key} of table `{}`: {problem}", self.name));
        }
    }

    /// Copy of a row.
    #[inline]
    fn row(&self, key: usize) -> &[T::Value] {
        match self.offsets.get(&(key as u64)) {
            Some(start) => &self.cells[*start..][..self.width],
            None => self.on_demand.find_or_add(key as u64, || self.read(key as u64)),
        }
    }

    #[cold]
    fn read(&self, key: u64) -> Box<[T::Value]> {
        let mut cells = vec![T::Value::default(); self.width];
        let handle = self.handle.as_ref().map_err(Clone::clone);
        let read =
            handle.and_then(|handle| handle.borrow_mut().copy(&[key], &mut cells).map_err(|error| error.to_string()));
        if let Err(problem) = read {
            abort_block(format!("cannot read row {key} of table `{}`: {problem}", self.name));
        }
        cells.into()
    }

    /// Copies the given rows and drops all others.
    pub(crate) fn fetch(&mut self, keys: &[u64]) -> Result<(), TableViewError<T::Error>> {
        self.offsets.clear();
        self.on_demand = OnDemandRows::default();
        self.cells.clear();
        self.cells.resize(keys.len() * self.width, T::Value::default());
        self.offsets.extend(keys.iter().enumerate().map(|(slot, key)| (*key, slot * self.width)));
        let handle = self.handle.as_mut().map_err(|problem| TableViewError::NoHandle(problem.clone()))?;
        handle.get_mut().copy(keys, &mut self.cells).map_err(TableViewError::Table)
    }

    /// Announces rows that will be used.
    pub(crate) fn announce(&mut self, keys: &[u64], ahead: Lookahead) -> Result<(), TableViewError<T::Error>> {
        if !self.announces || keys.is_empty() {
            return Ok(());
        }
        let handle = self.handle.as_mut().map_err(|problem| TableViewError::NoHandle(problem.clone()))?.get_mut();
        let clocks = match ahead {
            Lookahead::SameStep(ChunkEnd { position, last }) => {
                u64::from(self.clocks.interval().ends_inside_step(position, last))
            }
            Lookahead::Step { passes, step } => {
                (passes * self.clocks.total() + self.clocks.before(step)).saturating_sub(self.clocks_ended)
            }
        };
        let from = Clock::new(handle.current_clock().units() + clocks);
        handle.announce(keys, from, from.next()).map_err(TableViewError::Table)
    }

    /// Ends a chunk: advances the clock, if it has run enough iterations.
    pub(crate) fn end_chunk(&mut self, end: ChunkEnd) -> Result<(), TableViewError<T::Error>> {
        if self.clocks.interval().ends_inside_step(end.position, end.last) { self.end_clock() } else { Ok(()) }
    }

    /// Ends a step: advances its clocks that have not been advanced.
    pub(crate) fn end_step(&mut self, step: usize) -> Result<(), TableViewError<T::Error>> {
        self.advance_to(self.clocks.after(step))
    }

    /// Ends a pass: advances the clocks that have not been advanced, also after a failure.
    pub(crate) fn end_pass(&mut self) -> Result<(), TableViewError<T::Error>> {
        self.advance_to(self.clocks.total())
    }

    fn advance_to(&mut self, due: u64) -> Result<(), TableViewError<T::Error>> {
        while self.clocks_ended < due {
            self.end_clock()?;
        }
        Ok(())
    }

    fn end_clock(&mut self) -> Result<(), TableViewError<T::Error>> {
        let handle = self.handle.as_mut().map_err(|problem| TableViewError::NoHandle(problem.clone()))?.get_mut();
        handle.clock().map_err(TableViewError::Table)?;
        self.clocks_ended += 1;
        Ok(())
    }
}

/// Error of a table view.
pub(crate) enum TableViewError<E> {
    /// The worker has no handle of the table.
    NoHandle(String),
    /// The table returned an error.
    Table(E),
}

/// Ends the block without a backtrace: the loop reports the message.
fn abort_block(message: String) -> ! {
    std::panic::resume_unwind(Box::new(message))
}

impl<T: LoopTable> Index<usize> for TableView<'_, T> {
    type Output = [T::Value];
    #[inline]
    fn index(&self, key: usize) -> &[T::Value] {
        self.row(key)
    }
}

impl<T: LoopTable> Index<[usize; 2]> for TableView<'_, T> {
    type Output = T::Value;
    #[inline]
    fn index(&self, [key, column]: [usize; 2]) -> &T::Value {
        &self.row(key)[column]
    }
}

impl<T: LoopTable> fmt::Debug for TableView<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "view of table `{}` with {} rows", self.name, self.offsets.len())
    }
}

/// Copies that are added while others are borrowed: linked lists that only grow, so that no copy
/// moves.
struct OnDemandRows<V> {
    buckets: Vec<OnceCell<Box<RowNode<V>>>>,
}

struct RowNode<V> {
    key: u64,
    cells: Box<[V]>,
    next: OnceCell<Box<RowNode<V>>>,
}

impl<V> Default for OnDemandRows<V> {
    fn default() -> Self {
        Self { buckets: (0..BUCKETS).map(|_| OnceCell::new()).collect() }
    }
}

impl<V> OnDemandRows<V> {
    fn find_or_add(&self, key: u64, read: impl FnOnce() -> Box<[V]>) -> &[V] {
        let mut at = &self.buckets[key as usize % BUCKETS];
        while let Some(node) = at.get() {
            if node.key == key {
                return &node.cells;
            }
            at = &node.next;
        }
        &at.get_or_init(|| Box::new(RowNode { key, cells: read(), next: OnceCell::new() })).cells
    }

    fn find_mut(&mut self, key: u64) -> Option<&mut [V]> {
        let mut at = self.buckets[key as usize % BUCKETS].get_mut();
        while let Some(node) = at {
            if node.key == key {
                return Some(&mut node.cells);
            }
            at = node.next.get_mut();
        }
        None
    }
}

impl<V> Drop for OnDemandRows<V> {
    /// Drops the nodes iteratively: a long list must not cause deep recursion.
    fn drop(&mut self) {
        for bucket in &mut self.buckets {
            let mut next = bucket.take();
            while let Some(mut node) = next {
                next = node.next.take();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_added_on_demand_do_not_move_and_can_be_changed() {
        let mut rows = OnDemandRows::default();
        let read = |value: u64| move || vec![value; 2].into_boxed_slice();
        let first = rows.find_or_add(7, read(70));
        let others: Vec<&[u64]> = (0..2000).map(|key| rows.find_or_add(key, read(key))).collect();
        assert_eq!(first, [70, 70]);
        assert_eq!((others[7], others[7 + BUCKETS]), (&[70, 70][..], &[263, 263][..]));
        rows.find_mut(263).unwrap()[1] = 5;
        assert_eq!(rows.find_or_add(263, || unreachable!()), [263, 5]);
        assert!(rows.find_mut(5000).is_none());
    }

    #[test]
    fn a_million_rows_of_one_bucket_are_dropped_without_recursion() {
        let mut rows = OnDemandRows::default();
        let mut first = RowNode { key: 0, cells: vec![0_u8].into(), next: OnceCell::new() };
        for key in 1..1_000_000 {
            let next = OnceCell::from(Box::new(first));
            first = RowNode { key, cells: vec![0].into(), next };
        }
        rows.buckets[0] = OnceCell::from(Box::new(first));
        drop(rows);
    }
}
