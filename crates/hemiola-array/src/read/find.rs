//! Discovery of input files: paths, folders, patterns, URLs, archives and streams.
//!
//! A path may name a file, a directory (its files without subdirectories, hidden files and
//! `_SUCCESS`-like markers) or a glob pattern; so may the URL of an object store. A zip archive
//! stands for the only data file in it, and `archive.zip/member` for one of several. `-` is standard
//! input. **Invariant:** the list is sorted by path, so every peer that sees the same files numbers
//! them alike.

use super::archive::{self, DirectoryEntry};
use super::input::{FileCompression, InputFile, StoredPlace};
#[cfg(feature = "object-store")]
use super::object::{ObjectInfo, ObjectStoreClient};
use super::stream;
use super::url::{self, InputLocation, ObjectUrl};
use crate::{Error, Result};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Maximum depth of folders that are searched for documents.
const MAX_DEPTH: usize = 32;

impl InputFile {
    /// Opens the file at a path, or the object at a URL.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        match path.to_str().map(url::parse).transpose()? {
            Some(InputLocation::Object(url)) => Self::open_object(url),
            Some(InputLocation::Local(local)) => Self::open_one(Path::new(&*local)),
            None => Self::open_one(path),
        }
    }

    /// Opens a path that stands for one file.
    fn open_one(path: &Path) -> Result<Self> {
        let mut found = Self::open_local(path)?;
        match (found.pop(), found.is_empty()) {
            (Some(only), true) => Ok(only),
            _ => Err(Error::BadFile { file: path.to_owned(), problem: "several files match; name one".to_owned() }),
        }
    }

    /// Opens a file, a stream, an archive, or members of an archive.
    fn open_local(path: &Path) -> Result<Vec<Self>> {
        if path.to_str().is_some_and(stream::is_standard_input) {
            return Self::open_copy(Path::new(stream::STANDARD_INPUT_NAME), stream::standard_input()?);
        }
        if stream::is_pipe(path) {
            return Self::open_copy(path, stream::pipe(path)?);
        }
        match Self::split_archive_path(path) {
            Some((archive, member)) => Self::open_members(archive, Some(&member)),
            None => Self::open_file(path),
        }
    }

    /// Opens a regular file. An archive stands for its only data file.
    fn open_file(path: &Path) -> Result<Vec<Self>> {
        // Checked before opening: opening some devices has effects.
        let metadata = fs::metadata(path).map_err(|error| Error::io("open", path, &error))?;
        if !metadata.is_file() {
            let problem = "expected a regular file or a pipe";
            return Err(Error::BadFile { file: path.to_owned(), problem: problem.to_owned() });
        }
        let file = Self::at(path.to_owned(), metadata.len()).detect_compression()?;
        if file.compression == FileCompression::Zip { Self::open_members(path, None) } else { Ok(vec![file]) }
    }

    /// Opens the copy of a stream, which may be an archive.
    fn open_copy(name: &Path, copy: PathBuf) -> Result<Vec<Self>> {
        let bytes = fs::metadata(&copy).map_err(|error| Error::io("read", name, &error))?.len();
        let place = Some(StoredPlace { file: copy, member: None });
        let file = Self { place, ..Self::at(name.to_owned(), bytes) }.detect_compression()?;
        if file.compression == FileCompression::Zip {
            let problem = "a zip archive cannot be read from a stream; give its path";
            return Err(Error::BadFile { file: name.to_owned(), problem: problem.to_owned() });
        }
        Ok(vec![file])
    }

    /// Splits `archive.zip/folder/member` into the archive, which exists, and the rest.
    fn split_archive_path(path: &Path) -> Option<(&Path, String)> {
        if path.exists() {
            return None;
        }
        let archive = path.ancestors().skip(1).find(|ancestor| ancestor.is_file())?;
        Some((archive, path.strip_prefix(archive).ok()?.to_str()?.to_owned()))
    }

    /// Opens the members of an archive that a name or pattern matches, or its only data file.
    fn open_members(path: &Path, wanted: Option<&str>) -> Result<Vec<Self>> {
        let bytes = fs::metadata(path).map_err(|error| Error::io("open", path, &error))?.len();
        let archive = Self::at(path.to_owned(), bytes).detect_compression()?;
        if archive.compression != FileCompression::Zip {
            let problem =
                format!("it is a file and no zip archive, so there is no `{}` in it", wanted.unwrap_or_default());
            return Err(Error::BadFile { file: path.to_owned(), problem });
        }
        let entries = archive::directory(&archive)?;
        let pattern = wanted.map(glob::Pattern::new).and_then(Result::ok);
        let in_folder = glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::new() };
        let chosen = |entry: &&DirectoryEntry| match wanted {
            None => entry.is_data(),
            Some(name) if entry.name == name => true,
            Some(_) => {
                entry.is_data() && pattern.as_ref().is_some_and(|pattern| pattern.matches_with(&entry.name, in_folder))
            }
        };
        let mut found: Vec<&DirectoryEntry> = entries.iter().filter(chosen).collect();
        found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        match (wanted, &found[..]) {
            (Some(name), []) => return Err(archive::missing_member(&archive, name, &entries)),
            (Some(_), _) | (None, [_]) => {}
            (None, _) => return Err(archive::choose_member(&archive, &entries)),
        }
        let open = |entry: &DirectoryEntry| {
            let member = entry.member(&archive)?;
            let place = Some(StoredPlace { file: path.to_owned(), member: Some(member) });
            let compression = FileCompression::Zip;
            Ok(Self { compression, place, ..Self::at(path.join(&entry.name), member.stored) })
        };
        found.into_iter().map(open).collect()
    }

    /// Finds the files of a path, a directory or a glob pattern, or the objects of a URL, sorted.
    /// Never returns an empty list.
    pub fn find(pattern: &str) -> Result<Vec<Self>> {
        let local = match url::parse(pattern)? {
            InputLocation::Object(url) => return Self::find_objects(url),
            InputLocation::Local(local) => local,
        };
        let path = Path::new(&*local);
        if path.is_dir() {
            return Self::list(path, pattern);
        }
        // A file whose name contains a bracket is a file first and a pattern second.
        let is_pattern = local.contains(['*', '?', '[']) && Self::split_archive_path(path).is_none();
        if path.exists() || !is_pattern {
            return Self::open_local(path);
        }
        let matches = glob::glob(&local).map_err(|error| Error::BadPattern {
            pattern: pattern.to_owned(),
            problem: error.msg.to_owned(),
            position: error.pos,
        })?;
        let mut paths = Vec::new();
        for found in matches {
            paths.push(found.map_err(|error| Error::io("list", error.path(), error.error()))?);
        }
        Self::open_all(paths, pattern)
    }

    fn list(folder: &Path, pattern: &str) -> Result<Vec<Self>> {
        let failed = |error: io::Error| Error::io("list", folder, &error);
        let mut paths = Vec::new();
        for entry in fs::read_dir(folder).map_err(failed)? {
            paths.push(entry.map_err(failed)?.path());
        }
        Self::open_all(paths, pattern)
    }

    fn open_all(mut paths: Vec<PathBuf>, pattern: &str) -> Result<Vec<Self>> {
        paths.sort_unstable();
        let sources = paths.iter().filter(|path| path.is_file() && is_visible(path)).map(|path| Self::open_file(path));
        non_empty(sources.collect::<Result<Vec<Vec<_>>>>()?.concat(), pattern)
    }

    /// Finds all files of a folder and its subfolders, sorted by path. Links to folders are not
    /// followed.
    pub fn find_below(folder: &Path) -> Result<Vec<Self>> {
        let (mut paths, mut folders) = (Vec::new(), vec![(folder.to_owned(), 0)]);
        while let Some((folder, depth)) = folders.pop() {
            let failed = |error: io::Error| Error::io("list", &folder, &error);
            for entry in fs::read_dir(&folder).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let is_folder = entry.file_type().map_err(failed)?.is_dir();
                match is_folder {
                    true if is_visible(&entry.path()) && depth < MAX_DEPTH => folders.push((entry.path(), depth + 1)),
                    true => {}
                    false => paths.push(entry.path()),
                }
            }
        }
        Self::open_all(paths, &folder.display().to_string())
    }

    #[cfg(feature = "object-store")]
    fn open_object(url: ObjectUrl<'_>) -> Result<Self> {
        let missing = || Error::Io {
            action: "open".to_owned(),
            path: url.text.into(),
            message: "no such object; check the URL".to_owned(),
            may_retry: false,
        };
        Self::object(ObjectStoreClient::open(url)?.head(url)?.ok_or_else(missing)?)
    }

    #[cfg(feature = "object-store")]
    fn find_objects(url: ObjectUrl<'_>) -> Result<Vec<Self>> {
        let store = ObjectStoreClient::open(url)?;
        let one = if url.key.is_empty() || url.key.ends_with('/') { None } else { store.head(url)? };
        let mut found = match one {
            Some(one) => return Ok(vec![Self::object(one)?]),
            None if url.key.contains(['*', '?', '[']) => store.glob(url)?,
            None => store.list(url)?,
        };
        found.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        let sources = found.into_iter().filter(|found| is_visible(&found.path)).map(Self::object);
        non_empty(sources.collect::<Result<_>>()?, url.text)
    }

    #[cfg(feature = "object-store")]
    fn object(info: ObjectInfo) -> Result<Self> {
        let ObjectInfo { path, bytes, version } = info;
        Self { version: Some(version), ..Self::at(path, bytes) }.detect_compression()
    }

    #[cfg(not(feature = "object-store"))]
    fn open_object(url: ObjectUrl<'_>) -> Result<Self> {
        Err(Error::NeedsFeature { input: url.text.to_owned(), feature: "object-store".to_owned() })
    }

    #[cfg(not(feature = "object-store"))]
    fn find_objects(url: ObjectUrl<'_>) -> Result<Vec<Self>> {
        Self::open_object(url).map(|source| vec![source])
    }
}

fn is_visible(path: &Path) -> bool {
    let name = path.file_name().map(std::ffi::OsStr::as_encoded_bytes).unwrap_or_default();
    !matches!(name.first(), None | Some(b'.' | b'_'))
}

fn non_empty(sources: Vec<InputFile>, pattern: &str) -> Result<Vec<InputFile>> {
    if sources.is_empty() {
        return Err(Error::NoFiles { pattern: pattern.to_owned() });
    }
    Ok(sources)
}
