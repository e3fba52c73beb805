//! Which files are read, how large they are and how they are compressed.
//!
//! A path may name a file, a directory (its files, not those of folders below, without hidden ones and `_SUCCESS`-like
//! marks) or a glob pattern; and so may the URL of an object store. **Invariant:** the list is sorted by path, so every peer that sees the same files numbers them
//! alike. Compression is told by the first bytes, never by the name: `ratings.csv` may well be a gzip file.

#[cfg(feature = "object-store")]
use super::object::{Found, ObjectReader, Store};
use super::url::{self, Location, Url};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Compression {
    /// Not at all: the file can be cut into byte ranges.
    Plain,
    /// RFC 1952, one or more members.
    Gzip,
    /// RFC 8878, one or more frames.
    Zstd,
    /// One or more streams.
    Bzip2,
}

impl Compression {
    /// Tells by the first bytes of a file.
    #[must_use]
    pub fn of(magic: &[u8]) -> Self {
        match magic {
            [0x1f, 0x8b, ..] => Self::Gzip,
            // A frame, or one of the sixteen skippable frames a stream may begin with.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Self::Bzip2,
            _ => Self::Plain,
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Plain => "plain",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Bzip2 => "bzip2",
        })
    }
}

/// One file or object to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    #[serde(with = "crate::path_bytes")]
    path: PathBuf,
    /// The size on disk when reading was planned.
    bytes: u64,
    compression: Compression,
    /// Objects: which version was there when reading was planned.
    version: Option<String>,
}

