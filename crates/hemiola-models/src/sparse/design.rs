//! Design matrix: this peer's rows of the features by columns, dense or sparse.
//! [`RowReducer`](super::row_reducer::RowReducer) sums its results over workers and peers.
//!
//! **Invariant:** all arithmetic is in `f64`, whatever is stored, and every operation is linear in
//! the stored columns. Means and scales are kept elsewhere
//! ([`ColumnScaling`](super::scaling::ColumnScaling)), so that sparse columns stay sparse.

use super::column_correlations::PairSums;
use super::csc::CscMatrix;
use super::dense::DenseColumns;
use super::kernel::ColumnValue;
use std::ops::Range;

/// Moments of a column: its dot product with a vector, the sum of its squares (times the vector if
/// it holds weights), and its sum.
pub(super) type Moments = [f64; 3];

/// Feature matrix by columns.
#[derive(Clone, Debug)]
pub enum FeatureColumns<T> {
    /// Dense storage: a value for every row.
    Dense(DenseColumns<T>),
    /// Sparse storage: nonzero values only.
    Sparse(CscMatrix<T>),
}

/// Feature matrix by columns, its rows cut into a part per worker.
#[derive(Clone, Debug)]
pub(super) struct DesignMatrix<T> {
    columns: FeatureColumns<T>,
    /// First row of each part, and the end of the last.
    bounds: Vec<usize>,
}

impl<T: ColumnValue> DesignMatrix<T> {
    pub(super) fn new(columns: FeatureColumns<T>, parts: usize) -> Self {
        let rows = match &columns {
            FeatureColumns::Dense(dense) => dense.rows(),
            FeatureColumns::Sparse(sparse) => sparse.rows(),
        };
        let bounds: Vec<usize> = (0..=parts).map(|part| rows * part / parts).collect();
        let columns = match columns {
            FeatureColumns::Sparse(sparse) => FeatureColumns::Sparse(sparse.cut(&bounds)),
            dense @ FeatureColumns::Dense(_) => dense,
        };
        Self { columns, bounds }
    }

    pub(super) fn rows(&self) -> usize {
        self.bounds[self.bounds.len() - 1]
    }

    pub(super) fn columns(&self) -> usize {
        match &self.columns {
            FeatureColumns::Dense(dense) => dense.columns(),
            FeatureColumns::Sparse(sparse) => sparse.columns(),
        }
    }

    pub(super) fn is_sparse(&self) -> bool {
        matches!(self.columns, FeatureColumns::Sparse(_))
    }

    /// Returns the row range of a part.
    pub(super) fn part(&self, part: usize) -> Range<usize> {
        self.bounds[part]..self.bounds[part + 1]
    }

