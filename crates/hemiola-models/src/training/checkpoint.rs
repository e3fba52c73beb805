//! Where a training is, on disk: what it takes to go on to the same bits as if nothing had happened.
//!
//! A checkpoint is a saved model (see `hemiola::array::save`) with more in it: the model that did best so far lies where a
//! finished model lies, so that the folder can be used at any time; the newest one, if it is another, lies beside it under
//! names that begin with `resume.`; and a note, the [`Journal`], has the rest.
//!
//! **Invariant:** a checkpoint becomes visible by one rename when it is complete, in place of the one before, which is there until
//! then. Training goes on from the newest model, the journal's numbers and the same data and settings; nothing else has
//! a part in the bits.

use super::{ClusterFacts, DataFacts, Progress};
use crate::Error;
use hemiola::array::dist::{Load, Save};
use hemiola::array::save::{Loading, SaveLock};
use hemiola::loops::Plan;
use hemiola::{Cluster, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The name of the note.
const NOTE: &str = "training";
/// What the names of arrays of the newest model begin with, where it is not the best.
const NEWEST: &str = "resume.";
/// The note that says of which model a save is.
const MODEL: &str = "model";

/// A model that can be kept on disk.
pub trait Keep: Clone {
    /// *Collective.* Adds it to a save, its arrays under names with `prefix` before them.
    fn put(&self, save: &mut Save, prefix: &str) -> Result<()>;

    /// *Collective.* What [`put`](Self::put) added.
    fn get(load: &Load, prefix: &str) -> Result<Self>;

    /// About how many bytes of disk it takes.
    fn bytes(&self) -> u64;
}

/// Where checkpoints go and when.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Checkpoints {
    folder: PathBuf,
    every: Every,
    resume: bool,
}

/// How often a checkpoint is saved. There is always one at the end.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Every {
    /// After so many epochs.
    Epochs(u32),
    /// After an epoch with which so many seconds of training have passed.
    Seconds(f64),
}

impl Checkpoints {
    /// Checkpoints in `folder`, after every minute of training and at the end. An older save of the same model there
    /// is replaced.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), every: Every::Seconds(60.0), resume: false }
    }

    /// Another pace.
    pub fn every(mut self, every: Every) -> Self {
        self.every = every;
        self
    }

    /// Whether to go on from what is in the folder. Default: training starts anew.
    pub fn resume(mut self, resume: bool) -> Self {
        self.resume = resume;
        self
    }

    /// Where they go.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether to go on from what is in the folder.
    #[must_use]
    pub fn resumes(&self) -> bool {
        self.resume
    }

    /// Whether it is time for one, `since` having been done after the last.
    #[must_use]
    pub fn is_due(&self, epochs_since: u32, seconds_since: f64) -> bool {
        match self.every {
            Every::Epochs(epochs) => epochs_since >= epochs.max(1),
            Every::Seconds(seconds) => seconds_since >= seconds,
        }
    }

    /// Finds what would keep checkpoints of `model` with these settings from being saved or resumed, before data are read:
    /// on this peer alone, without a cluster. Settings are those that must be the same to go on.
    pub fn check(&self, model: &str, settings: &impl Serialize) -> Result<()> {
        if self.resume {
            let journal = Journal::read(&self.folder, model)?;
            journal.must_have_settings(&plain(settings))?;
        }
        hemiola::array::save::Saving::check(&self.folder, 0)?;
        if self.folder.exists() {
            must_be_of(&Loading::open(&self.folder)?, model)?;
        }
        Ok(())
    }

    /// *Collective.* The right to train into the folder, which nobody else has while what the root gets is held. Taken before data are
    /// read and handed to [`Session::holding`](super::Session::holding) it spares whoever comes second the reading.
    pub fn lock(&self, cluster: &Cluster) -> Result<Option<SaveLock>> {
        Save::lock(cluster, &self.folder)
    }

    /// *Collective.* The same as [`check`](Self::check) when training is about to begin, and whether the disk has room for `bytes`. Takes
    /// the lock if it is not `held`.
    pub(super) fn claim(
        &self,
        cluster: &Cluster,
        model: &str,
        bytes: u64,
        held: Option<SaveLock>,
    ) -> Result<Option<SaveLock>> {
        Save::check(cluster, &self.folder, bytes)?;
        let lock = if cluster.broadcast(held.is_some())? { held } else { self.lock(cluster)? };
        if cluster.broadcast(self.folder.exists())? {
            let kind: Option<String> = Load::open(cluster, &self.folder)?.note(MODEL)?;
            must_be(kind.as_deref(), &self.folder, model)?;
        }
        Ok(lock)
    }
}

/// Settings as they are compared. When training stops may differ from run to run, so the limits are left out.
///
/// # Panics
/// If they are no plain data.
pub fn plain(settings: &impl Serialize) -> Value {
    let mut plain = serde_json::to_value(settings).expect("settings are plain data");
    if let Value::Object(fields) = &mut plain {
        fields.remove("limits");
    }
    plain
}

fn must_be_of(loading: &Loading, model: &str) -> Result<(), Error> {
    let kind = loading.manifest().notes.get(MODEL).and_then(Value::as_str);
    must_be(kind, loading.folder(), model)
}

