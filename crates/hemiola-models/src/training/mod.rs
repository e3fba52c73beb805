//! Shared training machinery of all models: the fit loop, stopping criteria, callbacks, checkpoints
//! and reports.
//!
//! | file | concept |
//! |---|---|
//! | [`metric`](TargetMetric) | target metric and its direction |
//! | [`limits`](TrainingLimits) | stopping criteria: epochs, seconds, target, early stopping |
//! | [`options`](FitOptions) | options of a fit: callback, checkpoints, profiling |
//! | [`fit`](Fit) | result of a fit: model and report |
//! | [`fit_loop`](fit_loop()) | the loop over epochs, for any [`TrainingAlgorithm`] |
//! | [`checkpoint`](Checkpoints) | checkpoints and resuming |
//! | [`digest`](digest()) | fingerprint of the data, to detect changes |
//! | [`report`](TrainingReport) | the JSON report of a training run |

mod checkpoint;
mod digest;
mod fit;
mod fit_loop;
mod limits;
mod metric;
mod options;
mod report;

pub(crate) use checkpoint::MODEL_KEY;
pub use checkpoint::{CheckpointInterval, CheckpointMetadata, Checkpointable, Checkpoints, comparable_settings};
pub use digest::digest;
pub(crate) use digest::{hash_combine, labelled_digest};
pub use fit::Fit;
pub use fit_loop::{EpochResult, TrainingAlgorithm, TrainingSpec, fit_loop, peak_memory};
pub use limits::{StopDecision, TrainingLimits};
pub use metric::TargetMetric;
pub use options::FitOptions;
pub use report::{ClusterInfo, DatasetInfo, TrainingReport, TrainingSummary};

use hemiola::loops::LoopPlan;
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

/// Training callback, invoked on every peer. If any peer returns [`TrainingControl::Stop`], all
/// peers stop.
pub trait Callback {
    /// Called with an informational message, one sentence.
    fn on_note(&mut self, note: &str) {
        let _ = note;
    }

    /// Called with a warning about a failure that training survives, one sentence. The default
    /// forwards it to [`on_note`](Self::on_note).
    fn on_warning(&mut self, warning: &str) {
        self.on_note(warning);
    }

    /// Called once with the plan of the training loop, before the first epoch ends.
    fn on_plan(&mut self, plan: &LoopPlan) {
        let _ = plan;
    }

    /// Called once with a textual explanation of the parallelization, for algorithms without a loop
    /// plan.
    fn on_explanation(&mut self, explanation: &str) {
        let _ = explanation;
    }

    /// Called after every epoch; the return value continues or stops training.
    fn on_epoch_end(&mut self, progress: &EpochProgress) -> TrainingControl {
        let _ = progress;
        TrainingControl::Continue
    }
}

/// Decision of a callback after an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TrainingControl {
    /// Continue with the next epoch.
    Continue,
    /// Stop and keep the model trained so far.
    Stop,
}

/// Callback that ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCallback;

impl Callback for NoCallback {}
