//! The fit loop of all models: epochs, validation, best model, checkpoints, stopping.
//!
//! A model implements [`TrainingAlgorithm`]; everything else is here, so that all models stop,
//! save, resume and report alike.
//!
//! **Invariant:** the next action depends on the history, the limits and what all peers have agreed
//! on, never on the clock or the callback of one peer. A resumed run has the history of the run it
//! continues, so it decides as that run would have.

use super::checkpoint::comparable_settings;
use super::{
    Callback, CheckpointMetadata, Checkpointable, Checkpoints, ClusterInfo, DatasetInfo, EpochProgress, Fit,
    FitOptions, Metrics, NoCallback, TargetMetric, TrainingControl, TrainingLimits, TrainingReport, TrainingSummary,
};
use hemiola::loops::{LoopPlan, LoopProfile};
use hemiola::{Cluster, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// Iterative training algorithm of a model.
pub trait TrainingAlgorithm {
    /// Model that the algorithm trains.
    type Model: Checkpointable;
    /// State needed to resume besides the model, such as the current learning rate.
    type State: Serialize + DeserializeOwned;

    /// Returns the current model.
    fn model(&self) -> &Self::Model;

    /// Returns the state needed to resume besides the model.
    fn state(&self) -> Self::State;

    /// Resumes from the model and state of a checkpoint.
    fn resume(&mut self, model: Self::Model, state: Self::State);

    /// *Collective.* Runs one epoch. `before` is the objective of the previous epoch.
    fn epoch(&mut self, before: Option<f64>) -> Result<EpochResult>;

    /// *Collective.* Returns metrics on the validation set, if there is one.
    fn evaluate(&mut self) -> Result<Option<Metrics>>;

    /// *Collective.* Returns the digests of the training data and the validation data. Called only
    /// if checkpoints are saved.
    fn digests(&self) -> Result<[u64; 2]>;

    /// Returns the reason why training has converged, if it has. Equal on every peer.
    fn finished(&self) -> Option<&'static str> {
        None
    }

    /// Returns whether a run started on `before` and resumed on `now` is bit-identical to an
    /// uninterrupted one.
    fn same_bits(&self, before: &ClusterInfo, now: &ClusterInfo) -> bool {
        before.total_workers() == now.total_workers()
    }

    /// Returns an explanation of the parallelization, for algorithms without a
    /// [plan](EpochResult::plan).
    fn explanation(&self) -> Option<String> {
        None
    }

    /// Returns the profile of the computation, if it was measured. Called after the last epoch.
    fn take_profile(&mut self) -> Option<LoopProfile> {
        None
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
}

/// Specification of a training run.
#[derive(Clone, Debug)]
pub struct TrainingSpec<'a, S> {
    /// Kind of the model, such as `mf`.
    pub model: &'static str,
    /// Settings of the model; see [`CheckpointMetadata::settings`].
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

/// *Collective.* Trains until a limit is reached or a callback stops it. Returns the best model and
/// the report.
pub fn fit_loop<L: TrainingAlgorithm, S: Serialize>(
    cluster: &Cluster,
    learner: L,
    spec: TrainingSpec<'_, S>,
    options: FitOptions<'_>,
) -> Result<Fit<L::Model>> {
    let FitOptions { callback, checkpoints, lock, profiled: _ } = options;
    let mut no_callback = NoCallback;
    let callback = callback.unwrap_or(&mut no_callback);
    let mut fit = FitLoop {
        cluster,
        learner,
        spec,
        checkpoints,
        history: TrainingHistory::default(),
        best: None,
        digests: [0; 2],
    };
    let (mut end, mut held_lock) = (None, None);
    if let Some(checkpoints) = &fit.checkpoints {
        // With a validation set, a checkpoint holds both the best and the newest model.
        let copies = if fit.spec.data.validation > 0 { 2 } else { 1 };
        held_lock = checkpoints.claim(cluster, fit.spec.model, copies * fit.learner.model().bytes(), lock)?;
        fit.digests = fit.learner.digests()?;
        if checkpoints.resumes() {
            end = fit.resume(callback)?;
        }
    }
    let stop_reason = match end {
        Some(end) => end,
        None => fit.run(callback)?,
    };
    // Everything is saved; other runs may now train into the same folder.
    drop(held_lock);
    fit.finish(stop_reason)
}

struct FitLoop<'a, L: TrainingAlgorithm, S> {
    cluster: &'a Cluster,
    learner: L,
    spec: TrainingSpec<'a, S>,
    checkpoints: Option<Checkpoints>,
    history: TrainingHistory,
    /// Best model before the newest and its index in the history. `None` without a validation set,
    /// where the newest model is kept.
    best: Option<(L::Model, usize)>,
    digests: [u64; 2],
}

