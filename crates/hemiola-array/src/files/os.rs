//! Files of the operating system.
//!
//! A claimed file holds an advisory lock while its writer lives. The system releases the lock when
//! the process ends in any way, so a file whose lock can be taken is abandoned. On a file system
//! without locks nothing counts as abandoned.

use super::{EntryKind, FileReader, FileSystem, FileWriter, SharedFileSystem};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// File system of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsFileSystem;

impl OsFileSystem {
    /// Returns the file system as a shared object.
    #[must_use]
    pub fn shared() -> SharedFileSystem {
        Arc::new(Self)
    }
}

struct OsFileWriter(File);

impl Write for OsFileWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl FileWriter for OsFileWriter {
    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_all()
    }
}

/// Options that do not follow a link in the last component of a path.
pub(crate) fn without_links(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.custom_flags(flags.bits().cast_signed());
    }
    options
}

/// Returns false if an open file was removed.
fn is_linked(file: &File) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        file.metadata().is_ok_and(|file| file.nlink() > 0)
    }
    #[cfg(not(unix))]
    {
        let _ = file; // an open file cannot be removed on such systems
        true
    }
}

impl FileSystem for OsFileSystem {
    fn create(&self, path: &Path) -> io::Result<Box<dyn FileWriter>> {
        Ok(Box::new(OsFileWriter(File::create_new(path)?)))
    }

    fn create_claimed(&self, path: &Path) -> io::Result<Box<dyn FileWriter>> {
        let file = File::create_new(path)?;
        match file.try_lock() {
            // Another process took the file for abandoned between the two calls.
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::AlreadyExists.into()),
            Ok(()) if !is_linked(&file) => Err(io::ErrorKind::AlreadyExists.into()),
            // On a file system without locks, no process takes a file for abandoned.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Box::new(OsFileWriter(file))),
        }
    }

    fn remove_abandoned(&self, path: &Path) -> io::Result<bool> {
        let file = without_links(OpenOptions::new().write(true)).open(path)?;
        if !file.metadata()?.is_file() {
            return Ok(false);
        }
        match file.try_lock() {
            Ok(()) => fs::remove_file(path).map(|()| true),
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => Ok(false),
        }
    }

    fn open(&self, path: &Path) -> io::Result<FileReader> {
        let file = File::open(path)?;
        Ok(FileReader { length: file.metadata()?.len(), data: Box::new(file) })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let mut names = fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }

    fn entry_kind(&self, path: &Path) -> io::Result<EntryKind> {
        let kind = fs::symlink_metadata(path)?.file_type();
        Ok(if kind.is_symlink() {
            EntryKind::Link
        } else if kind.is_dir() {
            EntryKind::Folder
        } else if kind.is_file() {
            EntryKind::File
        } else {
            EntryKind::Special
        })
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        #[cfg(unix)]
        File::open(path)?.sync_all()?;
        #[cfg(not(unix))]
        let _ = path;
        Ok(())
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        fs::canonicalize(path)
    }

    fn free_bytes(&self, path: &Path) -> Option<u64> {
        #[cfg(unix)]
        {
            let room = rustix::fs::statvfs(path).ok()?;
            Some(room.f_bavail.saturating_mul(room.f_frsize))
        }
        #[cfg(not(unix))]
        {
            let _ = path;
            None
        }
    }
}
