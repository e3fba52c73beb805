//! Folder of an unfinished search: the report so far, and the checkpoint of each trial.
//!
//! **Invariant:** the report names only epochs that the checkpoints have. It is written after each
//! run of a trial, and appears complete or not at all.

use super::report::SearchReport;
use crate::Error;
use hemiola_array::files::{AtomicFile, OsFileSystem};
use hemiola_cluster::{Cluster, Result};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// File of the report.
const REPORT: &str = "search.json";
/// Prefix of the folders of trials.
const TRIAL: &str = "trial-";

/// Folder of an unfinished search.
#[derive(Clone, Debug)]
pub struct TrialStore {
    folder: PathBuf,
}

/// Content of the report file.
#[derive(Debug, Serialize, Deserialize)]
struct StoredSearch {
    /// Fingerprints of training and validation data.
    fingerprints: [u64; 2],
    report: SearchReport,
}

impl TrialStore {
    /// Uses a folder, which is created if needed.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Returns the folder with the checkpoint of a trial, counted from 1.
    #[must_use]
    pub fn trial(&self, trial: u32) -> PathBuf {
        self.folder.join(format!("{TRIAL}{trial:04}"))
    }

    /// Returns whether the folder holds an unfinished search.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.folder.join(REPORT).is_file()
    }

    /// Removes trials and report, and the folder if nothing else is in it.
    pub fn remove(&self) -> io::Result<()> {
        let entries = match std::fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            // A checkpoint has its lock and older generations beside it.
            if name.trim_start_matches('.').starts_with(TRIAL) {
                if entry.file_type()?.is_dir() {
                    std::fs::remove_dir_all(entry.path())?;
                } else {
                    std::fs::remove_file(entry.path())?;
                }
            } else if name == REPORT {
                std::fs::remove_file(entry.path())?;
            }
        }
        match std::fs::remove_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            removed => removed,
        }
    }

    /// *Collective.* Begins a new search: removes an older one, and creates the folder.
    pub(super) fn begin(&self, cluster: &Cluster) -> Result<()> {
        let create = || self.remove().and_then(|()| std::fs::create_dir_all(&self.folder));
        self.on_root(cluster, create)
    }

    /// *Collective.* Saves the report.
    pub(super) fn save(&self, cluster: &Cluster, report: &SearchReport, fingerprints: [u64; 2]) -> Result<()> {
        let write = || {
            let stored = StoredSearch { fingerprints, report: report.clone() };
            let text = serde_json::to_vec(&stored)?;
            AtomicFile::write_on(&OsFileSystem::shared(), &self.folder.join(REPORT), &text)
        };
        self.on_root(cluster, write)
    }

    /// *Collective.* Loads the report of an unfinished search. Fails unless it is the search that
    /// `now` describes, apart from the number of trials.
    pub(super) fn load(&self, cluster: &Cluster, now: &SearchReport, fingerprints: [u64; 2]) -> Result<SearchReport> {
        // The report travels as JSON: its settings are values of any type.
        let read = if cluster.is_root() {
            let read = self.read(now, fingerprints).map_err(|problem| problem.0);
            read.map(|report| serde_json::to_string(&report).unwrap_or_default())
        } else {
            Ok(String::new())
        };
        let parsed = cluster
            .broadcast(read)?
            .and_then(|text| serde_json::from_str(&text).map_err(|error| format!("it is damaged ({error})")));
        Ok(parsed.map_err(|problem| Error::NoSearch { folder: self.folder.clone(), problem })?)
    }

    fn read(&self, now: &SearchReport, fingerprints: [u64; 2]) -> Result<SearchReport, StoreProblem> {
        let path = self.folder.join(REPORT);
        let text = std::fs::read(&path).map_err(|error| StoreProblem(format!("there is none ({error})")))?;
        let stored: StoredSearch =
            serde_json::from_slice(&text).map_err(|error| StoreProblem(format!("it is damaged ({error})")))?;
        let before = stored.report;
        let different = [
            ("method", before.method != now.method),
            ("space", before.space != now.space),
            ("settings", before.settings != now.settings),
            ("maximum number of epochs", before.epochs != now.epochs),
            ("seed", before.seed != now.seed),
            ("metric", before.metric != now.metric),
            ("data", before.data != now.data || stored.fingerprints != fingerprints),
        ];
        match different.into_iter().find(|(_, different)| *different) {
            Some((what, _)) => Err(StoreProblem(format!("its {what} differs"))),
            None => Ok(before),
        }
    }

    fn on_root(&self, cluster: &Cluster, work: impl FnOnce() -> io::Result<()>) -> Result<()> {
        let done = if cluster.is_root() { work().map_err(|error| error.to_string()).err() } else { None };
        match cluster.broadcast(done)? {
            Some(problem) => Err(Error::SearchFolder { folder: self.folder.clone(), problem }.into()),
            None => Ok(()),
        }
    }

    /// Returns the folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Reason why a search cannot be resumed.
struct StoreProblem(String);
