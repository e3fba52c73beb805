//! The loop over epochs: validation, best model, checkpoints, stopping.
//!
//! A model family implements [`EpochLearner`]; everything else is here, so that all models stop,
//! save, resume and report alike.
//!
//! **Invariant:** the next action depends on the history, the limits and what all peers have agreed
//! on, never on the clock or the callback of one peer. A resumed run has the history of the run it
//! continues, so it decides as that run would have.

use crate::limits::TIME_LIMIT_REACHED;
use crate::{
    Callback, CheckpointMetadata, Checkpoints, ClusterInfo, EpochControl, EpochProgress, Metrics, TrainingControl,
    TrainingReport, TrainingSpec, TrainingSummary, comparable_settings,
};
use hemiola_cluster::{Cluster, Error, Result, StopRequestCause, WaitReason};
use hemiola_core::{Moment, Waiter};
use hemiola_loops::LoopPlan;
use serde::Serialize;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// Time after the time limit at which an epoch is left. One that ends before is complete.
const TIME_LIMIT_GRACE: Duration = Duration::from_secs(1);

/// Model in training, as the loop over epochs sees it.
pub trait EpochLearner {
    /// *Collective.* Runs one epoch. `before` is the objective of the previous epoch.
    fn epoch(&mut self, before: Option<f64>) -> Result<EpochResult>;

    /// *Collective.* Runs one epoch as [`epoch`](Self::epoch) does, and may save checkpoints within it
    /// through `control`. The default saves none.
    fn epoch_within(&mut self, before: Option<f64>, control: &mut EpochControl<'_>) -> Result<EpochResult> {
        let _ = control;
        self.epoch(before)
    }

    /// *Collective.* Returns metrics on the validation set, if there is one.
    fn evaluate(&mut self) -> Result<Option<Metrics>>;

    /// *Collective.* Saves a checkpoint with these metadata in `folder`, replacing an older one.
    /// With [`separate_newest`](CheckpointMetadata::separate_newest), the model that was last
    /// [kept](Self::keep_best) is the best, and otherwise the current one. Called only if the loop
    /// has [checkpoints](EpochLoop::checkpoints).
    fn save(&mut self, folder: &Path, metadata: CheckpointMetadata) -> Result<()>;

    /// Returns whether the result is the model of the best epoch on the validation set. If it is
    /// not, or without a validation set, the result is the newest model.
    fn keeps_best(&self) -> bool {
        false
    }

    /// Keeps a copy of the current model as the best so far. Called only if the learner [keeps the
    /// best](Self::keeps_best) and there is a validation set.
    fn keep_best(&mut self) {}

    /// Restores the model before the current epoch, in which [`epoch`](Self::epoch) or
    /// [`evaluate`](Self::evaluate) has returned [`Error::Stopped`]. Returns false if there is no copy
    /// of it.
    fn discard_epoch(&mut self) -> bool {
        false
    }

    /// Returns the reason why training has converged, if it has. Equal on every peer.
    fn finished(&self) -> Option<&'static str> {
        None
    }

    /// Returns whether a run started on `before` and resumed on `now` is bit-identical to an
    /// uninterrupted one. If it is not, a note says so.
    fn same_bits(&self, before: &ClusterInfo, now: &ClusterInfo) -> bool {
        let _ = (before, now);
        true
    }

    /// Returns an explanation of the parallelization, for algorithms without a
    /// [plan](EpochResult::plan).
    fn explanation(&self) -> Option<String> {
        None
    }

    /// Returns whether training continues after this failure to save a checkpoint, if it is not the
    /// last one. Equal on every peer.
    fn survives_failed_save(&self, error: &Error) -> bool {
        let _ = error;
        false
    }
}

/// Result of an epoch.
#[derive(Clone, Debug)]
pub struct EpochResult {
    /// Value of the objective, per training entry.
    pub objective: f64,
    /// Metrics on the training entries, computed during the epoch.
    pub train: Metrics,
    /// Wall-clock time of the epoch.
    pub duration: Duration,
    /// Plan of the training loop, if it was a `parallel_for!`.
    pub plan: Option<LoopPlan>,
    /// Number of training entries processed.
    pub updates: u64,
    /// Remark about an unusual event, such as a repeated epoch.
    pub note: Option<String>,
    /// End of the epoch.
    pub end: EpochEnd,
}

