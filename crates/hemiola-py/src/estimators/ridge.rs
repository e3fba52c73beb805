//! Ridge regression.

use super::{check_rows, example_weights, labelled};
use crate::buffers::slice;
use crate::error::setting;
use crate::fitted::Fitted;
use crate::job::{JobOptions, run};
use crate::lines::LineBuffers;
use hemiola_models::training::FitOptions;
use hemiola_models::{Estimator, RidgeRegression};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Fits ridge regression to rows; returns `weights`, `intercept` and `report`.
#[pyfunction]
#[pyo3(signature = (rows, labels, job, *, weights, alpha, intercept, tolerance, epochs))]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
#[expect(clippy::too_many_arguments, reason = "settings have names in Python")]
pub(crate) fn fit_ridge(
    py: Python<'_>,
    rows: LineBuffers,
    labels: PyBuffer<f64>,
    job: JobOptions,
    weights: Option<PyBuffer<f32>>,
    alpha: f64,
    intercept: bool,
    tolerance: f64,
    epochs: u32,
) -> PyResult<Bound<'_, PyDict>> {
    let (lines, targets) = (rows.lines()?, slice(&labels)?);
    check_rows(lines.count, targets.len())?;
    let builder = RidgeRegression::builder().alpha(alpha).intercept(intercept).tolerance(tolerance).epochs(epochs);
    let estimator = builder.build().map_err(|error| setting(&error))?.weighted(example_weights(weights.as_ref())?);
    let fit = run(py, &job, |cluster, reporter| {
        let examples = labelled(cluster, lines, targets)?;
        let fit = estimator.fit_with(cluster, &examples, None, FitOptions::new().with_callback(reporter))?;
        Ok((fit.model.weights().to_vec(), fit.model.intercept, fit.report))
    })?;
    let (weights, intercept, report) = fit;
    let fitted = Fitted::new(py).doubles("weights", &weights, &[weights.len()])?.number("intercept", intercept)?;
    Ok(fitted.report(&report)?.into_dict())
}
