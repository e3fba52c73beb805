//! Folder of a training run: `net/`, the checkpoint of the trainer, and the journal of the run.
//!
//! **Invariant:** `journal-N.json` is complete before the checkpoint of step N, and is removed
//! after the next checkpoint is complete. So the current checkpoint has a journal even if the
//! program is killed at any time.

use super::Checkpoints;
use crate::error::Error;
use hemiola_training::{CheckpointMetadata, comparable_settings};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Journal of a training run, with the name of its net.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct NetJournal {
    /// Name of the net, such as `mlp`.
    pub(super) net: String,
    #[serde(rename = "journal")]
    pub(super) metadata: CheckpointMetadata,
}

/// Returns the folder of the trainer's checkpoint.
pub(super) fn trainer_folder(folder: &Path) -> PathBuf {
    folder.join("net")
}

/// Checks, before the data are read, that checkpoints of the net with these settings can be saved
/// or resumed; creates the folder. Runs on this peer alone, without a cluster. `net` is the
/// [name](super::NetFit::name) of the net, and `settings` are those that must be equal to resume.
pub fn check_checkpoints(checkpoints: &Checkpoints, net: &str, settings: &impl Serialize) -> Result<(), Error> {
    let folder = checkpoints.folder();
    let newest = journals(folder)?.last().map(|(_, path)| read(path)).transpose()?;
    match newest {
        Some(found) if found.net != net => {
            Err(Error::OtherNet { folder: folder.to_owned(), found: found.net, net: net.to_owned() })
        }
        Some(found) if checkpoints.resumes() => Ok(found.metadata.check_settings(&comparable_settings(settings))?),
        None if checkpoints.resumes() => Err(Error::NoCheckpoint { folder: folder.to_owned() }),
        None if !is_empty(folder) => Err(Error::FolderOccupied { folder: folder.to_owned() }),
        _ => fs::create_dir_all(folder).map_err(|error| Error::file("create", folder, &error)),
    }
}

/// Removes the journals of an earlier run, so that they are not taken for those of this one.
pub(super) fn clear(folder: &Path) -> Result<(), Error> {
    journals(folder)?.iter().try_for_each(|(_, path)| remove(path))
}

/// Writes the journal of the next checkpoint.
pub(super) fn write(folder: &Path, step: u64, journal: &NetJournal) -> Result<(), Error> {
    let target = folder.join(format!("journal-{step}.json"));
    let partial = folder.join(format!(".journal-{step}.json.partial"));
    let bytes = serde_json::to_vec_pretty(journal).expect("plain data");
    let publish = || -> io::Result<()> {
        let mut file = File::create(&partial)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&partial, &target)
    };
    publish().map_err(|error| {
        // Nothing is left of a failed write; the error of the write is the one to report.
        let _ = fs::remove_file(&partial);
        Error::file("write", &target, &error)
    })
}

/// Removes the journals of all checkpoints but that of `step`.
pub(super) fn remove_old(folder: &Path, step: u64) -> Result<(), Error> {
    journals(folder)?.iter().filter(|(other, _)| *other != step).try_for_each(|(_, path)| remove(path))
}

/// Reads the journal of the checkpoint of a step.
pub(super) fn of_step(folder: &Path, step: u64) -> Result<NetJournal, Error> {
    match journals(folder)?.into_iter().find(|(other, _)| *other == step) {
        Some((_, path)) => read(&path),
        None => Err(Error::NoJournal { folder: folder.to_owned(), step }),
    }
}

/// Lists the journals, sorted by step.
fn journals(folder: &Path) -> Result<Vec<(u64, PathBuf)>, Error> {
    let failed = |error: io::Error| Error::file("list", folder, &error);
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let step = name.strip_prefix("journal-").and_then(|rest| rest.strip_suffix(".json")?.parse().ok());
        found.extend(step.map(|step| (step, path)));
    }
    found.sort_unstable();
    Ok(found)
}

fn read(path: &Path) -> Result<NetJournal, Error> {
    let text = fs::read_to_string(path).map_err(|error| Error::file("read", path, &error))?;
    serde_json::from_str(&text)
        .map_err(|error| Error::DamagedJournal { file: path.to_owned(), problem: error.to_string() })
}

fn remove(path: &Path) -> Result<(), Error> {
    fs::remove_file(path).map_err(|error| Error::file("remove", path, &error))
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none())
}
