//! Report of a training run: stable JSON for programs.

use crate::{EpochProgress, Metrics};
use hemiola_array::DistArray;
use hemiola_cluster::Cluster;
use hemiola_loops::LoopPlan;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Complete report of a training run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainingReport {
    /// Kind of the model: `mf`, `svm`, `logistic`, `lda`, `lasso` and so on.
    pub model: String,
    /// Shape and size of the data.
    pub data: DatasetInfo,
    /// Number of peers and workers.
    pub cluster: ClusterInfo,
    /// Random seed of all draws.
    pub seed: u64,
    /// Settings of the model. Missing in old reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<serde_json::Value>,
    /// Progress after each epoch.
    pub progress: Vec<EpochProgress>,
    /// Outcome of the run.
    pub result: TrainingSummary,
    /// Plan of the training loop, if it was a `parallel_for!`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<LoopPlan>,
    /// Synchronization strategy of the model's variables with its origin, if it is a net.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<serde_json::Value>,
    /// Choice of the penalty with the regularization path, if it is a sparse regression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regularization: Option<serde_json::Value>,
    /// Cross-validation before the training, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cross_validation: Option<serde_json::Value>,
}

/// Shape and size of the training data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatasetInfo {
    /// Extents of the training array, such as users and items.
    pub shape: Vec<usize>,
    /// Number of training entries.
    pub train: usize,
    /// Number of validation entries.
    pub validation: usize,
}

/// Size of the cluster that trained a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterInfo {
    /// Number of peers (processes).
    pub peers: usize,
    /// Number of workers per peer.
    pub workers: usize,
}

impl ClusterInfo {
    /// Returns the size of `cluster`.
    #[must_use]
    pub fn of(cluster: &Cluster) -> Self {
        Self { peers: cluster.size(), workers: cluster.workers() }
    }

    /// Returns the number of workers of all peers. Most models are bit-identical for the same
    /// total.
    #[must_use]
    pub const fn total_workers(&self) -> usize {
        self.peers * self.workers
    }
}

/// Formats as `2 peers of 4 workers`.
impl fmt::Display for ClusterInfo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        let Self { peers, workers } = *self;
        write!(formatter, "{peers} peer{} of {workers} worker{}", plural(peers), plural(workers))
    }
}

impl DatasetInfo {
    /// Returns the shape and size of a training array and a validation array.
    #[must_use]
    pub fn of<T, const N: usize>(train: &DistArray<T, N>, validation: Option<&DistArray<T, N>>) -> Self
    where
        T: hemiola_array::Element,
    {
        Self {
            shape: train.shape().extents().to_vec(),
            train: train.len(),
            validation: validation.map_or(0, DistArray::len),
        }
    }
}

/// Outcome of a training run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainingSummary {
    /// Seconds of training, without loading, evaluation and checkpoints.
    pub seconds: f64,
    /// Seconds of reading or generating the data, if the caller measured them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loading_seconds: Option<f64>,
    /// Seconds of evaluating the validation set.
    pub evaluation_seconds: f64,
    /// Seconds of saving checkpoints and the model.
    #[serde(default)] // missing in old reports
    pub saving_seconds: f64,
    /// Training entries processed per second of training.
    pub updates_per_second: f64,
    /// Value of the objective per entry, in the epoch whose model was kept.
    pub objective: f64,
    /// Validation metrics of that epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<Metrics>,
    /// Epoch whose model was kept, counted from 1.
    pub best_epoch: u32,
    /// Reason why training stopped, in words.
    pub stop_reason: String,
    /// Bytes sent by all peers.
    pub bytes_sent: u64,
    /// Bytes that were sent before the first epoch, mostly to distribute the data. `bytes_sent` and
    /// the progress include them. Missing in old reports and after a resume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loading_bytes: Option<u64>,
    /// Bytes that were sent to train: `bytes_sent` without `loading_bytes`. Missing where those are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training_bytes: Option<u64>,
    /// Peak resident memory of the largest peer, where the operating system reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_rss_bytes: Option<u64>,
}

impl TrainingSummary {
    /// Value of [`stop_reason`](Self::stop_reason) after a callback returned
    /// [`TrainingControl::Stop`](crate::TrainingControl::Stop).
    pub const STOPPED_BY_CALLBACK: &'static str = "stopped by callback";

    /// Returns whether a callback stopped training before any limit was reached.
    #[must_use]
    pub fn stopped_by_callback(&self) -> bool {
        self.stop_reason == Self::STOPPED_BY_CALLBACK
    }
}
