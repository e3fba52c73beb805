//! Checkpoints within an epoch, for learners that can resume there.
//!
//! A learner whose epochs are long asks the control between steps whether a checkpoint is due. It
//! saves with [`EpochControl::save`], and puts its position in the epoch into the state of the
//! metadata. Peers must agree on the step, which is the learner's task: their clocks differ.
//!
//! **Invariant:** the history of a checkpoint has completed epochs only, so a resumed run decides as
//! an uninterrupted one.

use crate::{Callback, CheckpointMetadata, Checkpoints};
use hemiola_cluster::{Cluster, Result, WaitReason};
use hemiola_core::Waiter;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// View of the run for a learner within an epoch.
pub struct EpochControl<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) callback: &'a mut dyn Callback,
    pub(crate) checkpoints: Option<&'a Checkpoints>,
    /// Returns the metadata of a checkpoint now, with an empty state. They have the whole history, and
    /// are made for a save only.
    pub(crate) metadata: &'a dyn Fn() -> CheckpointMetadata,
    /// Seconds of training in earlier epochs.
    pub(crate) seconds_before: f64,
    /// Seconds of training at the last attempt to save a checkpoint.
    pub(crate) last_checkpoint: f64,
    /// Time spent on saving.
    pub(crate) saving: Duration,
}

impl EpochControl<'_> {
    /// Returns whether a checkpoint is due by time after `elapsed` in this epoch. Peers may differ.
    #[must_use]
    pub fn is_checkpoint_due(&self, elapsed: Duration) -> bool {
        let since = self.seconds_before + elapsed.as_secs_f64() - self.last_checkpoint;
        self.checkpoints.is_some_and(|checkpoints| checkpoints.is_due_within_epoch(since))
    }

    /// Returns whether a checkpoint is due after so many steps of the run. Equal on all peers.
    #[must_use]
    pub fn is_due_at_step(&self, steps: u64) -> bool {
        self.checkpoints.is_some_and(|checkpoints| checkpoints.is_due_at_step(steps))
    }

    /// *Collective.* Saves a checkpoint by `save`, if checkpoints are enabled, with the position of the
    /// learner as the state of its metadata. `survives` tells whether training goes on after a
    /// failure; the failure is then a warning.
    pub fn save(
        &mut self,
        elapsed: Duration,
        position: &Value,
        save: impl FnOnce(&Path, CheckpointMetadata) -> Result<()>,
        survives: impl FnOnce(&hemiola_cluster::Error) -> bool,
    ) -> Result<()> {
        let Some(checkpoints) = self.checkpoints else { return Ok(()) };
        self.last_checkpoint = self.seconds_before + elapsed.as_secs_f64();
        let start = self.cluster.env().now();
        let metadata = CheckpointMetadata { state: position.clone(), ..(self.metadata)() };
        let epochs = metadata.progress.len() as u32;
        let reason = WaitReason { operation: "the disk, to write a checkpoint", number: None, site: None };
        let waiting = self.cluster.waiting(Waiter::Driver, reason, None);
        let saved = save(checkpoints.folder(), metadata);
        drop(waiting);
        self.saving += self.cluster.env().now() - start;
        match saved {
            Err(error) if survives(&error) => {
                self.callback.on_warning(&format!("failed to save a checkpoint within the epoch: {error}"));
                Ok(())
            }
            Ok(()) => {
                self.callback.on_checkpoint(epochs, self.cluster.env().now() - start);
                Ok(())
            }
            failed => failed,
        }
    }
}

impl std::fmt::Debug for EpochControl<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("EpochControl").field("seconds_before", &self.seconds_before).finish_non_exhaustive()
    }
}
