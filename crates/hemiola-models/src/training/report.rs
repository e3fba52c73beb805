//! What is reported of a training: stable JSON that programs can read.

use super::{Metrics, Progress};
use hemiola::Cluster;
use hemiola::array::DistArray;
use hemiola::loops::Plan;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Everything that is known of a training when it has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Which model: `mf`, `svm`, `logistic`.
    pub model: String,
    /// What it was trained on.
    pub data: DataFacts,
    /// What it was trained with.
    pub cluster: ClusterFacts,
    /// What all chance comes from.
    pub seed: u64,
    /// Every epoch.
    pub progress: Vec<Progress>,
    /// The end.
    pub result: Summary,
    /// How the training loop ran, if it was one of `parallel_for!`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
}

/// What a model was trained on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataFacts {
    /// Extents.
    pub shape: Vec<u64>,
    /// Entries trained on.
    pub train: u64,
    /// Entries held out.
    pub valid: u64,
}

/// What a model was trained with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterFacts {
    /// Peers.
    pub peers: usize,
    /// Workers of each.
    pub workers: usize,
}

impl ClusterFacts {
    /// Of this cluster.
    #[must_use]
    pub fn of(cluster: &Cluster) -> Self {
        Self { peers: cluster.size(), workers: cluster.workers() }
    }

    /// Workers of all peers. The same number gives the same bits.
    #[must_use]
    pub const fn in_all(&self) -> usize {
        self.peers * self.workers
    }
}

/// `2 peers of 4 workers`.
impl fmt::Display for ClusterFacts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        let Self { peers, workers } = *self;
        write!(formatter, "{peers} peer{} of {workers} worker{}", plural(peers), plural(workers))
    }
}

impl DataFacts {
    /// Of these arrays.
    #[must_use]
    pub fn of<T, const N: usize>(train: &DistArray<T, N>, valid: Option<&DistArray<T, N>>) -> Self
    where
        T: hemiola::array::Element,
    {
        Self { shape: train.shape().extents().to_vec(), train: train.len(), valid: valid.map_or(0, DistArray::len) }
    }
}

/// How a training ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Seconds of training; loading and evaluation are not counted.
    pub seconds: f64,
    /// Seconds of reading or making the data, where whoever trained has measured them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loading_seconds: Option<f64>,
    /// Seconds of evaluating held-out entries.
    pub evaluation_seconds: f64,
    /// Seconds of saving checkpoints and the model.
    #[serde(default)] // reports of before have none
    pub saving_seconds: f64,
    /// Entries used per second of training.
    pub updates_per_second: f64,
    /// What was minimized, per entry, in the epoch whose model was kept.
    pub objective: f64,
    /// Figures on held-out entries, of the same epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid: Option<Metrics>,
    /// The epoch whose model was kept.
    pub best_epoch: u32,
    /// Why training ended.
    pub ended: String,
    /// Bytes all peers have sent.
    pub bytes_sent: u64,
    /// The most memory the busiest peer has used, where the system tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_rss_bytes: Option<u64>,
}

impl Summary {
    /// [`ended`](Self::ended) if a watcher wanted the end.
    pub const ASKED: &'static str = "it was asked to";

    /// Whether training ended because a watcher wanted it, before any limit was reached.
    #[must_use]
    pub fn was_stopped(&self) -> bool {
        self.ended == Self::ASKED
    }
}
