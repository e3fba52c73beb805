//! Sparse regression: convergence to the minimum of closed forms, optimality conditions and
//! scikit-learn, on any cluster.

use hemiola_array::ArrayExt;
use hemiola_array::dist::LabelledData;
use hemiola_cluster::{Cluster, Result};
use hemiola_core::rng::SplitMix64;
use hemiola_models::prelude::*;
use hemiola_models::sparse::{
    CscMatrix, DenseColumns, FeatureColumns, Lambda, LambdaGrid, SparseExamples, SparseLoss, SparseModel,
    SparseRegressionBuilder,
};
use hemiola_models::training::{Callback, EpochProgress, TrainingControl};
use serde::Deserialize;

/// Features and targets.
#[derive(Clone, Debug)]
struct TestData {
    rows: usize,
    columns: usize,
    /// Values in column-major order.
    values: Vec<f32>,
    target: Vec<f64>,
}

/// `SplitMix64`, as in `benchmarks/sparse_fixture.py`.
struct FixtureRng(SplitMix64);

impl FixtureRng {
    /// Uniform number in [−1, 1).
    fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 40) as f64 / f64::from(1 << 23) - 1.0
    }
}

/// The data of `benchmarks/sparse_fixture.py`.
fn synthetic(seed: u64, rows: usize, columns: usize, kind: &str) -> TestData {
    let mut random = FixtureRng(SplitMix64::new(seed));
    let mut values = vec![0.0_f32; rows * columns];
    for column in 0..columns {
        for row in 0..rows {
            let mut value = random.unit();
            if kind == "correlated" && column > 0 {
                value = 0.875 * f64::from(values[(column - 1) * rows + row]) + 0.125 * value;
            }
            if kind == "sparse" && random.unit() < 0.6 {
                value = 0.0;
            }
            values[column * rows + row] = value as f32;
        }
    }
    if kind == "odd" {
        for row in 0..rows {
            values[rows + row] = 2.5;
            values[2 * rows + row] = 0.0;
            values[3 * rows + row] = values[row];
            values[4 * rows + row] = (f64::from(values[4 * rows + row]) + 100.0) as f32;
        }
    }
    let of = |row: usize, column: usize| f64::from(values[column * rows + row]);
    let target = (0..rows).map(|row| {
        let explained = 2.0 * of(row, 0) - 1.5 * of(row, columns / 2) + of(row, columns - 1);
        f64::from((explained + 0.5 * random.unit() + 1.0) as f32)
    });
    let target = target.collect();
    TestData { rows, columns, values, target }
}

/// Splits rows at the median into two classes.
fn classes(data: &TestData) -> TestData {
    let mut sorted = data.target.clone();
    sorted.sort_by(f64::total_cmp);
    let median = 0.5 * (sorted[(data.rows - 1) / 2] + sorted[data.rows / 2]);
    TestData { target: data.target.iter().map(|y| f64::from(*y > median)).collect(), ..data.clone() }
}

impl TestData {
    fn of(&self, row: usize, column: usize) -> f64 {
        f64::from(self.values[column * self.rows + row])
    }

    /// Rows of a peer, by columns.
    fn share(&self, peer: usize, peers: usize, sparse: bool) -> SparseExamples<f32> {
        let rows = self.rows * peer / peers..self.rows * (peer + 1) / peers;
        let (mut values, mut at, mut starts) = (Vec::new(), Vec::new(), vec![0]);
        for column in 0..self.columns {
            for row in rows.clone() {
                let value = self.values[column * self.rows + row];
                if !sparse || value != 0.0 {
                    values.push(value);
                    at.push((row - rows.start) as u32);
                }
            }
            starts.push(values.len());
        }
        let columns = if sparse {
            FeatureColumns::Sparse(CscMatrix::new(rows.len(), &starts, at, values))
        } else {
            FeatureColumns::Dense(DenseColumns::new(rows.len(), self.columns, values))
        };
        let mut examples = SparseExamples::new(columns, self.target[rows.clone()].to_vec());
        examples.numbers = rows.collect();
        examples
    }

    fn labelled(&self, cluster: &Cluster) -> Result<LabelledData> {
        let cell = |[row, column]: [usize; 2]| self.values[column * self.rows + row];
        let features = cluster.from_fn([self.rows, self.columns], cell)?;
        let features = features.entries().filter(|_, value| *value != 0.0).materialize()?;
        let labels = cluster.from_fn([self.rows], |[row]| self.target[row] as f32)?;
        Ok(LabelledData { features, labels })
    }

