//! Compressed sparse columns (CSC).
//!
//! Entries are stored column by column: row indices and values, sorted by row. Rows are cut into
//! parts, one per worker, and `starts` has an entry for every part of every column: both a worker's
//! share of a column and the whole column are slices.
//!
//! **Invariant:** rows ascend within a column, without duplicates.

use super::column_correlations::PairSums;
use super::design::Moments;
use super::kernel::ColumnValue;
use std::ops::Range;

/// Sparse matrix in compressed-column format.
#[derive(Clone, Debug)]
pub struct CscMatrix<T> {
    rows: usize,
    /// First row of each part, and the end of the last.
    bounds: Vec<usize>,
    /// Start of each part of each column; one more than there are.
    starts: Vec<u32>,
    at: Vec<u32>,
    values: Vec<T>,
}

impl<T: ColumnValue> CscMatrix<T> {
    /// Creates a matrix of `rows` rows: `starts` holds the start of each column and the end of the
    /// last, `at` and `values` the row and the value of each entry.
    ///
    /// # Panics
    /// If the lengths differ or exceed 4 billion, or if rows do not ascend within a column or are
    /// out of range.
    #[must_use]
    pub fn new(rows: usize, starts: &[usize], at: Vec<u32>, values: Vec<T>) -> Self {
        assert!(starts.last() == Some(&at.len()) && at.len() == values.len(), "every entry needs a row and a value");
        assert!(u32::try_from(at.len()).is_ok(), "the number of entries must fit into 32 bits");
        for column in starts.windows(2) {
            let at = &at[column[0]..column[1]];
            assert!(at.windows(2).all(|two| two[0] < two[1]), "rows must ascend within a column");
            assert!(at.last().is_none_or(|row| (*row as usize) < rows), "rows must be in range");
        }
        let starts = starts.iter().map(|start| *start as u32).collect();
        Self { rows, bounds: vec![0, rows], starts, at, values }
    }

