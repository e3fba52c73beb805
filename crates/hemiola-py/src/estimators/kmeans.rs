//! k-means.

use crate::buffers::slice;
use crate::error::setting;
use crate::fitted::Fitted;
use crate::job::{JobOptions, run};
use crate::lines::LineBuffers;
use hemiola_models::training::FitOptions;
use hemiola_models::{Estimator, KMeans};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Fits k-means to rows, from `centers` if they are given; returns `centers` and `report`.
#[pyfunction]
#[pyo3(signature = (rows, job, *, clusters, centers, batch_size, tolerance, epochs, seed))]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
#[expect(clippy::too_many_arguments, reason = "settings have names in Python")]
pub(crate) fn fit_kmeans(
    py: Python<'_>,
    rows: LineBuffers,
    job: JobOptions,
    clusters: u32,
    centers: Option<PyBuffer<f64>>,
    batch_size: u32,
    tolerance: f64,
    epochs: u32,
    seed: u64,
) -> PyResult<Bound<'_, PyDict>> {
    let lines = rows.lines()?;
    let builder = KMeans::builder(clusters).batch_size(batch_size).tolerance(tolerance).epochs(epochs).seed(seed);
    let mut estimator = builder.build().map_err(|error| setting(&error))?;
    if let Some(centers) = &centers {
        estimator = estimator.with_centers(slice(centers)?.to_vec());
    }
    let (model, report) = run(py, &job, |cluster, reporter| {
        let features = lines.to_array(cluster)?;
        let fit = estimator.fit_with(cluster, &features, None, FitOptions::new().with_callback(reporter))?;
        Ok((fit.model, fit.report))
    })?;
    let (clusters, columns) = (model.clusters(), model.columns());
    let centers: Vec<f64> = (0..clusters).flat_map(|cluster| model.center(cluster).iter().copied()).collect();
    let fitted = Fitted::new(py).doubles("centers", &centers, &[clusters, columns])?;
    Ok(fitted.report(&report)?.into_dict())
}