fn must_be(kind: Option<&str>, folder: &Path, model: &str) -> Result<(), Error> {
    match kind {
        Some(kind) if kind == model => Ok(()),
        kind => {
            Err(Error::Taken { folder: folder.to_owned(), found: kind.map(str::to_owned), model: model.to_owned() })
        }
    }
}

/// What a checkpoint knows besides arrays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Journal {
    /// What must be the same to go on, by name.
    pub settings: Value,
    /// The data, in numbers.
    pub data: DataFacts,
    /// The data, in one number for those trained on and one for those held out; see [`digest`](super::digest).
    pub digests: [u64; 2],
    /// The peers that trained it.
    pub cluster: ClusterFacts,
    /// Every epoch so far.
    pub progress: Vec<Progress>,
    /// The place in `progress` of the model that did best.
    pub best: usize,
    /// Whether the newest model is stored beside the best.
    pub apart: bool,
    /// Seconds of evaluating so far.
    pub evaluation_seconds: f64,
    /// How the loop ran, if it was one of `parallel_for!`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// What only this kind of model has: the step it has come to, say.
    pub own: Value,
}

impl Journal {
    /// That of the save in `folder`, without its arrays and without a cluster.
    pub fn read(folder: &Path, model: &str) -> Result<Self> {
        if !folder.exists() {
            return Err(Error::NoCheckpoint { folder: folder.to_owned() }.into());
        }
        let loading = Loading::open(folder)?;
        must_be_of(&loading, model)?;
        let note = loading.manifest().notes.get(NOTE).cloned();
        let note = note.ok_or_else(|| Error::NoCheckpoint { folder: folder.to_owned() })?;
        let understood = serde_json::from_value(note);
        let torn =
            |error: serde_json::Error| Error::NotThisModel { problem: format!("its journal is damaged ({error})") };
        Ok(understood.map_err(torn)?)
    }

    /// *Collective.* The journal, the best model and the newest one; `None` where it is the best.
    pub(super) fn load<M: Keep>(cluster: &Cluster, folder: &Path, model: &str) -> Result<(Self, M, Option<M>)> {
        let missing = || Error::NoCheckpoint { folder: folder.to_owned() };
        if !cluster.broadcast(folder.exists())? {
            return Err(missing().into());
        }
        let load = Load::open(cluster, folder)?;
        let kind: Option<String> = load.note(MODEL)?;
        must_be(kind.as_deref(), folder, model)?;
        let journal: Self = load.note(NOTE)?.ok_or_else(missing)?;
        let best = M::get(&load, "")?;
        let newest = if journal.apart { Some(M::get(&load, NEWEST)?) } else { None };
        Ok((journal, best, newest))
    }

    /// *Collective.* Saves a checkpoint in place of an older one. `newest` is given where it is not the best.
    pub(super) fn save<M: Keep>(
        &self,
        cluster: &Cluster,
        folder: &Path,
        model: &str,
        best: &M,
        newest: Option<&M>,
    ) -> Result<()> {
        let mut save = Save::begin(cluster, folder)?;
        best.put(&mut save, "")?;
        if let Some(newest) = newest {
            newest.put(&mut save, NEWEST)?;
        }
        save.note(MODEL, &model);
        save.note(NOTE, self);
        save.commit()
    }

    /// An error that names what is different in settings that must be the same.
    pub fn must_have_settings(&self, now: &Value) -> Result<(), Error> {
        let none = serde_json::Map::new();
        let (before, now) = (self.settings.as_object().unwrap_or(&none), now.as_object().unwrap_or(&none));
        let names: std::collections::BTreeSet<&String> = before.keys().chain(now.keys()).collect();
        let shown = |value: Option<&Value>| match value {
            None => "nothing".to_owned(),
            // Settings in single precision would be shown with digits that nobody has typed.
            Some(value) if value.is_f64() => (value.as_f64().unwrap_or_default() as f32).to_string(),
            Some(value) => value.to_string(),
        };
        let differences: Vec<String> = names
            .into_iter()
            .filter(|name| before.get(*name) != now.get(*name))
            .map(|name| format!("{name} was {} and is {}", shown(before.get(name)), shown(now.get(name))))
            .collect();
        if differences.is_empty() { Ok(()) } else { Err(Error::OtherSettings { differences }) }
    }

    /// An error that says how data differ from those it was trained on.
    pub fn must_have_data(&self, now: &DataFacts, digests: [u64; 2]) -> Result<(), Error> {
        let difference = if self.data.shape != now.shape {
            format!("their shape was {:?} and is {:?}", self.data.shape, now.shape)
        } else if self.data.train != now.train {
            format!("there were {} entries to train on and are {}", self.data.train, now.train)
        } else if self.data.valid != now.valid {
            format!("{} entries were held out and now {} are", self.data.valid, now.valid)
        } else if self.digests[0] != digests[0] {
            "the entries to train on, or their names, are others".to_owned()
        } else if self.digests[1] != digests[1] {
            "the entries that are held out are others".to_owned()
        } else {
            return Ok(());
        };
        Err(Error::OtherData { difference })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paces_are_kept() {
        let folder = Checkpoints::new("model");
        assert!(!folder.is_due(1000, 59.9) && folder.is_due(1, 60.0));
        let epochs = folder.every(Every::Epochs(3));
        assert!(!epochs.is_due(2, 1e9) && epochs.is_due(3, 0.0));
    }
}
