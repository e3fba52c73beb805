//! File operations of saving and loading, and files that appear whole or not at all.
//!
//! Saves, locks and reports use the few operations of [`FileSystem`] and nothing else.
//! [`OsFileSystem`] passes them to the operating system. [`testing::SimFileSystem`] keeps files in
//! memory, injects faults and models what survives a crash, so that tests run the code that users
//! run.
//!
//! **Invariant:** a file is created under a name that did not exist, never through a link, and
//! never written again after it was published.
//!
//! | file | concept |
//! |---|---|
//! | [`os`] | the operating system's files |
//! | [`atomic_file`] | one file that appears whole or not at all |
//! | `parquet_table` | result tables as Parquet, with the feature `arrow` |
//! | [`testing`] | files in memory, with faults and crashes |

pub mod atomic_file;
pub mod os;
#[cfg(feature = "arrow")]
pub mod parquet_table;
pub mod testing;

pub use atomic_file::AtomicFile;
pub use os::OsFileSystem;

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// File system that a save lies on, shared by all who use it.
pub type SharedFileSystem = Arc<dyn FileSystem>;

/// Operations on files and folders.
///
/// Calls may come from any thread. An operation that fails may have taken effect in part: the
/// caller must not assume that a file is absent or a rename undone.
pub trait FileSystem: fmt::Debug + Send + Sync {
    /// Creates a file for writing. Fails if anything has this name, a dangling link included.
    fn create(&self, path: &Path) -> io::Result<Box<dyn FileWriter>>;

    /// Creates a file as [`create`](Self::create) does, and marks it as in use until the writer is
    /// dropped, where the system can; see [`remove_abandoned`](Self::remove_abandoned).
    fn create_claimed(&self, path: &Path) -> io::Result<Box<dyn FileWriter>>;

    /// Removes a file that was created [claimed](Self::create_claimed) by a process that has ended.
    /// A file that may still be in use is left alone. Returns true if the file was removed.
    fn remove_abandoned(&self, path: &Path) -> io::Result<bool>;

    /// Opens a file for reading.
    fn open(&self, path: &Path) -> io::Result<FileReader>;

    /// Renames a file or a folder within its parent folder; replaces a file at `to` atomically.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file, or a link and not its target.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Creates a folder. Fails if anything has this name.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty folder.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// Returns the names in a folder, sorted.
    fn list(&self, path: &Path) -> io::Result<Vec<OsString>>;

    /// Returns the kind of an entry, without following links.
    fn entry_kind(&self, path: &Path) -> io::Result<EntryKind>;

    /// Makes the creation, renaming and removal of entries of a folder durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Returns the path without links.
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf>;

    /// Returns the space that this user can fill, where the system reports it.
    fn free_bytes(&self, path: &Path) -> Option<u64>;

    /// Reads a whole file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(path)?.data.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Creates a folder with its missing parents, all durable. An existing folder is left alone.
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        match self.create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let Some(parent) = path.parent() else { return Err(error) };
                self.create_dir_all(parent)?;
                self.create_dir(path)?;
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let target =
                    if self.entry_kind(path)? == EntryKind::Link { self.canonicalize(path)? } else { path.into() };
                return if self.entry_kind(&target)? == EntryKind::Folder { Ok(()) } else { Err(error) };
            }
            created => created?,
        }
        self.sync_dir(parent(path))
    }
}

/// File that is being written.
pub trait FileWriter: Write + Send {
    /// Makes the written bytes durable. After a failure they may be lost, even if a later call
    /// succeeds.
    fn sync(&mut self) -> io::Result<()>;
}

/// File that is being read.
pub struct FileReader {
    /// Length of the file in bytes, when it was opened.
    pub length: u64,
    /// Content of the file.
    pub data: Box<dyn Read + Send>,
}

impl fmt::Debug for FileReader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FileReader").field("length", &self.length).finish_non_exhaustive()
    }
}

/// Kind of an entry of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryKind {
    /// Regular file.
    File,
    /// Folder.
    Folder,
    /// Symbolic link.
    Link,
    /// Pipe, socket or device.
    Special,
}

/// Folder of a path; `.` for a bare name.
#[must_use]
pub fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
