//! Contents of the folder `--output`: `net/`, the checkpoint of the trainer, and the journal of the
//! run.
//!
//! **Invariant:** `journal-N.json` is complete before the checkpoint of step N, and is removed
//! after the next checkpoint is complete. So the current checkpoint has a journal even if the
//! command is killed at any time.

use crate::error::CommandError;
use crate::output::{OutputCompression, StagedFile};
use hemiola_models::training::{CheckpointMetadata, Checkpoints};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// Journal of a training run, with the name of its net.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct NetFolder {
    /// Name of the net, such as `mlp`.
    pub(super) net: String,
    pub(super) journal: CheckpointMetadata,
}

/// Returns the folder of the trainer's checkpoint.
pub(super) fn checkpoint(folder: &Path) -> PathBuf {
    folder.join("net")
}

/// Checks, before training starts, that the folder can be written and that a resume is possible.
pub(super) fn check(checkpoints: &Checkpoints, net: &str, settings: &serde_json::Value) -> anyhow::Result<()> {
    let folder = checkpoints.folder();
    let found = journals(folder)?;
    let kept = found.last().map(|(_, path)| read(path)).transpose()?;
    match kept {
        Some(kept) if kept.net != net => {
            let message = format!("`{}` has a net `{}`, and this command trains `{net}`", folder.display(), kept.net);
            Err(CommandError::usage(message).hint("choose another folder for --output, or remove it").into())
        }
        Some(kept) if checkpoints.resumes() => kept
            .journal
            .check_settings(settings)
            .map_err(|error| anyhow::Error::from(hemiola_cluster::Error::from(error))),
        None if checkpoints.resumes() => {
            let message = format!("`{}` has no checkpoint to resume from", folder.display());
            Err(CommandError::usage(message).hint("check --output, or leave out --resume").into())
        }
        None if !is_empty(folder) => {
            let message = format!("`{}` exists and is not a saved net", folder.display());
            Err(CommandError::usage(message).hint("choose another folder for --output, or remove it").into())
        }
        _ => fs::create_dir_all(folder).map_err(|error| CommandError::io("create", folder, &error).into()),
    }
}

/// Removes the journals of an earlier run, so that they are not taken for those of this one.
pub(super) fn clear(folder: &Path) -> anyhow::Result<()> {
    for (_, path) in journals(folder)? {
        remove(&path)?;
    }
    Ok(())
}

/// Writes the journal of the next checkpoint.
pub(super) fn write_journal(folder: &Path, step: u64, kept: &NetFolder) -> anyhow::Result<()> {
    let mut staged = StagedFile::create(&folder.join(format!("journal-{step}.json")), OutputCompression::None)?;
    staged.write(&serde_json::to_vec_pretty(kept)?)?;
    staged.finish()?.publish()
}

/// Removes the journals of all checkpoints but that of `step`.
pub(super) fn remove_old_journals(folder: &Path, step: u64) -> anyhow::Result<()> {
    for (_, path) in journals(folder)?.iter().filter(|(other, _)| *other != step) {
        remove(path)?;
    }
    Ok(())
}

/// Reads the journal of the checkpoint of a step.
pub(super) fn journal(folder: &Path, step: u64) -> anyhow::Result<NetFolder> {
    let found = journals(folder)?.into_iter().find(|(other, _)| *other == step);
    let Some((_, path)) = found else {
        let message = format!("`{}` has a checkpoint of step {step} and no journal of it", folder.display());
        return Err(CommandError::usage(message)
            .hint("choose another folder for --output, or train from the start")
            .into());
    };
    read(&path)
}

/// Lists the journals, sorted by step.
fn journals(folder: &Path) -> anyhow::Result<Vec<(u64, PathBuf)>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(CommandError::io("list", folder, &error).into()),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| CommandError::io("list", folder, &error))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let step = name.strip_prefix("journal-").and_then(|rest| rest.strip_suffix(".json")?.parse().ok());
        found.extend(step.map(|step| (step, path)));
    }
    found.sort_unstable();
    Ok(found)
}

fn read(path: &Path) -> anyhow::Result<NetFolder> {
    let text = fs::read_to_string(path).map_err(|error| CommandError::io("read", path, &error))?;
    serde_json::from_str(&text).map_err(|error| {
        let failure = CommandError::usage(format!("`{}` is damaged: {error}", path.display()));
        failure.hint("choose another folder for --output, or train from the start").into()
    })
}

fn remove(path: &Path) -> anyhow::Result<()> {
    fs::remove_file(path).map_err(|error| CommandError::io("remove", path, &error).into())
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none())
}
