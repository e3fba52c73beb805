//! Cross-validation and search: serial runs are the oracle.

use hemiola_array::DistArray;
use hemiola_array::synthetic::SyntheticMf;
use hemiola_cluster::{Cluster, Result};
use hemiola_models::fm::FmLoss;
use hemiola_models::lda::{self, LdaSampler};
use hemiola_models::linear::{self, LinearLoss};
use hemiola_models::mf;
use hemiola_models::prelude::*;
use hemiola_models::selection::{
    CrossValidationReport, FoldBy, SearchMethod, SearchObserver, SearchReport, SearchSettings, SettingValue,
    SilentSearch, TrialRecord, TrialStatus, TrialStore, Tunable, cross_validate, search,
};
use hemiola_models::training::{EpochProgress, TrainingControl, TrainingLimits};
use std::path::Path;

fn ratings(cluster: &Cluster) -> Result<DistArray<f32, 2>> {
    let set = SyntheticMf { users: 80, items: 50, entries: 2500, rank: 3, seed: 3, ..SyntheticMf::default() };
    mf::data::synthetic(cluster, &set.generator())
}

fn factorization() -> MatrixFactorization {
    let limits = TrainingLimits { epochs: 18, patience: Some(4), ..TrainingLimits::default() };
    MatrixFactorization::builder().rank(4).limits(limits).build().unwrap()
}

/// Metrics of a report without its times.
fn folds(report: &CrossValidationReport) -> Vec<(usize, usize, u32, Vec<u64>)> {
    let bits = |metrics: &hemiola_models::training::Metrics| metrics.values().map(|value| value.to_bits()).collect();
    report.folds.iter().map(|fold| (fold.train, fold.held_out, fold.epoch, bits(&fold.metrics))).collect()
}

#[test]
fn cross_validation_has_the_same_bits_on_any_number_of_peers() {
    let of = |peers: usize, workers: usize| {
        let found = hemiola_cluster::standalone(peers).workers(workers).run(|cluster| {
            let examples = linear::data::synthetic(cluster, 300, Seed(4))?;
            let machine = FactorizationMachine::builder(FmLoss::Logistic).rank(3).epochs(4).build()?;
            let stratified = (4, &FoldBy::Class, Seed(1));
            let machine = cross_validate(cluster, &machine, &examples, stratified, &mut |_, _| true)?;
            let ridge = RidgeRegression::builder().build()?;
            let groups = FoldBy::Group((0..300).map(|row| row / 10).collect());
            let ridge = cross_validate(cluster, &ridge, &examples, (3, &groups, Seed(2)), &mut |_, _| true)?;
            let softmax = SoftmaxRegression::builder().epochs(3).build()?;
            let times = FoldBy::Time((0..300).collect());
            let softmax = cross_validate(cluster, &softmax, &examples, (3, &times, Seed(2)), &mut |_, _| true)?;
            Ok([machine, ridge, softmax].map(|report| folds(&report)))
        });
        let mut found = found.unwrap();
        assert!(found.iter().all(|one| *one == found[0]));
        found.swap_remove(0)
    };
    let serial = of(1, 1);
    assert_eq!(serial[0].iter().map(|fold| (fold.0, fold.1)).collect::<Vec<_>>(), [(225, 75); 4]);
    assert_eq!(serial[2].iter().map(|fold| (fold.0, fold.1)).collect::<Vec<_>>(), [(75, 75), (150, 75), (225, 75)]);
    assert!(of(2, 1) == serial && of(4, 1) == serial && of(1, 2) == serial);
}

