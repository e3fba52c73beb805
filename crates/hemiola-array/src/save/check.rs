//! Check in advance that a save can be written, so that hours of work are not lost for want of disk
//! space or permissions.
//!
//! Conditions can change before the save begins, so a save checks again. A check leaves nothing
//! behind.

use super::generation::Generations;
use super::part_writer::{PartWriter, check_replaceable, hidden_sibling, resolve_link};
use crate::files::{OsFileSystem, SharedFileSystem, parent};
use crate::{Error, Result};
use std::io;
use std::path::Path;

impl PartWriter {
    /// Returns true if a save may be written to `target`: nothing, a save, or an empty folder is
    /// there. What a save that was not finished has left does not count.
    #[must_use]
    pub fn accepts(target: &Path) -> bool {
        Self::accepts_on(&OsFileSystem::shared(), target)
    }

    /// Returns true if a save may be written to `target` on a file system; see
    /// [`accepts`](Self::accepts).
    #[must_use]
    pub fn accepts_on(files: &SharedFileSystem, target: &Path) -> bool {
        // Other errors are reported by the save itself.
        let refused = |error: &Error| matches!(error, Error::BadSave { .. });
        !resolve_link(files, target)
            .and_then(|target| check_replaceable(files, &target))
            .is_err_and(|error| refused(&error))
    }

    /// Returns an error if a save of about `bytes` could not be written to `target` now: other data
    /// are there; the folder is missing or not writable; or the disk lacks space for it beside the
    /// newest save.
    pub fn check(target: &Path, bytes: u64) -> Result<()> {
        let files = &OsFileSystem::shared();
        let target = &resolve_link(files, target)?;
        check_replaceable(files, target)?;
        let exists = files.entry_kind(target).is_ok();
        let folder = if exists { target } else { parent(target) };
        let attempt = if exists { target.join(".save.check") } else { hidden_sibling(target, ".check")? };
        check_writable(files, folder, &attempt)?;
        // A save removes the previous generation if there is no room for a third one.
        let generations = exists.then(|| Generations::scan(files, target)).transpose()?;
        let previous = generations.and_then(|generations| generations.previous());
        let removable = previous.map_or(0, |(_, manifest)| manifest.part_bytes());
        match files.free_bytes(folder) {
            Some(free) if free.saturating_add(removable) < bytes => {
                Err(Error::DiskFull { path: target.to_owned(), needed: bytes, free })
            }
            _ => Ok(()),
        }
    }
}

/// Creates and removes a folder, of another name than a save uses, because one may be in progress.
fn check_writable(files: &SharedFileSystem, folder: &Path, attempt: &Path) -> Result<()> {
    let failed = |error: io::Error| Error::io("write to", folder, &error);
    match files.create_dir(attempt) {
        // Another process runs the check at this moment, and removes the folder.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made.map_err(failed)?,
    }
    match files.remove_dir(attempt) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_check_reports_the_errors_of_a_save_and_leaves_nothing() {
        let lab = tempfile::tempdir().unwrap();
        let names = || fs::read_dir(lab.path()).unwrap().count();
        assert_eq!(PartWriter::check(&lab.path().join("model"), 1 << 10), Ok(()));
        assert_eq!(names(), 0);
        let missing = PartWriter::check(&lab.path().join("no/model"), 0).unwrap_err().to_string();
        assert!(missing.contains("cannot write to") && missing.contains("no such"), "{missing}");
        // Nothing can be created in `/proc`, not even by root.
        #[cfg(target_os = "linux")]
        assert!(
            PartWriter::check(Path::new("/proc/model"), 0).unwrap_err().to_string().contains("cannot write to `/proc`")
        );
        fs::create_dir_all(lab.path().join("taken/by")).unwrap();
        let taken = PartWriter::check(&lab.path().join("taken"), 0).unwrap_err().to_string();
        assert!(taken.contains("it contains other data"), "{taken}");
        let huge = PartWriter::check(&lab.path().join("model"), u64::MAX).unwrap_err();
        assert!(matches!(huge, Error::DiskFull { needed: u64::MAX, .. }), "{huge}");
        assert_eq!(huge.kind(), hemiola_core::ErrorKind::External);
        assert!(PartWriter::accepts(&lab.path().join("model")) && !PartWriter::accepts(&lab.path().join("taken")));
        assert!(PartWriter::accepts(&lab.path().join("taken/by")), "an empty folder");
        assert_eq!(names(), 1);
    }
}