    /// Cuts the rows at `bounds`, the first of which is 0 and the last the number of rows.
    pub(super) fn cut(self, bounds: &[usize]) -> Self {
        let mut starts = Vec::with_capacity(self.columns() * (bounds.len() - 1) + 1);
        for column in 0..self.columns() {
            let range = self.range(column as u32);
            let at = &self.at[range.clone()];
            for first in &bounds[..bounds.len() - 1] {
                starts.push((range.start + at.partition_point(|row| (*row as usize) < *first)) as u32);
            }
        }
        starts.push(self.at.len() as u32);
        Self { bounds: bounds.to_vec(), starts, ..self }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    fn parts(&self) -> usize {
        self.bounds.len() - 1
    }

    pub(super) fn columns(&self) -> usize {
        (self.starts.len() - 1) / self.parts()
    }

    fn range(&self, column: u32) -> Range<usize> {
        let first = column as usize * self.parts();
        self.starts[first] as usize..self.starts[first + self.parts()] as usize
    }

    /// Row indices and values of a part of a column.
    #[inline]
    fn part(&self, column: u32, part: usize) -> (&[u32], &[T]) {
        let first = column as usize * self.parts() + part;
        let range = self.starts[first] as usize..self.starts[first + 1] as usize;
        (&self.at[range.clone()], &self.values[range])
    }

    /// Returns the number of entries of a column.
    pub(super) fn count(&self, column: u32) -> usize {
        self.range(column).len()
    }

    /// Iterates over row and value of the entries of a column.
    pub(super) fn entries(&self, column: u32) -> impl Iterator<Item = (usize, f64)> {
        let range = self.range(column);
        let values = self.values[range.clone()].iter().map(|value| value.wide());
        self.at[range].iter().map(|row| *row as usize).zip(values)
    }

    /// Sums over two columns: of each, of their squares, and of their product.
    pub(super) fn pair(&self, a: u32, b: u32) -> PairSums {
        let mut sums = [0.0; 5];
        let mut right = self.entries(b).peekable();
        for (row, value) in self.entries(a) {
            sums[0] += value;
            sums[2] += value * value;
            while right.next_if(|(other, _)| *other < row).is_some() {}
            if let Some((_, of_right)) = right.next_if(|(other, _)| *other == row) {
                sums[4] += value * of_right;
            }
        }
        for (_, value) in self.entries(b) {
            sums[1] += value;
            sums[3] += value * value;
        }
        sums
    }

    /// Dot products of whole columns with a vector.
    pub(super) fn dots(&self, columns: &[u32], vector: &[f64], out: &mut [f64]) {
        for (out, column) in out.iter_mut().zip(columns) {
            let range = self.range(*column);
            *out = dot(&self.at[range.clone()], &self.values[range], 0, vector);
        }
    }

    /// Dot products of a part of columns with a vector over the rows of the part.
    pub(super) fn part_dots(&self, columns: &[u32], part: usize, vector: &[f64], out: &mut [f64]) {
        for (out, column) in out.iter_mut().zip(columns) {
            let (at, values) = self.part(*column, part);
            *out = dot(at, values, self.bounds[part], vector);
        }
    }

    /// `vector += Σ amount · weights · column` over a part of the rows. Empty weights mean weights
    /// of 1.
    pub(super) fn add(&self, columns: &[u32], amounts: &[f64], part: usize, weights: &[f64], vector: &mut [f64]) {
        let first = self.bounds[part];
        for (column, amount) in columns.iter().zip(amounts).filter(|(_, amount)| **amount != 0.0) {
            let (at, values) = self.part(*column, part);
            if weights.is_empty() {
                for (row, value) in at.iter().zip(values) {
                    vector[*row as usize - first] += value.wide() * amount;
                }
            } else {
                for (row, value) in at.iter().zip(values) {
                    let row = *row as usize - first;
                    vector[row] += value.wide() * amount * weights[row];
                }
            }
        }
    }

    pub(super) fn moments(&self, columns: &[u32], vector: &[f64], weighted: bool, out: &mut [Moments]) {
        for (out, column) in out.iter_mut().zip(columns) {
            let range = self.range(*column);
            // Two independent sums shorten the dependency chain.
            let mut sums = [[0.0; 3]; 2];
            for (index, (row, value)) in self.at[range.clone()].iter().zip(&self.values[range]).enumerate() {
                let (value, of_vector) = (value.wide(), vector[*row as usize]);
                let sums = &mut sums[index % 2];
                sums[0] += value * of_vector;
                sums[1] += value * value * if weighted { of_vector } else { 1.0 };
                sums[2] += value;
            }
            *out = [sums[0][0] + sums[1][0], sums[0][1] + sums[1][1], sums[0][2] + sums[1][2]];
        }
    }

    /// Writes a part of a column, times the weights, into a zero vector.
    pub(super) fn spread(&self, column: u32, part: usize, weights: &[f64], vector: &mut [f64]) {
        self.add(&[column], &[1.0], part, weights, vector);
    }

    /// Zeroes the cells that [`spread`](Self::spread) wrote.
    pub(super) fn clear(&self, column: u32, part: usize, vector: &mut [f64]) {
        for row in self.part(column, part).0 {
            vector[*row as usize - self.bounds[part]] = 0.0;
        }
    }

    /// Returns the rows selected by `keep`, as one part.
    pub(super) fn subset(&self, keep: &[bool]) -> Self {
        let mut number = 0;
        let numbers: Vec<Option<u32>> = keep
            .iter()
            .map(|keep| {
                keep.then(|| {
                    number += 1;
                    number - 1
                })
            })
            .collect();
        let (mut starts, mut at, mut values) = (vec![0], Vec::new(), Vec::new());
        for column in 0..self.columns() {
            let range = self.range(column as u32);
            for (row, value) in self.at[range.clone()].iter().zip(&self.values[range]) {
                if let Some(number) = numbers[*row as usize] {
                    at.push(number);
                    values.push(*value);
                }
            }
            starts.push(at.len() as u32);
        }
        Self { rows: number as usize, bounds: vec![0, number as usize], starts, at, values }
    }
}

/// Dot product with four independent sums, to shorten the dependency chain.
#[inline]
fn dot<T: ColumnValue>(at: &[u32], values: &[T], first: usize, vector: &[f64]) -> f64 {
    let (fours, last) = at.as_chunks::<4>();
    let (values, last_values) = values.as_chunks::<4>();
    let mut sums = [0.0; 4];
    for (rows, values) in fours.iter().zip(values) {
        for ((sum, row), value) in sums.iter_mut().zip(rows).zip(values) {
            *sum += value.wide() * vector[*row as usize - first];
        }
    }
    for ((sum, row), value) in sums.iter_mut().zip(last).zip(last_values) {
        *sum += value.wide() * vector[*row as usize - first];
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3])
}
