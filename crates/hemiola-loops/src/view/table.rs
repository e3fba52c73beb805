//! A table as the body of a loop sees it.
//!
//! `view[key]` is a row and `view[[key, column]]` a cell of it. A row is a copy: taken together with all others that were foreseen when a
//! block begins, or alone when a row is read that nobody foresaw; kept until the block ends. `add` goes to the table at once, and takes the
//! row's copy anew. **Invariant:** a copy is what the worker's handle has read last, so a body sees what it would see if it read the table by
//! hand once a block and after each of its additions.

use hashbrown::HashMap;
use hemiola_core::WorkerId;
use hemiola_tables_proto::Clock;
use hemiola_tables_proto::in_loop::{ClockEnds, InLoop, LoopHandle, LoopTable};
use rustc_hash::FxBuildHasher;
use std::cell::{OnceCell, RefCell};
use std::fmt;
use std::ops::Index;

/// Copies that nobody foresaw are found by the last bits of their keys.
const BUCKETS: usize = 256;

/// How far away the block is that is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// Steps from now.
    pub(crate) steps: u64,
    /// Passes from now: 0, or 1 if it is the first block of the next.
    pub(crate) passes: u64,
}

/// A worker's view of a table.
pub struct TableView<'a, T: LoopTable + 'a> {
    name: &'static str,
    width: usize,
    clocks: ClockEnds,
    announces: bool,
    /// What the worker reads and adds with; or why it has none.
    handle: Result<RefCell<T::Handle<'a>>, String>,
    /// By key: where its copy begins among `cells`.
    places: HashMap<u64, usize, FxBuildHasher>,
    cells: Vec<T::Value>,
    late: Late<T::Value>,
    /// Clocks ended in this pass.
    ended: u64,
}

impl<'a, T: LoopTable> TableView<'a, T> {
    pub(crate) fn new(name: &'static str, table: &'a InLoop<'_, T>, worker: WorkerId) -> Self {
        Self {
            name,
            width: table.table().width(),
            clocks: table.clocks(),
            announces: table.announces(),
            handle: table.table().handle(worker).map(RefCell::new).map_err(|error| error.to_string()),
            places: HashMap::with_hasher(FxBuildHasher),
            cells: Vec::new(),
            late: Late::default(),
            ended: 0,
        }
    }

    /// The view itself: how generated code gets at what a name stands for.
    #[doc(hidden)]
    #[inline]
    pub fn place(&mut self) -> &mut Self {
        self
    }

    /// Adds to a row, all columns of it. What "adds" means is up to the table's procedure.
    ///
    /// # Panics
    /// If the table refuses it; the loop ends with what it says.
    pub fn add(&mut self, key: usize, values: &[T::Value]) {
        let key = key as u64;
        let width = self.width;
        let copy = match self.places.get(&key) {
            Some(start) => Some(&mut self.cells[*start..][..width]),
            None => self.late.find_mut(key),
        };
        let handle = self.handle.as_mut().map(RefCell::get_mut);
        let added = handle.map_err(|problem| problem.clone()).and_then(|handle| {
            let copied = |handle: &mut T::Handle<'a>| copy.map_or(Ok(()), |copy| handle.copy(&[key], copy));
            handle.add(key, values).and_then(|()| copied(handle)).map_err(|error| error.to_string())
        });
        if let Err(problem) = added {
            end(format!("cannot add to row {key} of table `{}`: {problem}", self.name));
        }
    }

    /// The copy of a row.
    #[inline]
    fn row(&self, key: usize) -> &[T::Value] {
        match self.places.get(&(key as u64)) {
            Some(start) => &self.cells[*start..][..self.width],
            None => self.late.find_or_add(key as u64, || self.read(key as u64)),
        }
    }

    #[cold]
    fn read(&self, key: u64) -> Box<[T::Value]> {
        let mut cells = vec![T::Value::default(); self.width];
        let handle = self.handle.as_ref().map_err(Clone::clone);
        let read =
            handle.and_then(|handle| handle.borrow_mut().copy(&[key], &mut cells).map_err(|error| error.to_string()));
        if let Err(problem) = read {
            end(format!("cannot read row {key} of table `{}`: {problem}", self.name));
        }
        cells.into()
    }

