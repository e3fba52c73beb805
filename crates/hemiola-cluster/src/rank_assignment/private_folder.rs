//! Folder that only its owner can write.
//!
//! In `/tmp` any user may create `hemiola-1000` before user 1000 does, and could then choose the
//! address to which that user's peers connect. So the folder is created with mode 0700. An existing
//! one must be a real folder, owned by this user, and not writable by others.

use super::RankAssignmentError;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Returns the folder of this user for rendezvous files and secrets, below `temporary`.
/// [`ensure`] creates it and checks that it is private.
pub(crate) fn below(temporary: &Path) -> PathBuf {
    temporary.join(format!("hemiola-{}", rustix::process::getuid().as_raw()))
}

/// Creates `path` if it is missing, and checks it.
pub(crate) fn ensure(path: &Path) -> Result<(), RankAssignmentError> {
    let failed = |source| RankAssignmentError::Folder { path: path.to_owned(), source };
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        Ok(()) | Err(_) => {}
    }
    // Symbolic links are not followed: the owner of a link can change its target at any time.
    let found = fs::symlink_metadata(path).map_err(failed)?;
    let fault = if !found.is_dir() {
        "is not a folder"
    } else if found.uid() != rustix::process::getuid().as_raw() {
        "belongs to another user"
    } else if found.mode() & 0o022 != 0 {
        "can be written by other users"
    } else {
        return Ok(());
    };
    Err(RankAssignmentError::UnsafeFolder { path: path.to_owned(), fault })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn a_new_folder_is_private_and_found_again() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("private");
        ensure(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        ensure(&path).unwrap();
    }

    #[test]
    fn links_files_and_open_folders_are_refused() {
        let base = tempfile::tempdir().unwrap();
        let open = base.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        let link = base.path().join("link");
        symlink(base.path(), &link).unwrap();
        let file = base.path().join("file");
        fs::write(&file, "").unwrap();
        for path in [&open, &link, &file] {
            let refused = ensure(path).unwrap_err();
            assert!(matches!(refused, RankAssignmentError::UnsafeFolder { .. }), "{refused}");
        }
        let nowhere = ensure(&base.path().join("no/parent")).unwrap_err();
        assert!(matches!(nowhere, RankAssignmentError::Folder { .. }), "{nowhere}");
    }
}
