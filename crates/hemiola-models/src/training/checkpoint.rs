//! Checkpoints: everything needed to resume a training run with bit-identical results.
//!
//! A checkpoint is a saved model (see `hemiola::array::save`) with additions. The best model so far
//! is stored where a finished model is stored, so the folder is usable at any time. The newest
//! model, if it is not the best, is stored beside it under names that begin with `resume.`. A value
//! in the manifest, the [`CheckpointMetadata`], holds the rest.
//!
//! **Invariant:** a checkpoint becomes visible by one atomic rename when it is complete, replacing
//! the previous one, which exists until then. Resuming depends on the newest model, the metadata,
//! the data and the settings alone; nothing else influences the bits.

use super::{ClusterInfo, DatasetInfo, EpochProgress};
use crate::Error;
use hemiola::array::dist::{ArrayLoader, ArraySaver};
use hemiola::array::save::{PartReader, SaveLock};
use hemiola::loops::LoopPlan;
use hemiola::{Cluster, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Manifest key of the training metadata.
const TRAINING_KEY: &str = "training";
/// Prefix of the array names of the newest model, where it is not the best.
const NEWEST_PREFIX: &str = "resume.";
/// Manifest key of the kind of the model.
pub(crate) const MODEL_KEY: &str = "model";

/// Model that can be stored in a checkpoint.
pub trait Checkpointable: Clone {
    /// *Collective.* Adds the model to a save; its array names get `prefix`.
    fn put(&self, save: &mut ArraySaver, prefix: &str) -> Result<()>;

    /// *Collective.* Reads what [`put`](Self::put) added.
    fn get(load: &ArrayLoader, prefix: &str) -> Result<Self>;

    /// Returns the approximate size on disk in bytes.
    fn bytes(&self) -> u64;
}

/// Folder and interval of checkpoints.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Checkpoints {
    folder: PathBuf,
    interval: CheckpointInterval,
    resume: bool,
}

/// Interval between checkpoints. The last epoch always saves one.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum CheckpointInterval {
    /// Number of epochs between two checkpoints.
    Epochs(u32),
    /// Seconds of training between two checkpoints, checked at the end of each epoch.
    Seconds(f64),
}

impl Checkpoints {
    /// Saves checkpoints in `folder`, every minute of training and at the end. An older save of the
    /// same model is replaced.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), interval: CheckpointInterval::Seconds(60.0), resume: false }
    }

    /// Sets the interval between checkpoints. Default: 60 seconds.
    pub fn interval(mut self, interval: CheckpointInterval) -> Self {
        self.interval = interval;
        self
    }

    /// Sets whether training resumes from the checkpoint in the folder. Default: false.
    pub fn resume(mut self, resume: bool) -> Self {
        self.resume = resume;
        self
    }

    /// Returns the checkpoint folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns whether training resumes from the checkpoint in the folder.
    #[must_use]
    pub fn resumes(&self) -> bool {
        self.resume
    }

    /// Returns whether a checkpoint is due, given the epochs and seconds since the last one.
    #[must_use]
    pub fn is_due(&self, epochs_since: u32, seconds_since: f64) -> bool {
        match self.interval {
            CheckpointInterval::Epochs(epochs) => epochs_since >= epochs.max(1),
            CheckpointInterval::Seconds(seconds) => seconds_since >= seconds,
        }
    }

    /// Checks, before the data are read, that checkpoints of `model` with these settings can be
    /// saved or resumed. Runs on this peer alone, without a cluster. `settings` are those that must
    /// be equal to resume.
    pub fn check(&self, model: &str, settings: &impl Serialize) -> Result<()> {
        if self.resume {
            let metadata = CheckpointMetadata::read(&self.folder, model)?;
            metadata.check_settings(&comparable_settings(settings))?;
        }
        hemiola::array::save::PartWriter::check(&self.folder, 0)?;
        if self.folder.exists() {
            check_manifest(&PartReader::open(&self.folder)?, model)?;
        }
        Ok(())
    }

    /// *Collective.* Locks the folder for one training run; the root holds the lock. Taken before
    /// the data are read and passed to [`FitOptions::with_lock`](super::FitOptions::with_lock), it
    /// lets a second run fail before reading.
    pub fn lock(&self, cluster: &Cluster) -> Result<Option<SaveLock>> {
        ArraySaver::lock(cluster, &self.folder)
    }

    /// *Collective.* Repeats [`check`](Self::check) at the start of training and checks for `bytes`
    /// of free disk space. Takes the lock unless it is `held`.
    pub(super) fn claim(
        &self,
        cluster: &Cluster,
        model: &str,
        bytes: u64,
        held: Option<SaveLock>,
    ) -> Result<Option<SaveLock>> {
        ArraySaver::check(cluster, &self.folder, bytes)?;
        let lock = if cluster.broadcast(held.is_some())? { held } else { self.lock(cluster)? };
        if cluster.broadcast(self.folder.exists())? {
            let kind: Option<String> = ArrayLoader::open(cluster, &self.folder)?.metadata(MODEL_KEY)?;
            check_kind(kind.as_deref(), &self.folder, model)?;
        }
        Ok(lock)
    }
}

