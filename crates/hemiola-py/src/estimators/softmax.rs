//! Multinomial logistic regression.

use super::{check_rows, example_weights, labelled};
use crate::buffers::slice;
use crate::error::setting;
use crate::fitted::Fitted;
use crate::job::{JobOptions, run};
use crate::lines::LineBuffers;
use hemiola_models::training::FitOptions;
use hemiola_models::{Estimator, SoftmaxRegression};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Fits softmax regression to rows whose labels are class numbers; returns `weights`, one row per
/// class, `intercepts` and `report`.
#[pyfunction]
#[pyo3(signature = (rows, labels, job, *, weights, c, intercept, tolerance, epochs))]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
#[expect(clippy::too_many_arguments, reason = "settings have names in Python")]
pub(crate) fn fit_softmax(
    py: Python<'_>,
    rows: LineBuffers,
    labels: PyBuffer<f64>,
    job: JobOptions,
    weights: Option<PyBuffer<f32>>,
    c: f64,
    intercept: bool,
    tolerance: f64,
    epochs: u32,
) -> PyResult<Bound<'_, PyDict>> {
    let (lines, targets) = (rows.lines()?, slice(&labels)?);
    check_rows(lines.count, targets.len())?;
    let builder = SoftmaxRegression::builder().c(c).intercept(intercept).tolerance(tolerance).epochs(epochs);
    let estimator = builder.build().map_err(|error| setting(&error))?.weighted(example_weights(weights.as_ref())?);
    let (model, report) = run(py, &job, |cluster, reporter| {
        let examples = labelled(cluster, lines, targets)?;
        let fit = estimator.fit_with(cluster, &examples, None, FitOptions::new().with_callback(reporter))?;
        Ok((fit.model, fit.report))
    })?;
    let classes = model.classes.len();
    let weights: Vec<f64> = (0..classes).flat_map(|class| model.weights(class).iter().copied()).collect();
    let intercepts: Vec<f64> = (0..classes).map(|class| model.intercept(class)).collect();
    let fitted = Fitted::new(py).doubles("weights", &weights, &[classes, model.columns()])?;
    Ok(fitted.doubles("intercepts", &intercepts, &[classes])?.report(&report)?.into_dict())
}