#[test]
fn cross_validation_of_ratings_and_documents_depends_on_the_workers_in_total_only() {
    let of = |peers: usize, workers: usize| {
        let found = hemiola_cluster::standalone(peers).workers(workers).run(|cluster| {
            let (ratings, by) = (ratings(cluster)?, FoldBy::Record);
            let mut seen = Vec::new();
            let report = cross_validate(cluster, &factorization(), &ratings, (3, &by, Seed(1)), &mut |fold, of| {
                seen.push((fold.fold, of));
                true
            })?;
            assert_eq!(seen, [(1, 3), (2, 3), (3, 3)]);
            assert_eq!(report.folds.iter().map(|fold| fold.held_out).sum::<usize>(), ratings.len());
            let corpus = lda::data::synthetic(cluster, 60, Seed(3))?;
            let topics = TopicModelling::builder(5).sampler(LdaSampler::Sparse).parts(4).sweeps(3).build()?;
            let topics = cross_validate(cluster, &topics, &corpus, (3, &by, Seed(1)), &mut |_, _| true)?;
            assert!(topics.mean["perplexity"] > 1.0 && topics.deviation["perplexity"] > 0.0);
            Ok((folds(&report), folds(&topics)))
        });
        found.unwrap().swap_remove(0)
    };
    let expected = of(1, 4);
    assert!(of(2, 2) == expected && of(4, 1) == expected);
}

#[test]
fn mean_and_deviation_are_those_of_the_folds_and_a_fold_stops_all() {
    let found = hemiola_cluster::standalone(2).workers(1).run(|cluster| {
        let examples = linear::data::synthetic(cluster, 200, Seed(4))?;
        let ridge = RidgeRegression::builder().build()?;
        let by = (5, &FoldBy::Record, Seed(1));
        let all = cross_validate(cluster, &ridge, &examples, by, &mut |_, _| true)?;
        let values: Vec<f64> = all.folds.iter().map(|fold| fold.metrics["rmse"]).collect();
        let mean = values.iter().sum::<f64>() / 5.0;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 4.0;
        assert!((all.mean["rmse"] - mean).abs() < 1e-12 && (all.deviation["rmse"] - variance.sqrt()).abs() < 1e-12);
        // A request of one peer stops all.
        let stopped =
            cross_validate(cluster, &ridge, &examples, by, &mut |fold, _| cluster.is_root() || fold.fold < 2)?;
        Ok(stopped.folds.len())
    });
    assert_eq!(found.unwrap(), [2, 2]);
}

#[test]
fn a_fold_holds_out_what_a_separate_training_would_not_see() {
    hemiola_cluster::standalone(1)
        .run(|cluster| {
            let examples = linear::data::synthetic(cluster, 90, Seed(4))?;
            let ridge = RidgeRegression::builder().build()?;
            let times = FoldBy::Time((0..90).collect());
            let report = cross_validate(cluster, &ridge, &examples, (2, &times, Seed(1)), &mut |_, _| true)?;
            // The second fold trains on the first 60 rows and is evaluated on the rest.
            let rows = |keep: fn(usize) -> bool, offset: usize| {
                let features = examples.features.entries().filter(|[row, _], _| keep(row));
                let features = features.map_keys(|[row, column]| [row - offset, column]).materialize()?;
                let labels = examples.labels.entries().filter(|[row], _| keep(row));
                let labels = labels.map_keys(|[row]| [row - offset]).materialize()?;
                Ok::<_, hemiola_cluster::Error>(hemiola_array::dist::LabelledData { features, labels })
            };
            let model = ridge.fit(cluster, &rows(|row| row < 60, 0)?)?.model;
            let expected = model.evaluate(cluster, &rows(|row| row >= 60, 60)?)?.metrics;
            assert_eq!(report.folds[1].metrics, expected);
            Ok(())
        })
        .unwrap();
}

/// Trials of a report without times.
fn trials(report: &SearchReport) -> Vec<(String, TrialStatus, Option<u64>, Vec<u64>)> {
    let of = |trial: &TrialRecord| {
        let values = trial.progress.iter().map(|epoch| epoch.objective.to_bits()).collect();
        let settings = serde_json::to_string(&trial.settings).unwrap();
        (settings, trial.status, trial.best.map(f64::to_bits), values)
    };
    report.trials.iter().map(of).collect()
}