    /// Residual of the model, of the squared or the log loss.
    fn residual(&self, model: &SparseModel) -> Vec<f64> {
        let score = |row: usize| {
            let parts = model.coefficients.iter().map(|(column, b)| b * self.of(row, *column as usize));
            parts.sum::<f64>() + model.intercept
        };
        let left = |row: usize| match model.classes {
            None => self.target[row] - score(row),
            Some(_) => self.target[row] - 1.0 / (1.0 + (-score(row)).exp()),
        };
        (0..self.rows).map(left).collect()
    }

    /// The objective, from the model and the data alone.
    fn objective(&self, model: &SparseModel) -> f64 {
        let residual = self.residual(model);
        let loss = |(row, left): (usize, &f64)| match model.classes {
            None => 0.5 * left * left,
            // The residual is 1 minus the probability of the true class.
            Some(_) => -(1.0 - (if self.target[row] > 0.5 { *left } else { -left })).ln(),
        };
        let ratio = model.settings.l1_ratio;
        let cost = model.coefficients.iter().map(|(_, b)| ratio * b.abs() + 0.5 * (1.0 - ratio) * b * b);
        residual.iter().enumerate().map(loss).sum::<f64>() / self.rows as f64 + model.lambda * cost.sum::<f64>()
    }

    /// Checks the optimality conditions, coefficient by coefficient.
    fn assert_optimal(&self, model: &SparseModel, within: f64, about: &str) {
        let residual = self.residual(model);
        let (l1, l2) = (model.lambda * model.settings.l1_ratio, model.lambda * (1.0 - model.settings.l1_ratio));
        if model.settings.intercept {
            let mean = residual.iter().sum::<f64>() / self.rows as f64;
            assert!(mean.abs() < 1e-9, "{about}: the intercept is off by {mean}");
        }
        for column in 0..self.columns {
            let values = || (0..self.rows).map(|row| self.of(row, column));
            let scale = if model.settings.standardize {
                let mean = values().sum::<f64>() / self.rows as f64;
                (values().map(|value| (value - mean) * (value - mean)).sum::<f64>() / self.rows as f64).sqrt().max(1e-6)
            } else {
                1.0
            };
            let slope =
                values().zip(&residual).map(|(value, left)| value * left).sum::<f64>() / self.rows as f64 / scale;
            let found = model.coefficients.iter().find(|(of, _)| *of as usize == column);
            let off = match found {
                None => (slope.abs() - l1).max(0.0),
                Some((_, b)) => (slope - l2 * b * scale - l1 * b.signum()).abs(),
            };
            assert!(off <= within * model.lambda, "{about}: column {column} is off by {off} of {}", model.lambda);
        }
    }
}

fn builder(loss: SparseLoss) -> SparseRegressionBuilder {
    SparseRegression::builder(loss).tolerance(1e-11)
}

/// Trains on a standalone cluster; returns the result of the first peer.
fn fit(
    (peers, workers): (usize, usize),
    builder: &SparseRegressionBuilder,
    data: &TestData,
    sparse: bool,
) -> Fit<SparseModel> {
    let trained = hemiola_cluster::standalone(peers).workers(workers).run(|cluster| {
        let examples = data.share(cluster.rank().index(), peers, sparse);
        builder.clone().build()?.fit_rows(cluster, examples)
    });
    let trained = trained.unwrap();
    let bits =
        |trained: &Fit<SparseModel>| trained.model.coefficients.iter().map(|(_, b)| b.to_bits()).collect::<Vec<_>>();
    assert!(trained.iter().all(|other| bits(other) == bits(&trained[0])), "all peers have the same model");
    trained.into_iter().next().unwrap()
}

#[derive(Debug, Deserialize)]
struct ReferenceProblem {
    seed: u64,
    rows: usize,
    columns: usize,
    kind: String,
    loss: SparseLoss,
    lambda: f64,
    ratio: f64,
    intercept: bool,
    objective: f64,
}

