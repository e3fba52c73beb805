//! Log files: a copy of each peer's output.
//!
//! **Invariant:** a log error never harms the job. A folder that cannot be created is an error
//! before anything starts; every later error (a full disk, a file that cannot be written) is
//! reported once and ends that log.

use super::LaunchError;
use super::diagnostics::LauncherDiagnostics;
use hemiola_core::Rank;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Creates the log folder if it is missing.
pub(super) fn create_folder(path: &Path) -> Result<(), LaunchError> {
    fs::create_dir_all(path).map_err(|source| LaunchError::LogFolder { path: path.to_owned(), source })
}

/// Log file of one peer.
#[derive(Debug)]
pub(super) struct PeerLog {
    path: PathBuf,
    /// `None` after a write error.
    file: Option<File>,
    diagnostics: LauncherDiagnostics,
}

impl PeerLog {
    /// Opens `folder/peer-<rank>.log` and truncates it.
    pub(super) fn open(folder: &Path, rank: Rank, diagnostics: LauncherDiagnostics) -> Self {
        let path = folder.join(format!("peer-{rank}.log"));
        let opened = File::create(&path);
        let mut log = Self { path, file: None, diagnostics };
        match opened {
            Ok(file) => log.file = Some(file),
            Err(error) => log.give_up(&error),
        }
        log
    }

    /// Appends whole lines to the log.
    pub(super) fn write(&mut self, lines: &[u8]) {
        if let Some(file) = &mut self.file
            && let Err(error) = file.write_all(lines)
        {
            self.give_up(&error);
        }
    }

    fn give_up(&mut self, error: &io::Error) {
        self.file = None;
        self.diagnostics.report_log_error(format!(
            "cannot write the log `{}`: {error}; the job continues without it (reported once)",
            self.path.display()
        ));
    }
}
