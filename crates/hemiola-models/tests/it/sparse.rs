//! Sparse regression: it finds the minimum that closed forms, the conditions for one and scikit-learn know, however the work is divided.

use hemiola::array::dist::Labelled;
use hemiola::prelude::*;
use hemiola::{Cluster, Result};
use hemiola_models::SparseRegression;
use hemiola_models::sparse::{Builder, Columns, Csc, Dense, Examples, Grid, Lambda, Loss, Model, Trained};
use hemiola_models::training::{Checkpoints, Progress, Session, Watch, Wish};
use serde::Deserialize;

/// Rows of features, and a target for each.
#[derive(Clone, Debug)]
struct Data {
    rows: usize,
    columns: usize,
    /// Column after column.
    values: Vec<f32>,
    target: Vec<f64>,
}

/// `SplitMix64`, as in `benchmarks/sparse_fixture.py`.
struct Random(u64);

impl Random {
    /// From −1 to below 1.
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 40) as f64 / f64::from(1 << 23) - 1.0
    }
}

/// The same data as in `benchmarks/sparse_fixture.py`.
fn made_up(seed: u64, rows: usize, columns: usize, kind: &str) -> Data {
    let mut random = Random(seed);
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
    Data { rows, columns, values, target }
}

/// The median splits rows into two classes.
fn classes(data: &Data) -> Data {
    let mut sorted = data.target.clone();
    sorted.sort_by(f64::total_cmp);
    let median = 0.5 * (sorted[(data.rows - 1) / 2] + sorted[data.rows / 2]);
    Data { target: data.target.iter().map(|y| f64::from(*y > median)).collect(), ..data.clone() }
}

impl Data {
    fn of(&self, row: usize, column: usize) -> f64 {
        f64::from(self.values[column * self.rows + row])
    }

