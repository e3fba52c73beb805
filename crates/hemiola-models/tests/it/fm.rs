//! Factorization machines: against the definition over all pairs, on any cluster, and on data that
//! they cannot or must not take.

use crate::{bits, labelled, resumed_bits};
use hemiola_array::ArrayExt as _;
use hemiola_array::dist::LabelledData;
use hemiola_cluster::{Cluster, Result};
use hemiola_core::rng::{PhiloxRng, SplitMix64, mix64};
use hemiola_models::fm::{FmBuilder, FmLoss, FmModel};
use hemiola_models::prelude::*;

const FIELDS: usize = 3;
const CATEGORIES: usize = 8;

/// Examples of three categories each. The label depends on the *pair* of the first two: on their
/// sum, modulo 2.
fn pairs(cluster: &Cluster, rows: usize) -> Result<LabelledData> {
    labelled(
        cluster,
        [rows, FIELDS * CATEGORIES],
        |[row, column]| f32::from(category(row, column / CATEGORIES) == column % CATEGORIES),
        |row| ((category(row, 0) + category(row, 1)) % 2) as f32,
    )
}

fn category(row: usize, field: usize) -> usize {
    (mix64((row * FIELDS + field) as u64 + 99) % CATEGORIES as u64) as usize
}

/// Quantities with features of any value, some rows of which are empty.
fn quantities(cluster: &Cluster, rows: usize) -> Result<LabelledData> {
    labelled(cluster, [rows, 7], cell, quantity)
}

fn cell([row, column]: [usize; 2]) -> f32 {
    if column < 6 && (row * 7 + column * 3) % 4 > 1 && row % 11 != 5 || row == 0 {
        ((row * 5 + column * 11) % 13) as f32 / 6.0 - 1.0
    } else {
        0.0
    }
}

fn quantity(row: usize) -> f32 {
    20.0 + 3.0 * cell([row, 0]) - 4.0 * cell([row, 1]) * cell([row, 2]) + 2.0 * cell([row, 3]) * cell([row, 4])
}

fn builder(loss: FmLoss) -> FmBuilder {
    FactorizationMachine::builder(loss).rank(5).epochs(3).batch_size(16).normalize(false)
}

fn model_bits(model: &FmModel) -> Vec<u32> {
    let features = 0..model.columns();
    let numbers = features
        .flat_map(|feature| std::iter::once(model.weight(feature)).chain(model.factors(feature).iter().copied()));
    std::iter::once(model.intercept()).chain(numbers).map(f32::to_bits).collect()
}

/// Serial reference in double precision: the sum over pairs as it is defined, and its derivatives.
struct Reference {
    rank: usize,
    bias: (f64, f64),
    /// Weight and its AdaGrad sum.
    weights: Vec<(f64, f64)>,
    factors: Vec<Vec<f64>>,
    factor_sums: Vec<f64>,
}

impl Reference {
    fn start(columns: usize, rank: usize, bias: f64, seed: u64) -> Self {
        let values = PhiloxRng::new(seed);
        let spread = 0.2 / (rank as f64).sqrt().sqrt();
        let factor = |column: usize, index: usize| {
            f64::from(values.normal((column * rank + index) as u64, 2, 0.0, spread) as f32)
        };
        let factors = (0..columns).map(|column| (0..rank).map(|index| factor(column, index)).collect());
        Self {
            rank,
            bias: (bias, 1.0),
            weights: vec![(0.0, 1.0); columns],
            factors: factors.collect(),
            factor_sums: vec![1.0; columns],
        }
    }

    fn score(&self, x: &[(usize, f64)]) -> f64 {
        let mut score = self.bias.0 + x.iter().map(|(i, value)| self.weights[*i].0 * value).sum::<f64>();
        for (at, (i, x_i)) in x.iter().enumerate() {
            for (j, x_j) in &x[at + 1..] {
                score += x_i * x_j * (0..self.rank).map(|k| self.factors[*i][k] * self.factors[*j][k]).sum::<f64>();
            }
        }
        score
    }

    /// Takes a step; `slopes` are the negative derivatives of the losses by the scores.
    fn step(&mut self, batch: &[Vec<(usize, f64)>], slopes: &[f64], (rate, l2_linear, l2_factors): (f64, f64, f64)) {
        let columns = self.weights.len();
        let mut weights = vec![(0.0, 0.0); columns];
        let mut factors = vec![vec![0.0; self.rank]; columns];
        for (x, slope) in batch.iter().zip(slopes) {
            for (i, x_i) in x {
                weights[*i].0 += slope * x_i;
                weights[*i].1 += 1.0;
                for (j, x_j) in x.iter().filter(|(j, _)| j != i) {
                    for (sum, factor) in factors[*i].iter_mut().zip(&self.factors[*j]) {
                        *sum += slope * x_i * x_j * factor;
                    }
                }
            }
        }
        for i in 0..columns {
            let (gradient, count) = weights[i];
            if count == 0.0 {
                continue;
            }
            let gradient = gradient - count * l2_linear * self.weights[i].0;
            self.weights[i].1 += gradient * gradient;
            self.weights[i].0 += rate / self.weights[i].1.sqrt() * gradient;
            for (sum, factor) in factors[i].iter_mut().zip(&self.factors[i]) {
                *sum -= count * l2_factors * factor;
            }
            self.factor_sums[i] += factors[i].iter().map(|g| g * g).sum::<f64>() / self.rank as f64;
            for (factor, sum) in self.factors[i].iter_mut().zip(&factors[i]) {
                *factor += rate / self.factor_sums[i].sqrt() * sum;
            }
        }
        let slope: f64 = slopes.iter().sum();
        self.bias.1 += slope * slope;
        self.bias.0 += rate / self.bias.1.sqrt() * slope;
    }
}

