//! Checkpoints of a training run: folder, interval and metadata.
//!
//! The values of a model are saved by its family, each in its own format. The
//! [`CheckpointMetadata`] are the same for all: settings, data and history.
//!
//! **Invariant:** resuming depends on the newest model, the metadata, the data and the settings
//! alone; nothing else influences the bits.

use crate::{ClusterInfo, DatasetInfo, EpochProgress, Error};
use hemiola_array::dist::ArraySaver;
use hemiola_array::files::{OsFileSystem, SharedFileSystem};
use hemiola_array::save::SaveLock;
use hemiola_cluster::{Cluster, Result};
use hemiola_loops::LoopPlan;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Folder and interval of checkpoints.
#[derive(Clone, Debug)]
#[must_use]
pub struct Checkpoints {
    folder: PathBuf,
    /// File system of the folder, if it is not that of the operating system.
    files: Option<SharedFileSystem>,
    interval: CheckpointInterval,
    resume: bool,
}

/// Interval between checkpoints. The last epoch always saves one.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum CheckpointInterval {
    /// Number of epochs between two checkpoints.
    Epochs(u32),
    /// Seconds of training between two checkpoints: checked at the end of each epoch, and within
    /// epochs of nets.
    Seconds(f64),
    /// Number of optimizer steps of a net between two checkpoints, of which the ends of epochs are
    /// more. For other models, every epoch.
    Steps(u64),
}

impl Checkpoints {
    /// Saves checkpoints in `folder`, every minute of training and at the end. An older save of the
    /// same model is replaced.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), files: None, interval: CheckpointInterval::Seconds(60.0), resume: false }
    }

    /// Saves on another file system than that of the operating system, such as a
    /// [simulated one](hemiola_array::files::testing) with faults and crashes. It belongs to this
    /// run alone: the folder is not locked, and free space is not checked.
    pub fn on(mut self, files: SharedFileSystem) -> Self {
        self.files = Some(files);
        self
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

    /// Returns the file system of the folder.
    #[must_use]
    pub fn files(&self) -> SharedFileSystem {
        self.files.clone().unwrap_or_else(OsFileSystem::shared)
    }

    /// Returns true if the folder is on the file system of the operating system.
    #[must_use]
    pub fn is_on_disk(&self) -> bool {
        self.files.is_none()
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
            CheckpointInterval::Steps(_) => true,
        }
    }

    /// Returns whether a checkpoint is due within an epoch, given the seconds since the last one.
    #[must_use]
    pub fn is_due_within_epoch(&self, seconds_since: f64) -> bool {
        matches!(self.interval, CheckpointInterval::Seconds(seconds) if seconds_since >= seconds)
    }

    /// Returns whether a checkpoint is due after so many steps of a run.
    #[must_use]
    pub fn is_due_at_step(&self, steps: u64) -> bool {
        matches!(self.interval, CheckpointInterval::Steps(every) if steps.is_multiple_of(every.max(1)))
    }

    /// *Collective.* Locks the folder for one training run; the root holds the lock. Taken before
    /// the data are read and passed to [`FitOptions::with_lock`](crate::FitOptions::with_lock), it
    /// lets a second run fail before reading.
    pub fn lock(&self, cluster: &Cluster) -> Result<Option<SaveLock>> {
        if self.is_on_disk() { ArraySaver::lock(cluster, &self.folder) } else { Ok(None) }
    }

    /// *Collective.* Returns the lock that the root holds already, or takes it.
    pub fn lock_unless_held(&self, cluster: &Cluster, held: Option<SaveLock>) -> Result<Option<SaveLock>> {
        if cluster.broadcast(held.is_some())? { Ok(held) } else { self.lock(cluster) }
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

/// Content of a checkpoint besides the values of the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckpointMetadata {
    /// Settings that must be equal to resume, by name.
    pub settings: Value,
    /// Shape and size of the data.
    pub data: DatasetInfo,
    /// Digests of the training data and of the validation data.
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
    /// State specific to the algorithm, such as the current learning rate, or the position within an
    /// epoch.
    pub state: Value,
}