/// Settings in the form that is compared on resuming. Limits may differ from run to run, so they
/// are removed.
///
/// # Panics
/// If the settings cannot be serialized to JSON.
pub fn comparable_settings(settings: &impl Serialize) -> Value {
    let mut plain = serde_json::to_value(settings).expect("settings serialize to JSON");
    if let Value::Object(fields) = &mut plain {
        fields.remove("limits");
    }
    plain
}

fn check_manifest(loading: &PartReader, model: &str) -> Result<(), Error> {
    let kind = loading.manifest().metadata.get(MODEL_KEY).and_then(Value::as_str);
    check_kind(kind, loading.folder(), model)
}

fn check_kind(kind: Option<&str>, folder: &Path, model: &str) -> Result<(), Error> {
    match kind {
        Some(kind) if kind == model => Ok(()),
        kind => Err(Error::FolderOccupied {
            folder: folder.to_owned(),
            found: kind.map(str::to_owned),
            model: model.to_owned(),
        }),
    }
}

/// Content of a checkpoint besides arrays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckpointMetadata {
    /// Settings that must be equal to resume, by name.
    pub settings: Value,
    /// Shape and size of the data.
    pub data: DatasetInfo,
    /// Digests of the training data and of the validation data; see [`digest`](super::digest).
    pub digests: [u64; 2],
    /// Cluster that trained the model.
    pub cluster: ClusterInfo,
    /// Progress of every epoch so far.
    pub progress: Vec<EpochProgress>,
    /// Index in `progress` of the best model.
    pub best_index: usize,
    /// True if the newest model is stored in addition to the best.
    pub separate_newest: bool,
    /// Seconds of evaluation so far.
    pub evaluation_seconds: f64,
    /// Plan of the training loop, if it was a `parallel_for!`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<LoopPlan>,
    /// State specific to the algorithm, such as the current learning rate.
    pub state: Value,
}

impl CheckpointMetadata {
    /// Reads the metadata of the save in `folder`, without its arrays and without a cluster.
    pub fn read(folder: &Path, model: &str) -> Result<Self> {
        if !folder.exists() {
            return Err(Error::NoCheckpoint { folder: folder.to_owned() }.into());
        }
        let loading = PartReader::open(folder)?;
        check_manifest(&loading, model)?;
        let value = loading.manifest().metadata.get(TRAINING_KEY).cloned();
        let value = value.ok_or_else(|| Error::NoCheckpoint { folder: folder.to_owned() })?;
        let parsed = serde_json::from_value(value);
        let damaged =
            |error: serde_json::Error| Error::InvalidSave { problem: format!("its metadata is damaged ({error})") };
        Ok(parsed.map_err(damaged)?)
    }

