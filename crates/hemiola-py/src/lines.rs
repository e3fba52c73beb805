//! Lines of a feature matrix in the memory of Python: rows or columns, dense or compressed.
//!
//! Rows for estimators that read example by example: a dense array in row-major order, or CSR.
//! Columns for sparse regression: a dense array in column-major order, or CSC. Python chooses, so
//! this module knows lines and positions only.
//!
//! **Invariant:** indices are checked when a matrix is read, so a broken sparse matrix is an error
//! and never a panic.

use crate::buffers::{IndexBuffer, Indices, NumberBuffer, Numbers};
use hemiola_array::dist::{LazyArray, RecordSource};
use hemiola_array::read::{ParseError, ReadReport};
use hemiola_array::{DistArray, Result as ArrayResult};
use hemiola_cluster::Cluster;
use hemiola_models::sparse::{ColumnValue, CscMatrix, DenseColumns, FeatureColumns};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Number of lines that a worker takes at once.
const LINES_PER_UNIT: usize = 4096;

/// Matrix as Python passes it: an object with these attributes.
#[derive(Debug, FromPyObject)]
pub(crate) struct LineBuffers {
    /// Cells of a dense matrix, line by line, or the stored values of a compressed one.
    values: NumberBuffer,
    /// Position of each stored value in its line; `None` for a dense matrix.
    positions: Option<IndexBuffer>,
    /// Start of each line in the stored values, and the end of the last.
    starts: Option<IndexBuffer>,
    /// Number of lines.
    count: usize,
    /// Number of positions of a line.
    width: usize,
}

impl LineBuffers {
    /// Returns the lines; an error unless the parts fit together.
    pub(crate) fn lines(&self) -> PyResult<Lines<'_>> {
        let Self { values, count, width, .. } = self;
        let values = values.numbers()?;
        let compressed = match (&self.positions, &self.starts) {
            (Some(positions), Some(starts)) => Some((positions.indices()?, starts.indices()?)),
            _ => None,
        };
        let fits = match &compressed {
            None => count.checked_mul(*width) == Some(values.len()),
            Some((positions, starts)) => {
                positions.len() == values.len()
                    && starts.len() == count + 1
                    && starts.at(*count) == values.len()
                    && (0..*count).all(|line| starts.at(line) <= starts.at(line + 1))
                    && (0..positions.len()).all(|index| positions.at(index) < *width)
            }
        };
        if !fits || u32::try_from(*width).is_err() {
            return Err(PyValueError::new_err("the parts of the feature matrix do not fit together"));
        }
        Ok(Lines { values, compressed, count: *count, width: *width })
    }
}

/// Checked lines of a matrix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lines<'a> {
    values: Numbers<'a>,
    /// Positions of the stored values and starts of the lines; `None` for a dense matrix.
    compressed: Option<(Indices<'a>, Indices<'a>)>,
    pub(crate) count: usize,
    pub(crate) width: usize,
}

impl Lines<'_> {
    /// *Collective.* Returns the matrix as an array, with the lines as rows.
    pub(crate) fn to_array(self, cluster: &Cluster) -> hemiola_cluster::Result<DistArray<f32, 2>> {
        LazyArray::from_source(cluster, LineSource(self)).materialize()
    }

    /// Iterates over position and value of the stored values of a line.
    pub(crate) fn line(&self, line: usize) -> impl Iterator<Item = (usize, f32)> + '_ {
        let range = match &self.compressed {
            None => line * self.width..(line + 1) * self.width,
            Some((_, starts)) => starts.at(line)..starts.at(line + 1),
        };
        let first = range.start;
        range.map(move |index| {
            let position = self.compressed.as_ref().map_or(index - first, |(positions, _)| positions.at(index));
            (position, self.values.single(index))
        })
    }

    /// Returns the lines as feature columns in the precision of `values`.
    fn columns_of<T: ColumnValue>(&self, values: &[T]) -> FeatureColumns<T> {
        match &self.compressed {
            None => FeatureColumns::Dense(DenseColumns::new(self.width, self.count, values.to_vec())),
            Some((positions, starts)) => {
                let starts: Vec<usize> = (0..=self.count).map(|column| starts.at(column)).collect();
                let rows = (0..positions.len()).map(|index| positions.at(index) as u32).collect();
                FeatureColumns::Sparse(CscMatrix::new(self.width, &starts, rows, values.to_vec()))
            }
        }
    }

    /// Returns the lines as feature columns. Positions must ascend within a line.
    pub(crate) fn columns(&self) -> ColumnsOf {
        match self.values {
            Numbers::F64(values) => ColumnsOf::F64(self.columns_of(values)),
            Numbers::F32(values) => ColumnsOf::F32(self.columns_of(values)),
        }
    }
}

/// Feature columns of either precision.
#[derive(Debug)]
pub(crate) enum ColumnsOf {
    /// Double precision.
    F64(FeatureColumns<f64>),
    /// Single precision.
    F32(FeatureColumns<f32>),
}

/// Source of the entries of a matrix, line by line.
struct LineSource<'a>(Lines<'a>);

impl RecordSource for LineSource<'_> {
    type Record = ([usize; 2], f32);

    fn units(&self) -> usize {
        self.0.count.div_ceil(LINES_PER_UNIT)
    }

    fn cost(&self, _unit: usize) -> u64 {
        1
    }

    fn visit(
        &self,
        unit: usize,
        mut visit: impl FnMut(Self::Record) -> ArrayResult<(), Box<ParseError>>,
    ) -> ArrayResult<ReadReport> {
        let mut report = ReadReport::default();
        for line in unit * LINES_PER_UNIT..self.0.count.min((unit + 1) * LINES_PER_UNIT) {
            for (position, value) in self.0.line(line).filter(|(_, value)| *value != 0.0) {
                report.records += 1;
                // Entries in memory are never rejected.
                let _ = visit(([line, position], value));
            }
        }
        Ok(report)
    }

    fn extents(&self) -> Option<Vec<usize>> {
        Some(vec![self.0.count, self.0.width])
    }
}
