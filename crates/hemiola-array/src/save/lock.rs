//! Who may replace a save: one at a time, from the beginning of the work on it to its end.
//!
//! Saves at one place share a temporary directory, so two that write at once would destroy each other's work. Whoever works
//! for long on what is to be saved takes the lock first. It is a lock of the system on a file `.NAME.lock` beside the save, so
//! it ends with its process, however that ends; the file says who has it.
//!
//! **Invariant:** only who has the lock removes the file, and a lock on a file that was removed meanwhile does not count.

use super::saving::{resolved, sibling};
use crate::{Error, Result};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// The right to replace a save, until it is dropped.
#[derive(Debug)]
#[must_use = "dropping it gives the right back"]
pub struct SaveLock {
    path: PathBuf,
    /// `None` on a file system without locks.
    file: Option<File>,
}

impl SaveLock {
    /// Takes the lock of the save at `target`, whether there is one yet or not. An error that names the process if another has it.
    pub fn take(target: &Path) -> Result<Self> {
        let path = sibling(&resolved(target)?, ".lock")?;
        let failed = |error: io::Error| Error::io("lock", &path, &error);
        loop {
            let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
            let mut file = open.map_err(failed)?;
            match file.try_lock() {
                Ok(()) if is_at(&file, &path) => {
                    // What a killed process has left there is not ours.
                    file.set_len(0).map_err(failed)?;
                    write!(file, "process {}", std::process::id()).map_err(failed)?;
                    return Ok(Self { path, file: Some(file) });
                }
                // Whoever had it removed the file after we had opened it.
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let mut holder = String::new();
                    // Who has it may be about to write its number.
                    let known = file.read_to_string(&mut holder).is_ok() && !holder.is_empty();
                    let holder = if known { holder } else { "another process".to_owned() };
                    return Err(Error::SaveBusy { path: target.to_owned(), holder });
                }
                Err(TryLockError::Error(error)) if has_no_locks(&error) => return Ok(Self { path, file: None }),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
        }
    }
}

impl Drop for SaveLock {
    fn drop(&mut self) {
        // While the lock is still ours; a file that stays harms nobody.
        let _ = fs::remove_file(&self.path);
        drop(self.file.take());
    }
}

/// Some network file systems have none, and one can work there all the same.
fn has_no_locks(error: &io::Error) -> bool {
    #[cfg(unix)]
    if error.raw_os_error() == Some(rustix::io::Errno::NOLCK.raw_os_error()) {
        return true;
    }
    error.kind() == io::ErrorKind::Unsupported
}

/// Whether the file is still the one at `path`.
fn is_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let (Ok(ours), Ok(there)) = (file.metadata(), fs::metadata(path)) else { return false };
        (ours.dev(), ours.ino()) == (there.dev(), there.ino())
    }
    #[cfg(not(unix))]
    {
        // An open file cannot be removed there.
        let _ = (file, path);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_it_at_a_time_and_nothing_is_left() {
        let lab = tempfile::tempdir().unwrap();
        let target = lab.path().join("model");
        let lock = SaveLock::take(&target).unwrap();
        let refused = SaveLock::take(&target).unwrap_err();
        let holder = format!("process {}", std::process::id());
        assert_eq!(refused, Error::SaveBusy { path: target.clone(), holder });
        assert_eq!(refused.kind(), hemiola_core::ErrorKind::Usage);
        let other = SaveLock::take(&lab.path().join("other")).unwrap();
        drop((lock, other));
        assert_eq!(fs::read_dir(lab.path()).unwrap().count(), 0);
        drop(SaveLock::take(&target).unwrap());
    }

    #[test]
    fn a_file_that_a_killed_process_has_left_locks_nobody_out() {
        let lab = tempfile::tempdir().unwrap();
        fs::write(lab.path().join(".model.lock"), "process 123456789").unwrap();
        let _lock = SaveLock::take(&lab.path().join("model")).unwrap();
        let now = fs::read_to_string(lab.path().join(".model.lock")).unwrap();
        assert_eq!(now, format!("process {}", std::process::id()));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_and_its_target_have_one_lock() {
        let lab = tempfile::tempdir().unwrap();
        fs::create_dir(lab.path().join("model")).unwrap();
        std::os::unix::fs::symlink("model", lab.path().join("link")).unwrap();
        let _lock = SaveLock::take(&lab.path().join("link")).unwrap();
        assert!(matches!(SaveLock::take(&lab.path().join("model")), Err(Error::SaveBusy { .. })));
    }
}
