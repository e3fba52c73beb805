//! Factorization machines.

use super::{check_rows, labelled};
use crate::buffers::slice;
use crate::error::setting;
use crate::fitted::Fitted;
use crate::job::{JobOptions, run};
use crate::lines::LineBuffers;
use hemiola_models::fm::FmLoss;
use hemiola_models::training::FitOptions;
use hemiola_models::{Estimator, FactorizationMachine};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Fits a factorization machine to rows; returns `weights`, `factors` and `intercept` of the scores,
/// their `mean` and `deviation` (the unit of scores), and `report`.
#[pyfunction]
#[pyo3(signature = (rows, labels, job, *, logistic, rank, l2_linear, l2_factors, learning_rate, batch_size, epochs, seed))]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
#[expect(clippy::too_many_arguments, reason = "settings have names in Python")]
pub(crate) fn fit_machine(
    py: Python<'_>,
    rows: LineBuffers,
    labels: PyBuffer<f64>,
    job: JobOptions,
    logistic: bool,
    rank: u32,
    l2_linear: f32,
    l2_factors: f32,
    learning_rate: f32,
    batch_size: u32,
    epochs: u32,
    seed: u64,
) -> PyResult<Bound<'_, PyDict>> {
    let (lines, targets) = (rows.lines()?, slice(&labels)?);
    check_rows(lines.count, targets.len())?;
    let builder = FactorizationMachine::builder(if logistic { FmLoss::Logistic } else { FmLoss::Squared })
        .rank(rank)
        .l2_linear(l2_linear)
        .l2_factors(l2_factors)
        .learning_rate(learning_rate)
        .batch_size(batch_size)
        .epochs(epochs)
        .validation(0.0)
        .seed(seed);
    let estimator = builder.build().map_err(|error| setting(&error))?;
    let (model, report) = run(py, &job, |cluster, reporter| {
        let examples = labelled(cluster, lines, targets)?;
        let fit = estimator.fit_with(cluster, &examples, None, FitOptions::new().with_callback(reporter))?;
        Ok((fit.model, fit.report))
    })?;
    let columns = model.columns();
    let weights: Vec<f32> = (0..columns).map(|column| model.weight(column)).collect();
    let factors: Vec<f32> = (0..columns).flat_map(|column| model.factors(column)[..rank as usize].to_vec()).collect();
    let fitted = Fitted::new(py).singles("weights", &weights, &[columns])?;
    let fitted = fitted.singles("factors", &factors, &[columns, rank as usize])?;
    let fitted = fitted.number("intercept", f64::from(model.intercept()))?;
    Ok(fitted.number("mean", model.mean)?.number("deviation", model.deviation)?.report(&report)?.into_dict())
}
