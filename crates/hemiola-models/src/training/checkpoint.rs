//! Checkpoints of models that consist of arrays: everything needed to resume a training run with
//! bit-identical results.
//!
//! A checkpoint is a saved model (see `hemiola_array::save`) with additions. The best model so far
//! is stored where a finished model is stored, so the folder is usable at any time. The newest
//! model, if it is not the best, is stored beside it under names that begin with `resume.`. A value
//! in the manifest, the [`CheckpointMetadata`], holds the rest.
//!
//! **Invariant:** a checkpoint becomes visible by one atomic rename when it is complete. The one
//! before is kept, and used with a warning if the newest is damaged.

use super::{CheckpointMetadata, Checkpoints};
use crate::Error;
use crate::input::{InputSchema, PreparationOptions};
use hemiola_array::dist::{ArrayLoader, ArraySaver};
use hemiola_array::files::SharedFileSystem;
use hemiola_array::save::{PartReader, PartWriter, SaveLock};
use hemiola_cluster::{Cluster, Result};
use hemiola_training::comparable_settings;
use serde::Serialize;
use serde_json::Value;
use std::path::Path;

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

    /// Returns the layout of the training files, if the model has one. A resumed run must prepare
    /// features as the run before.
    fn input(&self) -> Option<&InputSchema> {
        None
    }
}

/// Returns an error unless features are prepared alike before and after a resume.
pub(super) fn check_preparation(before: Option<&InputSchema>, now: Option<&InputSchema>) -> Result<(), Error> {
    let of = |schema: Option<&InputSchema>| schema.and_then(|schema| schema.preparation.clone());
    let setting = match (of(before), of(now)) {
        (None, None) => return Ok(()),
        (Some(before), Some(now)) if before == now => return Ok(()),
        (Some(before), Some(now)) => before.options.difference(&now.options).unwrap_or("statistics of the data"),
        (Some(one), None) | (None, Some(one)) => {
            one.options.difference(&PreparationOptions::default()).unwrap_or("preparation")
        }
    };
    Err(Error::PreparationChanged { setting })
}

/// Checks, before the data are read, that checkpoints of `model` with these settings can be saved
/// or resumed. Runs on this peer alone, without a cluster. `settings` are those that must be equal
/// to resume.
pub fn check_checkpoints(checkpoints: &Checkpoints, model: &str, settings: &impl Serialize) -> Result<()> {
    let folder = checkpoints.folder();
    if checkpoints.resumes() {
        let metadata = read(folder, model)?;
        metadata.check_settings(&comparable_settings(settings))?;
    }
    PartWriter::check(folder, 0)?;
    if PartReader::exists(folder) {
        check_manifest(&PartReader::open(folder)?, model)?;
    }
    Ok(())
}

/// *Collective.* Repeats [`check_checkpoints`] at the start of training and checks for `bytes` of
/// free disk space. Takes the lock unless it is `held`.
pub(super) fn claim(
    checkpoints: &Checkpoints,
    cluster: &Cluster,
    model: &str,
    bytes: u64,
    held: Option<SaveLock>,
) -> Result<Option<SaveLock>> {
    let (folder, files) = (checkpoints.folder(), checkpoints.files());
    if checkpoints.is_on_disk() {
        ArraySaver::check(cluster, folder, bytes)?;
    }
    let lock = checkpoints.lock_unless_held(cluster, held)?;
    if cluster.broadcast(PartReader::exists_on(&files, folder))? {
        let kind: Option<String> = ArrayLoader::open_on(cluster, &files, folder)?.metadata(MODEL_KEY)?;
        check_kind(kind.as_deref(), folder, model)?;
    }
    Ok(lock)
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

/// Reads the metadata of the save in `folder`, without its arrays and without a cluster.
fn read(folder: &Path, model: &str) -> Result<CheckpointMetadata> {
    if !PartReader::exists(folder) {
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
    checkpoints: &Checkpoints,
    model: &str,
) -> Result<(CheckpointMetadata, M, Option<M>)> {
    let (folder, files) = (checkpoints.folder(), checkpoints.files());
    let missing = || Error::NoCheckpoint { folder: folder.to_owned() };
    if !cluster.broadcast(PartReader::exists_on(&files, folder))? {
        return Err(missing().into());
    }
    ArrayLoader::load_with_retry_on(cluster, &files, folder, |load| {
        let kind: Option<String> = load.metadata(MODEL_KEY)?;
        check_kind(kind.as_deref(), folder, model)?;
        let metadata: CheckpointMetadata = load.metadata(TRAINING_KEY)?.ok_or_else(missing)?;
        let best = M::get(load, "")?;
        let newest = if metadata.separate_newest { Some(M::get(load, NEWEST_PREFIX)?) } else { None };
        Ok((metadata, best, newest))
    })
}

/// *Collective.* Saves a checkpoint, replacing an older one. `newest` is given where it is not the
/// best.
pub(super) fn save<M: Checkpointable>(
    cluster: &Cluster,
    (files, folder): (&SharedFileSystem, &Path),
    model: &str,
    metadata: &CheckpointMetadata,
    best: &M,
    newest: Option<&M>,
) -> Result<()> {
    let mut save = ArraySaver::begin_on(cluster, files, folder)?;
    best.put(&mut save, "")?;
    if let Some(newest) = newest {
        newest.put(&mut save, NEWEST_PREFIX)?;
    }
    save.put_metadata(MODEL_KEY, &model);
    save.put_metadata(TRAINING_KEY, metadata);
    save.commit()
}
