//! One function per model family, which fits a model to data in memory.
//!
//! A function takes the [lines](crate::lines) of a feature matrix, the settings by name and the
//! [options](crate::job) of the job. It returns a dictionary of arrays and the report.

mod factorization;
mod kmeans;
mod linear;
mod machine;
mod ridge;
mod softmax;
mod sparse;
mod topics;

use crate::buffers::slice;
use crate::lines::Lines;
use hemiola_array::ArrayExt;
use hemiola_array::dist::LabelledData;
use hemiola_cluster::{Cluster, Result};
use hemiola_models::ExampleWeights;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(sparse::fit_sparse, module)?)?;
    module.add_function(wrap_pyfunction!(sparse::sparse_path, module)?)?;
    module.add_function(wrap_pyfunction!(ridge::fit_ridge, module)?)?;
    module.add_function(wrap_pyfunction!(softmax::fit_softmax, module)?)?;
    module.add_function(wrap_pyfunction!(linear::fit_linear, module)?)?;
    module.add_function(wrap_pyfunction!(machine::fit_machine, module)?)?;
    module.add_function(wrap_pyfunction!(kmeans::fit_kmeans, module)?)?;
    module.add_function(wrap_pyfunction!(factorization::fit_factorization, module)?)?;
    module.add_function(wrap_pyfunction!(topics::fit_topics, module)?)?;
    module.add_function(wrap_pyfunction!(topics::infer_topics, module)?)
}

/// *Collective.* Returns rows with their labels as distributed data.
fn labelled(cluster: &Cluster, rows: Lines<'_>, labels: &[f64]) -> Result<LabelledData> {
    let features = rows.to_array(cluster)?;
    let labels = cluster.from_fn([labels.len()], |[row]| labels[row] as f32)?;
    Ok(LabelledData { features, labels })
}

/// Returns an error unless there is a number for every row.
fn check_rows(rows: usize, numbers: usize) -> PyResult<()> {
    if rows == numbers {
        return Ok(());
    }
    Err(PyValueError::new_err(format!("{rows} rows of features, but {numbers} labels")))
}

/// Returns the weights of examples, one for each row if there are some.
fn example_weights(weights: Option<&PyBuffer<f32>>) -> PyResult<ExampleWeights> {
    let rows = weights.map(slice).transpose()?.map(<[f32]>::to_vec);
    Ok(ExampleWeights::default().of_rows(rows))
}
