//! Generations of a save: numbered folders beside the manifest that names the newest one.
//!
//! ```text
//! model/
//!   manifest.json                          of generation 8: names its files as `generation-8/FILE`
//!   generation-7/manifest.json, parts      the save before; a whole save by itself
//!   generation-8/manifest.json, parts
//! ```
//!
//! A save writes a folder with the next number, makes it durable, and then replaces `manifest.json`
//! by one rename of a file, which is atomic on every file system. That rename is the only moment
//! that counts. A crash before it leaves the old manifest and a folder that no manifest names; a
//! crash after it leaves the new manifest and perhaps folders that are too old. Both are removed by
//! the next save, so nothing has to be repaired when a save is opened, and a folder that cannot be
//! written can still be read. Exchanging two folders would be one step as well, but network file
//! systems lack it, and two renames of folders leave a moment without a save.
//!
//! The newest generation and the one before are kept. A reader that opened the manifest just before
//! it was replaced finds all of its files. If the newest generation is damaged, the one before can
//! be read.
//!
//! **Invariant:** a folder that the manifest names was durable before, and nothing in it changes
//! until the second save after it. Only files whose names a save uses are ever removed, so files of
//! others stay where they are.

use super::manifest::{self, Manifest};
use crate::files::atomic_file::is_temporary_name;
use crate::files::{EntryKind, SharedFileSystem};
use crate::{Error, Result};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

/// Generations found in the folder of a save.
#[derive(Debug)]
pub(super) struct Generations {
    files: SharedFileSystem,
    root: PathBuf,
    /// Folders of generations, in ascending order.
    folders: Vec<u64>,
    /// Greatest number in use, also by entries that are no folders.
    highest: u64,
    manifest: ManifestState,
}

/// State of the manifest of a save.
#[derive(Debug)]
enum ManifestState {
    /// None, or one that is damaged: every generation with a manifest of its own may be the newest.
    Unreadable,
    /// Without a generation, the files lie beside the manifest, as older versions wrote them.
    Valid { generation: Option<u64>, manifest: Manifest },
}

/// Name of the folder of a generation.
pub(super) fn folder_name(generation: u64) -> String {
    format!("generation-{generation}")
}

/// Number of the generation in a folder of this name.
fn number(name: &OsStr) -> Option<u64> {
    let number = name.to_str()?.strip_prefix("generation-")?.parse().ok()?;
    (*name == *folder_name(number)).then_some(number)
}

/// Returns true if an entry of the folder of a save may be left by a save that was not finished.
pub(super) fn is_leftover(entry: &OsStr) -> bool {
    number(entry).is_some() || is_temporary_name(entry, manifest::FILE.as_ref())
}

/// Returns true if a save writes files of this name.
fn is_own_file(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let part = name.strip_suffix(".safetensors").and_then(|name| name.rsplit_once('.'));
    let is_part = part.is_some_and(|(_, part)| digits(part.strip_prefix("names").unwrap_or(part)));
    is_part || name == manifest::FILE || is_temporary_name(name.as_ref(), manifest::FILE.as_ref())
}

/// Reads the manifest in a folder, with the number of the generation that it names.
pub(super) fn read_manifest(files: &SharedFileSystem, folder: &Path) -> Result<(Manifest, Option<u64>)> {
    let path = folder.join(manifest::FILE);
    let json = files.read(&path).map_err(|error| Error::io("open", &path, &error))?;
    Manifest::from_json(&path, &json)
}

impl Generations {
    /// Lists the generations in the folder of a save.
    pub(super) fn scan(files: &SharedFileSystem, root: &Path) -> Result<Self> {
        let entries = files.list(root).map_err(|error| Error::io("list", root, &error))?;
        let (mut folders, mut highest) = (Vec::new(), 0);
        for name in &entries {
            let Some(number) = number(name) else { continue };
            highest = highest.max(number);
            if matches!(files.entry_kind(&root.join(name)), Ok(EntryKind::Folder)) {
                folders.push(number);
            }
        }
        folders.sort_unstable();
        let manifest = match read_manifest(files, root) {
            Ok((manifest, generation)) => ManifestState::Valid { generation, manifest },
            Err(Error::BadSave { .. }) => ManifestState::Unreadable,
            Err(_) if !entries.iter().any(|name| name == manifest::FILE) => ManifestState::Unreadable,
            Err(error) => return Err(error),
        };
        if let ManifestState::Valid { generation: Some(generation), .. } = manifest {
            highest = highest.max(generation);
        }
        Ok(Self { files: files.clone(), root: root.to_owned(), folders, highest, manifest })
    }

