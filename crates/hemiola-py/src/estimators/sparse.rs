//! Lasso, elastic net, and logistic regression with an L1 penalty.

use super::check_rows;
use crate::buffers::slice;
use crate::error::setting;
use crate::fitted::Fitted;
use crate::job::{EpochReporter, JobOptions, run};
use crate::lines::{ColumnsOf, LineBuffers};
use hemiola_cluster::{Cluster, Result};
use hemiola_models::sparse::{
    ColumnValue, FeatureColumns, Lambda, PathPoint, SparseExamples, SparseLoss, SparseModel, SparseRegressionBuilder,
};
use hemiola_models::training::FitOptions;
use hemiola_models::{Fit, SparseRegression};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Mutex;

/// Fits sparse regression to columns, from the coefficients `start` if they are given; returns
/// `weights`, `intercept` and `report`.
#[pyfunction]
#[pyo3(signature = (columns, labels, job, *, logistic, strength, l1_ratio, intercept, tolerance, epochs, start))]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
#[expect(clippy::too_many_arguments, reason = "settings have names in Python")]
pub(crate) fn fit_sparse(
    py: Python<'_>,
    columns: LineBuffers,
    labels: PyBuffer<f64>,
    job: JobOptions,
    logistic: bool,
    strength: f64,
    l1_ratio: f64,
    intercept: bool,
    tolerance: f64,
    epochs: u32,
    start: Option<PyBuffer<f64>>,
) -> PyResult<Bound<'_, PyDict>> {
    let (lines, targets) = (columns.lines()?, slice(&labels)?);
    check_rows(lines.width, targets.len())?;
    let builder = builder(logistic, l1_ratio, intercept, tolerance, epochs).lambda(Lambda::Value(strength));
    let estimator = builder.build().map_err(|error| setting(&error))?;
    let start = start.as_ref().map(slice).transpose()?;
    // Columns are copied for the solver once; the job takes them.
    let data = Mutex::new(Some(lines.columns()));
    let fit = run(py, &job, |cluster, reporter| match taken(&data) {
        ColumnsOf::F64(columns) => fit(cluster, &estimator, columns, targets, start, reporter),
        ColumnsOf::F32(columns) => fit(cluster, &estimator, columns, targets, start, reporter),
    })?;
    let mut weights = vec![0.0; lines.count];
    for (column, value) in &fit.model.coefficients {
        weights[*column as usize] = *value;
    }
    let fitted = Fitted::new(py).doubles("weights", &weights, &[weights.len()])?;
    Ok(fitted.number("intercept", fit.model.intercept)?.report(&fit.report)?.into_dict())
}

/// Fits sparse regression to columns for descending penalties; returns `weights`, one row per
/// penalty, `intercepts` and `gaps`.
#[pyfunction]
#[pyo3(signature = (columns, labels, job, *, logistic, strengths, l1_ratio, intercept, tolerance, epochs))]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
#[expect(clippy::too_many_arguments, reason = "settings have names in Python")]
pub(crate) fn sparse_path(
    py: Python<'_>,
    columns: LineBuffers,
    labels: PyBuffer<f64>,
    job: JobOptions,
    logistic: bool,
    strengths: Vec<f64>,
    l1_ratio: f64,
    intercept: bool,
    tolerance: f64,
    epochs: u32,
) -> PyResult<Bound<'_, PyDict>> {
    let (lines, targets) = (columns.lines()?, slice(&labels)?);
    check_rows(lines.width, targets.len())?;
    let builder = builder(logistic, l1_ratio, intercept, tolerance, epochs);
    let estimator = builder.build().map_err(|error| setting(&error))?;
    let data = Mutex::new(Some(lines.columns()));
    let points: Vec<PathPoint> = run(py, &job, |cluster, reporter| {
        let stop = || reporter.is_interrupted();
        match taken(&data) {
            ColumnsOf::F64(columns) => estimator.path_at(cluster, examples(columns, targets), &strengths, &stop),
            ColumnsOf::F32(columns) => estimator.path_at(cluster, examples(columns, targets), &strengths, &stop),
        }
    })?;
    let mut weights = vec![0.0; points.len() * lines.count];
    for (point, weights) in points.iter().zip(weights.chunks_exact_mut(lines.count.max(1))) {
        for (column, value) in &point.coefficients {
            weights[*column as usize] = *value;
        }
    }
    let numbers = |number: fn(&PathPoint) -> f64| points.iter().map(number).collect::<Vec<f64>>();
    let fitted = Fitted::new(py).doubles("weights", &weights, &[points.len(), lines.count])?;
    let fitted = fitted.doubles("intercepts", &numbers(|point| point.intercept), &[points.len()])?;
    Ok(fitted.doubles("gaps", &numbers(|point| point.gap), &[points.len()])?.into_dict())
}

fn builder(logistic: bool, l1_ratio: f64, intercept: bool, tolerance: f64, epochs: u32) -> SparseRegressionBuilder {
    let loss = if logistic { SparseLoss::Logistic } else { SparseLoss::Squared };
    SparseRegression::builder(loss).l1_ratio(l1_ratio).intercept(intercept).tolerance(tolerance).epochs(epochs)
}

/// Takes the data out: the program of a job of one peer runs once.
fn taken(data: &Mutex<Option<ColumnsOf>>) -> ColumnsOf {
    let mut data = data.lock().expect("nothing panics with the lock held");
    data.take().expect("the program of a job of one peer runs once")
}

fn examples<T: ColumnValue>(columns: FeatureColumns<T>, targets: &[f64]) -> SparseExamples<T> {
    SparseExamples::new(columns, targets.to_vec())
}

fn fit<T: ColumnValue>(
    cluster: &Cluster,
    estimator: &SparseRegression,
    columns: FeatureColumns<T>,
    targets: &[f64],
    start: Option<&[f64]>,
    reporter: &mut EpochReporter,
) -> Result<Fit<SparseModel>> {
    let start: Vec<(u32, f64)> = start.map_or_else(Vec::new, |start| {
        let nonzero = start.iter().enumerate().filter(|(_, value)| **value != 0.0);
        nonzero.map(|(column, value)| (column as u32, *value)).collect()
    });
    let options = FitOptions::new().with_callback(reporter);
    estimator.fit_rows_with(cluster, examples(columns, targets), start, options)
}