    /// Cuts a vector with a value per row into the parts.
    pub(super) fn parts_of<'v>(&self, mut vector: &'v mut [f64]) -> Vec<&'v mut [f64]> {
        let lengths = self.bounds.windows(2).map(|two| two[1] - two[0]);
        lengths.map(|length| vector.split_off_mut(..length).unwrap_or_default()).collect()
    }

    /// Dot products of whole columns with a vector.
    pub(super) fn dots(&self, columns: &[u32], vector: &[f64], out: &mut [f64]) {
        match &self.columns {
            FeatureColumns::Dense(dense) => dense.dots(columns, &(0..self.rows()), vector, out),
            FeatureColumns::Sparse(sparse) => sparse.dots(columns, vector, out),
        }
    }

    /// Dot products of a part of columns with a vector over the rows of the part.
    pub(super) fn part_dots(&self, columns: &[u32], part: usize, vector: &[f64], out: &mut [f64]) {
        match &self.columns {
            FeatureColumns::Dense(dense) => dense.dots(columns, &self.part(part), vector, out),
            FeatureColumns::Sparse(sparse) => sparse.part_dots(columns, part, vector, out),
        }
    }

    /// `vector += weights · Σ amount · column` over a part of the rows. Empty weights mean weights
    /// of 1. `room` is scratch space.
    pub(super) fn add(
        &self,
        (columns, amounts): (&[u32], &[f64]),
        part: usize,
        weights: &[f64],
        room: &mut Vec<f64>,
        vector: &mut [f64],
    ) {
        match &self.columns {
            FeatureColumns::Sparse(sparse) => sparse.add(columns, amounts, part, weights, vector),
            FeatureColumns::Dense(dense) if weights.is_empty() => dense.add(columns, amounts, &self.part(part), vector),
            FeatureColumns::Dense(dense) => {
                room.clear();
                room.resize(vector.len(), 0.0);
                dense.add(columns, amounts, &self.part(part), room);
                for ((value, weight), sum) in vector.iter_mut().zip(weights).zip(&*room) {
                    *value += weight * sum;
                }
            }
        }
    }

    /// Computes the moments of whole columns.
    pub(super) fn moments(&self, columns: &[u32], vector: &[f64], weighted: bool, out: &mut [Moments]) {
        match &self.columns {
            FeatureColumns::Dense(dense) => dense.moments(columns, vector, weighted, out),
            FeatureColumns::Sparse(sparse) => sparse.moments(columns, vector, weighted, out),
        }
    }

    /// Dot products of columns with each other over a part of the rows, each pair once: `out[j ·
    /// count + k]` for `k > j`.
    pub(super) fn products(&self, columns: &[u32], part: usize, weights: &[f64], room: &mut Vec<f64>, out: &mut [f64]) {
        let (count, rows) = (columns.len(), self.part(part));
        room.clear();
        room.resize(rows.len(), 0.0);
        for (index, column) in columns.iter().enumerate() {
            match &self.columns {
                FeatureColumns::Dense(dense) => {
                    for (here, value) in room.iter_mut().zip(dense.column(*column, &rows)) {
                        *here = value.wide();
                    }
                    for (here, weight) in room.iter_mut().zip(weights) {
                        *here *= weight;
                    }
                }
                FeatureColumns::Sparse(sparse) => sparse.spread(*column, part, weights, room),
            }
            let row = &mut out[index * count + index + 1..(index + 1) * count];
            self.part_dots(&columns[index + 1..], part, room, row);
            if let FeatureColumns::Sparse(sparse) = &self.columns {
                sparse.clear(*column, part, room);
            }
        }
    }

    /// Returns the number of stored values of a column.
    pub(super) fn count(&self, column: u32) -> usize {
        match &self.columns {
            FeatureColumns::Dense(dense) => dense.rows(),
            FeatureColumns::Sparse(sparse) => sparse.count(column),
        }
    }

    /// Iterates over row and value of a column, at every `every`-th row.
    pub(super) fn entries(&self, column: u32, every: usize) -> Box<dyn Iterator<Item = (usize, f64)> + '_> {
        let chosen = move |(row, _): &(usize, f64)| row.is_multiple_of(every);
        match &self.columns {
            FeatureColumns::Dense(dense) => {
                let values = dense.column(column, &(0..dense.rows())).iter().map(|value| value.wide());
                Box::new(values.enumerate().filter(chosen))
            }
            FeatureColumns::Sparse(sparse) => Box::new(sparse.entries(column).filter(chosen)),
        }
    }

    /// Sums over every `every`-th row of two columns: of each, of their squares, and of their
    /// product.
    pub(super) fn pair(&self, a: u32, b: u32, every: usize) -> PairSums {
        match &self.columns {
            FeatureColumns::Dense(dense) => {
                let rows = 0..dense.rows();
                let values = |column| dense.column(column, &rows).iter().step_by(every).map(|value| value.wide());
                let mut sums = [0.0; 5];
                for (a, b) in values(a).zip(values(b)) {
                    for (sum, more) in sums.iter_mut().zip([a, b, a * a, b * b, a * b]) {
                        *sum += more;
                    }
                }
                sums
            }
            FeatureColumns::Sparse(sparse) => sparse.pair(a, b),
        }
    }

    /// Returns the rows selected by `keep`, cut into as many parts.
    pub(super) fn subset(&self, keep: &[bool]) -> Self {
        let columns = match &self.columns {
            FeatureColumns::Dense(dense) => FeatureColumns::Dense(dense.subset(keep)),
            FeatureColumns::Sparse(sparse) => FeatureColumns::Sparse(sparse.subset(keep)),
        };
        Self::new(columns, self.bounds.len() - 1)
    }
}
