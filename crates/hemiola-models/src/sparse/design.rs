//! This peer's rows of the features, by columns, dense or sparse: what [`Field`](super::field::Field) adds up over workers and peers.
//!
//! **Invariant:** all arithmetic is in `f64`, whatever is stored, and every operation is linear in the columns as they are stored: means and scales
//! live elsewhere ([`Scaling`](super::scaling::Scaling)), so that sparse columns stay sparse.

use super::couplings::Pair;
use super::csc::Csc;
use super::dense::Dense;
use super::kernel::Value;
use std::ops::Range;

/// Of a column: its product with a vector, the sum of its squares (times the vector, if it is one of weights), and its sum.
pub(super) type Moments = [f64; 3];

/// Features by columns.
#[derive(Clone, Debug)]
pub enum Columns<T> {
    /// A value for every row.
    Dense(Dense<T>),
    /// Most values are 0.
    Sparse(Csc<T>),
}

/// Features by columns, their rows cut into a part for each worker.
#[derive(Clone, Debug)]
pub(super) struct Design<T> {
    columns: Columns<T>,
    /// Where the rows of each part begin, and where the last ends.
    bounds: Vec<usize>,
}

impl<T: Value> Design<T> {
    pub(super) fn new(columns: Columns<T>, parts: usize) -> Self {
        let rows = match &columns {
            Columns::Dense(dense) => dense.rows(),
            Columns::Sparse(sparse) => sparse.rows(),
        };
        let bounds: Vec<usize> = (0..=parts).map(|part| rows * part / parts).collect();
        let columns = match columns {
            Columns::Sparse(sparse) => Columns::Sparse(sparse.cut(&bounds)),
            dense @ Columns::Dense(_) => dense,
        };
        Self { columns, bounds }
    }

    pub(super) fn rows(&self) -> usize {
        self.bounds[self.bounds.len() - 1]
    }

    pub(super) fn columns(&self) -> usize {
        match &self.columns {
            Columns::Dense(dense) => dense.columns(),
            Columns::Sparse(sparse) => sparse.columns(),
        }
    }

    pub(super) fn is_sparse(&self) -> bool {
        matches!(self.columns, Columns::Sparse(_))
    }

    /// The rows of a part.
    pub(super) fn part(&self, part: usize) -> Range<usize> {
        self.bounds[part]..self.bounds[part + 1]
    }

    /// A vector with a value for every row, cut into the parts.
    pub(super) fn parts_of<'v>(&self, mut vector: &'v mut [f64]) -> Vec<&'v mut [f64]> {
        let lengths = self.bounds.windows(2).map(|two| two[1] - two[0]);
        lengths.map(|length| vector.split_off_mut(..length).unwrap_or_default()).collect()
    }

    /// Products of whole columns with a vector.
    pub(super) fn dots(&self, columns: &[u32], vector: &[f64], out: &mut [f64]) {
        match &self.columns {
            Columns::Dense(dense) => dense.dots(columns, &(0..self.rows()), vector, out),
            Columns::Sparse(sparse) => sparse.dots(columns, vector, out),
        }
    }

    /// Products of a part of columns with a vector that has a value for each of its rows.
    pub(super) fn part_dots(&self, columns: &[u32], part: usize, vector: &[f64], out: &mut [f64]) {
        match &self.columns {
            Columns::Dense(dense) => dense.dots(columns, &self.part(part), vector, out),
            Columns::Sparse(sparse) => sparse.part_dots(columns, part, vector, out),
        }
    }

    /// `vector += weights · Σ amount · column` over a part of the rows. No weights are weights of 1. `room` is for whatever is needed on the way.
    pub(super) fn add(
        &self,
        (columns, amounts): (&[u32], &[f64]),
        part: usize,
        weights: &[f64],
        room: &mut Vec<f64>,
        vector: &mut [f64],
    ) {
        match &self.columns {
            Columns::Sparse(sparse) => sparse.add(columns, amounts, part, weights, vector),
            Columns::Dense(dense) if weights.is_empty() => dense.add(columns, amounts, &self.part(part), vector),
            Columns::Dense(dense) => {
                room.clear();
                room.resize(vector.len(), 0.0);
                dense.add(columns, amounts, &self.part(part), room);
                for ((value, weight), sum) in vector.iter_mut().zip(weights).zip(&*room) {
                    *value += weight * sum;
                }
            }
        }
    }

    /// Moments of whole columns.
    pub(super) fn look(&self, columns: &[u32], vector: &[f64], weighted: bool, out: &mut [Moments]) {
        match &self.columns {
            Columns::Dense(dense) => dense.look(columns, vector, weighted, out),
            Columns::Sparse(sparse) => sparse.look(columns, vector, weighted, out),
        }
    }

    /// Products of columns with each other over a part of the rows, each pair once: `out[j · count + k]` for `k > j`.
    pub(super) fn products(&self, columns: &[u32], part: usize, weights: &[f64], room: &mut Vec<f64>, out: &mut [f64]) {
        let (count, rows) = (columns.len(), self.part(part));
        room.clear();
        room.resize(rows.len(), 0.0);
        for (place, column) in columns.iter().enumerate() {
            match &self.columns {
                Columns::Dense(dense) => {
                    for (here, value) in room.iter_mut().zip(dense.column(*column, &rows)) {
                        *here = value.wide();
                    }
                    for (here, weight) in room.iter_mut().zip(weights) {
                        *here *= weight;
                    }
                }
                Columns::Sparse(sparse) => sparse.spread(*column, part, weights, room),
            }
            let row = &mut out[place * count + place + 1..(place + 1) * count];
            self.part_dots(&columns[place + 1..], part, room, row);
            if let Columns::Sparse(sparse) = &self.columns {
                sparse.clear(*column, part, room);
            }
        }
    }

    /// Values that are stored of a column.
    pub(super) fn count(&self, column: u32) -> usize {
        match &self.columns {
            Columns::Dense(dense) => dense.rows(),
            Columns::Sparse(sparse) => sparse.count(column),
        }
    }

    /// Rows and values of a column, of every so many rows.
    pub(super) fn entries(&self, column: u32, every: usize) -> Box<dyn Iterator<Item = (usize, f64)> + '_> {
        let chosen = move |(row, _): &(usize, f64)| row.is_multiple_of(every);
        match &self.columns {
            Columns::Dense(dense) => {
                let values = dense.column(column, &(0..dense.rows())).iter().map(|value| value.wide());
                Box::new(values.enumerate().filter(chosen))
            }
            Columns::Sparse(sparse) => Box::new(sparse.entries(column).filter(chosen)),
        }
    }

    /// Of two columns, over every so many rows: sums of each, of their squares, and of their product.
    pub(super) fn pair(&self, a: u32, b: u32, every: usize) -> Pair {
        match &self.columns {
            Columns::Dense(dense) => {
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
            Columns::Sparse(sparse) => sparse.pair(a, b),
        }
    }

    /// The rows for which `keep` says so, cut into as many parts.
    pub(super) fn subset(&self, keep: &[bool]) -> Self {
        let columns = match &self.columns {
            Columns::Dense(dense) => Columns::Dense(dense.subset(keep)),
            Columns::Sparse(sparse) => Columns::Sparse(sparse.subset(keep)),
        };
        Self::new(columns, self.bounds.len() - 1)
    }
}