impl Source {
    /// The file at a path, or the object at a URL.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        match path.to_str().map(url::parse).transpose()? {
            Some(Location::Object(url)) => Self::open_object(url),
            Some(Location::Local(local)) => Self::open_file(Path::new(&*local)),
            None => Self::open_file(path),
        }
    }

    fn open_file(path: &Path) -> Result<Self> {
        // Asked before opening: opening a pipe would wait for its writer.
        let metadata = fs::metadata(path).map_err(|error| Error::io("open", path, &error))?;
        if !metadata.is_file() {
            let problem = "expected a regular file; copy what a pipe or device gives into one, so that it can be read in \
                           ranges";
            return Err(Error::BadFile { file: path.to_owned(), problem: problem.to_owned() });
        }
        let (path, bytes) = (path.to_owned(), metadata.len());
        Self { path, bytes, compression: Compression::Plain, version: None }.look_inside()
    }

    /// Finds out how it is compressed.
    fn look_inside(mut self) -> Result<Self> {
        let mut magic = Vec::with_capacity(4);
        let read = self.raw()?.take(4).read_to_end(&mut magic);
        read.map_err(|error| own(&error).unwrap_or_else(|| Error::io("read", &self.path, &error)))?;
        self.compression = Compression::of(&magic);
        Ok(self)
    }

    /// The files of a path, a directory or a glob pattern, or the objects of a URL, sorted. Never an empty list.
    pub fn find(pattern: &str) -> Result<Vec<Self>> {
        let local = match url::parse(pattern)? {
            Location::Object(url) => return Self::find_objects(url),
            Location::Local(local) => local,
        };
        let path = Path::new(&*local);
        if path.is_dir() {
            return Self::list(path, pattern);
        }
        // A file whose name has a bracket in it is a file first and a pattern second.
        if path.exists() || !local.contains(['*', '?', '[']) {
            return Ok(vec![Self::open_file(path)?]);
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
        must_be_some(sources.collect::<Result<_>>()?, pattern)
    }

    #[cfg(feature = "object-store")]
    fn open_object(url: Url<'_>) -> Result<Self> {
        let missing = || Error::Io {
            action: "open".to_owned(),
            path: url.text.into(),
            message: "no such object; check the URL".to_owned(),
            may_retry: false,
        };
        Self::object(Store::open(url)?.look(url)?.ok_or_else(missing)?)
    }

    #[cfg(feature = "object-store")]
    fn find_objects(url: Url<'_>) -> Result<Vec<Self>> {
        let store = Store::open(url)?;
        let one = if url.key.is_empty() || url.key.ends_with('/') { None } else { store.look(url)? };
        let mut found = match one {
            Some(one) => return Ok(vec![Self::object(one)?]),
            None if url.key.contains(['*', '?', '[']) => store.search(url)?,
            None => store.list(url)?,
        };
        found.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        let sources = found.into_iter().filter(|found| is_visible(&found.path)).map(Self::object);
        must_be_some(sources.collect::<Result<_>>()?, url.text)
    }

    #[cfg(feature = "object-store")]
    fn object(found: Found) -> Result<Self> {
        let Found { path, bytes, version } = found;
        Self { path, bytes, compression: Compression::Plain, version: Some(version) }.look_inside()
    }

    #[cfg(not(feature = "object-store"))]
    fn open_object(url: Url<'_>) -> Result<Self> {
        Err(Error::NeedsFeature { asked: url.text.to_owned(), feature: "object-store".to_owned() })
    }

    #[cfg(not(feature = "object-store"))]
    fn find_objects(url: Url<'_>) -> Result<Vec<Self>> {
        Self::open_object(url).map(|source| vec![source])
    }

    /// Where the file is: a path, or the URL of an object.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its size on disk.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How it is compressed.
    #[must_use]
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Whether it is an object of a store or web server rather than a file.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.version.is_some()
    }

    /// The bytes as they are stored, from the beginning. An error if a file has changed; an object is looked at when it is
    /// read.
    pub(crate) fn raw(&self) -> Result<Raw> {
        if let Some(version) = &self.version {
            return self.raw_object(version);
        }
        let raw = Raw::File(File::open(&self.path).map_err(|error| Error::io("open", &self.path, &error))?);
        self.must_still_have(raw.size_now(&self.path)?)?;
        Ok(raw)
    }

    #[cfg(feature = "object-store")]
    fn raw_object(&self, version: &str) -> Result<Raw> {
        let Some(Location::Object(url)) = self.path.to_str().map(url::parse).transpose()? else {
            unreachable!("objects have URLs");
        };
        let found = Found { path: self.path.clone(), bytes: self.bytes, version: version.to_owned() };
        Ok(Raw::Object(Box::new(ObjectReader::open(url, found)?)))
    }

    #[cfg(not(feature = "object-store"))]
    fn raw_object(&self, _version: &str) -> Result<Raw> {
        // A peer that was built without the feature was told of an object by one that was built with it.
        Err(Error::NeedsFeature { asked: self.path.display().to_string(), feature: "object-store".to_owned() })
    }

    /// The decoded contents from the beginning.
    pub fn reader(&self) -> Result<SourceReader> {
        let file = self.raw()?;
        let input = |file| BufReader::with_capacity(256 * 1024, file);
        let decoder = match self.compression {
            Compression::Plain => Decoder::Plain(file),
            Compression::Gzip => Decoder::Gzip(Box::new(flate2::bufread::MultiGzDecoder::new(input(file)))),
            Compression::Zstd => Decoder::Zstd(
                zstd::stream::read::Decoder::with_buffer(input(file))
                    .map_err(|error| Error::io("decode", &self.path, &error))?,
            ),
            Compression::Bzip2 => Decoder::Bzip2(bzip2::bufread::MultiBzDecoder::new(input(file))),
        };
        Ok(SourceReader { source: self.clone(), decoder, decoded: 0 })
    }

    pub(crate) fn must_still_have(&self, now: u64) -> Result<()> {
        if now == self.bytes {
            return Ok(());
        }
        Err(Error::FileChanged { file: self.path.clone(), before: self.bytes, after: now })
    }
}

/// Bytes as they are stored.
#[derive(Debug)]
pub(crate) enum Raw {
    File(File),
    #[cfg(feature = "object-store")]
    Object(Box<ObjectReader>),
}

impl Raw {
    /// The size it has now. An error if an object is no longer the same.
    fn size_now(&self, path: &Path) -> Result<u64> {
        match self {
            Self::File(file) => Ok(file.metadata().map_err(|error| Error::io("read", path, &error))?.len()),
            #[cfg(feature = "object-store")]
            Self::Object(object) => object.size_now(),
        }
    }

    fn plan_to(&mut self, end: u64) {
        match self {
            Self::File(_) => _ = end, // files are read as they are asked for
            #[cfg(feature = "object-store")]
            Self::Object(object) => object.plan_to(end),
        }
    }
}

impl Read for Raw {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(buffer),
            #[cfg(feature = "object-store")]
            Self::Object(object) => object.read(buffer),
        }
    }
}

impl Seek for Raw {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Self::File(file) => file.seek(to),
            #[cfg(feature = "object-store")]
            Self::Object(object) => object.seek(to),
        }
    }
}