/// History and timing of the run.
#[derive(Default)]
struct TrainingHistory {
    epochs: Vec<EpochProgress>,
    plan: Option<LoopPlan>,
    training: Duration,
    evaluation: Duration,
    saving: Duration,
    /// Bytes sent by the runs that this one resumes.
    bytes_before: u64,
    /// Epoch and seconds of training at the last attempt to save a checkpoint, successful or not.
    last_checkpoint: (u32, f64),
}

impl<L: TrainingAlgorithm, S: Serialize> FitLoop<'_, L, S> {
    /// *Collective.* Resumes from the checkpoint. Returns the reason to stop at once, if there is
    /// one.
    fn resume(&mut self, callback: &mut dyn Callback) -> Result<Option<String>> {
        let Some(checkpoints) = &self.checkpoints else { return Ok(None) };
        let (metadata, best, newest) =
            CheckpointMetadata::load::<L::Model>(self.cluster, checkpoints.folder(), self.spec.model)?;
        metadata.check_settings(&comparable_settings(self.spec.settings))?;
        metadata.check_data(&self.spec.data, self.digests)?;
        let state = serde_json::from_value(metadata.state);
        let damaged = |error: serde_json::Error| crate::Error::InvalidSave {
            problem: format!("its metadata is damaged ({error})"),
        };
        let state = state.map_err(damaged)?;
        let last = metadata
            .progress
            .last()
            .ok_or_else(|| crate::Error::InvalidSave { problem: "its metadata has no epochs".to_owned() })?;
        self.history.last_checkpoint = (last.epoch, last.seconds);
        self.history.training = Duration::from_secs_f64(last.seconds.max(0.0));
        self.history.evaluation = Duration::from_secs_f64(metadata.evaluation_seconds.max(0.0));
        self.history.bytes_before = last.bytes_sent;
        let mut decision = self.spec.limits.decide(&metadata.progress, self.spec.metric);
        let newest = newest.unwrap_or_else(|| best.clone());
        self.learner.resume(newest, state);
        decision.stop_reason = decision.stop_reason.or(self.learner.finished());
        if decision.stop_reason.is_some() {
            callback.on_note(&format!("nothing left to do after epoch {}; raise the limits to continue", last.epoch));
        } else {
            callback.on_note(&format!("resuming after epoch {}", last.epoch));
        }
        let cluster = ClusterInfo::of(self.cluster);
        if decision.stop_reason.is_none() && !self.learner.same_bits(&metadata.cluster, &cluster) {
            callback.on_note(&format!(
                "trained on {} and resumed on {cluster}: the result will be equally good, but not bit-identical",
                metadata.cluster
            ));
        }
        self.explain(metadata.plan.as_ref(), callback);
        self.history.plan = metadata.plan;
        self.history.epochs = metadata.progress;
        if self.spec.data.validation > 0 {
            self.best = Some((best, metadata.best_index));
        }
        Ok(decision.stop_reason.map(str::to_owned))
    }

    /// Runs epochs until a reason to stop; returns it.
    fn run(&mut self, callback: &mut dyn Callback) -> Result<String> {
        loop {
            let result = self.learner.epoch(self.history.epochs.last().map(|last| last.objective))?;
            if self.history.epochs.is_empty() {
                self.explain(result.plan.as_ref(), callback);
            }
            self.history.plan.clone_from(&result.plan);
            let progress = self.progress(result)?;
            let control = callback.on_epoch_end(&progress);
            self.history.epochs.push(progress);
            let mut decision = self.spec.limits.decide(&self.history.epochs, self.spec.metric);
            decision.stop_reason = decision.stop_reason.or(self.learner.finished());
            // Clocks differ between peers, so the first peer decides; a stop request of any peer
            // counts.
            let last = &self.history.epochs[self.history.epochs.len() - 1];
            let (epoch, seconds) = (last.epoch, last.seconds);
            let (last_epoch, last_seconds) = self.history.last_checkpoint;
            let due = self
                .checkpoints
                .as_ref()
                .is_some_and(|checkpoints| checkpoints.is_due(epoch - last_epoch, seconds - last_seconds));
            let stop = control == TrainingControl::Stop;
            let votes = self.cluster.all_gather((decision.stop_reason.map(str::to_owned), stop, due))?;
            let stop = votes.iter().any(|(_, stop, _)| *stop);
            let (end, _, due) = votes.into_iter().next().expect("every peer has voted");
            let end = end.or_else(|| stop.then(|| TrainingSummary::STOPPED_BY_CALLBACK.to_owned()));
            if end.is_some() {
                self.save()?;
            } else if due && let Err(error) = self.save() {
                // The previous checkpoint still exists, and the disk may have room again when the
                // next one is due.
                if !matches!(error, hemiola::Error::Layer { .. }) {
                    return Err(error);
                }
                callback.on_warning(&format!("failed to save the checkpoint after epoch {epoch}: {error}"));
            }
            if let Some(end) = end {
                return Ok(end);
            }
            // The next epoch changes the newest model. Without a validation set the newest is kept
            // anyway.
            if decision.is_best && self.spec.data.validation > 0 {
                self.best = Some((self.learner.model().clone(), self.history.epochs.len() - 1));
            }
        }
    }

    /// Reports the parallelization to the callback.
    fn explain(&self, plan: Option<&LoopPlan>, callback: &mut dyn Callback) {
        if let Some(plan) = plan {
            callback.on_plan(plan);
        } else if let Some(explanation) = self.learner.explanation() {
            callback.on_explanation(&explanation);
        }
    }

    fn progress(&mut self, result: EpochResult) -> Result<EpochProgress> {
        self.history.training += result.duration;
        let start = self.cluster.env().now();
        let validation = self.learner.evaluate()?;
        self.history.evaluation += self.cluster.env().now() - start;
        let sent: u64 = self.cluster.traffic().lines.iter().map(|line| line.bytes_sent).sum();
        let epoch = self.history.epochs.len() as u32 + 1;
        Ok(EpochProgress {
            epoch,
            seconds: self.history.training.as_secs_f64(),
            objective: result.objective,
            train: result.train,
            validation,
            updates: self.history.epochs.last().map_or(0, |last| last.updates) + result.updates,
            bytes_sent: self.history.bytes_before + self.cluster.all_gather(sent)?.into_iter().sum::<u64>(),
            note: result.note,
        })
    }

    /// Index in the history of the model that is kept.
    fn best_index(&self) -> usize {
        let newest = self.history.epochs.len() - 1;
        match &self.best {
            Some((_, best)) if !self.spec.limits.decide(&self.history.epochs, self.spec.metric).is_best => *best,
            _ => newest,
        }
    }

    /// *Collective.* Saves a checkpoint, if checkpoints are enabled.
    fn save(&mut self) -> Result<()> {
        let Some(checkpoints) = &self.checkpoints else { return Ok(()) };
        let start = self.cluster.env().now();
        let (best_index, newest) = (self.best_index(), self.history.epochs.len() - 1);
        let last = &self.history.epochs[newest];
        self.history.last_checkpoint = (last.epoch, last.seconds);
        let metadata = CheckpointMetadata {
            settings: comparable_settings(self.spec.settings),
            data: self.spec.data.clone(),
            digests: self.digests,
            cluster: ClusterInfo::of(self.cluster),
            progress: self.history.epochs.clone(),
            best_index,
            separate_newest: best_index != newest,
            evaluation_seconds: self.history.evaluation.as_secs_f64(),
            plan: self.history.plan.clone(),
            state: serde_json::to_value(self.learner.state()).expect("the state serializes to JSON"),
        };
        let (folder, model) = (checkpoints.folder(), self.spec.model);
        match &self.best {
            Some((best, at)) if *at == best_index => {
                metadata.save(self.cluster, folder, model, best, Some(self.learner.model()))?;
            }
            _ => metadata.save(self.cluster, folder, model, self.learner.model(), None)?,
        }
        self.history.saving += self.cluster.env().now() - start;
        Ok(())
    }

    fn finish(self, stop_reason: String) -> Result<Fit<L::Model>> {
        let kept = self.best_index();
        let Self { cluster, mut learner, spec, history, best, .. } = self;
        let profile = learner.take_profile();
        let model = match best {
            Some((best, index)) if index == kept => best,
            _ => learner.model().clone(),
        };
        let epochs = history.epochs;
        let (seconds, last) = (history.training.as_secs_f64(), &epochs[epochs.len() - 1]);
        let result = TrainingSummary {
            seconds,
            loading_seconds: None,
            evaluation_seconds: history.evaluation.as_secs_f64(),
            saving_seconds: history.saving.as_secs_f64(),
            updates_per_second: last.updates as f64 / seconds.max(1e-9),
            objective: epochs[kept].objective,
            validation: epochs[kept].validation.clone(),
            best_epoch: epochs[kept].epoch,
            stop_reason,
            bytes_sent: last.bytes_sent,
            peak_rss_bytes: peak_memory(cluster)?,
        };
        let report = TrainingReport {
            model: spec.model.to_owned(),
            data: spec.data,
            cluster: ClusterInfo::of(cluster),
            seed: spec.seed,
            progress: epochs,
            result,
            plan: history.plan,
        };
        Ok(Fit { model, report, profile })
    }
}

/// *Collective.* Returns the peak resident memory of the largest peer, where the operating system
/// reports it.
pub fn peak_memory(cluster: &Cluster) -> Result<Option<u64>> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let bytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).map(|kilo| kilo * 1024);
    Ok(cluster.all_gather(bytes)?.into_iter().max().flatten())
}
