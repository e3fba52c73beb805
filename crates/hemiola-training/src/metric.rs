//! Target metric: the metric that selects the best epoch.

use crate::{EpochProgress, Metrics};
use std::cmp::Ordering;

/// Metric that selects the best epoch, with its direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetMetric {
    /// Name of the metric in [`Metrics`].
    pub name: &'static str,
    /// Direction: true for a metric such as recall, false for an error or loss.
    pub higher_is_better: bool,
}

impl TargetMetric {
    /// Creates a metric to minimize, such as an error.
    #[must_use]
    pub const fn minimize(name: &'static str) -> Self {
        Self { name, higher_is_better: false }
    }

    /// Creates a metric to maximize, such as recall.
    #[must_use]
    pub const fn maximize(name: &'static str) -> Self {
        Self { name, higher_is_better: true }
    }

    /// Returns its value on the validation set, or on the training set without one.
    #[must_use]
    pub fn value(self, progress: &EpochProgress) -> Option<f64> {
        let named = |metrics: &Metrics| metrics.get(self.name).copied();
        progress.validation.as_ref().map_or_else(|| named(&progress.train), named)
    }

    /// Compares two epochs; `Less` means that `left` is better. Without the metric, the objective
    /// decides.
    #[must_use]
    pub fn compare(self, left: &EpochProgress, right: &EpochProgress) -> Ordering {
        match (self.value(left), self.value(right)) {
            (Some(left), Some(right)) if self.higher_is_better => right.total_cmp(&left),
            (Some(left), Some(right)) => left.total_cmp(&right),
            _ => left.objective.total_cmp(&right.objective),
        }
    }

    /// Returns whether an epoch reaches a target value.
    #[must_use]
    pub fn reaches(self, progress: &EpochProgress, target: f64) -> bool {
        match self.value(progress) {
            Some(metric) if self.higher_is_better => metric >= target,
            Some(metric) => metric <= target,
            None => progress.objective <= target,
        }
    }
}
