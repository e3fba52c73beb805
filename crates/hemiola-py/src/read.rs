//! Examples and ratings from files, folders and URLs, as compressed sparse rows.
//!
//! The readers are those of the command line: separated values, LIBSVM text, JSON lines, Parquet and
//! Arrow IPC, compressed or not.

use crate::fitted::Fitted;
use crate::job::{JobOptions, run};
use hemiola_array::DistArray;
use hemiola_models::input::ColumnRole;
use hemiola_models::linear::data::{self as examples, LinearReadOptions};
use hemiola_models::mf::data::{self as ratings, RatingReadOptions};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Entries of a sparse matrix, row by row.
struct CompressedRows {
    shape: [usize; 2],
    starts: Vec<u32>,
    columns: Vec<u32>,
    values: Vec<f32>,
}

impl CompressedRows {
    /// Copies the entries of an array that this peer owns as a whole.
    fn of(array: &DistArray<f32, 2>) -> Self {
        let shape = [array.shape().extent(0), array.shape().extent(1)];
        let mut starts = vec![0_u32; shape[0] + 1];
        array.for_each(|[row, _], _| starts[row + 1] += 1);
        for row in 0..shape[0] {
            starts[row + 1] += starts[row];
        }
        let mut next = starts.clone();
        let count = starts[shape[0]] as usize;
        let (mut columns, mut values) = (vec![0; count], vec![0.0; count]);
        array.for_each(|[row, column], value| {
            let at = next[row] as usize;
            next[row] += 1;
            (columns[at], values[at]) = (column as u32, *value);
        });
        Self { shape, starts, columns, values }
    }

    fn add_to<'py>(&self, fitted: Fitted<'py>) -> PyResult<Fitted<'py>> {
        let fitted = fitted.indices("starts", &self.starts)?.indices("positions", &self.columns)?;
        let shape = self.shape.map(|extent| extent as u32);
        fitted.singles("values", &self.values, &[self.values.len()])?.indices("shape", &shape)
    }
}

/// Reads examples; returns the parts of a sparse matrix, `labels`, and the names of classes and
/// features.
#[pyfunction]
#[pyo3(signature = (sources, job, *, label, without_labels, ignore, separator, zero_based))]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
#[expect(clippy::too_many_arguments, reason = "settings have names in Python")]
pub(crate) fn read_examples(
    py: Python<'_>,
    sources: Vec<String>,
    job: JobOptions,
    label: Option<String>,
    without_labels: bool,
    ignore: Vec<String>,
    separator: Option<String>,
    zero_based: Option<bool>,
) -> PyResult<Bound<'_, PyDict>> {
    let options = LinearReadOptions {
        zero_based: zero_based.unwrap_or(false),
        detect_zero_based: zero_based.is_none(),
        separator,
        label,
        ignore,
        without_labels,
        ..LinearReadOptions::default()
    };
    let (rows, labels, classes, features) = run(py, &job, |cluster, _| {
        let read = examples::read(cluster, &options, sources.clone())?;
        let rows = CompressedRows::of(&read.labelled.features);
        let mut labels = vec![0.0_f32; rows.shape[0]];
        read.labelled.labels.for_each(|[row], label| labels[row] = *label);
        let features = read.schema.with_role(ColumnRole::Feature).map(|(_, column)| column.name.clone());
        Ok((rows, labels, read.names, features.collect::<Vec<_>>()))
    })?;
    let fitted = rows.add_to(Fitted::new(py))?.singles("labels", &labels, &[labels.len()])?;
    let found = fitted.into_dict();
    found.set_item("classes", classes)?;
    found.set_item("features", features)?;
    Ok(found)
}

/// Reads ratings or events; returns the parts of a sparse matrix, `users` and `items`.
#[pyfunction]
#[pyo3(signature = (sources, job, *, columns, events, separator))]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
pub(crate) fn read_ratings(
    py: Python<'_>,
    sources: Vec<String>,
    job: JobOptions,
    columns: Vec<String>,
    events: bool,
    separator: Option<String>,
) -> PyResult<Bound<'_, PyDict>> {
    let options = RatingReadOptions { separator, columns, events, ..RatingReadOptions::default() };
    let (rows, users, items) = run(py, &job, |cluster, _| {
        let entries = ratings::read_with(cluster, &options, sources.clone())?.entries;
        Ok((CompressedRows::of(&entries), names(&entries, 0), names(&entries, 1)))
    })?;
    let found = rows.add_to(Fitted::new(py))?.into_dict();
    found.set_item("users", users)?;
    found.set_item("items", items)?;
    Ok(found)
}

/// Returns the names of the indices of a dimension.
fn names(array: &DistArray<f32, 2>, dimension: usize) -> Vec<String> {
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    array.names(dimension).map_or_else(Vec::new, |names| names.names().map(text).collect())
}