    /// Takes copies of rows, and forgets all others.
    pub(crate) fn fetch(&mut self, keys: &[u64]) -> Result<(), Problem<T::Error>> {
        self.places.clear();
        self.late = Late::default();
        self.cells.clear();
        self.cells.resize(keys.len() * self.width, T::Value::default());
        self.places.extend(keys.iter().enumerate().map(|(place, key)| (*key, place * self.width)));
        let handle = self.handle.as_mut().map_err(|problem| Problem::NoHandle(problem.clone()))?;
        handle.get_mut().copy(keys, &mut self.cells).map_err(Problem::Table)
    }

    /// Says that rows will be used.
    pub(crate) fn announce(&mut self, keys: &[u64], ahead: Ahead) -> Result<(), Problem<T::Error>> {
        if !self.announces || keys.is_empty() {
            return Ok(());
        }
        let handle = self.handle.as_mut().map_err(|problem| Problem::NoHandle(problem.clone()))?.get_mut();
        let clocks = match self.clocks {
            ClockEnds::Pass => ahead.passes,
            ClockEnds::Step => ahead.steps,
        };
        let from = Clock::new(handle.at().units() + clocks);
        handle.announce(keys, from, from.next()).map_err(Problem::Table)
    }

    /// A step is over.
    pub(crate) fn end_step(&mut self) -> Result<(), Problem<T::Error>> {
        match self.clocks {
            ClockEnds::Pass => Ok(()),
            ClockEnds::Step => self.end_clock(),
        }
    }

    /// The pass is over, as far as it went: ends the clocks that it has not come to.
    pub(crate) fn end_pass(&mut self, steps: u64) -> Result<(), Problem<T::Error>> {
        let due = match self.clocks {
            ClockEnds::Pass => 1,
            ClockEnds::Step => steps,
        };
        while self.ended < due {
            self.end_clock()?;
        }
        Ok(())
    }

    fn end_clock(&mut self) -> Result<(), Problem<T::Error>> {
        let handle = self.handle.as_mut().map_err(|problem| Problem::NoHandle(problem.clone()))?.get_mut();
        handle.clock().map_err(Problem::Table)?;
        self.ended += 1;
        Ok(())
    }
}

/// Why a worker cannot go on with a table.
pub(crate) enum Problem<E> {
    /// It was given none.
    NoHandle(String),
    /// The table says why.
    Table(E),
}

/// Ends the block: not a bug that needs a trace, the loop reports it.
fn end(message: String) -> ! {
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
        write!(formatter, "view of table `{}` with {} rows", self.name, self.places.len())
    }
}

/// Copies that are added while others are borrowed: lists that only grow, so that none moves.
struct Late<V> {
    buckets: Vec<OnceCell<Box<Node<V>>>>,
}

struct Node<V> {
    key: u64,
    cells: Box<[V]>,
    next: OnceCell<Box<Node<V>>>,
}

impl<V> Default for Late<V> {
    fn default() -> Self {
        Self { buckets: (0..BUCKETS).map(|_| OnceCell::new()).collect() }
    }
}

impl<V> Late<V> {
    fn find_or_add(&self, key: u64, read: impl FnOnce() -> Box<[V]>) -> &[V] {
        let mut at = &self.buckets[key as usize % BUCKETS];
        while let Some(node) = at.get() {
            if node.key == key {
                return &node.cells;
            }
            at = &node.next;
        }
        &at.get_or_init(|| Box::new(Node { key, cells: read(), next: OnceCell::new() })).cells
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

impl<V> Drop for Late<V> {
    /// One after the other: a long list must not end in deep recursion.
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
    fn copies_that_come_late_stay_where_they_are_and_can_be_changed() {
        let mut late = Late::default();
        let read = |value: u64| move || vec![value; 2].into_boxed_slice();
        let first = late.find_or_add(7, read(70));
        let others: Vec<&[u64]> = (0..2000).map(|key| late.find_or_add(key, read(key))).collect();
        assert_eq!(first, [70, 70]);
        assert_eq!((others[7], others[7 + BUCKETS]), (&[70, 70][..], &[263, 263][..]));
        late.find_mut(263).unwrap()[1] = 5;
        assert_eq!(late.find_or_add(263, || unreachable!()), [263, 5]);
        assert!(late.find_mut(5000).is_none());
    }

    #[test]
    fn a_million_late_copies_of_one_bucket_are_dropped_without_recursion() {
        let mut late = Late::default();
        let mut first = Node { key: 0, cells: vec![0_u8].into(), next: OnceCell::new() };
        for key in 1..1_000_000 {
            let next = OnceCell::from(Box::new(first));
            first = Node { key, cells: vec![0].into(), next };
        }
        late.buckets[0] = OnceCell::from(Box::new(first));
        drop(late);
    }
}
