//! Ridge regression and least squares: against the closed form, on any cluster, and on unusual data.

use crate::{bits, labelled, resumed_bits};
use hemiola_array::dist::LabelledData;
use hemiola_cluster::{Cluster, Result};
use hemiola_core::rng::PhiloxRng;
use hemiola_models::prelude::*;
use hemiola_models::ridge::{DIRECT_COLUMNS, RidgeBuilder, RidgeModel};

fn cell([row, column]: [usize; 2]) -> f32 {
    let random = PhiloxRng::new(8);
    let index = (row * 1000 + column) as u64;
    if random.random_bool(index, 0, 0.4) { random.uniform_f32(index, 1, -1.0..3.0) } else { 0.0 }
}

fn label(row: usize) -> f32 {
    let signal = 5.0 + 2.0 * cell([row, 0]) - 3.0 * cell([row, 1]) + 0.5 * cell([row, 2]);
    signal + PhiloxRng::new(9).normal(row as u64, 0, 0.0, 0.3) as f32
}

fn data(cluster: &Cluster, rows: usize, columns: usize) -> Result<LabelledData> {
    labelled(cluster, [rows, columns], cell, label)
}

fn fit(builder: &RidgeBuilder, rows: usize, columns: usize) -> Fit<RidgeModel> {
    let fitted = hemiola_cluster::standalone(2)
        .workers(2)
        .run(|cluster| builder.clone().build()?.fit(cluster, &data(cluster, rows, columns)?));
    fitted.unwrap().swap_remove(0)
}

/// Weights, then the intercept.
fn coefficients(model: &RidgeModel) -> Vec<f64> {
    model.weights().iter().copied().chain([model.intercept]).collect()
}

/// Solution of the normal equations with a column of ones, by Gauss-Jordan elimination with pivoting.
fn closed_form(rows: usize, columns: usize, alpha: f64, intercept: bool) -> Vec<f64> {
    let width = columns + usize::from(intercept);
    let value = |row: usize, column: usize| if column == columns { 1.0 } else { f64::from(cell([row, column])) };
    let mut matrix = vec![vec![0.0; width + 1]; width];
    for (i, equation) in matrix.iter_mut().enumerate() {
        for (j, cell) in equation.iter_mut().enumerate() {
            let right = |row: usize| if j == width { f64::from(label(row)) } else { value(row, j) };
            *cell = (0..rows).map(|row| value(row, i) * right(row)).sum();
        }
        equation[i] += if i < columns { alpha } else { 0.0 };
    }
    for i in 0..width {
        let pivot = (i..width).max_by(|a, b| matrix[*a][i].abs().total_cmp(&matrix[*b][i].abs())).unwrap();
        matrix.swap(i, pivot);
        let scale = matrix[i][i];
        matrix[i].iter_mut().for_each(|value| *value /= scale);
        let own = matrix[i].clone();
        for row in matrix.iter_mut().enumerate().filter(|(j, _)| *j != i).map(|(_, row)| row) {
            let factor = row[i];
            row.iter_mut().zip(&own).for_each(|(value, own)| *value -= factor * own);
        }
    }
    let mut solution: Vec<f64> = matrix.iter().map(|row| row[width]).collect();
    solution.resize(columns + 1, 0.0);
    solution
}

fn close(found: &[f64], expected: &[f64], tolerance: f64) {
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= tolerance * expected.abs().max(1.0), "{index}: {found} {expected}");
    }
}

#[test]
fn the_solution_is_that_of_the_normal_equations() {
    for (alpha, intercept) in [(0.0, true), (0.0, false), (1.0, true), (25.0, false)] {
        let trained = fit(&RidgeRegression::builder().alpha(alpha).intercept(intercept), 150, 9);
        // Rounding of double precision, with a condition number below 1000.
        close(&coefficients(&trained.model), &closed_form(150, 9, alpha, intercept), 1e-10);
        assert_eq!((trained.report.progress.len(), &*trained.report.result.stop_reason), (1, "converged"));
        let model = &trained.model;
        let error = |row: usize| {
            let score = (0..9).map(|column| model.weights()[column] * f64::from(cell([row, column]))).sum::<f64>();
            (f64::from(label(row)) - score - model.intercept).powi(2)
        };
        let expected = (0..150).map(error).sum::<f64>() + alpha * model.weights().iter().map(|w| w * w).sum::<f64>();
        assert!((trained.report.result.objective / expected - 1.0).abs() < 1e-10);
    }
}

#[test]
fn conjugate_gradients_solve_wide_data() {
    let columns = DIRECT_COLUMNS + 20;
    let trained = fit(&RidgeRegression::builder().alpha(2.0).tolerance(1e-10), 40, columns);
    assert_eq!(trained.report.result.stop_reason, "converged");
    // The gradient of the objective is 0 at the minimum: X'(y - Xw - b) = alpha w, and the errors
    // sum to 0.
    let model = &trained.model;
    let error = |row: usize| {
        let score = (0..columns).map(|column| model.weights()[column] * f64::from(cell([row, column]))).sum::<f64>();
        f64::from(label(row)) - score - model.intercept
    };
    let errors: Vec<f64> = (0..40).map(error).collect();
    assert!(errors.iter().sum::<f64>().abs() < 1e-7, "{errors:?}");
    for column in 0..columns {
        let product: f64 = errors.iter().enumerate().map(|(row, error)| error * f64::from(cell([row, column]))).sum();
        assert!((product - 2.0 * model.weights()[column]).abs() < 1e-6, "{column}: {product}");
    }
    let objectives: Vec<f64> = trained.report.progress.iter().map(|progress| progress.objective).collect();
    assert!(objectives.windows(2).all(|pair| pair[1] <= pair[0] * (1.0 + 1e-12)), "{objectives:?}");
}

