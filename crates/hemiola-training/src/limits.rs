//! Stopping criteria of the training run.

use crate::{EpochProgress, TargetMetric};
use serde::{Deserialize, Serialize};

/// Reason to stop when the time is over.
pub(crate) const TIME_LIMIT_REACHED: &str = "time limit reached";

/// Stopping criteria. Training stops at the first one that is met.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainingLimits {
    /// Maximum number of epochs.
    pub epochs: u32,
    /// Maximum seconds of training.
    pub seconds: Option<f64>,
    /// Stop when the target metric reaches this value.
    pub target: Option<f64>,
    /// Early stopping: stop after this many epochs without improvement of the validation metric.
    pub patience: Option<u32>,
}

impl Default for TrainingLimits {
    fn default() -> Self {
        Self { epochs: 40, seconds: None, target: None, patience: Some(3) }
    }
}

/// Decision after an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopDecision {
    /// True if the epoch is the best so far by the target metric.
    pub is_best: bool,
    /// Reason to stop, or `None` to continue.
    pub stop_reason: Option<&'static str>,
}

impl TrainingLimits {
    /// Decides about the last epoch of `history` by `metric`, on the validation set where there is
    /// one.
    #[must_use]
    pub fn decide(&self, history: &[EpochProgress], metric: TargetMetric) -> StopDecision {
        let Some((now, before)) = history.split_last() else {
            return StopDecision { is_best: true, stop_reason: None };
        };
        let best = before.iter().all(|before| metric.compare(now, before).is_lt());
        let since_best = history.len()
            - 1
            - (0..history.len()).min_by(|a, b| metric.compare(&history[*a], &history[*b])).unwrap_or(0);
        let stop_reason = if self.target.is_some_and(|target| metric.reaches(now, target)) {
            Some("target reached")
        } else if now.epoch >= self.epochs {
            Some("all epochs done")
        } else if self.seconds.is_some_and(|seconds| now.seconds >= seconds) {
            Some(TIME_LIMIT_REACHED)
        } else if now.validation.is_some() && self.patience.is_some_and(|patience| since_best >= patience as usize) {
            Some("no improvement of the validation metric")
        } else {
            None
        };
        StopDecision { is_best: best, stop_reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(metrics: &[f64]) -> Vec<EpochProgress> {
        let progress = |(at, metric): (usize, &f64)| EpochProgress {
            epoch: at as u32 + 1,
            seconds: at as f64,
            objective: 1.0,
            train: [("rmse".to_owned(), 0.5)].into(),
            validation: Some([("rmse".to_owned(), *metric)].into()),
            updates: 0,
            bytes_sent: 0,
            note: None,
        };
        metrics.iter().enumerate().map(progress).collect()
    }

    #[test]
    fn early_stopping_waits_for_patience_epochs() {
        let limits = TrainingLimits { patience: Some(2), ..TrainingLimits::default() };
        let decide = |metrics: &[f64]| limits.decide(&history(metrics), TargetMetric::minimize("rmse"));
        assert_eq!(decide(&[0.9]), StopDecision { is_best: true, stop_reason: None });
        assert_eq!(decide(&[0.9, 0.8]), StopDecision { is_best: true, stop_reason: None });
        assert_eq!(decide(&[0.9, 0.8, 0.85]), StopDecision { is_best: false, stop_reason: None });
        assert_eq!(decide(&[0.9, 0.8, 0.85, 0.81]).stop_reason, Some("no improvement of the validation metric"));
    }

    #[test]
    fn target_epochs_and_seconds_stop_training() {
        let base = TrainingLimits { epochs: 10, seconds: None, target: None, patience: None };
        let stop_reason = |limits: TrainingLimits, count: usize| {
            limits.decide(&history(&vec![0.9; count]), TargetMetric::minimize("rmse")).stop_reason
        };
        assert_eq!(stop_reason(TrainingLimits { target: Some(0.9), ..base.clone() }, 1), Some("target reached"));
        assert_eq!(stop_reason(base.clone(), 9), None);
        assert_eq!(stop_reason(base.clone(), 10), Some("all epochs done"));
        assert_eq!(stop_reason(TrainingLimits { seconds: Some(2.0), ..base }, 3), Some("time limit reached"));
    }

    #[test]
    fn a_maximized_metric_reverses_the_comparison() {
        let limits = TrainingLimits { patience: Some(2), target: Some(0.95), ..TrainingLimits::default() };
        let decide = |metrics: &[f64]| limits.decide(&history(metrics), TargetMetric::maximize("rmse"));
        assert_eq!(decide(&[0.8, 0.9]), StopDecision { is_best: true, stop_reason: None });
        assert_eq!(decide(&[0.9, 0.8]), StopDecision { is_best: false, stop_reason: None });
        assert_eq!(decide(&[0.9, 0.8, 0.85]).stop_reason, Some("no improvement of the validation metric"));
        assert_eq!(decide(&[0.9, 0.96]).stop_reason, Some("target reached"));
    }

    #[test]
    fn the_objective_decides_without_the_metric() {
        let mut epochs = history(&[0.9, 0.8]);
        epochs[1].objective = 0.5;
        assert!(TrainingLimits::default().decide(&epochs, TargetMetric::maximize("recall@10")).is_best);
        epochs[1].objective = 1.5;
        assert!(!TrainingLimits::default().decide(&epochs, TargetMetric::maximize("recall@10")).is_best);
    }
}