#[test]
fn objectives_match_scikit_learn_and_optimality_conditions_hold() {
    let problems: Vec<ReferenceProblem> = serde_json::from_str(include_str!("sparse_problems.json")).unwrap();
    assert!(problems.len() >= 50);
    for problem in problems {
        let mut data = synthetic(problem.seed, problem.rows, problem.columns, &problem.kind);
        if problem.loss == SparseLoss::Logistic {
            data = classes(&data);
        }
        let builder = builder(problem.loss).lambda(Lambda::Value(problem.lambda)).l1_ratio(problem.ratio);
        let builder = builder.intercept(problem.intercept);
        for (division, sparse) in [((1, 1), false), ((1, 1), true), ((1, 2), problem.seed % 2 == 0)] {
            let about = format!("{problem:?} by {division:?}, sparse: {sparse}");
            let trained = fit(division, &builder, &data, sparse);
            assert_eq!(trained.report.result.stop_reason, "converged", "{about}");
            let found = data.objective(&trained.model);
            assert!((found - problem.objective).abs() <= 1e-6 * problem.objective, "{about}: {found}");
            assert!((found - trained.report.result.objective).abs() <= 1e-9 * found, "{about}: {found}");
            data.assert_optimal(&trained.model, 1e-3, &about);
        }
    }
}

#[test]
fn orthogonal_columns_have_a_closed_form() {
    // Columns of a Hadamard matrix, without the constant one.
    let (rows, columns) = (16_usize, 15);
    let cell =
        |row: usize, column: usize| if (row & (column + 1)).count_ones().is_multiple_of(2) { 1.0_f32 } else { -1.0 };
    let values: Vec<f32> = (0..columns).flat_map(|column| (0..rows).map(move |row| cell(row, column))).collect();
    let mut random = FixtureRng(SplitMix64::new(3));
    let target: Vec<f64> = (0..rows).map(|_| random.unit()).collect();
    let data = TestData { rows, columns, values, target };
    for ratio in [1.0, 0.4] {
        let lambda = 0.08;
        let model =
            fit((1, 1), &builder(SparseLoss::Squared).lambda(Lambda::Value(lambda)).l1_ratio(ratio), &data, false)
                .model;
        for column in 0..columns {
            let slope = (0..rows).map(|row| data.of(row, column) * data.target[row]).sum::<f64>() / rows as f64;
            let expected = slope.signum() * (slope.abs() - lambda * ratio).max(0.0) / (1.0 + lambda * (1.0 - ratio));
            let found = model.coefficients.iter().find(|(of, _)| *of as usize == column).map_or(0.0, |(_, b)| *b);
            assert!((found - expected).abs() < 1e-7, "column {column}: {found} and not {expected}");
        }
    }
}

#[test]
fn standardized_columns_are_penalized_independently_of_scale() {
    for kind in ["odd", "sparse"] {
        let data = synthetic(77, 60, 14, kind);
        let mut scaled = data.clone();
        for column in 0..data.columns {
            // Powers of two, so that values stay exact.
            let factor = f64::from(column as u32 % 5 * 4).exp2() as f32 / 64.0;
            scaled.values[column * data.rows..(column + 1) * data.rows].iter_mut().for_each(|value| *value *= factor);
        }
        let builder = builder(SparseLoss::Squared).standardize(true).lambda(Lambda::Share(0.1));
        let (plain, other) = (fit((1, 1), &builder, &data, true), fit((1, 1), &builder, &scaled, true));
        data.assert_optimal(&plain.model, 1e-3, kind);
        scaled.assert_optimal(&other.model, 1e-3, kind);
        let difference = plain.report.result.objective - other.report.result.objective;
        assert!(difference.abs() < 1e-9, "{kind}: {difference}");
    }
}

#[test]
fn clusters_agree_and_the_same_cluster_gives_the_same_bits() {
    for (loss, kind, sparse) in [
        (SparseLoss::Squared, "correlated", false),
        (SparseLoss::Squared, "sparse", true),
        (SparseLoss::Logistic, "correlated", false),
        (SparseLoss::Logistic, "sparse", true),
    ] {
        let mut data = synthetic(5, 90, 200, kind);
        if loss == SparseLoss::Logistic {
            data = classes(&data);
        }
        let builder = builder(loss).lambda(Lambda::Share(0.05)).l1_ratio(0.9).tolerance(1e-8);
        let alone = fit((1, 1), &builder, &data, sparse);
        data.assert_optimal(&alone.model, 1e-2, kind);
        for division in [(1, 2), (2, 1), (3, 1), (2, 2)] {
            let other = fit(division, &builder, &data, sparse);
            let ratio = other.report.result.objective / alone.report.result.objective;
            assert!((ratio - 1.0).abs() < 1e-6, "{loss:?} {kind} {division:?}: {ratio}");
            let again = fit(division, &builder, &data, sparse);
            assert_eq!(again.model.coefficients, other.model.coefficients, "{loss:?} {kind} {division:?}");
            assert_eq!(again.model.intercept.to_bits(), other.model.intercept.to_bits());
        }
    }
}

