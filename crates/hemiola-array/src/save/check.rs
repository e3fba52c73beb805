//! Check in advance that a save can be written, so that hours of work are not lost for want of disk
//! space or permissions.
//!
//! Conditions can change before the save begins, so a save checks again. A check leaves nothing
//! behind.

use super::part_writer::{PartWriter, check_replaceable, foreign_files, hidden_sibling, parent, resolve_link};
use crate::{Error, Result};
use std::path::Path;
use std::{fs, io};

impl PartWriter {
    /// Returns an error if a save of about `bytes` could not be written to `target` now: another
    /// file is there, or beside an older save in its folder; the parent folder is missing or not
    /// writable; or the disk lacks space for it beside the older save.
    pub fn check(target: &Path, bytes: u64) -> Result<()> {
        let target = &resolve_link(target)?;
        check_replaceable(target)?;
        if target.is_dir()
            && let Some(file) = foreign_files(target).first()
        {
            let file = file.to_string_lossy().into_owned();
            return Err(Error::ForeignFile { path: target.clone(), file });
        }
        // The first steps of a save, in a folder of another name because a save may be in progress.
        let (folder, attempt) = (parent(target), hidden_sibling(target, ".check")?);
        let failed = |error: io::Error| Error::io("write to", folder, &error);
        match fs::create_dir(&attempt) {
            // Another process runs the check at this moment, and removes the folder.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(failed)?,
        }
        match fs::remove_dir(&attempt) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed.map_err(failed)?,
        }
        match free_bytes(folder) {
            Some(free) if free < bytes => Err(Error::DiskFull { path: target.to_owned(), needed: bytes, free }),
            _ => Ok(()),
        }
    }
}

/// Free space for this user on the file system of `folder`, if the system reports it.
fn free_bytes(folder: &Path) -> Option<u64> {
    #[cfg(unix)]
    {
        let room = rustix::fs::statvfs(folder).ok()?;
        Some(room.f_bavail.saturating_mul(room.f_frsize))
    }
    #[cfg(not(unix))]
    {
        let _ = folder;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        fs::create_dir(lab.path().join("taken")).unwrap();
        let taken = PartWriter::check(&lab.path().join("taken"), 0).unwrap_err().to_string();
        assert!(taken.contains("it contains other data"), "{taken}");
        let huge = PartWriter::check(&lab.path().join("model"), u64::MAX).unwrap_err();
        assert!(matches!(huge, Error::DiskFull { needed: u64::MAX, .. }), "{huge}");
        assert_eq!(huge.kind(), hemiola_core::ErrorKind::External);
        assert_eq!(names(), 1);
    }
}