fn settings(method: SearchMethod, count: usize) -> SearchSettings {
    let space = factorization().space_of("rank=2..12 log, l2=0.005..0.3 log").unwrap();
    SearchSettings { method, trials: count, ..SearchSettings::new(space) }
}

fn searched(peers: usize, workers: usize, settings: &SearchSettings, folder: Option<&Path>) -> SearchReport {
    let found = hemiola_cluster::standalone(peers).workers(workers).run(|cluster| {
        let settings = SearchSettings { store: folder.map(TrialStore::new), ..settings.clone() };
        let outcome = search(cluster, &factorization(), &ratings(cluster)?, None, &settings, &mut SilentSearch)?;
        let best = outcome.report.best_trial().unwrap();
        // The final model has as many epochs as the best trial, and is trained on all ratings.
        let fit = outcome.train(cluster, &ratings(cluster)?, FitOptions::new())?;
        assert_eq!(Some(fit.report.progress.len() as u32), best.best_epoch);
        assert_eq!((fit.report.data.train, fit.report.data.validation), (ratings(cluster)?.len(), 0));
        Ok(outcome.report)
    });
    found.unwrap().swap_remove(0)
}

#[test]
fn a_search_depends_on_data_and_seed_alone() {
    let lab = tempfile::tempdir().unwrap();
    for method in [SearchMethod::Halving, SearchMethod::Random] {
        let settings = settings(method, 7);
        let serial = searched(1, 2, &settings, None);
        assert_eq!(serial.trials.len(), 7);
        let best = serial.best_trial().unwrap();
        assert!(serial.trials.iter().all(|trial| trial.best.is_none_or(|value| value >= best.best.unwrap())));
        assert_eq!(best.status, TrialStatus::Finished);
        // The first trial has the settings of the estimator.
        assert_eq!(serial.trials[0].settings["rank"], SettingValue::Integer(4));
        // Checkpoints, peers and repetition change nothing.
        assert_eq!(trials(&searched(2, 1, &settings, None)), trials(&serial));
        let folder = lab.path().join(format!("{method:?}"));
        assert_eq!(trials(&searched(1, 2, &settings, Some(&folder))), trials(&serial));
        let other = SearchSettings { seed: Seed(2), ..settings };
        assert_ne!(trials(&searched(1, 2, &other, None)), trials(&serial));
    }
}

#[test]
fn halving_trains_bad_trials_for_fewer_epochs() {
    let found = searched(1, 1, &settings(SearchMethod::Halving, 9), None);
    let epochs = |trial: &TrialRecord| trial.epochs();
    assert!(found.trials.iter().map(epochs).sum::<u32>() < 9 * 18 / 2);
    let paused = found.trials.iter().filter(|trial| trial.status == TrialStatus::Paused);
    assert!(paused.clone().count() >= 4 && paused.clone().all(|trial| trial.epochs() < 18));
}

/// Stops after a number of epochs.
struct StopAfter(u32);

impl SearchObserver for StopAfter {
    fn on_epoch(&mut self, _trial: &TrialRecord, _progress: &EpochProgress) -> TrainingControl {
        self.0 = self.0.saturating_sub(1);
        if self.0 == 0 { TrainingControl::Stop } else { TrainingControl::Continue }
    }
}

