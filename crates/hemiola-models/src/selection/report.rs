//! Report of a search: all trials with their settings, metrics by epoch and times.

use super::schedule::SearchMethod;
use super::space::{SearchSpace, SettingValues};
use crate::training::{ClusterInfo, DatasetInfo, EpochProgress, Metrics};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// Report of a search: stable JSON for programs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchReport {
    /// Kind of the model.
    pub model: String,
    /// Method that proposes and orders trials.
    pub method: SearchMethod,
    /// Searched settings with their domains.
    pub space: SearchSpace,
    /// Settings of all trials, where the space has no other.
    pub settings: serde_json::Value,
    /// Maximum number of epochs of a trial.
    pub epochs: u32,
    /// Random seed of the points and the validation set.
    pub seed: u64,
    /// Metric on the validation set by which trials are compared.
    pub metric: String,
    /// Direction of the metric.
    pub higher_is_better: bool,
    /// Shape and size of the training data.
    pub data: DatasetInfo,
    /// Number of peers and workers.
    pub cluster: ClusterInfo,
    /// All trials, in the order of their start.
    pub trials: Vec<TrialRecord>,
    /// Number of the best trial, from 1; `None` if no trial has the metric.
    pub best: Option<u32>,
    /// Reason why the search stopped, in words.
    pub stop_reason: String,
    /// Seconds of the search, without the final training.
    pub seconds: f64,
}

/// Trial: training with one point of the space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Number, from 1.
    pub trial: u32,
    /// Values of the searched settings.
    pub settings: SettingValues,
    /// State of the trial.
    pub status: TrialStatus,
    /// Reason of the last stop, in words.
    pub stop_reason: String,
    /// Best value of the metric that counts.
    pub best: Option<f64>,
    /// Epoch of this value, from 1.
    pub best_epoch: Option<u32>,
    /// Metrics after each epoch.
    pub progress: Vec<TrialEpoch>,
    /// Seconds of training, evaluation and checkpoints.
    pub seconds: f64,
}

/// State of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrialStatus {
    /// Trained for the epochs of its rung; can be resumed from its checkpoint.
    Paused,
    /// Trained to the end: all epochs, early stopping or convergence.
    Finished,
    /// Given up, because other trials were better after as many epochs.
    Pruned,
    /// Interrupted by a signal or the time limit.
    Interrupted,
    /// Training failed, for example because it diverged.
    Failed,
}

/// Metrics of a trial after an epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialEpoch {
    /// Number of completed epochs.
    pub epoch: u32,
    /// Seconds of training so far.
    pub seconds: f64,
    /// Value of the objective, per training entry.
    pub objective: f64,
    /// Metrics on the validation set.
    pub validation: Metrics,
}

impl From<&EpochProgress> for TrialEpoch {
    fn from(progress: &EpochProgress) -> Self {
        let EpochProgress { epoch, seconds, objective, validation, .. } = progress;
        let validation = validation.clone().unwrap_or_default();
        Self { epoch: *epoch, seconds: *seconds, objective: *objective, validation }
    }
}

/// Metric of a search with its direction, and the epochs of a trial that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TrialRanking<'a> {
    pub(super) metric: &'a str,
    pub(super) higher_is_better: bool,
    /// True if the best epoch of a trial counts, and false if the last one does.
    pub(super) best_epoch: bool,
}

impl TrialRanking<'_> {
    /// Compares two values; `Less` means that the first is better.
    pub(super) fn order(self, left: f64, right: f64) -> Ordering {
        if self.higher_is_better { right.total_cmp(&left) } else { left.total_cmp(&right) }
    }

    /// Returns epoch and value that count among the first `epochs`.
    pub(super) fn best_of(self, progress: &[TrialEpoch], epochs: u32) -> Option<(u32, f64)> {
        let mut values = progress.iter().filter(|progress| progress.epoch <= epochs).filter_map(|progress| {
            let value = progress.validation.get(self.metric).filter(|value| value.is_finite())?;
            Some((progress.epoch, *value))
        });
        if self.best_epoch { values.min_by(|left, right| self.order(left.1, right.1)) } else { values.next_back() }
    }

    /// Returns the index of the best trial.
    pub(super) fn best_trial(self, trials: &[TrialRecord]) -> Option<usize> {
        let scored = trials.iter().enumerate().filter_map(|(index, trial)| Some((index, trial.best?)));
        scored.min_by(|left, right| self.order(left.1, right.1)).map(|(index, _)| index)
    }
}

impl TrialRecord {
    /// Creates a trial that has not begun.
    pub(super) fn new(trial: u32, settings: SettingValues) -> Self {
        Self {
            trial,
            settings,
            status: TrialStatus::Paused,
            stop_reason: String::new(),
            best: None,
            best_epoch: None,
            progress: Vec::new(),
            seconds: 0.0,
        }
    }

    /// Number of completed epochs.
    #[must_use]
    pub fn epochs(&self) -> u32 {
        self.progress.last().map_or(0, |last| last.epoch)
    }

    /// Takes over the progress of a training run.
    pub(super) fn set_progress(&mut self, progress: Vec<TrialEpoch>, ranking: TrialRanking<'_>) {
        self.progress = progress;
        let best = ranking.best_of(&self.progress, u32::MAX);
        (self.best_epoch, self.best) = best.unzip();
    }
}

impl SearchReport {
    /// Returns the best trial.
    #[must_use]
    pub fn best_trial(&self) -> Option<&TrialRecord> {
        self.trials.iter().find(|trial| Some(trial.trial) == self.best)
    }
}
