//! Weights of training examples: an example of weight `n` counts as `n` examples.

use crate::labelled;
use hemiola_array::dist::LabelledData;
use hemiola_cluster::{Cluster, Result};
use hemiola_models::linear::LinearLoss;
use hemiola_models::prelude::*;
use hemiola_models::selection::Tunable as _;
use hemiola_models::{ClassWeights, ExampleWeights};

const ROWS: usize = 150;
const COLUMNS: usize = 4;

fn weight(row: usize) -> usize {
    row * 7 % 4
}

fn cell([row, column]: [usize; 2]) -> f32 {
    ((row * 31 + column * 17) % 13) as f32 / 4.0 - 1.0
}

fn class(row: usize) -> f32 {
    let sum: f32 = (0..COLUMNS).map(|column| cell([row, column]) * (column as f32 - 1.0)).sum();
    if row.is_multiple_of(11) { 2.0 } else { f32::from(sum > 0.0) }
}

fn quantity(row: usize) -> f32 {
    (0..COLUMNS).map(|column| cell([row, column]) * (column as f32 - 1.0)).sum::<f32>() + (row % 5) as f32
}

/// Examples once each, or as many copies of each as its weight.
fn data(cluster: &Cluster, label: fn(usize) -> f32, copies: bool) -> Result<LabelledData> {
    let rows: Vec<usize> = if copies {
        (0..ROWS).flat_map(|row| std::iter::repeat_n(row, weight(row))).collect()
    } else {
        (0..ROWS).collect()
    };
    labelled(cluster, [rows.len(), COLUMNS], |[row, column]| cell([rows[row], column]), |row| label(rows[row]))
}

fn weights() -> ExampleWeights {
    ExampleWeights::default().of_rows(Some((0..ROWS).map(|row| weight(row) as f32).collect()))
}

/// Trains with weights, and on copies; returns the objective and the numbers of both models.
fn both<E: Estimator<Data = LabelledData>>(
    peers: usize,
    label: fn(usize) -> f32,
    (weighted, plain): (&(impl Fn() -> E + Sync), &(impl Fn() -> E + Sync)),
    numbers: impl Fn(&E::Model) -> Vec<f64> + Sync,
) -> [(f64, Vec<f64>); 2] {
    let run = |cluster: &Cluster| -> Result<[(f64, Vec<f64>); 2]> {
        let fit = |estimator: E, data: &LabelledData| {
            let fit = estimator.fit(cluster, data)?;
            Ok::<(f64, Vec<f64>), hemiola_cluster::Error>((fit.report.result.objective, numbers(&fit.model)))
        };
        Ok([fit(weighted(), &data(cluster, label, false)?)?, fit(plain(), &data(cluster, label, true)?)?])
    };
    hemiola_cluster::standalone(peers).workers(1).run(run).unwrap().remove(0)
}

fn assert_near([weighted, copies]: &[(f64, Vec<f64>); 2], tolerance: f64) {
    assert!((weighted.0 - copies.0).abs() <= tolerance * copies.0.abs(), "{} {}", weighted.0, copies.0);
    for (a, b) in weighted.1.iter().zip(&copies.1) {
        assert!((a - b).abs() <= tolerance.sqrt() * (1.0 + b.abs()), "{a} {b}");
    }
}

