//! Linear support vector machines, by dual coordinate ascent.

use super::{check_rows, example_weights, labelled};
use crate::buffers::slice;
use crate::error::setting;
use crate::fitted::Fitted;
use crate::job::{JobOptions, run};
use crate::lines::LineBuffers;
use hemiola_models::linear::LinearLoss;
use hemiola_models::training::FitOptions;
use hemiola_models::{Estimator, LinearClassifier};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Fits a support vector machine to rows whose labels are class numbers; returns `weights`, one row
/// per binary problem, `intercepts` and `report`.
#[pyfunction]
#[pyo3(signature = (rows, labels, job, *, weights, squared, c, bias, tolerance, epochs, seed))]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
#[expect(clippy::too_many_arguments, reason = "settings have names in Python")]
pub(crate) fn fit_linear(
    py: Python<'_>,
    rows: LineBuffers,
    labels: PyBuffer<f64>,
    job: JobOptions,
    weights: Option<PyBuffer<f32>>,
    squared: bool,
    c: f64,
    bias: f64,
    tolerance: f64,
    epochs: u32,
    seed: u64,
) -> PyResult<Bound<'_, PyDict>> {
    let (lines, targets) = (rows.lines()?, slice(&labels)?);
    check_rows(lines.count, targets.len())?;
    let loss = if squared { LinearLoss::SquaredHinge } else { LinearLoss::Hinge };
    let builder = LinearClassifier::builder(loss).c(c).bias(bias).tolerance(tolerance).epochs(epochs).seed(seed);
    let estimator = builder.build().map_err(|error| setting(&error))?.weighted(example_weights(weights.as_ref())?);
    let (model, report) = run(py, &job, |cluster, reporter| {
        let examples = labelled(cluster, lines, targets)?;
        let fit = estimator.fit_with(cluster, &examples, None, FitOptions::new().with_callback(reporter))?;
        Ok((fit.model, fit.report))
    })?;
    let problems = model.problems();
    let weights: Vec<f64> = (0..problems).flat_map(|problem| model.weights(problem).iter().copied()).collect();
    let intercepts: Vec<f64> = (0..problems).map(|problem| model.intercept(problem)).collect();
    let fitted = Fitted::new(py).doubles("weights", &weights, &[problems, model.columns()])?;
    Ok(fitted.doubles("intercepts", &intercepts, &[problems])?.report(&report)?.into_dict())
}