impl CheckpointMetadata {
    /// Returns an error that names the first entry without a sensible value. A run that resumes
    /// from checked metadata cannot fail because of them.
    pub fn check_values(&self) -> Result<(), Error> {
        let damaged = |problem: String| Err(Error::DamagedMetadata { problem });
        let is_duration = |seconds: f64| Duration::try_from_secs_f64(seconds).is_ok();
        if !is_duration(self.evaluation_seconds) {
            return damaged(format!("`evaluation_seconds` is `{:?}`", self.evaluation_seconds));
        }
        // A checkpoint within the first epoch has a position, and no epoch yet.
        let within_first = self.progress.is_empty() && !self.state.is_null() && self.best_index == 0;
        if self.best_index >= self.progress.len() && !within_first {
            return damaged(format!("`best_index` is `{}` of {} epochs", self.best_index, self.progress.len()));
        }
        for (progress, expected) in self.progress.iter().zip(1..) {
            if progress.epoch != expected {
                return damaged(format!("`epoch` is `{}` where epoch {expected} is expected", progress.epoch));
            }
            if !is_duration(progress.seconds) {
                return damaged(format!("`seconds` of epoch {expected} is `{:?}`", progress.seconds));
            }
        }
        Ok(())
    }

    /// Returns an error that names the settings that differ from the checkpoint.
    pub fn check_settings(&self, now: &Value) -> Result<(), Error> {
        let named = |settings: &Value| settings.is_object() || settings.is_null();
        if self.settings != *now && !(named(&self.settings) && named(now)) {
            let differences = vec![format!("the settings were {} and are {now}", self.settings)];
            return Err(Error::SettingsMismatch { differences });
        }
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

    fn metadata(seconds: f64, evaluation_seconds: f64) -> CheckpointMetadata {
        let epoch = |epoch| EpochProgress {
            epoch,
            seconds,
            objective: 0.5,
            train: crate::Metrics::new(),
            validation: None,
            updates: 1,
            bytes_sent: 0,
            note: None,
        };
        CheckpointMetadata {
            settings: Value::Null,
            data: DatasetInfo { shape: vec![1], train: 1, validation: 0 },
            digests: [0; 2],
            cluster: ClusterInfo { peers: 1, workers: 1 },
            progress: vec![epoch(1), epoch(2)],
            best_index: 1,
            separate_newest: false,
            evaluation_seconds,
            plan: None,
            state: Value::Null,
        }
    }

    #[test]
    fn metadata_that_no_run_writes_are_typed_errors() {
        let problem = |edit: &dyn Fn(&mut CheckpointMetadata)| {
            let mut metadata = metadata(1.5, 0.25);
            edit(&mut metadata);
            metadata.check_values().map_err(|error| match error {
                Error::DamagedMetadata { problem } => problem,
                error => panic!("{error}"),
            })
        };
        assert_eq!(problem(&|_| {}), Ok(()));
        let refused = |expected: &str, edit: &dyn Fn(&mut CheckpointMetadata)| {
            assert_eq!(problem(edit).unwrap_err(), expected);
        };
        refused("`seconds` of epoch 2 is `1e300`", &|metadata| metadata.progress[1].seconds = 1e300);
        refused("`seconds` of epoch 1 is `-1.0`", &|metadata| metadata.progress[0].seconds = -1.0);
        refused("`evaluation_seconds` is `NaN`", &|metadata| metadata.evaluation_seconds = f64::NAN);
        refused("`best_index` is `2` of 2 epochs", &|metadata| metadata.best_index = 2);
        refused("`epoch` is `7` where epoch 2 is expected", &|metadata| metadata.progress[1].epoch = 7);
    }

    #[test]
    fn checkpoints_are_due_at_their_interval() {
        let folder = Checkpoints::new("model");
        assert!(!folder.is_due(1000, 59.9) && folder.is_due(1, 60.0));
        let epochs = folder.clone().interval(CheckpointInterval::Epochs(3));
        assert!(!epochs.is_due(2, 1e9) && epochs.is_due(3, 0.0));
        assert!(folder.is_due_within_epoch(60.0) && !folder.is_due_within_epoch(59.9) && !folder.is_due_at_step(100));
        let steps = folder.interval(CheckpointInterval::Steps(4));
        assert!(steps.is_due_at_step(8) && !steps.is_due_at_step(9) && !steps.is_due_within_epoch(1e9));
    }
}
