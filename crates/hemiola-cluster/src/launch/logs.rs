//! A copy of each peer's output in a file.
//!
//! **Invariant:** a fault of a log never harms the job. A folder that cannot be made is an error before anything
//! starts; everything later (a full disk, a file that cannot be written) is told once and ends that log.

use super::LaunchError;
use super::notes::Notes;
use hemiola_core::Rank;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Makes the folder.
pub(super) fn make_folder(path: &Path) -> Result<(), LaunchError> {
    fs::create_dir_all(path).map_err(|source| LaunchError::LogFolder { path: path.to_owned(), source })
}

/// The log of one peer.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    /// `None` once it has failed.
    file: Option<File>,
    notes: Notes,
}

impl Log {
    /// Opens `folder/peer-<rank>.log` and empties it.
    pub(super) fn open(folder: &Path, rank: Rank, notes: Notes) -> Self {
        let path = folder.join(format!("peer-{rank}.log"));
        let opened = File::create(&path);
        let mut log = Self { path, file: None, notes };
        match opened {
            Ok(file) => log.file = Some(file),
            Err(error) => log.give_up(&error),
        }
        log
    }

    /// Adds whole lines.
    pub(super) fn write(&mut self, lines: &[u8]) {
        if let Some(file) = &mut self.file
            && let Err(error) = file.write_all(lines)
        {
            self.give_up(&error);
        }
    }

    fn give_up(&mut self, error: &io::Error) {
        self.file = None;
        self.notes.tell_of_logs(format!(
            "cannot write the log `{}`: {error}; the job goes on without it (told once)",
            self.path.display()
        ));
    }
}
