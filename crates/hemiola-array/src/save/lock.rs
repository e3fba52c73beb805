//! Lock of a save: exclusive right to replace it, from the start of the work on it to the end.
//!
//! Saves to one path share a temporary directory, so two concurrent writers would destroy each
//! other's work. A program that works for long on what it will save acquires the lock first. It is
//! an advisory lock of the system on a file `.NAME.lock` beside the save. It ends with its process
//! in any case; the file names the holder.
//!
//! **Invariant:** only the holder of the lock removes the file, and a lock on a file that was
//! removed meanwhile does not count. The file is never reached through a link, and one that has
//! other names is not written to.

use super::part_writer::{hidden_sibling, resolve_link};
use crate::files::OsFileSystem;
use crate::files::os::without_links;
use crate::{Error, Result};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// Exclusive right to replace a save, until it is dropped.
#[derive(Debug)]
#[must_use = "dropping it releases the lock"]
pub struct SaveLock {
    path: PathBuf,
    /// Locked file; `None` on a file system without locks.
    file: Option<File>,
}

impl SaveLock {
    /// Acquires the lock of the save at `target`, which need not exist yet. If another process has
    /// it, the error names that process.
    pub fn acquire(target: &Path) -> Result<Self> {
        let path = hidden_sibling(&resolve_link(&OsFileSystem::shared(), target)?, ".lock")?;
        let failed = |error: io::Error| Error::io("lock", &path, &error);
        loop {
            let mut options = OpenOptions::new();
            let open = without_links(options.read(true).write(true).create(true).truncate(false)).open(&path);
            let mut file = match open {
                Err(_) if fs::symlink_metadata(&path).is_ok_and(|there| !there.is_file()) => {
                    return Err(occupied(path));
                }
                open => open.map_err(failed)?,
            };
            if !is_own_file(&file).map_err(failed)? {
                return Err(occupied(path));
            }
            match file.try_lock() {
                Ok(()) if is_same_file(&file, &path) => {
                    // Remove what a killed process has left there.
                    file.set_len(0).map_err(failed)?;
                    write!(file, "process {}", std::process::id()).map_err(failed)?;
                    return Ok(Self { path, file: Some(file) });
                }
                // The previous holder removed the file after we had opened it; try again.
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let mut holder = String::new();
                    // The holder may not have written its process id yet.
                    let known = file.read_to_string(&mut holder).is_ok() && !holder.is_empty();
                    let holder = if known { holder } else { "another process".to_owned() };
                    return Err(Error::SaveBusy { path: target.to_owned(), holder });
                }
                Err(TryLockError::Error(error)) if is_lock_unsupported(&error) => return Ok(Self { path, file: None }),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
        }
    }
}

impl Drop for SaveLock {
    fn drop(&mut self) {
        // Remove the file while the lock is held; a file that remains is harmless. Without locks,
        // the file may be that of another process.
        if let Some(file) = self.file.take() {
            let _ = fs::remove_file(&self.path);
            drop(file);
        }
    }
}

fn occupied(path: PathBuf) -> Error {
    let problem = "a link or a file of others is in the place of the lock file; remove it".to_owned();
    Error::BadSave { path, problem }
}

/// Returns true for a regular file without other names, or one that was removed.
fn is_own_file(file: &File) -> io::Result<bool> {
    let metadata = file.metadata()?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        if metadata.nlink() > 1 {
            return Ok(false);
        }
    }
    Ok(metadata.is_file())
}

/// Some network file systems have no locks; saves work there without one.
fn is_lock_unsupported(error: &io::Error) -> bool {
    #[cfg(unix)]
    if error.raw_os_error() == Some(rustix::io::Errno::NOLCK.raw_os_error()) {
        return true;
    }
    error.kind() == io::ErrorKind::Unsupported
}

/// Returns true if the file is still the one at `path`.
fn is_same_file(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let (Ok(ours), Ok(there)) = (file.metadata(), fs::symlink_metadata(path)) else { return false };
        (ours.dev(), ours.ino()) == (there.dev(), there.ino())
    }
    #[cfg(not(unix))]
    {
        // An open file cannot be removed on such systems.
        let _ = (file, path);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_holder_at_a_time_and_no_file_is_left() {
        let lab = tempfile::tempdir().unwrap();
        let target = lab.path().join("model");
        let lock = SaveLock::acquire(&target).unwrap();
        let refused = SaveLock::acquire(&target).unwrap_err();
        let holder = format!("process {}", std::process::id());
        assert_eq!(refused, Error::SaveBusy { path: target.clone(), holder });
        assert_eq!(refused.kind(), hemiola_core::ErrorKind::Usage);
        let other = SaveLock::acquire(&lab.path().join("other")).unwrap();
        drop((lock, other));
        assert_eq!(fs::read_dir(lab.path()).unwrap().count(), 0);
        drop(SaveLock::acquire(&target).unwrap());
    }

    #[test]
    fn the_lock_file_of_a_killed_process_does_not_block() {
        let lab = tempfile::tempdir().unwrap();
        fs::write(lab.path().join(".model.lock"), "process 123456789").unwrap();
        let _lock = SaveLock::acquire(&lab.path().join("model")).unwrap();
        let now = fs::read_to_string(lab.path().join(".model.lock")).unwrap();
        assert_eq!(now, format!("process {}", std::process::id()));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_the_place_of_the_lock_is_refused_and_its_target_unharmed() {
        let lab = tempfile::tempdir().unwrap();
        let (victim, lock) = (lab.path().join("victim"), lab.path().join(".model.lock"));
        fs::write(&victim, "precious").unwrap();
        let refused = || SaveLock::acquire(&lab.path().join("model")).unwrap_err().to_string();
        std::os::unix::fs::symlink("victim", &lock).unwrap();
        assert!(refused().contains("a link or a file of others"), "{}", refused());
        fs::remove_file(&lock).unwrap();
        fs::hard_link(&victim, &lock).unwrap();
        assert!(refused().contains("a link or a file of others"), "{}", refused());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_and_its_target_have_one_lock() {
        let lab = tempfile::tempdir().unwrap();
        fs::create_dir(lab.path().join("model")).unwrap();
        std::os::unix::fs::symlink("model", lab.path().join("link")).unwrap();
        let _lock = SaveLock::acquire(&lab.path().join("link")).unwrap();
        assert!(matches!(SaveLock::acquire(&lab.path().join("model")), Err(Error::SaveBusy { .. })));
    }
}