#[test]
fn a_peer_without_rows_takes_part() {
    let data = synthetic(8, 2, 10, "plain");
    let builder = builder(SparseLoss::Squared).lambda(Lambda::Share(0.2));
    let (few, many) = (fit((1, 1), &builder, &data, false), fit((3, 2), &builder, &data, false));
    assert!((few.report.result.objective - many.report.result.objective).abs() < 1e-9);
}

#[test]
fn an_all_zero_solution_is_recognized_at_once() {
    for loss in [SparseLoss::Squared, SparseLoss::Logistic] {
        let mut data = synthetic(9, 30, 40, "plain");
        if loss == SparseLoss::Logistic {
            data = classes(&data);
        }
        for share in [1.0, 1.000_001, 50.0] {
            let trained = fit((1, 1), &builder(loss).lambda(Lambda::Share(share)), &data, false);
            assert!(trained.model.coefficients.is_empty(), "{loss:?} {share}");
            assert_eq!(trained.report.progress.len(), 1);
            // Only the initial survey of each column.
            assert_eq!(trained.report.progress[0].updates, 40);
        }
        let just_below = fit((1, 1), &builder(loss).lambda(Lambda::Share(0.99)), &data, false);
        assert_eq!(just_below.model.coefficients.len(), 1);
    }
}

#[test]
fn constant_targets_and_columns_are_handled() {
    let mut data = synthetic(10, 30, 6, "odd");
    data.target.fill(3.25);
    let trained = fit((1, 1), &builder(SparseLoss::Squared), &data, false);
    assert!(trained.model.coefficients.is_empty() && (trained.model.intercept - 3.25).abs() < 1e-12);
    // All columns are constant: only the intercept is left.
    let constant = TestData { values: vec![1.5; 30 * 6], ..synthetic(10, 30, 6, "plain") };
    let trained = fit((1, 2), &builder(SparseLoss::Squared), &constant, false);
    assert!(trained.model.coefficients.is_empty());
    assert_eq!(trained.report.result.stop_reason, "converged");
}

#[test]
fn the_objective_never_grows() {
    for (loss, share) in [(SparseLoss::Squared, 0.001), (SparseLoss::Logistic, 0.01)] {
        let mut data = synthetic(21, 100, 900, "correlated");
        if loss == SparseLoss::Logistic {
            data = classes(&data);
        }
        let trained = fit((1, 2), &builder(loss).lambda(Lambda::Share(share)), &data, false);
        let objectives: Vec<f64> = trained.report.progress.iter().map(|progress| progress.objective).collect();
        assert!(objectives.len() > 2, "it takes some rounds: {objectives:?}");
        for two in objectives.windows(2) {
            assert!(two[1] <= two[0] * (1.0 + 1e-12), "{loss:?}: {objectives:?}");
        }
    }
}

#[test]
fn values_of_64_bits_are_taken_as_they_are() {
    let data = synthetic(31, 40, 20, "plain");
    let builder = builder(SparseLoss::Squared).lambda(Lambda::Share(0.1));
    let narrow = fit((1, 1), &builder, &data, false);
    let wide = hemiola_cluster::standalone(1).run(|cluster| {
        let values = data.values.iter().map(|value| f64::from(*value)).collect();
        let columns = FeatureColumns::Dense(DenseColumns::new(data.rows, data.columns, values));
        builder.clone().build()?.fit_rows::<f64>(cluster, SparseExamples::new(columns, data.target.clone()))
    });
    assert_eq!(wide.unwrap()[0].model.coefficients, narrow.model.coefficients);
}