/// End of an epoch. One that a request to stop has ended is the last of the run, and is not
/// evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EpochEnd {
    /// All steps were taken.
    Complete,
    /// A request to stop ended it. The model holds what was done, and a resumed run begins the next
    /// epoch.
    Partial,
    /// A request to stop ended it at a position in words. The learner has saved its checkpoint there,
    /// and a resumed run goes on there.
    Within(String),
}

impl EpochResult {
    /// Creates the result of an epoch without a plan and a note.
    #[must_use]
    pub fn new(objective: f64, train: Metrics, duration: Duration, updates: u64) -> Self {
        Self { objective, train, duration, plan: None, updates, note: None, end: EpochEnd::Complete }
    }
}

/// Training run: the loop over epochs, and its history.
#[derive(Debug)]
pub struct EpochLoop<'a, S> {
    cluster: &'a Cluster,
    spec: TrainingSpec<'a, S>,
    checkpoints: Option<Checkpoints>,
    digests: [u64; 2],
    epochs: Vec<EpochProgress>,
    /// Index in the history of the model that the learner keeps, if it keeps one.
    kept: Option<usize>,
    plan: Option<LoopPlan>,
    training: Duration,
    evaluation: Duration,
    saving: Duration,
    /// Bytes sent by the runs that this one resumes.
    bytes_before: u64,
    /// Bytes that this peer sent before the run, to distribute the data.
    loading_bytes: u64,
    /// Epoch and seconds of training at the last attempt to save a checkpoint, successful or not.
    last_checkpoint: (u32, f64),
}

impl<'a, S: Serialize> EpochLoop<'a, S> {
    /// Creates a run without checkpoints and history.
    #[must_use]
    pub fn new(cluster: &'a Cluster, spec: TrainingSpec<'a, S>) -> Self {
        Self {
            cluster,
            spec,
            checkpoints: None,
            digests: [0; 2],
            epochs: Vec::new(),
            kept: None,
            plan: None,
            training: Duration::ZERO,
            evaluation: Duration::ZERO,
            saving: Duration::ZERO,
            bytes_before: 0,
            loading_bytes: bytes_sent(cluster),
            last_checkpoint: (0, 0.0),
        }
    }

    /// Saves checkpoints. `digests` are those of the training data and the validation data.
    #[must_use]
    pub fn checkpoints(mut self, checkpoints: Checkpoints, digests: [u64; 2]) -> Self {
        (self.checkpoints, self.digests) = (Some(checkpoints), digests);
        self
    }

