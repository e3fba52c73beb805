//! State of a training run after an epoch.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Metrics by name, such as `rmse` and `mae`.
pub type Metrics = BTreeMap<String, f64>;

/// State of a training run after an epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochProgress {
    /// Number of completed epochs.
    pub epoch: u32,
    /// Seconds of training so far, without loading, evaluation and checkpoints.
    pub seconds: f64,
    /// Value of the objective, per training entry.
    pub objective: f64,
    /// Metrics on the training entries, computed during the epoch.
    pub train: Metrics,
    /// Metrics on the validation set, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<Metrics>,
    /// Number of training entries processed so far, over all epochs.
    pub updates: u64,
    /// Bytes sent by all peers so far.
    pub bytes_sent: u64,
    /// Remark about an unusual event in this epoch, such as a repeated epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
