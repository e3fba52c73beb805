//! Dense column-major matrix.
//!
//! Columns are stored one after another with a value for every row. A range of rows of a column is
//! a slice, so workers can share columns by rows without copying.

use super::design::Moments;
use super::kernel::{AxpyKernel, ColumnValue, DotsKernel, MomentsKernel, run};
use std::marker::PhantomData;
use std::ops::Range;

/// Dense matrix in column-major order.
#[derive(Clone, Debug)]
pub struct DenseColumns<T> {
    rows: usize,
    columns: usize,
    /// Values in column-major order.
    values: Vec<T>,
}

impl<T: ColumnValue> DenseColumns<T> {
    /// Creates a matrix from its values in column-major order.
    ///
    /// # Panics
    /// If the number of values is not `rows * columns`.
    #[must_use]
    pub fn new(rows: usize, columns: usize, values: Vec<T>) -> Self {
        assert_eq!(values.len(), rows * columns, "every column needs a value for every row");
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

    /// Dot products of columns with a vector over `rows`.
    pub(super) fn dots(&self, columns: &[u32], rows: &Range<usize>, vector: &[f64], out: &mut [f64]) {
        let column = |index: usize| self.column(columns[index], rows);
        run(DotsKernel { column, vector, out, values: PhantomData });
    }

    /// `vector += Σ amount · column`.
    pub(super) fn add(&self, columns: &[u32], amounts: &[f64], rows: &Range<usize>, vector: &mut [f64]) {
        let column = |index: usize| self.column(columns[index], rows);
        run(AxpyKernel { column, amounts, vector, values: PhantomData });
    }

    pub(super) fn moments(&self, columns: &[u32], vector: &[f64], weighted: bool, out: &mut [Moments]) {
        let rows = 0..self.rows;
        let column = |index: usize| self.column(columns[index], &rows);
        run(MomentsKernel { column, vector, weighted, out, values: PhantomData });
    }

    /// Returns the rows selected by `keep`.
    pub(super) fn subset(&self, keep: &[bool]) -> Self {
        let rows = keep.iter().filter(|keep| **keep).count();
        let kept = self.values.iter().zip(keep.iter().cycle()).filter(|(_, keep)| **keep);
        Self { rows, columns: self.columns, values: kept.map(|(value, _)| *value).collect() }
    }
}
