//! View of an accumulator: the cell of one worker.

use hemiola_array::{Accumulator, Element};
use hemiola_core::WorkerId;
use std::fmt;
use std::ops::AddAssign;

/// Target of `+=` and `add` on an accumulator while a loop runs. Merged into the accumulator when
/// the worker ends.
pub struct AccumulatorView<'a, T: Element, C: Fn(T, T) -> T + Sync> {
    accumulator: &'a Accumulator<T, C>,
    worker: WorkerId,
    /// Taken from the accumulator; `None` only inside `add`.
    cell: Option<T>,
}

impl<'a, T: Element, C: Fn(T, T) -> T + Sync> AccumulatorView<'a, T, C> {
    pub(crate) fn new(accumulator: &'a Accumulator<T, C>, worker: WorkerId) -> Self {
        Self { accumulator, worker, cell: Some(accumulator.take_cell(worker)) }
    }

    /// Combines a value into the accumulator.
    #[inline]
    pub fn add(&mut self, value: T) {
        self.cell = self.cell.take().map(|before| self.accumulator.combine(before, value));
    }

    /// Returns the view itself. Generated code calls it for every captured name.
    #[doc(hidden)]
    #[inline]
    pub fn resolve(&mut self) -> &mut Self {
        self
    }
}

impl<T: Element, C: Fn(T, T) -> T + Sync> AddAssign<T> for AccumulatorView<'_, T, C> {
    #[inline]
    fn add_assign(&mut self, value: T) {
        self.add(value);
    }
}

impl<T: Element, C: Fn(T, T) -> T + Sync> Drop for AccumulatorView<'_, T, C> {
    fn drop(&mut self) {
        if let Some(cell) = self.cell.take() {
            // Added instead of stored: if the loop captures the accumulator under two names, the
            // other view may have returned its cell already.
            self.accumulator.add(self.worker, cell);
        }
    }
}

impl<T: Element, C: Fn(T, T) -> T + Sync> fmt::Debug for AccumulatorView<'_, T, C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a worker's cell of an accumulator")
    }
}
