//! Softmax regression: the minimum, two classes, any cluster, unusual data.

use crate::{bits, labelled, resumed_bits};
use hemiola_array::dist::LabelledData;
use hemiola_cluster::{Cluster, Result};
use hemiola_core::rng::PhiloxRng;
use hemiola_models::linear::LinearLoss;
use hemiola_models::prelude::*;
use hemiola_models::softmax::{SoftmaxBuilder, SoftmaxModel};

const LABELS: [f32; 3] = [-1.0, 2.0, 7.5];
const COLUMNS: usize = 6;

fn cell([row, column]: [usize; 2]) -> f32 {
    let random = PhiloxRng::new(3);
    let index = (row * COLUMNS + column) as u64;
    let noise = random.uniform_f32(index, 0, -1.0..1.0);
    if column == row % 3 {
        noise + 0.8
    } else if column < 3 || row % 4 == 0 {
        noise
    } else {
        0.0
    }
}

fn three(cluster: &Cluster, rows: usize) -> Result<LabelledData> {
    labelled(cluster, [rows, COLUMNS], cell, |row| LABELS[row % 3])
}

fn two(cluster: &Cluster, rows: usize) -> Result<LabelledData> {
    labelled(cluster, [rows, COLUMNS], cell, |row| f32::from(row % 3 == 0))
}

fn fit(builder: &SoftmaxBuilder, data: fn(&Cluster, usize) -> Result<LabelledData>, rows: usize) -> Fit<SoftmaxModel> {
    let fitted = hemiola_cluster::standalone(2)
        .workers(2)
        .run(|cluster| builder.clone().build()?.fit(cluster, &data(cluster, rows)?));
    fitted.unwrap().swap_remove(0)
}

fn weights(model: &SoftmaxModel) -> Vec<f64> {
    (0..model.classes.len())
        .flat_map(|class| model.weights(class).iter().copied().chain([model.intercept(class)]))
        .collect()
}

/// Objective and gradient, written as they are defined.
fn objective(weights: &[f64], rows: usize, c: f64) -> (f64, Vec<f64>) {
    let width = COLUMNS + 1;
    let mut gradient = vec![0.0; weights.len()];
    let mut sum = 0.0;
    for (index, weight) in weights.iter().enumerate().filter(|(index, _)| index % width < COLUMNS) {
        sum += 0.5 * weight * weight;
        gradient[index] += weight;
    }
    for row in 0..rows {
        let x: Vec<f64> = (0..COLUMNS).map(|column| f64::from(cell([row, column]))).chain([1.0]).collect();
        let scores: Vec<f64> =
            weights.chunks(width).map(|w| w.iter().zip(&x).map(|(w, x)| w * x).sum::<f64>()).collect();
        let total: f64 = scores.iter().map(|score| score.exp()).sum();
        sum -= c * (scores[row % 3].exp() / total).ln();
        for (class, score) in scores.iter().enumerate() {
            let slope = score.exp() / total - f64::from(u8::from(class == row % 3));
            x.iter().enumerate().for_each(|(column, x)| gradient[class * width + column] += c * slope * x);
        }
    }
    (sum, gradient)
}

#[test]
fn the_gradient_is_zero_at_the_minimum() {
    for c in [0.05, 1.0, 20.0] {
        let trained = fit(&SoftmaxRegression::builder().c(c).tolerance(1e-9), three, 180);
        assert_eq!(trained.report.result.stop_reason, "converged");
        let (value, gradient) = objective(&weights(&trained.model), 180, c);
        let (_, first) = objective(&[0.0; 3 * (COLUMNS + 1)], 180, c);
        let norm = |vector: &[f64]| vector.iter().map(|value| value * value).sum::<f64>().sqrt();
        assert!(norm(&gradient) < 1e-8 * norm(&first), "{gradient:?}");
        assert!((trained.report.result.objective / value - 1.0).abs() < 1e-12);
        let objectives: Vec<f64> = trained.report.progress.iter().map(|progress| progress.objective).collect();
        assert!(objectives.windows(2).all(|pair| pair[1] <= pair[0]), "{objectives:?}");
    }
}