    /// Rows of a peer, by columns.
    fn share(&self, peer: usize, peers: usize, sparse: bool) -> Examples<f32> {
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
            Columns::Sparse(Csc::new(rows.len(), &starts, at, values))
        } else {
            Columns::Dense(Dense::new(rows.len(), self.columns, values))
        };
        let mut examples = Examples::new(columns, self.target[rows.clone()].to_vec());
        examples.numbers = rows.map(|row| row as u64).collect();
        examples
    }

    fn labelled(&self, cluster: &Cluster) -> Result<Labelled> {
        let cell = |[row, column]: [u64; 2]| self.values[column as usize * self.rows + row as usize];
        let features = cluster.from_fn([self.rows as u64, self.columns as u64], cell)?;
        let features = features.entries().filter(|_, value| *value != 0.0).materialize()?;
        let labels = cluster.from_fn([self.rows as u64], |[row]| self.target[row as usize] as f32)?;
        Ok(Labelled { features, labels })
    }

    /// What the model leaves to explain, of the squared or the log loss.
    fn residual(&self, model: &Model) -> Vec<f64> {
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
    fn objective(&self, model: &Model) -> f64 {
        let residual = self.residual(model);
        let loss = |(row, left): (usize, &f64)| match model.classes {
            None => 0.5 * left * left,
            // The residual is 1 less the chance of what is so.
            Some(_) => -(1.0 - (if self.target[row] > 0.5 { *left } else { -left })).ln(),
        };
        let ratio = model.settings.ratio;
        let cost = model.coefficients.iter().map(|(_, b)| ratio * b.abs() + 0.5 * (1.0 - ratio) * b * b);
        residual.iter().enumerate().map(loss).sum::<f64>() / self.rows as f64 + model.lambda * cost.sum::<f64>()
    }

    /// Checks the conditions for a minimum, coefficient by coefficient.
    fn must_be_solved_by(&self, model: &Model, within: f64, about: &str) {
        let residual = self.residual(model);
        let (l1, l2) = (model.lambda * model.settings.ratio, model.lambda * (1.0 - model.settings.ratio));
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

fn builder(loss: Loss) -> Builder {
    SparseRegression::builder(loss).tolerance(1e-11)
}

/// Trains on peers that are threads; what the first of them got.
fn fit((peers, workers): (usize, usize), builder: &Builder, data: &Data, sparse: bool) -> Trained {
    let trained = hemiola::standalone(peers).workers(workers).run(|cluster| {
        let examples = data.share(cluster.rank().index(), peers, sparse);
        builder.clone().build()?.fit_rows(cluster, examples)
    });
    let trained = trained.unwrap();
    let bits = |trained: &Trained| trained.model.coefficients.iter().map(|(_, b)| b.to_bits()).collect::<Vec<_>>();
    assert!(trained.iter().all(|other| bits(other) == bits(&trained[0])), "all peers have the same model");
    trained.into_iter().next().unwrap()
}

#[derive(Debug, Deserialize)]
struct Problem {
    seed: u64,
    rows: usize,
    columns: usize,
    kind: String,
    loss: Loss,
    lambda: f64,
    ratio: f64,
    intercept: bool,
    objective: f64,
}

#[test]
fn objectives_are_those_of_scikit_learn_and_conditions_hold() {
    let problems: Vec<Problem> = serde_json::from_str(include_str!("sparse_problems.json")).unwrap();
    assert!(problems.len() >= 50);
    for problem in problems {
        let mut data = made_up(problem.seed, problem.rows, problem.columns, &problem.kind);
        if problem.loss == Loss::Logistic {
            data = classes(&data);
        }
        let builder = builder(problem.loss).lambda(Lambda::Value(problem.lambda)).ratio(problem.ratio);
        let builder = builder.intercept(problem.intercept);
        for (division, sparse) in [((1, 1), false), ((1, 1), true), ((1, 2), problem.seed % 2 == 0)] {
            let about = format!("{problem:?} by {division:?}, sparse: {sparse}");
            let trained = fit(division, &builder, &data, sparse);
            assert_eq!(trained.report.result.ended, "it has converged", "{about}");
            let found = data.objective(&trained.model);
            assert!((found - problem.objective).abs() <= 1e-6 * problem.objective, "{about}: {found}");
            assert!((found - trained.report.result.objective).abs() <= 1e-9 * found, "{about}: {found}");
            data.must_be_solved_by(&trained.model, 1e-3, &about);
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
    let mut random = Random(3);
    let target: Vec<f64> = (0..rows).map(|_| random.unit()).collect();
    let data = Data { rows, columns, values, target };
    for ratio in [1.0, 0.4] {
        let lambda = 0.08;
        let model = fit((1, 1), &builder(Loss::Squared).lambda(Lambda::Value(lambda)).ratio(ratio), &data, false).model;
        for column in 0..columns {
            let slope = (0..rows).map(|row| data.of(row, column) * data.target[row]).sum::<f64>() / rows as f64;
            let expected = slope.signum() * (slope.abs() - lambda * ratio).max(0.0) / (1.0 + lambda * (1.0 - ratio));
            let found = model.coefficients.iter().find(|(of, _)| *of as usize == column).map_or(0.0, |(_, b)| *b);
            assert!((found - expected).abs() < 1e-7, "column {column}: {found} and not {expected}");
        }
    }
}

#[test]
fn standardized_columns_are_charged_alike_whatever_their_scale() {
    for kind in ["odd", "sparse"] {
        let data = made_up(77, 60, 14, kind);
        let mut scaled = data.clone();
        for column in 0..data.columns {
            // Powers of two, so that values stay exact.
            let factor = f64::from(column as u32 % 5 * 4).exp2() as f32 / 64.0;
            scaled.values[column * data.rows..(column + 1) * data.rows].iter_mut().for_each(|value| *value *= factor);
        }
        let builder = builder(Loss::Squared).standardize(true).lambda(Lambda::Share(0.1));
        let (plain, other) = (fit((1, 1), &builder, &data, true), fit((1, 1), &builder, &scaled, true));
        data.must_be_solved_by(&plain.model, 1e-3, kind);
        scaled.must_be_solved_by(&other.model, 1e-3, kind);
        let difference = plain.report.result.objective - other.report.result.objective;
        assert!(difference.abs() < 1e-9, "{kind}: {difference}");
    }
}

#[test]
fn peers_and_workers_agree_and_the_same_division_gives_the_same_bits() {
    for (loss, kind, sparse) in [
        (Loss::Squared, "correlated", false),
        (Loss::Squared, "sparse", true),
        (Loss::Logistic, "correlated", false),
        (Loss::Logistic, "sparse", true),
    ] {
        let mut data = made_up(5, 90, 200, kind);
        if loss == Loss::Logistic {
            data = classes(&data);
        }
        let builder = builder(loss).lambda(Lambda::Share(0.05)).ratio(0.9).tolerance(1e-8);
        let alone = fit((1, 1), &builder, &data, sparse);
        data.must_be_solved_by(&alone.model, 1e-2, kind);
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
    let data = made_up(8, 2, 10, "plain");
    let builder = builder(Loss::Squared).lambda(Lambda::Share(0.2));
    let (few, many) = (fit((1, 1), &builder, &data, false), fit((3, 2), &builder, &data, false));
    assert!((few.report.result.objective - many.report.result.objective).abs() < 1e-9);
}

#[test]
fn a_penalty_that_leaves_nothing_is_recognized_at_once() {
    for loss in [Loss::Squared, Loss::Logistic] {
        let mut data = made_up(9, 30, 40, "plain");
        if loss == Loss::Logistic {
            data = classes(&data);
        }
        for share in [1.0, 1.000_001, 50.0] {
            let trained = fit((1, 1), &builder(loss).lambda(Lambda::Share(share)), &data, false);
            assert!(trained.model.coefficients.is_empty(), "{loss:?} {share}");
            assert_eq!(trained.report.progress.len(), 1);
            // Nothing but the first look at each column.
            assert_eq!(trained.report.progress[0].updates, 40);
        }
        let just_below = fit((1, 1), &builder(loss).lambda(Lambda::Share(0.99)), &data, false);
        assert_eq!(just_below.model.coefficients.len(), 1);
    }
}

#[test]
fn a_constant_target_and_constant_columns_are_no_problem() {
    let mut data = made_up(10, 30, 6, "odd");
    data.target.fill(3.25);
    let trained = fit((1, 1), &builder(Loss::Squared), &data, false);
    assert!(trained.model.coefficients.is_empty() && (trained.model.intercept - 3.25).abs() < 1e-12);
    // All columns are constant: only the intercept is left.
    let constant = Data { values: vec![1.5; 30 * 6], ..made_up(10, 30, 6, "plain") };
    let trained = fit((1, 2), &builder(Loss::Squared), &constant, false);
    assert!(trained.model.coefficients.is_empty());
    assert_eq!(trained.report.result.ended, "it has converged");
}

#[test]
fn the_objective_never_grows() {
    for (loss, share) in [(Loss::Squared, 0.001), (Loss::Logistic, 0.01)] {
        let mut data = made_up(21, 100, 900, "correlated");
        if loss == Loss::Logistic {
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
    let data = made_up(31, 40, 20, "plain");
    let builder = builder(Loss::Squared).lambda(Lambda::Share(0.1));
    let narrow = fit((1, 1), &builder, &data, false);
    let wide = hemiola::standalone(1).run(|cluster| {
        let values = data.values.iter().map(|value| f64::from(*value)).collect();
        let columns = Columns::Dense(Dense::new(data.rows, data.columns, values));
        builder.clone().build()?.fit_rows::<f64>(cluster, Examples::new(columns, data.target.clone()))
    });
    assert_eq!(wide.unwrap()[0].model.coefficients, narrow.model.coefficients);
}

#[test]
fn a_path_goes_from_nothing_to_the_solutions_of_each_penalty() {
    let data = made_up(41, 80, 120, "correlated");
    let regression = builder(Loss::Squared).tolerance(1e-9).build().unwrap();
    let grid = Grid { count: 20, least: 0.01 };
    let path = hemiola::standalone(2)
        .run(|cluster| regression.path_of_rows(cluster, data.share(cluster.rank().index(), 2, false), grid));
    let path = path.unwrap().swap_remove(0);
    assert!(path[0].coefficients.is_empty() && path.len() > 5);
    for two in path.windows(2) {
        assert!(two[1].lambda < two[0].lambda && two[1].explained >= two[0].explained - 1e-9);
    }
    for point in [&path[3], &path[path.len() - 1]] {
        let alone =
            fit((1, 1), &builder(Loss::Squared).lambda(Lambda::Value(point.lambda)).tolerance(1e-9), &data, false);
        assert!((alone.report.result.objective - point.objective).abs() < 1e-7 * point.objective);
    }
}

#[test]
fn a_path_ends_when_nothing_is_left_to_explain() {
    let mut data = made_up(42, 50, 20, "plain");
    data.target = (0..50).map(|row| 2.0 * data.of(row, 3)).collect();
    let grid = Grid { count: 100, least: 1e-4 };
    let regression = builder(Loss::Squared).tolerance(1e-8).build().unwrap();
    let path = hemiola::standalone(1).run(|cluster| regression.path_of_rows(cluster, data.share(0, 1, false), grid));
    let path = path.unwrap().swap_remove(0);
    assert!(path.len() < 60 && path[path.len() - 1].explained >= 0.999, "{} points", path.len());
}

#[test]
fn cross_validation_finds_a_penalty_that_predicts_and_does_not_depend_on_peers() {
    for loss in [Loss::Squared, Loss::Logistic] {
        let mut data = made_up(51, 120, 60, "plain");
        if loss == Loss::Logistic {
            data = classes(&data);
        }
        let regression = builder(loss).tolerance(1e-8).build().unwrap();
        let grid = Grid { count: 15, least: 0.01 };
        let found = |peers: usize| {
            let found = hemiola::standalone(peers).run(|cluster| {
                regression.cross_validate_rows(cluster, data.share(cluster.rank().index(), peers, false), grid, 5)
            });
            found.unwrap().swap_remove(0)
        };
        let (one, three) = (found(1), found(3));
        assert!(one.best > 0 && one.simplest <= one.best && one.mean[one.best] < 0.7 * one.mean[0], "{one:?}");
        assert_eq!((one.best, one.simplest), (three.best, three.simplest));
        for (left, right) in one.mean.iter().zip(&three.mean) {
            assert!((left - right).abs() < 1e-5 * left, "{left} {right}");
        }
    }
}

#[test]
fn a_fold_that_lacks_a_class_does_not_spoil_the_others() {
    let mut data = made_up(52, 30, 8, "plain");
    data.target = (0..30).map(|row| f64::from(row == 7)).collect();
    let regression = builder(Loss::Logistic).tolerance(1e-8).build().unwrap();
    let grid = Grid { count: 5, least: 0.1 };
    let found =
        hemiola::standalone(1).run(|cluster| regression.cross_validate_rows(cluster, data.share(0, 1, false), grid, 5));
    let found = found.unwrap().swap_remove(0);
    assert!(found.mean.iter().chain(&found.error).all(|value| value.is_finite()), "{found:?}");
}

#[test]
fn examples_from_arrays_give_the_same_and_models_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("model");
    let data = made_up(61, 70, 30, "sparse");
    let builder = builder(Loss::Squared).lambda(Lambda::Share(0.05)).tolerance(1e-9);
    let direct = fit((1, 1), &builder, &data, true);
    let checked = hemiola::standalone(2).workers(2).run(|cluster| {
        let labelled = data.labelled(cluster)?;
        let trained = builder.clone().build()?.fit(cluster, &labelled)?;
        let found = trained.report.result.objective;
        assert!((found - direct.report.result.objective).abs() < 1e-7, "{found}");
        trained.model.save(cluster, &folder)?;
        let loaded = Model::load(cluster, &folder)?;
        assert_eq!(loaded.coefficients, trained.model.coefficients);
        assert_eq!(loaded.named().map(|(name, _)| name).next(), trained.model.named().map(|(name, _)| name).next());
        let (predictions, unknown) = loaded.predict(cluster, &labelled.features)?;
        assert_eq!((predictions.len(), unknown), (70, 0));
        let residual = data.residual(&loaded);
        for ((prediction, target), left) in predictions.iter().zip(&data.target).zip(residual) {
            assert!((target - prediction.value - left).abs() < 1e-9);
        }
        let figures = loaded.evaluate(cluster, &labelled)?.figures;
        assert!(figures["r2"] > 0.7 && figures["rmse"] > 0.0, "{figures:?}");
        Ok(())
    });
    checked.unwrap();
}

#[test]
fn two_classes_are_told_apart_and_others_refused() {
    let data = classes(&made_up(71, 200, 20, "plain"));
    // Labels need not be 0 and 1.
    let renamed =
        Data { target: data.target.iter().map(|y| if *y > 0.5 { 4.0 } else { -1.0 }).collect(), ..data.clone() };
    let builder = builder(Loss::Logistic).lambda(Lambda::Share(0.05)).tolerance(1e-8);
    let checked = hemiola::standalone(2).run(|cluster| {
        let labelled = renamed.labelled(cluster)?;
        let trained = builder.clone().valid(0.2).build()?.fit(cluster, &labelled)?;
        let figures = trained.report.result.valid.expect("some are held out");
        assert!(figures["accuracy"] > 0.8 && figures["auc"] > 0.9 && figures["logloss"] < 0.5, "{figures:?}");
        assert_eq!(trained.model.classes, Some([-1.0, 4.0]));
        let (predictions, _) = trained.model.predict(cluster, &labelled.features)?;
        let right =
            predictions.iter().zip(&renamed.target).filter(|(found, label)| found.value.total_cmp(label).is_eq());
        assert!(right.count() > 160);
        Ok(())
    });
    checked.unwrap();
    let refused = |target: Vec<f64>| {
        let data = Data { target, ..data.clone() };
        let refused =
            hemiola::standalone(1).run(|cluster| builder.clone().build()?.fit_rows(cluster, data.share(0, 1, false)));
        refused.unwrap_err().to_string()
    };
    assert!(refused(vec![1.0; 200]).contains("needs two classes"));
    assert!(refused((0..200).map(|row| f64::from(row % 3)).collect()).contains("more than two different values"));
    assert!(refused(vec![f64::NAN; 200]).contains("not a finite number"));
}

#[test]
fn what_rounding_does_not_allow_is_not_tried_for_ever() {
    let data = made_up(91, 60, 12, "odd");
    let trained = fit((1, 1), &builder(Loss::Squared).lambda(Lambda::Share(1e-4)).tolerance(1e-12), &data, false);
    assert!(trained.report.progress.len() < 100, "{}", trained.report.progress.len());
}

/// Stops after some epochs.
struct Stop(u32);

impl Watch for Stop {
    fn progress(&mut self, progress: &Progress) -> Wish {
        if progress.epoch >= self.0 { Wish::Stop } else { Wish::GoOn }
    }
}

#[test]
fn a_training_that_was_stopped_goes_on_to_the_same_objective() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("model");
    let data = made_up(81, 100, 900, "correlated");
    let regression = builder(Loss::Squared).lambda(Lambda::Share(0.01)).tolerance(1e-9).build().unwrap();
    let run = |resume: bool, stop: u32| {
        let run = hemiola::standalone(1).run(|cluster| {
            let labelled = data.labelled(cluster)?;
            let mut watch = Stop(stop);
            let session = Session::new().watched(&mut watch).saving(Checkpoints::new(&folder).resume(resume));
            regression.fit_with(cluster, &labelled, None, session)
        });
        run.unwrap().swap_remove(0)
    };
    let whole = run(false, u32::MAX);
    assert!(whole.report.progress.len() > 3);
    let stopped = run(false, 2);
    assert!(stopped.report.result.was_stopped());
    let resumed = run(true, u32::MAX);
    assert!(resumed.report.progress.len() > 2);
    let (expected, found) = (whole.report.result.objective, resumed.report.result.objective);
    assert!((expected - found).abs() <= 1e-8 * expected, "{expected} {found}");
}
