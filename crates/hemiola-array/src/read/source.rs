//! Which files are read, how large they are and how they are compressed.
//!
//! A path may name a file, a directory (its files, not those of folders below, without hidden ones and `_SUCCESS`-like
//! marks) or a glob pattern. **Invariant:** the list is sorted by path, so every peer that sees the same files numbers them
//! alike. Compression is told by the first bytes, never by the name: `ratings.csv` may well be a gzip file.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
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

/// One file to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    path: PathBuf,
    /// The size on disk when reading was planned.
    bytes: u64,
    compression: Compression,
}

impl Source {
    /// The file at a path.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        // Asked before opening: opening a pipe would wait for its writer.
        if !fs::metadata(path).map_err(|error| Error::io("open", path, &error))?.is_file() {
            let problem = "expected a regular file; copy what a pipe or device gives into one, so that it can be read in \
                           ranges";
            return Err(Error::BadFile { file: path.to_owned(), problem: problem.to_owned() });
        }
        let mut file = File::open(path).map_err(|error| Error::io("open", path, &error))?;
        let bytes = file.metadata().map_err(|error| Error::io("read", path, &error))?.len();
        let mut magic = Vec::with_capacity(4);
        file.by_ref().take(4).read_to_end(&mut magic).map_err(|error| Error::io("read", path, &error))?;
        Ok(Self { path: path.to_owned(), bytes, compression: Compression::of(&magic) })
    }

    /// The files of a path, a directory or a glob pattern, sorted. Never an empty list.
    pub fn find(pattern: &str) -> Result<Vec<Self>> {
        let path = Path::new(pattern);
        if path.is_dir() {
            return Self::list(path, pattern);
        }
        // A file whose name has a bracket in it is a file first and a pattern second.
        if path.exists() || !pattern.contains(['*', '?', '[']) {
            return Ok(vec![Self::open(path)?]);
        }
        let matches = glob::glob(pattern).map_err(|error| Error::BadPattern {
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
        let visible = |path: &PathBuf| {
            let name = path.file_name().map(std::ffi::OsStr::as_encoded_bytes).unwrap_or_default();
            path.is_file() && !matches!(name.first(), None | Some(b'.' | b'_'))
        };
        let sources = paths.into_iter().filter(visible).map(Self::open).collect::<Result<Vec<_>>>()?;
        if sources.is_empty() {
            return Err(Error::NoFiles { pattern: pattern.to_owned() });
        }
        Ok(sources)
    }

    /// Where the file is.
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

    /// The decoded contents from the beginning.
    pub fn reader(&self) -> Result<SourceReader> {
        let file = File::open(&self.path).map_err(|error| Error::io("open", &self.path, &error))?;
        let now = file.metadata().map_err(|error| Error::io("read", &self.path, &error))?.len();
        self.must_still_have(now)?;
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

enum Decoder {
    Plain(File),
    Gzip(Box<flate2::bufread::MultiGzDecoder<BufReader<File>>>),
    Zstd(zstd::stream::read::Decoder<'static, BufReader<File>>),
    Bzip2(bzip2::bufread::MultiBzDecoder<BufReader<File>>),
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
        io::Seek::seek(file, io::SeekFrom::Start(to)).map_err(|error| Error::io("read", &self.source.path, &error))?;
        self.decoded = to;
        Ok(())
    }

    /// An error if the file no longer has the size it had when reading was planned.
    pub fn must_be_unchanged(&self) -> Result<()> {
        let file = match &self.decoder {
            Decoder::Plain(file) => file,
            Decoder::Gzip(decoder) => decoder.get_ref().get_ref(),
            Decoder::Zstd(decoder) => decoder.get_ref().get_ref(),
            Decoder::Bzip2(decoder) => decoder.get_ref().get_ref(),
        };
        let now = file.metadata().map_err(|error| Error::io("read", &self.source.path, &error))?.len();
        self.source.must_still_have(now)
    }

    /// The file being read.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.source
    }

    fn failure(&self, error: &io::Error) -> Error {
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