    /// *Collective.* Loads the metadata, the best model, and the newest one (`None` where it is the
    /// best).
    pub(super) fn load<M: Checkpointable>(
        cluster: &Cluster,
        folder: &Path,
        model: &str,
    ) -> Result<(Self, M, Option<M>)> {
        let missing = || Error::NoCheckpoint { folder: folder.to_owned() };
        if !cluster.broadcast(folder.exists())? {
            return Err(missing().into());
        }
        let load = ArrayLoader::open(cluster, folder)?;
        let kind: Option<String> = load.metadata(MODEL_KEY)?;
        check_kind(kind.as_deref(), folder, model)?;
        let metadata: Self = load.metadata(TRAINING_KEY)?.ok_or_else(missing)?;
        let best = M::get(&load, "")?;
        let newest = if metadata.separate_newest { Some(M::get(&load, NEWEST_PREFIX)?) } else { None };
        Ok((metadata, best, newest))
    }

    /// *Collective.* Saves a checkpoint, replacing an older one. `newest` is given where it is not
    /// the best.
    pub(super) fn save<M: Checkpointable>(
        &self,
        cluster: &Cluster,
        folder: &Path,
        model: &str,
        best: &M,
        newest: Option<&M>,
    ) -> Result<()> {
        let mut save = ArraySaver::begin(cluster, folder)?;
        best.put(&mut save, "")?;
        if let Some(newest) = newest {
            newest.put(&mut save, NEWEST_PREFIX)?;
        }
        save.put_metadata(MODEL_KEY, &model);
        save.put_metadata(TRAINING_KEY, self);
        save.commit()
    }

    /// Returns an error that names the settings that differ from the checkpoint.
    pub fn check_settings(&self, now: &Value) -> Result<(), Error> {
        let none = serde_json::Map::new();
        let (before, now) = (self.settings.as_object().unwrap_or(&none), now.as_object().unwrap_or(&none));
        let names: std::collections::BTreeSet<&String> = before.keys().chain(now.keys()).collect();
        let shown = |value: Option<&Value>| match value {
            None => "unset".to_owned(),
            // Single-precision settings would otherwise be printed with digits that the user never
            // typed.
            Some(value) if value.is_f64() => (value.as_f64().unwrap_or_default() as f32).to_string(),
            Some(value) => value.to_string(),
        };
        let differences: Vec<String> = names
            .into_iter()
            .filter(|name| before.get(*name) != now.get(*name))
            .map(|name| format!("{name} was {} and is {}", shown(before.get(name)), shown(now.get(name))))
            .collect();
        if differences.is_empty() { Ok(()) } else { Err(Error::SettingsMismatch { differences }) }
    }

    /// Returns an error that describes how the data differ from those of the checkpoint.
    pub fn check_data(&self, now: &DatasetInfo, digests: [u64; 2]) -> Result<(), Error> {
        let difference = if self.data.shape != now.shape {
            format!("the shape was `{:?}` and is `{:?}`", self.data.shape, now.shape)
        } else if self.data.train != now.train {
            format!("there were {} training entries and are {}", self.data.train, now.train)
        } else if self.data.validation != now.validation {
            format!("there were {} validation entries and are {}", self.data.validation, now.validation)
        } else if self.digests[0] != digests[0] {
            "the training entries or their names have changed".to_owned()
        } else if self.digests[1] != digests[1] {
            "the validation entries have changed".to_owned()
        } else {
            return Ok(());
        };
        Err(Error::DataMismatch { difference })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_are_due_at_their_interval() {
        let folder = Checkpoints::new("model");
        assert!(!folder.is_due(1000, 59.9) && folder.is_due(1, 60.0));
        let epochs = folder.interval(CheckpointInterval::Epochs(3));
        assert!(!epochs.is_due(2, 1e9) && epochs.is_due(3, 0.0));
    }
}
