//! A worker's own cell of an accumulator.

use hemiola_array::{Accumulator, Element};
use hemiola_core::WorkerId;
use std::fmt;
use std::ops::AddAssign;

/// What `+=` and `add` on an accumulator go to while a loop runs; given back when the worker is done.
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
        self.cell = self.cell.take().map(|before| self.accumulator.combined(before, value));
    }

    /// The view itself: how generated code gets at what a name stands for.
    #[doc(hidden)]
    #[inline]
    pub fn place(&mut self) -> &mut Self {
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
            // Added, not put: another view may have given back its own, if the loop knows the accumulator by two names.
            self.accumulator.add(self.worker, cell);
        }
    }
}

impl<T: Element, C: Fn(T, T) -> T + Sync> fmt::Debug for AccumulatorView<'_, T, C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a worker's cell of an accumulator")
    }
}