#[test]
fn two_classes_are_binary_logistic_regression_of_twice_the_c() {
    let pair = hemiola_cluster::standalone(1).workers(2).run(|cluster| {
        let data = two(cluster, 200)?;
        let softmax =
            SoftmaxRegression::builder().c(0.7).intercept(false).tolerance(1e-9).build()?.fit(cluster, &data)?;
        let binary = LinearClassifier::builder(LinearLoss::Logistic).c(1.4).bias(0.0).tolerance(1e-12).epochs(2000);
        let binary = binary.build()?.fit(cluster, &data)?;
        Ok((softmax.model, binary.model))
    });
    let (softmax, binary) = pair.unwrap().swap_remove(0);
    for column in 0..COLUMNS {
        let difference = softmax.weights(1)[column] - softmax.weights(0)[column];
        // The duality gap bounds the error of the binary problem.
        assert!((difference - binary.weights(0)[column]).abs() < 1e-4, "{difference} {}", binary.weights(0)[column]);
        assert!((softmax.weights(1)[column] + softmax.weights(0)[column]).abs() < 1e-9);
    }
}

#[test]
fn the_model_has_the_same_bits_on_any_cluster() {
    let trained = |peers: usize, workers: usize| {
        let models = hemiola_cluster::standalone(peers).workers(workers).run(|cluster| {
            let data = three(cluster, 150)?;
            let fit = SoftmaxRegression::builder().validation(0.2).epochs(4).build()?.fit(cluster, &data)?;
            let predictions = fit.model.predict(cluster, &data.features)?;
            Ok((bits(&weights(&fit.model)), predictions))
        });
        let models = models.unwrap();
        assert!(models.iter().all(|model| *model == models[0]), "{peers} peers differ");
        models.into_iter().next().unwrap()
    };
    let serial = trained(1, 1);
    for (peers, workers) in [(1, 3), (2, 1), (4, 1), (3, 2)] {
        assert!(trained(peers, workers) == serial, "{peers} peers of {workers} workers");
    }
}

#[test]
fn resumed_training_has_the_same_bits_on_other_clusters_too() {
    let softmax = |epochs: u32| SoftmaxRegression::builder().tolerance(0.0).epochs(epochs).build().unwrap();
    let of = |model: &SoftmaxModel| bits(&weights(model));
    let whole = resumed_bits(|cluster| three(cluster, 150), &softmax, &[(5, 1, 2)], of);
    for runs in [&[(2, 1, 2), (5, 1, 2)][..], &[(1, 1, 1), (3, 2, 1), (5, 4, 1)]] {
        assert_eq!(resumed_bits(|cluster| three(cluster, 150), &softmax, runs, of), whole, "{runs:?}");
    }
}

#[test]
fn names_and_metrics_are_those_of_the_classes() {
    let outcome = hemiola_cluster::standalone(2).run(|cluster| {
        let names = ["left", "middle", "right"].map(str::to_owned).to_vec();
        let data = labelled(cluster, [150, COLUMNS], cell, |row| (row % 3) as f32)?;
        let model = SoftmaxRegression::builder().build()?.named(names).fit(cluster, &data)?.model;
        Ok((model.predict(cluster, &data.features)?, model.evaluate(cluster, &data)?))
    });
    let (predictions, evaluation) = outcome.unwrap().swap_remove(0);
    let names = ["left", "middle", "right"];
    let right = predictions.iter().enumerate().filter(|(row, one)| one.name.as_deref() == Some(names[row % 3])).count();
    assert!((evaluation.metrics["accuracy"] - right as f64 / 150.0).abs() < 1e-12);
    let cost = |(row, one): (usize, &hemiola_models::softmax::SoftmaxPrediction)| -one.probabilities[row % 3].ln();
    let logloss = predictions.iter().enumerate().map(cost).sum::<f64>() / 150.0;
    assert!((evaluation.metrics["logloss"] - logloss).abs() < 1e-12);
    assert!(evaluation.metrics["accuracy"] > 0.6, "{evaluation:?}");
}

#[test]
fn unsuitable_data_are_refused_with_a_reason() {
    let error = |value: fn([usize; 2]) -> f32, label: fn(usize) -> f32| {
        let fitted = hemiola_cluster::standalone(2).run(|cluster| {
            SoftmaxRegression::builder().build()?.fit(cluster, &labelled(cluster, [40, 3], value, label)?)
        });
        fitted.unwrap_err().to_string()
    };
    let nan = |[row, column]: [usize; 2]| if [row, column] == [7, 2] { f32::NAN } else { 1.0 };
    assert!(error(nan, |row| (row % 2) as f32).contains("the feature of example `8` in column `3` is not a finite"));
    assert!(error(|_| 1.0, |_| 3.0).contains("all training examples have the label 3"));
    assert!(error(|_| 1.0, |row| row as f32).contains("quantities or names and not classes"));
    assert!(
        error(|_| 1.0, |row| if row == 5 { f32::NAN } else { (row % 2) as f32 }).contains("the label of example `6`")
    );
}