#[test]
fn collinear_columns_have_a_solution_without_regularization() {
    let trained = hemiola_cluster::standalone(2).run(|cluster| {
        // Columns 1 and 2 are equal, and column 3 is constant, as the intercept is.
        let value = |[row, column]: [usize; 2]| match column {
            0 => cell([row, 0]),
            3 => 1.0,
            _ => cell([row, 1]) + 0.25,
        };
        let data = labelled(cluster, [60, 4], value, |row| 1.0 + 2.0 * value([row, 0]) - 3.0 * value([row, 1]))?;
        let fit = RidgeRegression::least_squares().build()?.fit(cluster, &data)?;
        Ok((fit.model.predict(cluster, &data.features)?, data.labels.collect()?, fit.report))
    });
    let (predictions, labels, report) = trained.unwrap().swap_remove(0);
    assert!(report.progress[0].note.as_ref().unwrap().contains("singular"), "{report:?}");
    for (prediction, (_, label)) in predictions.iter().zip(labels) {
        // Labels are in single precision.
        assert!((prediction - f64::from(label)).abs() < 1e-5, "{prediction} {label}");
    }
}

#[test]
fn the_model_has_the_same_bits_on_any_cluster() {
    for columns in [7, DIRECT_COLUMNS + 8] {
        let trained = |peers: usize, workers: usize| {
            let models = hemiola_cluster::standalone(peers).workers(workers).run(|cluster| {
                let builder = RidgeRegression::builder().validation(0.2).epochs(12);
                let fit = builder.build()?.fit(cluster, &data(cluster, 90, columns)?)?;
                let objectives: Vec<f64> = fit.report.progress.iter().map(|progress| progress.objective).collect();
                Ok((bits(&coefficients(&fit.model)), bits(&objectives)))
            });
            let models = models.unwrap();
            assert!(models.iter().all(|model| *model == models[0]), "{peers} peers differ");
            models.into_iter().next().unwrap()
        };
        let serial = trained(1, 1);
        for (peers, workers) in [(1, 3), (2, 1), (4, 1), (3, 2)] {
            assert!(trained(peers, workers) == serial, "{columns} columns, {peers} peers of {workers} workers");
        }
    }
}

#[test]
fn resumed_training_has_the_same_bits_on_other_clusters_too() {
    let columns = DIRECT_COLUMNS + 8;
    let ridge = |epochs: u32| RidgeRegression::builder().tolerance(0.0).epochs(epochs).build().unwrap();
    let of = |model: &RidgeModel| bits(&coefficients(model));
    let whole = resumed_bits(|cluster| data(cluster, 60, columns), &ridge, &[(8, 1, 2)], of);
    for runs in [&[(3, 1, 2), (8, 1, 2)][..], &[(1, 1, 1), (4, 2, 1), (8, 4, 1)]] {
        assert_eq!(resumed_bits(|cluster| data(cluster, 60, columns), &ridge, runs, of), whole, "{runs:?}");
    }
}

#[test]
fn evaluation_reports_errors_and_unknown_features() {
    let evaluated = hemiola_cluster::standalone(2).run(|cluster| {
        let model = RidgeRegression::builder().build()?.fit(cluster, &data(cluster, 150, 5)?)?.model;
        let wider = data(cluster, 80, 6)?;
        let evaluation = model.evaluate(cluster, &wider)?;
        let predictions = model.predict(cluster, &wider.features)?;
        Ok((evaluation, predictions, model.unknown_features(cluster, &wider.features)?))
    });
    let (evaluation, predictions, unknown) = evaluated.unwrap().swap_remove(0);
    let sum: f64 =
        predictions.iter().enumerate().map(|(row, prediction)| (prediction - f64::from(label(row))).powi(2)).sum();
    assert!((evaluation.metrics["rmse"] - (sum / 80.0).sqrt()).abs() < 1e-12);
    assert!(evaluation.metrics["r2"] > 0.95, "{evaluation:?}");
    assert_eq!((evaluation.examples, evaluation.unknown_features), (80, unknown));
    assert_eq!(unknown, (0..80).filter(|row| cell([*row, 5]) != 0.0).count() as u64);
}

#[test]
fn unsuitable_data_are_refused_with_a_reason() {
    let error = |value: fn([usize; 2]) -> f32, label: fn(usize) -> f32| {
        let fitted = hemiola_cluster::standalone(2).run(|cluster| {
            RidgeRegression::builder().build()?.fit(cluster, &labelled(cluster, [30, 3], value, label)?)
        });
        fitted.unwrap_err().to_string()
    };
    let nan = |[row, column]: [usize; 2]| if [row, column] == [7, 2] { f32::NAN } else { 1.0 };
    assert!(error(nan, |row| row as f32).contains("the feature of example `8` in column `3` is not a finite"));
    let infinite = |row: usize| if row == 20 { f32::INFINITY } else { 1.0 };
    assert!(error(|_| 1.0, infinite).contains("the label of example `21` is not a finite"));
}
