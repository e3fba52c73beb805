//! Finding out beforehand whether a save could be made, so that hours of work are not lost for want of a place.
//!
//! What is checked can change before the save begins, so a save checks again; a check only spares surprises. Nothing is left
//! behind.

use super::saving::{Saving, foreign_files, must_be_replaceable, parent, resolved, sibling};
use crate::{Error, Result};
use std::path::Path;
use std::{fs, io};

impl Saving {
    /// An error if a save of about `bytes` could not be made at `target` now: something else is there, or beside an older save in
    /// its folder; the folder it goes to is missing or not writable; or the disk has no room for it beside the older one.
    pub fn check(target: &Path, bytes: u64) -> Result<()> {
        let target = &resolved(target)?;
        must_be_replaceable(target)?;
        if target.is_dir()
            && let Some(file) = foreign_files(target).first()
        {
            let file = file.to_string_lossy().into_owned();
            return Err(Error::ForeignFile { path: target.clone(), file });
        }
        // The same steps as at the beginning of a save, in a folder of another name: a save may be under way.
        let (folder, attempt) = (parent(target), sibling(target, ".check")?);
        let failed = |error: io::Error| Error::io("write to", folder, &error);
        match fs::create_dir(&attempt) {
            // Another process checks at the same moment, and removes it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(failed)?,
        }
        match fs::remove_dir(&attempt) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed.map_err(failed)?,
        }
        match free_bytes(folder) {
            Some(free) if free < bytes => Err(Error::NoRoom { path: target.to_owned(), needed: bytes, free }),
            _ => Ok(()),
        }
    }
}

/// What is left for this user on the file system of `folder`, where the system tells.
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
    fn a_check_finds_what_a_save_would_and_leaves_nothing() {
        let lab = tempfile::tempdir().unwrap();
        let names = || fs::read_dir(lab.path()).unwrap().count();
        assert_eq!(Saving::check(&lab.path().join("model"), 1 << 10), Ok(()));
        assert_eq!(names(), 0);
        let missing = Saving::check(&lab.path().join("no/model"), 0).unwrap_err().to_string();
        assert!(missing.contains("cannot write to") && missing.contains("no such"), "{missing}");
        // Nothing can be made in `/proc`, not even by root.
        #[cfg(target_os = "linux")]
        assert!(
            Saving::check(Path::new("/proc/model"), 0).unwrap_err().to_string().contains("cannot write to `/proc`")
        );
        fs::create_dir(lab.path().join("taken")).unwrap();
        let taken = Saving::check(&lab.path().join("taken"), 0).unwrap_err().to_string();
        assert!(taken.contains("something else is there"), "{taken}");
        let huge = Saving::check(&lab.path().join("model"), u64::MAX).unwrap_err();
        assert!(matches!(huge, Error::NoRoom { needed: u64::MAX, .. }), "{huge}");
        assert_eq!(huge.kind(), hemiola_core::ErrorKind::World);
        assert_eq!(names(), 1);
    }
}