enum Decoder {
    Plain(Raw),
    Gzip(Box<flate2::bufread::MultiGzDecoder<BufReader<Raw>>>),
    Zstd(zstd::stream::read::Decoder<'static, BufReader<Raw>>),
    Bzip2(bzip2::bufread::MultiBzDecoder<BufReader<Raw>>),
}

/// The decoded bytes of a source, with errors that name it.
pub struct SourceReader {
    source: Source,
    decoder: Decoder,
    decoded: u64,
}

impl SourceReader {
    /// Reads up to `buffer.len()` decoded bytes; 0 only at the end of the file.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            let read = match &mut self.decoder {
                Decoder::Plain(file) => file.read(buffer),
                Decoder::Gzip(decoder) => decoder.read(buffer),
                Decoder::Zstd(decoder) => decoder.read(buffer),
                Decoder::Bzip2(decoder) => decoder.read(buffer),
            };
            match read {
                Ok(count) => {
                    self.decoded += count as u64;
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failure(&error)),
            }
        }
    }

    /// Fills the buffer, and says how much of it: less only at the end of the file.
    pub fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read(&mut buffer[filled..])? {
                0 => break,
                count => filled += count,
            }
        }
        Ok(filled)
    }

    /// Begins at a byte of a plain file.
    pub(crate) fn seek(&mut self, to: u64) -> Result<()> {
        let Decoder::Plain(file) = &mut self.decoder else {
            unreachable!("only plain files are cut into ranges");
        };
        file.seek(SeekFrom::Start(to)).map_err(|error| Error::io("read", &self.source.path, &error))?;
        self.decoded = to;
        Ok(())
    }

    /// Tells where reading will probably end: what lies beyond need not be fetched ahead.
    pub(crate) fn plan_to(&mut self, end: u64) {
        if let Decoder::Plain(raw) = &mut self.decoder {
            raw.plan_to(end);
        }
    }

    /// An error if the file no longer has the size it had when reading was planned.
    pub fn must_be_unchanged(&self) -> Result<()> {
        let file = match &self.decoder {
            Decoder::Plain(file) => file,
            Decoder::Gzip(decoder) => decoder.get_ref().get_ref(),
            Decoder::Zstd(decoder) => decoder.get_ref().get_ref(),
            Decoder::Bzip2(decoder) => decoder.get_ref().get_ref(),
        };
        self.source.must_still_have(file.size_now(&self.source.path)?)
    }

    /// The file being read.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.source
    }

    fn failure(&self, error: &io::Error) -> Error {
        if let Some(error) = own(error) {
            return error;
        }
        let file = self.source.path.clone();
        if self.source.compression == Compression::Plain {
            return Error::io("read", &file, error);
        }
        let problem = match error.kind() {
            io::ErrorKind::UnexpectedEof => "it ends too early".to_owned(),
            _ => format!("it is damaged ({})", error.to_string().to_lowercase()),
        };
        let format = self.source.compression.to_string();
        Error::BadCompression { file, format, problem, decoded: self.decoded }
    }
}

/// The error of this crate that travels inside one of the system.
pub(crate) fn own(error: &io::Error) -> Option<Error> {
    error.get_ref()?.downcast_ref::<Error>().cloned()
}

fn is_visible(path: &Path) -> bool {
    let name = path.file_name().map(std::ffi::OsStr::as_encoded_bytes).unwrap_or_default();
    !matches!(name.first(), None | Some(b'.' | b'_'))
}

fn must_be_some(sources: Vec<Source>, pattern: &str) -> Result<Vec<Source>> {
    if sources.is_empty() {
        return Err(Error::NoFiles { pattern: pattern.to_owned() });
    }
    Ok(sources)
}

impl fmt::Debug for SourceReader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SourceReader").field("source", &self.source).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compression_is_told_by_the_first_bytes() {
        assert_eq!(Compression::of(b"\x1f\x8b\x08\x00"), Compression::Gzip);
        assert_eq!(Compression::of(b"\x28\xb5\x2f\xfd"), Compression::Zstd);
        assert_eq!(Compression::of(b"\x50\x2a\x4d\x18"), Compression::Zstd);
        assert_eq!(Compression::of(b"BZh9"), Compression::Bzip2);
        assert_eq!(Compression::of(b"BZhx"), Compression::Plain);
        assert_eq!(Compression::of(b""), Compression::Plain);
    }

    #[test]
    fn refused_permission_names_action_path_and_way_out() {
        let error = Error::io("list", Path::new("/data/x"), &io::ErrorKind::PermissionDenied.into());
        assert_eq!(
            error.to_string(),
            "cannot list `/data/x`: permission denied; ask its owner or run as a user who may"
        );
        assert_eq!(error.kind(), hemiola_core::ErrorKind::Usage);
    }
}
