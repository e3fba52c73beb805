//! Description of a training run.

use crate::{DatasetInfo, TargetMetric, TrainingLimits};

/// Specification of a training run.
#[derive(Clone, Debug)]
pub struct TrainingSpec<'a, S> {
    /// Kind of the model, such as `mf`.
    pub model: &'a str,
    /// Settings of the model; see [`CheckpointMetadata::settings`](crate::CheckpointMetadata).
    pub settings: &'a S,
    /// Random seed of all draws.
    pub seed: u64,
    /// Stopping criteria of the training run.
    pub limits: &'a TrainingLimits,
    /// Metric that selects the best epoch.
    pub metric: TargetMetric,
    /// Shape and size of the data.
    pub data: DatasetInfo,
}
