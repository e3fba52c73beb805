//! Folder of a training run: `net/`, the checkpoint of the trainer, with the history of the run.
//!
//! **Invariant:** the history is stored in the manifest of the checkpoint, so both become visible by
//! one rename, have one checksum, and are of the same step even if the program is killed at any
//! time. A folder without a checkpoint, as a killed run leaves it, is like a new one.

use super::Checkpoints;
use crate::error::Error;
use crate::saved::description::DESCRIPTION_KEY;
use hemiola_array::files::SharedFileSystem;
use hemiola_array::save::{PartReader, PartWriter};
use hemiola_sync::Attachments;
use hemiola_training::{CheckpointMetadata, comparable_settings};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Manifest key of the name of the net, as of other models.
const MODEL_KEY: &str = "model";
/// Manifest key of the history, as of other models.
const TRAINING_KEY: &str = "training";

/// History of a training run, with the name of its net.
#[derive(Debug)]
pub(super) struct NetJournal {
    /// Name of the net, such as `mlp`.
    pub(super) net: String,
    pub(super) metadata: CheckpointMetadata,
    /// Description for the use of the net; not read back.
    pub(super) description: Option<Value>,
}

impl NetJournal {
    /// Values to be stored with a checkpoint.
    pub(super) fn to_attachments(&self) -> Attachments {
        let metadata = serde_json::to_value(&self.metadata).expect("the history is plain data");
        let net = self.net.clone().into();
        let mut attachments = Attachments::from([(MODEL_KEY.to_owned(), net), (TRAINING_KEY.to_owned(), metadata)]);
        attachments.extend(self.description.clone().map(|description| (DESCRIPTION_KEY.to_owned(), description)));
        attachments
    }

    /// Returns the journal in the attachments of the checkpoint in `folder`; `None` if a trainer
    /// alone has saved it.
    pub(super) fn from_attachments(folder: &Path, attachments: &Attachments) -> Result<Option<Self>, Error> {
        let net = parse(folder, attachments, MODEL_KEY)?;
        let metadata = parse(folder, attachments, TRAINING_KEY)?;
        Ok(net.zip(metadata).map(|(net, metadata)| Self { net, metadata, description: None }))
    }
}

fn parse<T: DeserializeOwned>(folder: &Path, attachments: &Attachments, key: &str) -> Result<Option<T>, Error> {
    let value = attachments.get(key).map(|value| serde_json::from_value(value.clone()));
    value.transpose().map_err(|error| {
        let problem = format!("its `{key}`: {error}");
        Error::DamagedJournal { file: folder.join("manifest.json"), problem }
    })
}

/// Returns the folder of the trainer's checkpoint.
pub(super) fn trainer_folder(folder: &Path) -> PathBuf {
    folder.join("net")
}

/// Checks, before the data are read, that checkpoints of the net with these settings can be saved
/// or resumed; creates the folder. Runs on this peer alone, without a cluster. `net` is the
/// [name](super::NetFit::name) of the net, and `settings` are those that must be equal to resume.
pub fn check_checkpoints(checkpoints: &Checkpoints, net: &str, settings: &impl Serialize) -> Result<(), Error> {
    let (folder, files) = (checkpoints.folder(), &checkpoints.files());
    let trainer = trainer_folder(folder);
    if !PartReader::exists_on(files, &trainer) {
        if checkpoints.resumes() {
            return Err(Error::NoCheckpoint { folder: folder.to_owned() });
        }
        if is_occupied(files, folder) {
            return Err(Error::FolderOccupied { folder: folder.to_owned() });
        }
        return files.create_dir_all(folder).map_err(|error| Error::file("create", folder, &error));
    }
    let journal = NetJournal::from_attachments(&trainer, &PartReader::open_on(files, &trainer)?.manifest().metadata)?;
    match journal {
        None => Err(Error::FolderOccupied { folder: folder.to_owned() }),
        Some(found) if found.net != net => {
            Err(Error::OtherNet { folder: folder.to_owned(), found: found.net, net: net.to_owned() })
        }
        Some(found) if checkpoints.resumes() => {
            found.metadata.check_values()?;
            Ok(found.metadata.check_settings(&comparable_settings(settings))?)
        }
        Some(_) => Ok(()),
    }
}

/// Returns true if a folder without a checkpoint has something that no run has left there.
fn is_occupied(files: &SharedFileSystem, folder: &Path) -> bool {
    let is_leftover = |name: &OsStr| match name.to_str() {
        // A first checkpoint that was not finished.
        Some(".net.partial") => true,
        Some("net") => PartWriter::accepts_on(files, &trainer_folder(folder)),
        _ => false,
    };
    files.list(folder).unwrap_or_default().iter().any(|name| !is_leftover(name))
}
