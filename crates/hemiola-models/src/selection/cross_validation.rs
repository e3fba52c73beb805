//! Cross-validation: a model for each fold, trained on the other folds and evaluated on this one.
//!
//! A model is trained as it would be on all data: if its settings split off a validation set, that
//! is a fraction of the training folds, and the held-out fold decides nothing.

use super::folds::FoldBy;
use super::records::RecordSelection;
use super::tunable::Tunable;
use crate::Error;
use crate::training::{Callback, EpochProgress, FitOptions, Metrics, TrainingControl};
use hemiola_cluster::{Cluster, Result};
use hemiola_core::Seed;
use serde::{Deserialize, Serialize};

/// Metrics of all folds, with their mean and standard deviation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CrossValidationReport {
    /// Kind of the model.
    pub model: String,
    /// Settings of all models.
    pub settings: serde_json::Value,
    /// Random seed of the folds.
    pub seed: u64,
    /// Each fold.
    pub folds: Vec<FoldResult>,
    /// Mean of each metric over folds.
    pub mean: Metrics,
    /// Standard deviation of each metric over folds, `√(Σ (x − mean)² / (folds − 1))`.
    pub deviation: Metrics,
}

/// Result of one fold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FoldResult {
    /// Number of the fold, from 1.
    pub fold: usize,
    /// Number of training records.
    pub train: usize,
    /// Number of held-out records.
    pub held_out: usize,
    /// Epoch whose model was evaluated.
    pub epoch: u32,
    /// Metrics on the held-out records.
    pub metrics: Metrics,
    /// Seconds of training.
    pub seconds: f64,
}

/// Observer of a cross-validation, called on every peer. Cross-validation stops if one of its
/// methods returns [`TrainingControl::Stop`] on any peer.
pub trait FoldObserver {
    /// Called after each epoch of the training for a fold, counted from 1.
    fn on_epoch(&mut self, fold: usize, progress: &EpochProgress) -> TrainingControl {
        let _ = (fold, progress);
        TrainingControl::Continue
    }

    /// Called after each fold, with the number of folds.
    fn on_fold(&mut self, fold: &FoldResult, folds: usize) -> TrainingControl;
}

/// Observer that is a function of the folds.
struct EachFold<'a>(&'a mut dyn FnMut(&FoldResult, usize) -> bool);

impl FoldObserver for EachFold<'_> {
    fn on_fold(&mut self, fold: &FoldResult, folds: usize) -> TrainingControl {
        if (self.0)(fold, folds) { TrainingControl::Continue } else { TrainingControl::Stop }
    }
}

/// Callback of the training for one fold.
struct FoldCallback<'a> {
    fold: usize,
    observer: &'a mut dyn FoldObserver,
}

impl Callback for FoldCallback<'_> {
    fn on_epoch_end(&mut self, progress: &EpochProgress) -> TrainingControl {
        self.observer.on_epoch(self.fold, progress)
    }
}

/// *Collective.* Cross-validates an estimator. `on_fold` is called after each fold with the number
/// of folds; cross-validation stops if it returns false on any peer. Folds are drawn with `seed`.
pub fn cross_validate<E: Tunable>(
    cluster: &Cluster,
    estimator: &E,
    data: &E::Data,
    folds: (usize, &FoldBy, Seed),
    on_fold: &mut dyn FnMut(&FoldResult, usize) -> bool,
) -> Result<CrossValidationReport> {
    cross_validate_with(cluster, estimator, data, folds, &mut EachFold(on_fold))
}

/// *Collective.* Cross-validates an estimator as [`cross_validate`] does, with an observer of all
/// epochs. A fold that is interrupted is not part of the report.
pub fn cross_validate_with<E: Tunable>(
    cluster: &Cluster,
    estimator: &E,
    data: &E::Data,
    (folds, by, seed): (usize, &FoldBy, Seed),
    observer: &mut dyn FoldObserver,
) -> Result<CrossValidationReport> {
    let assignment = data.assign(cluster, folds, by, seed)?;
    let mut report = CrossValidationReport {
        model: String::new(),
        settings: serde_json::to_value(estimator.settings()).unwrap_or_default(),
        seed: seed.0,
        folds: Vec::new(),
        mean: Metrics::new(),
        deviation: Metrics::new(),
    };
    for fold in 0..folds {
        let (train, held_out) = data.of_fold(cluster, &assignment, fold)?;
        let (trained, tested) = (train.info().train, held_out.info().train);
        if trained == 0 || tested == 0 {
            return Err(Error::EmptyFold { fold: fold + 1 }.into());
        }
        let mut callback = FoldCallback { fold: fold + 1, observer: &mut *observer };
        let fit = estimator.fit_with(cluster, &train, None, FitOptions::new().with_callback(&mut callback));
        let fit = match fit {
            Ok(fit) if fit.report.result.stopped_by_callback() => break,
            Err(hemiola_cluster::Error::Stopped) => break,
            fit => fit?,
        };
        let scope = cluster.stop_request().accept();
        let metrics = match estimator.held_out_metrics(cluster, &fit.model, &train, &held_out) {
            Err(hemiola_cluster::Error::Stopped) => break,
            metrics => metrics?,
        };
        drop(scope);
        report.model = fit.report.model;
        let result = FoldResult {
            fold: fold + 1,
            train: trained,
            held_out: tested,
            epoch: fit.report.result.best_epoch,
            metrics,
            seconds: fit.report.result.seconds,
        };
        let control = observer.on_fold(&result, folds);
        report.folds.push(result);
        if cluster.all_gather(control)?.contains(&TrainingControl::Stop) {
            break;
        }
    }
    report.summarize();
    Ok(report)
}

impl CrossValidationReport {
    /// Computes mean and deviation of the metrics that all folds have.
    fn summarize(&mut self) {
        let Some(first) = self.folds.first() else { return };
        for name in first.metrics.keys() {
            let values: Vec<f64> = self.folds.iter().filter_map(|fold| fold.metrics.get(name).copied()).collect();
            if values.len() < self.folds.len() {
                continue;
            }
            let count = values.len() as f64;
            let mean = values.iter().sum::<f64>() / count;
            let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
            self.mean.insert(name.clone(), mean);
            if values.len() > 1 {
                self.deviation.insert(name.clone(), (squares / (count - 1.0)).sqrt());
            }
        }
    }
}
