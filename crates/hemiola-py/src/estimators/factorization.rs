//! Matrix factorization, of ratings or of implicit feedback.

use crate::error::setting;
use crate::fitted::Fitted;
use crate::job::{JobOptions, run};
use crate::lines::LineBuffers;
use hemiola_array::DistArray;
use hemiola_models::mf::{MfLoss, UserFactors};
use hemiola_models::training::FitOptions;
use hemiola_models::{Estimator, MatrixFactorization};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Fits a matrix factorization to rows of users; returns `user_factors`, `item_factors`,
/// `user_biases`, `item_biases`, `mean`, `deviation` and `report`.
#[pyfunction]
#[pyo3(signature = (rows, job, *, loss, rank, l2, learning_rate, unobserved_weight, frequency_exponent, epochs, seed))]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
#[expect(clippy::too_many_arguments, reason = "settings have names in Python")]
pub(crate) fn fit_factorization<'py>(
    py: Python<'py>,
    rows: LineBuffers,
    job: JobOptions,
    loss: &str,
    rank: u32,
    l2: Option<f32>,
    learning_rate: f32,
    unobserved_weight: f32,
    frequency_exponent: f32,
    epochs: u32,
    seed: u64,
) -> PyResult<Bound<'py, PyDict>> {
    let lines = rows.lines()?;
    let loss = match loss {
        "squared" => MfLoss::Squared,
        "logistic" => MfLoss::Logistic,
        "one-class" => MfLoss::OneClass,
        "bpr" => MfLoss::Bpr,
        _ => return Err(PyValueError::new_err(format!("no loss `{loss}`"))),
    };
    let mut builder = MatrixFactorization::builder()
        .loss(loss)
        .rank(rank)
        .learning_rate(learning_rate)
        .unobserved_weight(unobserved_weight)
        .frequency_exponent(frequency_exponent)
        .epochs(epochs)
        .validation(0.0)
        .seed(seed);
    if let Some(l2) = l2 {
        builder = builder.l2(l2);
    }
    let estimator = builder.build().map_err(|error| setting(&error))?;
    let shape = [lines.count, lines.width];
    let rank = rank as usize;
    let results = run(py, &job, |cluster, reporter| {
        let ratings = lines.to_array(cluster)?;
        let fit = estimator.fit_with(cluster, &ratings, None, FitOptions::new().with_callback(reporter))?;
        let model = fit.model;
        let factors = [dense(&model.user_factors, shape[0], rank), dense(&model.item_factors, shape[1], rank)];
        // For a user without factors and bias, the score of an item is the mean plus its bias.
        let width = model.item_factors.shape().extent(1);
        let nobody = UserFactors { factors: vec![0.0; width], bias: 0.0 };
        let items: Vec<usize> = (0..shape[1]).collect();
        let mean = model.mean;
        let of_nobody = model.predict_for(cluster, &nobody, &items)?;
        let score = |prediction: f32| match loss {
            MfLoss::Logistic => (prediction / (1.0 - prediction)).ln(),
            _ => prediction,
        };
        let item_biases: Vec<f32> = of_nobody.into_iter().map(|prediction| score(prediction) - mean).collect();
        let user_biases = (0..shape[0])
            .map(|user| Ok(model.user_row(cluster, user)?.bias))
            .collect::<hemiola_cluster::Result<_>>()?;
        Ok((factors, [user_biases, item_biases], [mean, model.deviation], fit.report))
    })?;
    let ([users, items], [user_biases, item_biases], [mean, deviation], report): (
        [Vec<f32>; 2],
        [Vec<f32>; 2],
        [f32; 2],
        _,
    ) = results;
    let fitted = Fitted::new(py)
        .singles("user_factors", &users, &[shape[0], rank])?
        .singles("item_factors", &items, &[shape[1], rank])?
        .singles("user_biases", &user_biases, &[shape[0]])?
        .singles("item_biases", &item_biases, &[shape[1]])?
        .number("mean", f64::from(mean))?
        .number("deviation", f64::from(deviation))?;
    Ok(fitted.report(&report)?.into_dict())
}

/// Returns the first `width` columns of an array on one peer, row by row.
fn dense(array: &DistArray<f32, 2>, rows: usize, width: usize) -> Vec<f32> {
    let mut cells = vec![0.0; rows * width];
    array.for_each(|[row, column], value| {
        if column < width {
            cells[row * width + column] = *value;
        }
    });
    cells
}