#[test]
fn ridge_regression_minimizes_the_weighted_errors() {
    for intercept in [true, false] {
        let plain = || RidgeRegression::builder().alpha(0.7).intercept(intercept).build().unwrap();
        let weighted = || plain().weighted(weights());
        let found = both(1, quantity, (&weighted, &plain), |model| model.weights().to_vec());
        assert_near(&found, 1e-10);
        for peers in [2, 4] {
            assert_eq!(both(peers, quantity, (&weighted, &plain), |model| model.weights().to_vec())[0], found[0]);
        }
    }
    // A line through weighted points: the closed form of least squares.
    let points = [(0.0_f64, 1.0, 2.0), (1.0, 3.0, 1.0), (2.0, 2.0, 3.0), (5.0, 9.0, 0.0)];
    let sum = |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|(x, y, w)| w * of(*x, *y)).sum::<f64>();
    let (total, x, y) = (sum(&|_, _| 1.0), sum(&|x, _| x), sum(&|_, y| y));
    let slope = (sum(&|x, y| x * y) - x * y / total) / (sum(&|x, _| x * x) - x * x / total);
    let model = hemiola_cluster::standalone(1).run(|cluster| {
        let examples = labelled(cluster, [4, 1], |[row, _]| points[row].0 as f32, |row| points[row].1 as f32)?;
        let weights = ExampleWeights::default().of_rows(Some(points.iter().map(|point| point.2 as f32).collect()));
        let model = RidgeRegression::least_squares().build()?.weighted(weights).fit(cluster, &examples)?.model;
        Ok((model.weights()[0], model.intercept))
    });
    let (found, intercept) = model.unwrap()[0];
    assert!((found - slope).abs() < 1e-12 && (intercept - (y - slope * x) / total).abs() < 1e-12, "{found} {slope}");
}

#[test]
fn softmax_regression_minimizes_the_weighted_losses() {
    let plain = || SoftmaxRegression::builder().tolerance(1e-9).build().unwrap();
    let weighted = || plain().weighted(weights());
    let numbers = |model: &hemiola_models::softmax::SoftmaxModel| {
        (0..3).flat_map(|class| model.weights(class).to_vec()).collect::<Vec<f64>>()
    };
    let found = both(1, class, (&weighted, &plain), numbers);
    assert_near(&found, 1e-8);
    for peers in [2, 4] {
        assert_eq!(both(peers, class, (&weighted, &plain), numbers)[0], found[0]);
    }
}

/// A search trains rebuilt estimators, which once lost the weights of classes.
#[test]
fn rebuilt_estimators_keep_their_weights() {
    let softmax = SoftmaxRegression::builder().build().unwrap().weighted(weights());
    assert_eq!(softmax.with_limits(softmax.limits().clone()).unwrap(), softmax);
    let ridge = RidgeRegression::builder().build().unwrap().weighted(weights());
    assert_eq!(ridge.with_limits(ridge.limits().clone()).unwrap(), ridge);
    let svm = LinearClassifier::builder(LinearLoss::Hinge).build().unwrap().weighted(weights());
    assert_eq!(svm.with_limits(svm.limits().clone()).unwrap(), svm);
}

#[test]
fn linear_classifiers_minimize_the_weighted_losses() {
    for loss in [LinearLoss::Hinge, LinearLoss::SquaredHinge, LinearLoss::Logistic] {
        let plain = || LinearClassifier::builder(loss).tolerance(1e-7).epochs(2000).build().unwrap();
        let weighted = || plain().weighted(weights());
        for peers in [1, 2] {
            let found = both(peers, class, (&weighted, &plain), |model| model.weights(0).to_vec());
            assert_near(&found, 1e-5);
        }
    }
}

#[test]
fn a_checkpoint_is_resumed_with_the_same_weights_only() {
    let lab = tempfile::tempdir().unwrap();
    let folder = lab.path().join("model");
    let run = |balanced: bool, epochs: u32, resume: bool| {
        let run = |cluster: &Cluster| {
            let classes = if balanced { ClassWeights::Balanced } else { ClassWeights::Equal };
            let weights = ExampleWeights::default().of_classes(classes);
            let svm =
                LinearClassifier::builder(LinearLoss::Hinge).tolerance(0.0).epochs(epochs).build()?.weighted(weights);
            let options = FitOptions::new().with_checkpoints(Checkpoints::new(&folder).resume(resume));
            svm.fit_with(cluster, &data(cluster, class, false)?, None, options).map(|_| ())
        };
        hemiola_cluster::standalone(1).run(run).map_err(|error| error.to_string())
    };
    assert!(run(true, 2, false).is_ok());
    assert!(run(true, 3, true).is_ok());
    assert!(run(false, 4, true).unwrap_err().contains("data"));
}
