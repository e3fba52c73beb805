//! Columns that are stored whole.
//!
//! Column after column, each with a value for every row: a range of rows of a column is a slice, so workers can share columns by rows without
//! another copy.

use super::design::Moments;
use super::kernel::{Add, Dots, Look, Value, run};
use std::marker::PhantomData;
use std::ops::Range;

/// A matrix whose columns have a value for every row.
#[derive(Clone, Debug)]
pub struct Dense<T> {
    rows: usize,
    columns: usize,
    /// Column after column.
    values: Vec<T>,
}

impl<T: Value> Dense<T> {
    /// A matrix from its values, column after column.
    ///
    /// # Panics
    /// If there are not as many values as the extents say.
    #[must_use]
    pub fn new(rows: usize, columns: usize, values: Vec<T>) -> Self {
        assert_eq!(values.len(), rows * columns, "every column has a value for every row");
        Self { rows, columns, values }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    pub(super) fn column(&self, column: u32, rows: &Range<usize>) -> &[T] {
        &self.values[column as usize * self.rows..][rows.clone()]
    }

    /// Products of columns with a vector that has a value for each of `rows`.
    pub(super) fn dots(&self, columns: &[u32], rows: &Range<usize>, vector: &[f64], out: &mut [f64]) {
        let column = |place: usize| self.column(columns[place], rows);
        run(Dots { column, vector, out, values: PhantomData });
    }

    /// `vector += Σ amount · column`.
    pub(super) fn add(&self, columns: &[u32], amounts: &[f64], rows: &Range<usize>, vector: &mut [f64]) {
        let column = |place: usize| self.column(columns[place], rows);
        run(Add { column, amounts, vector, values: PhantomData });
    }

    pub(super) fn look(&self, columns: &[u32], vector: &[f64], weighted: bool, out: &mut [Moments]) {
        let rows = 0..self.rows;
        let column = |place: usize| self.column(columns[place], &rows);
        run(Look { column, vector, weighted, out, values: PhantomData });
    }

    /// The rows for which `keep` says so.
    pub(super) fn subset(&self, keep: &[bool]) -> Self {
        let rows = keep.iter().filter(|keep| **keep).count();
        let kept = self.values.iter().zip(keep.iter().cycle()).filter(|(_, keep)| **keep);
        Self { rows, columns: self.columns, values: kept.map(|(value, _)| *value).collect() }
    }
}