#[test]
fn training_follows_the_definition_over_all_pairs() {
    let (rows, columns) = (120, 7);
    let trained = hemiola_cluster::standalone(1).workers(2).run(|cluster| {
        let data = quantities(cluster, rows)?;
        let machine = builder(FmLoss::Squared).l2_linear(0.01).l2_factors(0.02).learning_rate(0.2).build()?;
        machine.fit(cluster, &data)
    });
    let model = trained.unwrap().swap_remove(0).model;
    let mut reference = Reference::start(columns, 5, 0.0, 1);
    for epoch in 0..3_u64 {
        let mut order: Vec<usize> = (0..rows).collect();
        SplitMix64::new(mix64(1 ^ (epoch << 32))).shuffle(&mut order);
        for batch in order.chunks(16) {
            let x = |row: &usize| {
                let entry = |column| (column, f64::from(cell([*row, column])));
                (0..columns).map(entry).filter(|(_, value)| *value != 0.0).collect::<Vec<_>>()
            };
            let examples: Vec<_> = batch.iter().map(x).collect();
            let slope = |(row, x): (&usize, &Vec<_>)| {
                (f64::from(quantity(*row)) - model.mean) / model.deviation - reference.score(x)
            };
            let slopes: Vec<f64> = batch.iter().zip(&examples).map(slope).collect();
            reference.step(&examples, &slopes, (f64::from(0.2_f32), f64::from(0.01_f32), f64::from(0.02_f32)));
        }
    }
    // Single precision in the model, double in the reference.
    assert!((f64::from(model.intercept()) - reference.bias.0).abs() < 1e-4);
    for i in 0..columns {
        assert!((f64::from(model.weight(i)) - reference.weights[i].0).abs() < 1e-4, "weight {i}");
        for (factor, expected) in model.factors(i).iter().zip(&reference.factors[i]) {
            assert!((f64::from(*factor) - expected).abs() < 1e-4, "factors {i}: {factor} {expected}");
        }
    }
}

#[test]
fn the_model_has_the_same_bits_on_any_cluster() {
    for loss in [FmLoss::Squared, FmLoss::Logistic] {
        let trained = |peers: usize, workers: usize| {
            let models = hemiola_cluster::standalone(peers).workers(workers).run(|cluster| {
                let data = if loss == FmLoss::Squared { quantities(cluster, 150)? } else { pairs(cluster, 150)? };
                let fit = builder(loss).validation(0.2).build()?.fit(cluster, &data)?;
                let objectives: Vec<u64> =
                    fit.report.progress.iter().map(|progress| progress.objective.to_bits()).collect();
                Ok((model_bits(&fit.model), objectives, fit.model.predict(cluster, &data.features)?))
            });
            let models = models.unwrap();
            assert!(models.iter().all(|model| *model == models[0]), "{peers} peers differ");
            models.into_iter().next().unwrap()
        };
        let serial = trained(1, 1);
        for (peers, workers) in [(1, 3), (2, 1), (4, 1), (2, 2), (3, 1)] {
            assert!(trained(peers, workers) == serial, "{peers} peers of {workers} workers");
        }
    }
}

#[test]
fn pairs_are_learned_that_a_linear_model_cannot_learn() {
    let auc = |rank: u32| {
        let metrics = hemiola_cluster::standalone(2).workers(1).run(|cluster| {
            let builder = FactorizationMachine::builder(FmLoss::Logistic).normalize(false);
            let machine = builder.rank(rank).epochs(30).build()?;
            let model = machine.fit(cluster, &pairs(cluster, 3000)?)?.model;
            let test = pairs(cluster, 4000)?;
            Ok(model.evaluate(cluster, &test)?.metrics["auc"])
        });
        metrics.unwrap()[0]
    };
    let (linear, machine) = (auc(0), auc(8));
    assert!(linear < 0.6 && machine > 0.98, "{linear} {machine}");
}

