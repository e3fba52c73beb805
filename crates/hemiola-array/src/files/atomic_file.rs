//! File that appears whole or not at all: written beside its target under a fresh name, synced,
//! renamed.
//!
//! The temporary name is `.NAME.PID-N.partial`. It is created exclusively, so a link or file that
//! somebody has put there is never followed or overwritten; the next number is taken instead. The
//! file is claimed while it is written. What a killed process has left is removed by the next
//! [`AtomicFile`] for the same target, and what another process is writing is not.
//!
//! **Invariant:** the target holds its old content or the new content whole, and after
//! [`publish`](AtomicFile::publish) the new one, also after a power failure.

use super::{EntryKind, FileWriter, OsFileSystem, SharedFileSystem, parent};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Number of temporary names that are tried.
const ATTEMPTS: u32 = 1000;

/// File in progress. Dropping it without publishing removes it.
#[must_use = "nothing appears before `publish`"]
pub struct AtomicFile {
    files: SharedFileSystem,
    target: PathBuf,
    partial: PathBuf,
    writer: Box<dyn FileWriter>,
    published: bool,
}

impl AtomicFile {
    /// Creates the temporary file of `target`, on the operating system's file system.
    ///
    /// ```
    /// use hemiola_array::files::AtomicFile;
    /// use std::io::Write as _;
    /// # let folder = tempfile::tempdir().unwrap();
    /// let path = folder.path().join("report.json");
    /// let mut file = AtomicFile::create(&path)?;
    /// file.write_all(b"{}")?;
    /// assert!(!path.exists());
    /// file.publish()?;
    /// assert_eq!(std::fs::read(&path)?, b"{}");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn create(target: &Path) -> io::Result<Self> {
        Self::create_on(&OsFileSystem::shared(), target)
    }

    /// Creates the temporary file of `target` on a file system.
    pub fn create_on(files: &SharedFileSystem, target: &Path) -> io::Result<Self> {
        let Some(name) = target.file_name() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path has no file name"));
        };
        let folder = parent(target);
        remove_abandoned(files, folder, name);
        for attempt in 0..ATTEMPTS {
            let partial = folder.join(temporary_name(name, attempt));
            match files.create_claimed(&partial) {
                Ok(writer) => {
                    return Ok(Self {
                        files: files.clone(),
                        target: target.to_owned(),
                        partial,
                        writer,
                        published: false,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "all temporary names of the file are taken; remove them"))
    }

    /// Writes `bytes` to `target` in one call.
    pub fn write_on(files: &SharedFileSystem, target: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = Self::create_on(files, target)?;
        file.write_all(bytes)?;
        file.publish()
    }

    /// Target of the file.
    #[must_use]
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Makes the bytes durable, under the temporary name.
    pub fn sync(&mut self) -> io::Result<()> {
        self.writer.flush()?;
        self.writer.sync()
    }

    /// Makes the bytes durable and the file visible under its name; an existing file is replaced.
    pub fn publish(mut self) -> io::Result<()> {
        self.sync()?;
        self.files.rename(&self.partial, &self.target)?;
        self.published = true;
        self.files.sync_dir(parent(&self.target))
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if !self.published {
            // A failed removal cannot be reported from `drop`; the next file tries again.
            let _ = self.files.remove_file(&self.partial);
        }
    }
}

impl fmt::Debug for AtomicFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AtomicFile").field("target", &self.target).finish_non_exhaustive()
    }
}

fn temporary_name(name: &OsStr, attempt: u32) -> OsString {
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}-{attempt}.partial", std::process::id()));
    hidden
}

/// Returns true if `entry` is a temporary name of the file `name`.
pub(crate) fn is_temporary_name(entry: &OsStr, name: &OsStr) -> bool {
    let digits = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let middle = entry
        .as_encoded_bytes()
        .strip_prefix(b".")
        .and_then(|rest| rest.strip_prefix(name.as_encoded_bytes())?.strip_prefix(b".")?.strip_suffix(b".partial"));
    middle.is_some_and(|middle| {
        let mut parts = middle.splitn(2, |byte| *byte == b'-');
        parts.next().is_some_and(digits) && parts.next().is_some_and(digits)
    })
}

/// Removes the temporary files of `name` whose writers have ended.
fn remove_abandoned(files: &SharedFileSystem, folder: &Path, name: &OsStr) {
    // A folder that cannot be listed is reported by the creation of the file.
    for entry in files.list(folder).unwrap_or_default() {
        let path = folder.join(&entry);
        if is_temporary_name(&entry, name) && matches!(files.entry_kind(&path), Ok(EntryKind::File)) {
            // It may be in use, or of another user: a file that remains is harmless.
            let _ = files.remove_abandoned(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::FileSystem as _;
    use std::fs;

    fn names(folder: &Path) -> Vec<String> {
        let names = OsFileSystem.list(folder).unwrap();
        names.into_iter().map(|name| name.into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_appears_when_it_is_published_and_a_dropped_one_leaves_nothing() {
        let lab = tempfile::tempdir().unwrap();
        let target = lab.path().join("r.json");
        fs::write(&target, "old").unwrap();
        let mut dropped = AtomicFile::create(&target).unwrap();
        dropped.write_all(b"half").unwrap();
        let mut whole = AtomicFile::create(&target).unwrap();
        whole.write_all(b"new").unwrap();
        assert_eq!((names(lab.path()).len(), fs::read_to_string(&target).unwrap()), (3, "old".to_owned()));
        drop(dropped);
        whole.publish().unwrap();
        assert_eq!(
            (names(lab.path()), fs::read_to_string(&target).unwrap()),
            (vec!["r.json".to_owned()], "new".to_owned())
        );
    }

    #[test]
    fn leftovers_of_ended_processes_are_removed_and_files_of_others_are_not() {
        let lab = tempfile::tempdir().unwrap();
        let target = lab.path().join("r.json");
        let foreign = [".r.json.mine.partial", ".r.json.1-2", ".other.json.1-2.partial", "r.json.1-2.partial"];
        for name in foreign.into_iter().chain([".r.json.4711-3.partial"]) {
            fs::write(lab.path().join(name), "x").unwrap();
        }
        let in_use = AtomicFile::create(&target).unwrap();
        AtomicFile::create(&target).unwrap().publish().unwrap();
        in_use.publish().unwrap();
        let mut expected: Vec<_> = foreign.into_iter().chain(["r.json"]).map(str::to_owned).collect();
        expected.sort();
        assert_eq!(names(lab.path()), expected);
    }

    #[cfg(unix)]
    #[test]
    fn links_at_temporary_names_are_neither_followed_nor_removed() {
        let lab = tempfile::tempdir().unwrap();
        let (target, victim) = (lab.path().join("r.json"), lab.path().join("victim"));
        fs::write(&victim, "precious").unwrap();
        let link = lab.path().join(temporary_name("r.json".as_ref(), 0));
        std::os::unix::fs::symlink("victim", &link).unwrap();
        let mut file = AtomicFile::create(&target).unwrap();
        file.write_all(b"report").unwrap();
        file.publish().unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(fs::read_to_string(&target).unwrap(), "report");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}