#[test]
fn an_interrupted_search_resumes_as_if_it_had_not_been() {
    let lab = tempfile::tempdir().unwrap();
    let expected = trials(&searched(1, 2, &settings(SearchMethod::Halving, 6), None));
    for stop in [1, 5, 14] {
        let folder = lab.path().join(format!("search-{stop}"));
        let settings = SearchSettings { store: Some(TrialStore::new(&folder)), ..settings(SearchMethod::Halving, 6) };
        let resumed = hemiola_cluster::standalone(2).workers(1).run(|cluster| {
            let (estimator, data) = (factorization(), ratings(cluster)?);
            let run = |settings: &SearchSettings, observer: &mut dyn SearchObserver| {
                search(cluster, &estimator, &data, None, settings, observer)
            };
            let outcome = run(&settings, &mut StopAfter(stop))?;
            assert!(outcome.interrupted && outcome.report.stop_reason == "interrupted");
            // The best model so far can be saved and used.
            let saved = folder.with_extension("model");
            outcome.save_checkpoint(cluster, settings.store.as_ref().unwrap(), &saved)?;
            assert_eq!(mf::MfModel::load(cluster, &saved)?.shape(), [80, 50]);
            let again = SearchSettings { resume: true, ..settings.clone() };
            let resumed = run(&again, &mut SilentSearch)?;
            assert!(!resumed.interrupted);
            // Another search is not resumed.
            let other = SearchSettings { seed: Seed(9), ..again };
            let refused = run(&other, &mut SilentSearch).unwrap_err().to_string();
            assert!(refused.contains("its seed differs"), "{refused}");
            Ok(trials(&resumed.report))
        });
        assert_eq!(resumed.unwrap()[0], expected, "stopped after {stop} epochs");
        let store = TrialStore::new(&folder);
        assert!(store.exists() && store.trial(1).is_dir());
        store.remove().unwrap();
        assert!(!folder.exists());
    }
}

#[test]
fn a_grid_is_searched_whole_and_wrong_searches_are_refused() {
    hemiola_cluster::standalone(1)
        .run(|cluster| {
            let examples = linear::data::synthetic(cluster, 200, Seed(4))?;
            let logistic = LinearClassifier::builder(LinearLoss::Logistic).build()?;
            let grid = SearchSettings {
                method: SearchMethod::Grid,
                metric: Some("auc".parse::<hemiola_models::metrics::MetricName>().unwrap().target()),
                ..SearchSettings::new(logistic.space_of("c=0.001|0.1|10")?)
            };
            let found = search(cluster, &logistic, &examples, None, &grid, &mut SilentSearch)?.report;
            assert_eq!((found.trials.len(), found.metric.as_str(), found.higher_is_better), (3, "auc", true));
            // The value of a trial is that of its last epoch: training minimizes the objective.
            for trial in &found.trials {
                assert_eq!(trial.best, trial.progress.last().map(|last| last.validation["auc"]));
            }
            let error = |settings: SearchSettings| {
                search(cluster, &logistic, &examples, None, &settings, &mut SilentSearch).unwrap_err().to_string()
            };
            assert!(error(SearchSettings { trials: 2, ..grid.clone() }).contains("3 points"));
            assert!(error(SearchSettings { trials: 0, ..grid.clone() }).contains("`trials` is `0`"));
            assert!(error(SearchSettings { validation: 0.0, ..grid.clone() }).contains("`validation`"));
            let wrong = SearchSettings::new(logistic.space_of("c=-1..1")?);
            assert!(error(wrong).contains("`c` is `"));
            let store = Some(TrialStore::new("/nonexistent/search"));
            let missing = error(SearchSettings { store, resume: true, ..grid });
            assert!(missing.contains("cannot resume the search") && missing.contains("there is none"), "{missing}");
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_time_limit_cuts_the_search_and_leaves_a_model() {
    hemiola_cluster::standalone(1)
        .run(|cluster| {
            let settings = SearchSettings {
                trials: 3,
                ..SearchSettings::new(factorization().space_of("learning-rate=0.05|0.1")?)
            };
            let hurried = SearchSettings { seconds: Some(1e-9), ..settings };
            let found = search(cluster, &factorization(), &ratings(cluster)?, None, &hurried, &mut SilentSearch)?;
            assert_eq!((found.report.stop_reason.as_str(), found.report.trials.len()), ("time limit reached", 1));
            assert!(found.best.is_some() && !found.interrupted);
            Ok(())
        })
        .unwrap();
}