    /// Returns the specification of the run.
    #[must_use]
    pub fn spec(&self) -> &TrainingSpec<'a, S> {
        &self.spec
    }

    /// Returns the progress of every epoch so far.
    #[must_use]
    pub fn progress(&self) -> &[EpochProgress] {
        &self.epochs
    }

    /// Returns an error unless the metadata have sensible values, and the settings and the data are
    /// those of the checkpoint.
    pub fn check(&self, metadata: &CheckpointMetadata) -> Result<()> {
        metadata.check_values()?;
        metadata.check_settings(&comparable_settings(self.spec.settings))?;
        metadata.check_data(&self.spec.data, self.digests)?;
        Ok(())
    }

    /// Takes over the history of a checkpoint whose model `learner` has. Returns the reason to stop
    /// at once, if there is one.
    pub fn resume(
        &mut self,
        metadata: CheckpointMetadata,
        learner: &impl EpochLearner,
        callback: &mut dyn Callback,
    ) -> Option<String> {
        let mut stop_reason = None;
        // There is no epoch yet in a checkpoint within the first one.
        if let Some(last) = metadata.progress.last() {
            self.last_checkpoint = (last.epoch, last.seconds);
            // Checked metadata have durations; without the check, zero is better than a panic.
            self.training = Duration::try_from_secs_f64(last.seconds).unwrap_or_default();
            self.evaluation = Duration::try_from_secs_f64(metadata.evaluation_seconds).unwrap_or_default();
            self.bytes_before = last.bytes_sent;
            let decision = self.spec.limits.decide(&metadata.progress, self.spec.metric);
            stop_reason = decision.stop_reason.or(learner.finished());
            let epoch = last.epoch;
            callback.on_note(&match stop_reason {
                Some(_) => format!("nothing left to do after epoch {epoch}; raise the limits to continue"),
                None => format!("resuming after epoch {epoch}"),
            });
        }
        let now = ClusterInfo::of(self.cluster);
        if stop_reason.is_none() && !learner.same_bits(&metadata.cluster, &now) {
            let before = &metadata.cluster;
            callback.on_note(&format!(
                "trained on {before} and resumed on {now}: the result will be equally good, but not bit-identical"
            ));
        }
        explain(learner, metadata.plan.as_ref(), callback);
        self.kept = self.selects_best(learner).then_some(metadata.best_index);
        self.plan = metadata.plan;
        self.epochs = metadata.progress;
        stop_reason.map(str::to_owned)
    }

    /// *Collective.* Runs epochs until a limit is reached or a callback stops them. Returns the
    /// reason.
    ///
    /// After a [request to stop](Cluster::stop_request), or some time after the time limit, it leaves
    /// the current epoch: the model is that after the epoch before, or that of a part of the epoch
    /// ([`EpochEnd`]). Without either there is no model, and the error is [`Error::Stopped`].
    pub fn run(&mut self, learner: &mut impl EpochLearner, callback: &mut dyn Callback) -> Result<String> {
        loop {
            let (outcome, reason) = self.stoppable_epoch(learner, callback)?;
            let progress = match outcome {
                Ok((progress, EpochEnd::Complete)) => progress,
                Ok((progress, end)) => {
                    // The rest of the loop is for epochs that have ended.
                    let _ = callback.on_epoch_end(&progress);
                    self.epochs.push(progress);
                    match end {
                        EpochEnd::Within(position) => callback.on_note(&format!("stopped in {position}")),
                        EpochEnd::Partial | EpochEnd::Complete => self.save(learner, callback)?,
                    }
                    return Ok(reason);
                }
                Err(Error::Stopped) if !self.epochs.is_empty() => {
                    let epoch = self.epochs.len();
                    callback
                        .on_note(&format!("stopped within epoch {}; the model is that after epoch {epoch}", epoch + 1));
                    self.save(learner, callback)?;
                    return Ok(reason);
                }
                Err(error) => return Err(error),
            };
            let (epoch, seconds) = (progress.epoch, progress.seconds);
            let stop = callback.on_epoch_end(&progress) == TrainingControl::Stop;
            self.epochs.push(progress);
            let decision = self.spec.limits.decide(&self.epochs, self.spec.metric);
            let stop_reason = decision.stop_reason.or(learner.finished());
            let (last_epoch, last_seconds) = self.last_checkpoint;
            let due = self
                .checkpoints
                .as_ref()
                .is_some_and(|checkpoints| checkpoints.is_due(epoch - last_epoch, seconds - last_seconds));
            // Clocks differ between peers, so the first peer decides; a stop request of any peer
            // counts.
            let mut votes = self.cluster.all_gather((stop_reason.map(str::to_owned), stop, due))?;
            let stop = votes.iter().any(|(_, stop, _)| *stop);
            let (end, _, due) = votes.swap_remove(0);
            let end = end.or_else(|| stop.then(|| TrainingSummary::STOPPED_BY_CALLBACK.to_owned()));
            if let Some(end) = end {
                self.save(learner, callback)?;
                return Ok(end);
            }
            if due && let Err(error) = self.save(learner, callback) {
                // The previous checkpoint still exists, and the disk may have room again when the
                // next one is due.
                if !learner.survives_failed_save(&error) {
                    return Err(error);
                }
                callback.on_warning(&format!("failed to save the checkpoint after epoch {epoch}: {error}"));
            }
            // The next epoch changes the newest model. Without a validation set the newest is kept
            // anyway.
            if decision.is_best && self.selects_best(learner) {
                learner.keep_best();
                self.kept = Some(self.epochs.len() - 1);
            }
        }
    }

    /// *Collective.* Runs and evaluates an epoch, which a request to stop or the time limit can end.
    /// Returns its outcome, and the reason of the stop, empty if there was none.
    fn stoppable_epoch(
        &mut self,
        learner: &mut impl EpochLearner,
        callback: &mut dyn Callback,
    ) -> Result<(Result<(EpochProgress, EpochEnd)>, String)> {
        let _scope = self.cluster.stop_request().accept();
        if let Some(seconds) = self.spec.limits.seconds {
            // An epoch that ends soon after the limit is not lost.
            let left = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX).saturating_sub(self.training);
            let limit =
                self.cluster.env().now().as_nanos().saturating_add(nanos(left.saturating_add(TIME_LIMIT_GRACE)));
            self.cluster.set_time_limit(Some(Moment::from_nanos(limit)));
        }
        let outcome = self.evaluated_epoch(learner, callback);
        // The request of a time limit goes with the limit, so its cause is read before.
        let stopped = match &outcome {
            Ok((_, end)) => *end != EpochEnd::Complete,
            Err(error) => matches!(error, Error::Stopped),
        };
        let reason = if stopped { self.reason_of_stop()? } else { String::new() };
        if self.spec.limits.seconds.is_some() {
            self.cluster.set_time_limit(None);
        }
        Ok((outcome, reason))
    }

    /// *Collective.* Runs and evaluates an epoch.
    fn evaluated_epoch(
        &mut self,
        learner: &mut impl EpochLearner,
        callback: &mut dyn Callback,
    ) -> Result<(EpochProgress, EpochEnd)> {
        let mut result = self.epoch(learner, callback)?;
        if self.epochs.is_empty() {
            explain(learner, result.plan.as_ref(), callback);
        }
        self.plan.clone_from(&result.plan);
        let end = std::mem::replace(&mut result.end, EpochEnd::Complete);
        if let EpochEnd::Within(position) = &end {
            result.note = Some(format!("stopped in {position}"));
        }
        let progress = self.after_epoch(result, learner, end == EpochEnd::Complete)?;
        Ok((progress, end))
    }

    /// *Collective.* Runs an epoch, in which the learner can save checkpoints.
    fn epoch(&mut self, learner: &mut impl EpochLearner, callback: &mut dyn Callback) -> Result<EpochResult> {
        let mut control = EpochControl {
            cluster: self.cluster,
            checkpoints: self.checkpoints.as_ref(),
            metadata: &|| self.metadata(),
            seconds_before: self.training.as_secs_f64(),
            last_checkpoint: self.last_checkpoint.1,
            saving: Duration::ZERO,
            callback,
        };
        let result = learner.epoch_within(self.epochs.last().map(|last| last.objective), &mut control)?;
        let (saving, last_checkpoint) = (control.saving, control.last_checkpoint);
        self.saving += saving;
        self.last_checkpoint.1 = last_checkpoint;
        Ok(result)
    }

    /// *Collective.* Returns the reason to stop of the peers that were asked to.
    fn reason_of_stop(&self) -> Result<String> {
        let causes = self.cluster.all_gather(self.cluster.stop_request().cause())?;
        Ok(match causes.into_iter().flatten().max() {
            Some(StopRequestCause::TimeLimit) => TIME_LIMIT_REACHED.to_owned(),
            _ => TrainingSummary::STOPPED_BY_CALLBACK.to_owned(),
        })
    }

    /// Returns whether the best model is kept beside the newest.
    fn selects_best(&self, learner: &impl EpochLearner) -> bool {
        self.spec.data.validation > 0 && learner.keeps_best()
    }

    /// *Collective.* Evaluates the model after an epoch; returns the state of the run.
    fn after_epoch(
        &mut self,
        result: EpochResult,
        learner: &mut impl EpochLearner,
        evaluates: bool,
    ) -> Result<EpochProgress> {
        self.training += result.duration;
        let start = self.cluster.env().now();
        let validation = if evaluates { learner.evaluate() } else { Ok(None) };
        let validation = match validation {
            // The model of this epoch is there, and there is no other.
            Err(Error::Stopped) if !learner.discard_epoch() => None,
            validation => validation?,
        };
        self.evaluation += self.cluster.env().now() - start;
        Ok(EpochProgress {
            epoch: self.epochs.len() as u32 + 1,
            seconds: self.training.as_secs_f64(),
            objective: result.objective,
            train: result.train,
            validation,
            updates: self.epochs.last().map_or(0, |last| last.updates) + result.updates,
            bytes_sent: self.bytes_before + self.cluster.all_gather(bytes_sent(self.cluster))?.into_iter().sum::<u64>(),
            note: result.note,
        })
    }

    /// Returns the index in the history of the model that is the result.
    ///
    /// # Panics
    /// If there is no epoch yet.
    #[must_use]
    pub fn best_index(&self) -> usize {
        match self.kept {
            Some(kept) if !self.spec.limits.decide(&self.epochs, self.spec.metric).is_best => kept,
            _ => self.epochs.len() - 1,
        }
    }

    /// Returns the metadata of a checkpoint after the last epoch.
    fn metadata(&self) -> CheckpointMetadata {
        let newest = self.epochs.len().saturating_sub(1);
        let best_index = if self.epochs.is_empty() { 0 } else { self.best_index() };
        CheckpointMetadata {
            settings: comparable_settings(self.spec.settings),
            data: self.spec.data.clone(),
            digests: self.digests,
            cluster: ClusterInfo::of(self.cluster),
            progress: self.epochs.clone(),
            best_index,
            separate_newest: best_index != newest,
            evaluation_seconds: self.evaluation.as_secs_f64(),
            plan: self.plan.clone(),
            state: Value::Null,
        }
    }

    /// *Collective.* Saves a checkpoint, if checkpoints are enabled.
    fn save(&mut self, learner: &mut impl EpochLearner, callback: &mut dyn Callback) -> Result<()> {
        let Some(checkpoints) = &self.checkpoints else { return Ok(()) };
        let start = self.cluster.env().now();
        let last = &self.epochs[self.epochs.len() - 1];
        self.last_checkpoint = (last.epoch, last.seconds);
        let metadata = self.metadata();
        let reason = WaitReason { operation: "the disk, to write a checkpoint", number: None, site: None };
        let waiting = self.cluster.waiting(Waiter::Driver, reason, None);
        learner.save(checkpoints.folder(), metadata)?;
        drop(waiting);
        let duration = self.cluster.env().now() - start;
        self.saving += duration;
        callback.on_checkpoint(self.last_checkpoint.0, duration);
        Ok(())
    }

    /// *Collective.* Returns the report of a run that ended for `stop_reason`.
    ///
    /// # Panics
    /// If there is no epoch yet.
    pub fn report(self, stop_reason: String) -> Result<TrainingReport> {
        let kept = self.best_index();
        let epochs = self.epochs;
        let (seconds, last) = (self.training.as_secs_f64(), &epochs[epochs.len() - 1]);
        let loading_bytes = if self.bytes_before == 0 {
            Some(self.cluster.all_gather(self.loading_bytes)?.into_iter().sum())
        } else {
            None
        };
        let result = TrainingSummary {
            seconds,
            loading_seconds: None,
            evaluation_seconds: self.evaluation.as_secs_f64(),
            saving_seconds: self.saving.as_secs_f64(),
            updates_per_second: last.updates as f64 / seconds.max(1e-9),
            objective: epochs[kept].objective,
            validation: epochs[kept].validation.clone(),
            best_epoch: epochs[kept].epoch,
            stop_reason,
            bytes_sent: last.bytes_sent,
            loading_bytes,
            training_bytes: loading_bytes.map(|loading| last.bytes_sent.saturating_sub(loading)),
            peak_rss_bytes: peak_memory(self.cluster)?,
        };
        Ok(TrainingReport {
            model: self.spec.model.to_owned(),
            data: self.spec.data,
            cluster: ClusterInfo::of(self.cluster),
            seed: self.spec.seed,
            settings: serde_json::to_value(self.spec.settings).ok(),
            progress: epochs,
            result,
            plan: self.plan,
            strategy: None,
            regularization: None,
            cross_validation: None,
        })
    }
}

/// Returns a duration in nanoseconds, at most the largest number.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Bytes that this peer has sent so far.
fn bytes_sent(cluster: &Cluster) -> u64 {
    cluster.traffic().lines.iter().map(|line| line.bytes_sent).sum()
}

/// Reports the parallelization to the callback.
fn explain(learner: &impl EpochLearner, plan: Option<&LoopPlan>, callback: &mut dyn Callback) {
    if let Some(plan) = plan {
        callback.on_plan(plan);
    } else if let Some(explanation) = learner.explanation() {
        callback.on_explanation(&explanation);
    }
}

/// *Collective.* Returns the peak resident memory of the largest peer, where the operating system
/// reports it.
fn peak_memory(cluster: &Cluster) -> Result<Option<u64>> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let bytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).map(|kilo| kilo * 1024);
    Ok(cluster.all_gather(bytes)?.into_iter().max().flatten())
}

#[cfg(test)]
mod tests;