#[test]
fn normalized_examples_are_learned_and_predicted_at_any_scale() {
    let outcome = hemiola_cluster::standalone(2).workers(1).run(|cluster| {
        let trained = |scale: fn(usize) -> f32| {
            let data = labelled(cluster, [300, 7], |key| scale(key[0]) * cell(key), |row| (row % 2) as f32)?;
            let model = builder(FmLoss::Logistic).normalize(true).build()?.fit(cluster, &data)?.model;
            let metrics = model.evaluate(cluster, &data)?.metrics;
            let predicted = model.predict(cluster, &data.features)?;
            let probabilities = predicted.into_iter().map(|one| one.probability.unwrap()).collect();
            Result::<(Vec<f64>, f64)>::Ok((probabilities, metrics["logloss"]))
        };
        // Powers of two scale without rounding.
        let scale = |row: usize| if row.is_multiple_of(3) { 8.0 } else { 0.25 };
        Ok((trained(|_| 1.0)?, trained(scale)?))
    });
    let ((plain, plain_loss), (scaled, scaled_loss)) = outcome.unwrap().swap_remove(0);
    assert_eq!(bits(&plain), bits(&scaled));
    assert_eq!(plain_loss.to_bits(), scaled_loss.to_bits());
    let default = |loss| FactorizationMachine::builder(loss).build().unwrap().settings().normalize;
    assert!(
        default(FmLoss::Logistic) && !default(FmLoss::Squared),
        "the size of a quantity may depend on its features"
    );
}

#[test]
fn resumed_training_has_the_same_bits_on_other_clusters_too() {
    let machine = |epochs: u32| builder(FmLoss::Logistic).validation(0.2).epochs(epochs).build().unwrap();
    let whole = resumed_bits(|cluster| pairs(cluster, 200), &machine, &[(6, 1, 2)], model_bits);
    for runs in [&[(2, 1, 2), (6, 1, 2)][..], &[(1, 1, 1), (3, 2, 1), (6, 4, 1)]] {
        assert_eq!(resumed_bits(|cluster| pairs(cluster, 200), &machine, runs, model_bits), whole, "{runs:?}");
    }
}

#[test]
fn a_diverging_epoch_is_repeated_with_a_smaller_learning_rate() {
    let report = hemiola_cluster::standalone(1).run(|cluster| {
        let data = labelled(cluster, [60, 7], |key| 20.0 * cell(key), quantity)?;
        let fit = builder(FmLoss::Squared).learning_rate(10.0).build()?.fit(cluster, &data)?;
        Ok(fit.report)
    });
    let report = report.unwrap().swap_remove(0);
    assert!(report.progress.iter().any(|progress| progress.note.is_some()), "{report:?}");
    assert!(report.progress.iter().all(|progress| progress.objective.is_finite()));
}

#[test]
fn unsuitable_data_are_refused_with_a_reason() {
    let error = |loss: FmLoss, value: fn([usize; 2]) -> f32, label: fn(usize) -> f32| {
        let fitted = hemiola_cluster::standalone(2).run(|cluster| {
            let data = labelled(cluster, [40, 3], value, label)?;
            builder(loss).build()?.fit(cluster, &data)
        });
        fitted.unwrap_err().to_string()
    };
    let one = |[row, column]: [usize; 2]| (1 + row + column) as f32 / 40.0;
    let two = |row: usize| (row % 2) as f32;
    let nan = |[row, column]: [usize; 2]| if [row, column] == [7, 2] { f32::NAN } else { 1.0 };
    assert!(error(FmLoss::Logistic, nan, two).contains("the feature of example `8` in column `3` is not a finite"));
    let label = |row: usize| if row == 30 { f32::INFINITY } else { (row % 2) as f32 };
    assert!(error(FmLoss::Logistic, one, label).contains("the label of example `31` is not a finite"));
    assert!(error(FmLoss::Squared, one, label).contains("the label of example `31` is not a finite"));
    assert!(error(FmLoss::Logistic, one, |_| 3.0).contains("all training examples have the label 3"));
    assert!(error(FmLoss::Logistic, one, |row| (row % 3) as f32).contains("this model is binary"));
    assert!(error(FmLoss::Logistic, one, |row| row as f32).contains("quantities or names and not classes"));
}

#[test]
fn columns_without_values_and_new_columns_have_no_effect() {
    let outcome = hemiola_cluster::standalone(2).run(|cluster| {
        // Column 1 never occurs.
        let data = labelled(
            cluster,
            [80, 3],
            |[row, column]| f32::from(column != 1 && (row + column) % 3 > 0),
            |row| (row % 3) as f32,
        )?;
        let model = builder(FmLoss::Squared).build()?.fit(cluster, &data)?.model;
        let row = |values: &'static [f32]| {
            cluster.from_fn([1, values.len()], |[_, column]| values[column])?.entries().materialize()
        };
        let predicted = |values: &'static [f32]| Ok(model.predict(cluster, &row(values)?)?[0].value);
        let wide = row(&[1.0, 0.0, 1.0, 5.0])?;
        assert_eq!(model.unknown_features(cluster, &wide)?, 1);
        let all: Result<Vec<f64>> =
            [&[1.0, 0.0, 1.0][..], &[1.0, 4.0, 1.0], &[1.0, 0.0, 1.0, 5.0]].into_iter().map(predicted).collect();
        Ok(bits(&all?))
    });
    let all = outcome.unwrap().swap_remove(0);
    assert!(all[0] == all[1] && all[0] == all[2], "{all:?}");
}