#[test]
fn a_path_contains_the_solution_of_each_penalty() {
    let data = synthetic(41, 80, 120, "correlated");
    let regression = builder(SparseLoss::Squared).tolerance(1e-9).build().unwrap();
    let grid = LambdaGrid { count: 20, min_ratio: 0.01 };
    let path = hemiola_cluster::standalone(2)
        .run(|cluster| regression.path_of_rows(cluster, data.share(cluster.rank().index(), 2, false), grid));
    let path = path.unwrap().swap_remove(0);
    assert!(path[0].coefficients.is_empty() && path.len() > 5);
    for two in path.windows(2) {
        assert!(two[1].lambda < two[0].lambda && two[1].explained >= two[0].explained - 1e-9);
    }
    for point in [&path[3], &path[path.len() - 1]] {
        let alone = fit(
            (1, 1),
            &builder(SparseLoss::Squared).lambda(Lambda::Value(point.lambda)).tolerance(1e-9),
            &data,
            false,
        );
        assert!((alone.report.result.objective - point.objective).abs() < 1e-7 * point.objective);
    }
}

#[test]
fn a_path_ends_when_everything_is_explained() {
    let mut data = synthetic(42, 50, 20, "plain");
    data.target = (0..50).map(|row| 2.0 * data.of(row, 3)).collect();
    let grid = LambdaGrid { count: 100, min_ratio: 1e-4 };
    let regression = builder(SparseLoss::Squared).tolerance(1e-8).build().unwrap();
    let path =
        hemiola_cluster::standalone(1).run(|cluster| regression.path_of_rows(cluster, data.share(0, 1, false), grid));
    let path = path.unwrap().swap_remove(0);
    assert!(path.len() < 60 && path[path.len() - 1].explained >= 0.999, "{} points", path.len());
}

#[test]
fn cross_validation_does_not_depend_on_the_cluster() {
    for loss in [SparseLoss::Squared, SparseLoss::Logistic] {
        let mut data = synthetic(51, 120, 60, "plain");
        if loss == SparseLoss::Logistic {
            data = classes(&data);
        }
        let regression = builder(loss).tolerance(1e-8).build().unwrap();
        let grid = LambdaGrid { count: 15, min_ratio: 0.01 };
        let found = |peers: usize| {
            let found = hemiola_cluster::standalone(peers).run(|cluster| {
                regression.cross_validate_rows(cluster, data.share(cluster.rank().index(), peers, false), grid, 5)
            });
            found.unwrap().swap_remove(0)
        };
        let (one, three) = (found(1), found(3));
        assert!(
            one.best > 0 && one.one_standard_error <= one.best && one.mean[one.best] < 0.7 * one.mean[0],
            "{one:?}"
        );
        assert_eq!((one.best, one.one_standard_error), (three.best, three.one_standard_error));
        for (left, right) in one.mean.iter().zip(&three.mean) {
            assert!((left - right).abs() < 1e-5 * left, "{left} {right}");
        }
    }
}

#[test]
fn a_fold_without_a_class_is_handled() {
    let mut data = synthetic(52, 30, 8, "plain");
    data.target = (0..30).map(|row| f64::from(row == 7)).collect();
    let regression = builder(SparseLoss::Logistic).tolerance(1e-8).build().unwrap();
    let grid = LambdaGrid { count: 5, min_ratio: 0.1 };
    let found = hemiola_cluster::standalone(1)
        .run(|cluster| regression.cross_validate_rows(cluster, data.share(0, 1, false), grid, 5));
    let found = found.unwrap().swap_remove(0);
    assert!(found.mean.iter().chain(&found.error).all(|value| value.is_finite()), "{found:?}");
}

#[test]
fn examples_from_arrays_agree_and_models_are_saved() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("model");
    let data = synthetic(61, 70, 30, "sparse");
    let builder = builder(SparseLoss::Squared).lambda(Lambda::Share(0.05)).tolerance(1e-9);
    let direct = fit((1, 1), &builder, &data, true);
    let checked = hemiola_cluster::standalone(2).workers(2).run(|cluster| {
        let labelled = data.labelled(cluster)?;
        let trained = builder.clone().build()?.fit(cluster, &labelled)?;
        let found = trained.report.result.objective;
        assert!((found - direct.report.result.objective).abs() < 1e-7, "{found}");
        trained.model.save(cluster, &folder)?;
        let loaded = SparseModel::load(cluster, &folder)?;
        assert_eq!(loaded.coefficients, trained.model.coefficients);
        assert_eq!(loaded.named().map(|(name, _)| name).next(), trained.model.named().map(|(name, _)| name).next());
        let predictions = loaded.predict(cluster, &labelled.features)?;
        assert_eq!((predictions.len(), loaded.unknown_features(cluster, &labelled.features)?), (70, 0));
        let residual = data.residual(&loaded);
        for ((prediction, target), left) in predictions.iter().zip(&data.target).zip(residual) {
            assert!((target - prediction.value - left).abs() < 1e-9);
        }
        let metrics = loaded.evaluate(cluster, &labelled)?.metrics;
        assert!(metrics["r2"] > 0.7 && metrics["rmse"] > 0.0, "{metrics:?}");
        Ok(())
    });
    checked.unwrap();
}

