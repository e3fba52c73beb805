//! Callbacks of a training run: messages, progress, and the decision to stop.

use crate::EpochProgress;
use hemiola_loops::LoopPlan;
use serde::{Deserialize, Serialize};
use std::time::Duration;

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

    /// Called after a checkpoint of the model after `epoch` was saved, which took `duration`.
    fn on_checkpoint(&mut self, epoch: u32, duration: Duration) {
        let _ = (epoch, duration);
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
