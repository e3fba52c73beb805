//! Fit of a model that consists of distributed arrays.
//!
//! A model implements [`TrainingAlgorithm`]. [`fit_loop`] hands it to the loop over epochs of
//! [`hemiola_training`], and adds the models: the best one is kept beside the newest, and a
//! checkpoint holds both.

use super::checkpoint::{self, Checkpointable};
use super::{
    Callback, CheckpointMetadata, Checkpoints, ClusterInfo, EpochResult, Fit, FitOptions, Metrics, NoCallback,
    TrainingSpec,
};
use hemiola_array::files::{OsFileSystem, SharedFileSystem};
use hemiola_cluster::{Cluster, Error, Result};
use hemiola_loops::LoopProfile;
use hemiola_training::{EpochLearner, EpochLoop};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;

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

    /// Returns whether a copy of the model before each epoch is kept, to restore it if a request to
    /// stop ends the epoch. If not, such an epoch must be
    /// [partial](hemiola_training::EpochEnd::Partial), or be [discarded](Self::discard_epoch) by the
    /// algorithm itself.
    fn keeps_snapshots(&self) -> bool {
        true
    }

    /// Restores the model before the current epoch, of an algorithm that keeps a copy itself. Returns
    /// false if there is none.
    fn discard_epoch(&mut self) -> bool {
        false
    }

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

/// *Collective.* Trains until a limit is reached or a callback stops it. Returns the best model and
/// the report.
pub fn fit_loop<L: TrainingAlgorithm, S: Serialize>(
    cluster: &Cluster,
    algorithm: L,
    mut spec: TrainingSpec<'_, S>,
    options: FitOptions<'_>,
) -> Result<Fit<L::Model>> {
    let FitOptions { callback, checkpoints, lock, metric, .. } = options;
    spec.metric = metric.unwrap_or(spec.metric);
    let mut no_callback = NoCallback;
    let callback = callback.unwrap_or(&mut no_callback);
    // With a validation set, a checkpoint holds both the best and the newest model.
    let copies = if spec.data.validation > 0 { 2 } else { 1 };
    let files = checkpoints.as_ref().map(Checkpoints::files);
    let mut learner = ArrayLearner { cluster, files, model: spec.model, algorithm, best: None, snapshot: None };
    let mut run = EpochLoop::new(cluster, spec);
    let (mut end, mut held_lock) = (None, None);
    if let Some(checkpoints) = checkpoints {
        let bytes = copies * learner.algorithm.model().bytes();
        held_lock = checkpoint::claim(&checkpoints, cluster, learner.model, bytes, lock)?;
        run = run.checkpoints(checkpoints.clone(), learner.algorithm.digests()?);
        if checkpoints.resumes() {
            end = learner.resume(&mut run, &checkpoints, callback)?;
        }
    }
    let stop_reason = match end {
        Some(end) => end,
        None => run.run(&mut learner, callback)?,
    };
    // Everything is saved; other runs may now train into the same folder.
    drop(held_lock);
    let ArrayLearner { mut algorithm, best, .. } = learner;
    let profile = algorithm.take_profile();
    let model = match best {
        Some(best) if run.best_index() + 1 < run.progress().len() => best,
        _ => algorithm.model().clone(),
    };
    Ok(Fit { model, report: run.report(stop_reason)?, profile })
}

/// Algorithm with the best model before the newest.
struct ArrayLearner<'a, L: TrainingAlgorithm> {
    cluster: &'a Cluster,
    /// File system of the checkpoints, if there are any.
    files: Option<SharedFileSystem>,
    /// Kind of the model.
    model: &'a str,
    algorithm: L,
    /// Best model before the newest. `None` without a validation set, where the newest model is
    /// kept.
    best: Option<L::Model>,
    /// Model and state before the current epoch.
    snapshot: Option<(L::Model, L::State)>,
}

impl<L: TrainingAlgorithm> ArrayLearner<'_, L> {
    /// *Collective.* Resumes from the checkpoint. Returns the reason to stop at once, if there is
    /// one.
    fn resume<S: Serialize>(
        &mut self,
        run: &mut EpochLoop<'_, S>,
        checkpoints: &Checkpoints,
        callback: &mut dyn Callback,
    ) -> Result<Option<String>> {
        let (mut metadata, best, newest) = checkpoint::load::<L::Model>(self.cluster, checkpoints, self.model)?;
        checkpoint::check_preparation(best.input(), self.algorithm.model().input())?;
        run.check(&metadata)?;
        let state = serde_json::from_value(metadata.state.take());
        let damaged = |error: serde_json::Error| crate::Error::InvalidSave {
            problem: format!("its metadata is damaged ({error})"),
        };
        let state = state.map_err(damaged)?;
        if metadata.progress.is_empty() {
            return Err(crate::Error::InvalidSave { problem: "its metadata has no epochs".to_owned() }.into());
        }
        let newest = newest.unwrap_or_else(|| best.clone());
        self.algorithm.resume(newest, state);
        if run.spec().data.validation > 0 {
            self.best = Some(best);
        }
        Ok(run.resume(metadata, self, callback))
    }
}

impl<L: TrainingAlgorithm> EpochLearner for ArrayLearner<'_, L> {
    fn epoch(&mut self, before: Option<f64>) -> Result<EpochResult> {
        // Before the first epoch there is nothing to keep.
        self.snapshot = (before.is_some() && self.algorithm.keeps_snapshots())
            .then(|| (self.algorithm.model().clone(), self.algorithm.state()));
        let result = self.algorithm.epoch(before);
        if matches!(result, Err(Error::Stopped)) {
            self.discard_epoch();
        }
        result
    }

    fn discard_epoch(&mut self) -> bool {
        let Some((model, state)) = self.snapshot.take() else { return self.algorithm.discard_epoch() };
        self.algorithm.resume(model, state);
        true
    }

    fn evaluate(&mut self) -> Result<Option<Metrics>> {
        self.algorithm.evaluate()
    }

    fn save(&mut self, folder: &Path, mut metadata: CheckpointMetadata) -> Result<()> {
        metadata.state = serde_json::to_value(self.algorithm.state()).expect("the state serializes to JSON");
        let newest = self.algorithm.model();
        let files = self.files.clone().unwrap_or_else(OsFileSystem::shared);
        let target = (&files, folder);
        match &self.best {
            Some(best) if metadata.separate_newest => {
                checkpoint::save(self.cluster, target, self.model, &metadata, best, Some(newest))
            }
            _ => checkpoint::save(self.cluster, target, self.model, &metadata, newest, None),
        }
    }

    fn keeps_best(&self) -> bool {
        true
    }

    fn keep_best(&mut self) {
        self.best = Some(self.algorithm.model().clone());
    }

    fn finished(&self) -> Option<&'static str> {
        self.algorithm.finished()
    }

    fn same_bits(&self, before: &ClusterInfo, now: &ClusterInfo) -> bool {
        self.algorithm.same_bits(before, now)
    }

    fn explanation(&self) -> Option<String> {
        self.algorithm.explanation()
    }

    fn survives_failed_save(&self, error: &Error) -> bool {
        // An error of arrays is the same on every peer.
        matches!(error, Error::Layer { .. })
    }
}