#[test]
fn two_classes_are_separated_and_others_rejected() {
    let data = classes(&synthetic(71, 200, 20, "plain"));
    // Labels need not be 0 and 1.
    let renamed =
        TestData { target: data.target.iter().map(|y| if *y > 0.5 { 4.0 } else { -1.0 }).collect(), ..data.clone() };
    let builder = builder(SparseLoss::Logistic).lambda(Lambda::Share(0.05)).tolerance(1e-8);
    let checked = hemiola_cluster::standalone(2).run(|cluster| {
        let labelled = renamed.labelled(cluster)?;
        let trained = builder.clone().validation(0.2).build()?.fit(cluster, &labelled)?;
        let metrics = trained.report.result.validation.expect("there is a validation set");
        assert!(metrics["accuracy"] > 0.8 && metrics["auc"] > 0.9 && metrics["logloss"] < 0.5, "{metrics:?}");
        assert_eq!(trained.model.classes, Some([-1.0, 4.0]));
        let predictions = trained.model.predict(cluster, &labelled.features)?;
        let right =
            predictions.iter().zip(&renamed.target).filter(|(found, label)| found.value.total_cmp(label).is_eq());
        assert!(right.count() > 160);
        Ok(())
    });
    checked.unwrap();
    let refused = |target: Vec<f64>| {
        let data = TestData { target, ..data.clone() };
        let refused = hemiola_cluster::standalone(1)
            .run(|cluster| builder.clone().build()?.fit_rows(cluster, data.share(0, 1, false)));
        refused.unwrap_err().to_string()
    };
    assert!(refused(vec![1.0; 200]).contains("needs at least two classes"));
    assert!(refused((0..200).map(|row| f64::from(row % 3)).collect()).contains("more than two different values"));
    assert!(refused(vec![f64::NAN; 200]).contains("not a finite number"));
}

#[test]
fn an_unreachable_tolerance_ends_at_rounding() {
    let data = synthetic(91, 60, 12, "odd");
    let trained = fit((1, 1), &builder(SparseLoss::Squared).lambda(Lambda::Share(1e-4)).tolerance(1e-12), &data, false);
    assert!(trained.report.progress.len() < 100, "{}", trained.report.progress.len());
}

/// Callback that stops after some epochs.
struct StopAfter(u32);

impl Callback for StopAfter {
    fn on_epoch_end(&mut self, progress: &EpochProgress) -> TrainingControl {
        if progress.epoch >= self.0 { TrainingControl::Stop } else { TrainingControl::Continue }
    }
}

#[test]
fn resumed_training_reaches_the_same_objective() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("model");
    let data = synthetic(81, 100, 900, "correlated");
    let regression = builder(SparseLoss::Squared).lambda(Lambda::Share(0.01)).tolerance(1e-9).build().unwrap();
    let run = |resume: bool, stop: u32| {
        let run = hemiola_cluster::standalone(1).run(|cluster| {
            let labelled = data.labelled(cluster)?;
            let mut watch = StopAfter(stop);
            let options =
                FitOptions::new().with_callback(&mut watch).with_checkpoints(Checkpoints::new(&folder).resume(resume));
            regression.fit_with(cluster, &labelled, None, options)
        });
        run.unwrap().swap_remove(0)
    };
    let whole = run(false, u32::MAX);
    assert!(whole.report.progress.len() > 3);
    let stopped = run(false, 2);
    assert!(stopped.report.result.stopped_by_callback());
    let resumed = run(true, u32::MAX);
    assert!(resumed.report.progress.len() > 2);
    let (expected, found) = (whole.report.result.objective, resumed.report.result.objective);
    assert!((expected - found).abs() <= 1e-8 * expected, "{expected} {found}");
}