    /// Number of the next generation.
    pub(super) fn next(&self) -> Result<u64> {
        let problem = || Error::BadSave {
            path: self.root.clone(),
            problem: "it has a folder with the largest generation number; remove that folder".to_owned(),
        };
        self.highest.checked_add(1).ok_or_else(problem)
    }

    pub(super) fn folder(&self, generation: u64) -> PathBuf {
        self.root.join(folder_name(generation))
    }

    /// Generations below `bound` whose own manifests are whole, newest first.
    pub(super) fn whole_before(&self, bound: u64) -> impl Iterator<Item = (u64, Manifest)> + '_ {
        let older = self.folders.iter().rev().filter(move |number| **number < bound);
        older.filter_map(|number| Some((*number, read_manifest(&self.files, &self.folder(*number)).ok()?.0)))
    }

    /// The generation before the one that the manifest names, with its manifest.
    pub(super) fn previous(&self) -> Option<(u64, Manifest)> {
        match &self.manifest {
            ManifestState::Valid { generation: Some(newest), .. } => self.whole_before(*newest).next(),
            _ => None,
        }
    }

    /// Bytes that a save of the size of the newest one needs; 0 if that is unknown.
    pub(super) fn newest_bytes(&self) -> u64 {
        match &self.manifest {
            // The manifest is written for the generation and for the save.
            ManifestState::Valid { manifest, .. } => {
                manifest.part_bytes().saturating_add(2 * manifest.to_json(None).len() as u64)
            }
            ManifestState::Unreadable => 0,
        }
    }

    /// Files beside the manifest, where an older version wrote them.
    pub(super) fn flat_files(&self) -> Vec<PathBuf> {
        match &self.manifest {
            ManifestState::Valid { generation: None, manifest } => {
                manifest.part_records().map(|(_, part)| self.root.join(&part.file)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Removes the folders of saves that were not finished, and generations before the previous
    /// one. What cannot be removed is left for the next save.
    pub(super) fn remove_garbage(&self) {
        let newest = match self.manifest {
            ManifestState::Valid { generation, .. } => generation,
            ManifestState::Unreadable => {
                // Any whole generation may be the only good one.
                for number in &self.folders {
                    let folder = self.folder(*number);
                    let lacks_manifest = |error: io::Error| error.kind() == io::ErrorKind::NotFound;
                    if self.files.entry_kind(&folder.join(manifest::FILE)).is_err_and(lacks_manifest) {
                        remove(&self.files, &folder);
                    }
                }
                return;
            }
        };
        let previous = self.previous().map(|(number, _)| number);
        for number in self.folders.iter().filter(|number| ![newest, previous].contains(&Some(**number))) {
            remove(&self.files, &self.folder(*number));
        }
    }
}

/// Removes the files of a save in `folder`, and the folder if nothing else is in it. What cannot be
/// removed is left for the next save.
pub(super) fn remove(files: &SharedFileSystem, folder: &Path) {
    for name in files.list(folder).unwrap_or_default() {
        if is_own_file(&name) {
            let _ = files.remove_file(&folder.join(name));
        }
    }
    let _ = files.remove_dir(folder);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_save_are_recognized_and_names_of_others_are_not() {
        for own in ["w.00000.safetensors", "resume.w.12345678.safetensors", "r.names0.safetensors", "manifest.json"] {
            assert!(is_own_file(own.as_ref()), "{own}");
        }
        for foreign in ["thesis.txt", "w.safetensors", "my.safetensors", "w.x1.safetensors", "names0.safetensors.bak"] {
            assert!(!is_own_file(foreign.as_ref()), "{foreign}");
        }
        assert_eq!(number("generation-12".as_ref()), Some(12));
        for foreign in ["generation-", "generation-01", "generation--1", "generation-1a", "generations"] {
            assert_eq!(number(foreign.as_ref()), None, "{foreign}");
        }
    }
}
