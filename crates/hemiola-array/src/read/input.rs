//! Input files: size, compression and decoded contents.
//!
//! An input is a file, an object of a store, a member of a zip archive, or the copy of a stream.
//! **Invariant:** compression is detected from the first bytes, never from the name: `ratings.csv`
//! may well be a gzip file. `find` lists the inputs of a path or pattern, and a
//! `view` presents the contents of some as text of another form.

use super::archive::{self, ArchiveMember};
use super::archive_member::MemberReader;
#[cfg(feature = "object-store")]
use super::object::{ObjectInfo, ObjectReader};
#[cfg(feature = "object-store")]
use super::url::{self, InputLocation};
use super::view::{InputView, ViewReader};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Compression of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum FileCompression {
    /// Not compressed: the file can be split into byte ranges.
    Plain,
    /// Gzip (RFC 1952), one or more members.
    Gzip,
    /// Zstandard (RFC 8878), one or more frames.
    Zstd,
    /// Bzip2, one or more streams.
    Bzip2,
    /// Zip archive, or a member of one.
    Zip,
}

impl FileCompression {
    /// Detects the compression from the first bytes of a file.
    #[must_use]
    pub fn of(magic: &[u8]) -> Self {
        match magic {
            [0x1f, 0x8b, ..] => Self::Gzip,
            // A frame, or one of the sixteen skippable frames that may start a stream.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Self::Bzip2,
            magic if magic.starts_with(archive::ZIP_MAGIC) => Self::Zip,
            _ => Self::Plain,
        }
    }
}

impl fmt::Display for FileCompression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Plain => "plain",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Bzip2 => "bzip2",
            Self::Zip => "zip",
        })
    }
}

/// Input to read: a file, an object, a member of an archive, or the copy of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFile {
    #[serde(with = "crate::path_bytes")]
    pub(super) path: PathBuf,
    /// Stored size in bytes when reading was planned.
    pub(super) bytes: u64,
    pub(super) compression: FileCompression,
    /// Version of an object when reading was planned; `None` for files.
    pub(super) version: Option<String>,
    /// Place of the bytes, if it is not a file at `path`.
    pub(super) place: Option<StoredPlace>,
    /// Form in which readers see the contents; `None` for the contents as they are.
    pub(super) view: Option<InputView>,
}

/// Place of the bytes of an input whose path is no file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredPlace {
    /// File with the bytes.
    #[serde(with = "crate::path_bytes")]
    pub(super) file: PathBuf,
    /// Member of that file; `None` if it is the copy of a stream.
    pub(super) member: Option<ArchiveMember>,
}

impl InputFile {
    /// Input at a path, in which [`detect_compression`](Self::detect_compression) finds the rest.
    pub(super) fn at(path: PathBuf, bytes: u64) -> Self {
        Self { path, bytes, compression: FileCompression::Plain, version: None, place: None, view: None }
    }

    /// Detects the compression from the first bytes.
    pub(super) fn detect_compression(mut self) -> Result<Self> {
        let mut magic = Vec::with_capacity(4);
        let read = self.raw()?.take(4).read_to_end(&mut magic);
        read.map_err(|error| inner_error(&error).unwrap_or_else(|| Error::io("read", &self.path, &error)))?;
        self.compression = FileCompression::of(&magic);
        Ok(self)
    }

    /// Path of the file, URL of the object, or path of the archive and the member in it; `stdin` for
    /// standard input.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Stored size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Compression of the file.
    #[must_use]
    pub fn compression(&self) -> FileCompression {
        self.compression
    }

    /// Returns true for an object of a store or web server, false for a file.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.version.is_some()
    }

    /// Returns true if ranges of the stored bytes are ranges of the text.
    pub(crate) fn is_splittable(&self) -> bool {
        self.compression == FileCompression::Plain && self.view.is_none()
    }

    /// Returns true for the copy of a stream, which only this machine has.
    pub(crate) fn is_copy(&self) -> bool {
        self.place.as_ref().is_some_and(|place| place.member.is_none())
    }

    /// Number of the first line: 0 where a view puts a header before the first record.
    pub(crate) fn first_line(&self) -> u64 {
        u64::from(!self.view.as_ref().is_some_and(InputView::has_header))
    }

    /// Returns true if the first line is a header for certain.
    pub(crate) fn has_header(&self) -> bool {
        self.first_line() == 0
    }

    /// File that contains the bytes, and its size when reading was planned.
    pub(crate) fn stored_file(&self) -> (&Path, u64) {
        match &self.place {
            Some(place) => (&place.file, place.member.map_or(self.bytes, |member| member.archive)),
            None => (&self.path, self.bytes),
        }
    }

    /// Opens the stored bytes. Returns an error if a file has changed; an object is checked while
    /// reading.
    pub(crate) fn raw(&self) -> Result<RawInput> {
        if let Some(version) = &self.version {
            return self.raw_object(version);
        }
        let raw = RawInput::File(File::open(self.stored_file().0).map_err(|error| self.open_failure(&error))?);
        self.check_size(raw.size_now(&self.path)?)?;
        Ok(raw)
    }

    fn open_failure(&self, error: &io::Error) -> Error {
        if !self.is_copy() {
            return Error::io("open", &self.path, error);
        }
        let problem = "only peers on the machine of the root can read a stream; save it as a file that all peers see";
        Error::BadFile { file: self.path.clone(), problem: problem.to_owned() }
    }

    #[cfg(feature = "object-store")]
    fn raw_object(&self, version: &str) -> Result<RawInput> {
        let Some(InputLocation::Object(url)) = self.path.to_str().map(url::parse).transpose()? else {
            unreachable!("an object has a URL");
        };
        let info = ObjectInfo { path: self.path.clone(), bytes: self.bytes, version: version.to_owned() };
        Ok(RawInput::Object(Box::new(ObjectReader::open(url, info)?)))
    }

    /// Opens an object; needs the feature `object-store`.
    #[cfg(not(feature = "object-store"))]
    fn raw_object(&self, _version: &str) -> Result<RawInput> {
        // A peer built without the feature received an object from one built with it.
        Err(Error::NeedsFeature { input: self.path.display().to_string(), feature: "object-store".to_owned() })
    }

    /// Opens a reader of the decoded contents.
    pub fn reader(&self) -> Result<InputReader> {
        let file = self.raw()?;
        let input = |file| BufReader::with_capacity(256 * 1024, file);
        let decoder = match self.compression {
            FileCompression::Plain => Decompressor::Plain(file),
            FileCompression::Gzip => Decompressor::Gzip(Box::new(flate2::bufread::MultiGzDecoder::new(input(file)))),
            FileCompression::Zstd => Decompressor::Zstd(
                zstd::stream::read::Decoder::with_buffer(input(file))
                    .map_err(|error| Error::io("decode", &self.path, &error))?,
            ),
            FileCompression::Bzip2 => Decompressor::Bzip2(bzip2::bufread::MultiBzDecoder::new(input(file))),
            FileCompression::Zip => Decompressor::Member(Box::new(MemberReader::open(self, file)?)),
        };
        let view = self.view.as_ref().map(|view| Box::new(ViewReader::new(view)));
        Ok(InputReader { source: self.clone(), decoder, decoded: 0, limit: DECODED_LIMIT, view })
    }

    pub(crate) fn check_size(&self, now: u64) -> Result<()> {
        let (_, before) = self.stored_file();
        if now == before {
            return Ok(());
        }
        Err(Error::FileChanged { file: self.path.clone(), before, after: now })
    }
}

/// Stored bytes of a file or object.
#[derive(Debug)]
pub(crate) enum RawInput {
    File(File),
    #[cfg(feature = "object-store")]
    Object(Box<ObjectReader>),
}

impl RawInput {
    /// Current size. An error if an object is another version.
    fn size_now(&self, path: &Path) -> Result<u64> {
        match self {
            Self::File(file) => Ok(file.metadata().map_err(|error| Error::io("read", path, &error))?.len()),
            #[cfg(feature = "object-store")]
            Self::Object(object) => object.size_now(),
        }
    }

    fn hint_end(&mut self, end: u64) {
        match self {
            Self::File(_) => _ = end, // files need no prefetch
            #[cfg(feature = "object-store")]
            Self::Object(object) => object.hint_end(end),
        }
    }
}

impl Read for RawInput {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(buffer),
            #[cfg(feature = "object-store")]
            Self::Object(object) => object.read(buffer),
        }
    }
}

impl Seek for RawInput {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Self::File(file) => file.seek(to),
            #[cfg(feature = "object-store")]
            Self::Object(object) => object.seek(to),
        }
    }
}

enum Decompressor {
    Plain(RawInput),
    Gzip(Box<flate2::bufread::MultiGzDecoder<BufReader<RawInput>>>),
    Zstd(zstd::stream::read::Decoder<'static, BufReader<RawInput>>),
    Bzip2(bzip2::bufread::MultiBzDecoder<BufReader<RawInput>>),
    Member(Box<MemberReader>),
}

/// Limit of the decoded size of a compressed file: a small file must not fill the memory.
#[derive(Clone, Copy, Debug)]
struct DecodedLimit {
    /// Number of bytes that any file may decode to.
    bytes: u64,
    /// Beyond them, at most this many times the stored size.
    ratio: u64,
}

/// Text compresses up to fifty-fold, and files of zeros a thousand-fold.
const DECODED_LIMIT: DecodedLimit = DecodedLimit { bytes: 1 << 30, ratio: 200 };

impl DecodedLimit {
    fn is_exceeded(self, decoded: u64, stored: u64) -> bool {
        decoded > self.bytes && decoded / self.ratio > stored
    }
}

/// Reader of the decoded bytes of an input file, with errors that name it.
pub struct InputReader {
    source: InputFile,
    decoder: Decompressor,
    decoded: u64,
    limit: DecodedLimit,
    /// Converter of the decoded bytes, if the input has a view.
    view: Option<Box<ViewReader>>,
}

impl InputReader {
    /// Reads up to `buffer.len()` bytes of the contents; returns 0 only at their end.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let Some(mut view) = self.view.take() else { return self.read_decoded(buffer) };
        let read = view.read(self, buffer);
        self.view = Some(view);
        read
    }

    /// Reads up to `buffer.len()` decoded bytes, before any view; returns 0 only at the end.
    pub(super) fn read_decoded(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            let read = match &mut self.decoder {
                Decompressor::Plain(file) => file.read(buffer),
                Decompressor::Gzip(decoder) => decoder.read(buffer),
                Decompressor::Zstd(decoder) => decoder.read(buffer),
                Decompressor::Bzip2(decoder) => decoder.read(buffer),
                Decompressor::Member(member) => member.read(buffer),
            };
            match read {
                Ok(count) => {
                    self.decoded += count as u64;
                    self.check_decoded()?;
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failure(&error)),
            }
        }
    }

    /// Returns an error if a compressed file decodes to far more than its size.
    fn check_decoded(&self) -> Result<()> {
        let plain = matches!(self.decoder, Decompressor::Plain(_));
        if plain || !self.limit.is_exceeded(self.decoded, self.source.bytes) {
            return Ok(());
        }
        let problem = format!(
            "its {} bytes decode to more than {} times as many; decompress it first, if this is intended",
            self.source.bytes, self.limit.ratio
        );
        Err(Error::BadFile { file: self.source.path.clone(), problem })
    }

    /// Fills the buffer. Returns the number of bytes, smaller only at the end of the file.
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

    /// Seeks to a byte of a plain file.
    pub(crate) fn seek(&mut self, to: u64) -> Result<()> {
        let Decompressor::Plain(file) = &mut self.decoder else {
            unreachable!("only plain files are split into ranges");
        };
        file.seek(SeekFrom::Start(to)).map_err(|error| Error::io("read", &self.source.path, &error))?;
        self.decoded = to;
        Ok(())
    }

    /// Sets the probable end of reading: bytes beyond it need no prefetch.
    pub(crate) fn hint_end(&mut self, end: u64) {
        if let Decompressor::Plain(raw) = &mut self.decoder {
            raw.hint_end(end);
        }
    }

    /// Returns an error if the file no longer has the size it had when reading was planned.
    pub fn check_unchanged(&self) -> Result<()> {
        let file = match &self.decoder {
            Decompressor::Plain(file) => file,
            Decompressor::Gzip(decoder) => decoder.get_ref().get_ref(),
            Decompressor::Zstd(decoder) => decoder.get_ref().get_ref(),
            Decompressor::Bzip2(decoder) => decoder.get_ref().get_ref(),
            Decompressor::Member(member) => member.raw(),
        };
        self.source.check_size(file.size_now(&self.source.path)?)
    }

    /// The file being read.
    #[must_use]
    pub fn source(&self) -> &InputFile {
        &self.source
    }

    fn failure(&self, error: &io::Error) -> Error {
        if let Some(error) = inner_error(error) {
            return error;
        }
        let file = self.source.path.clone();
        if self.source.compression == FileCompression::Plain {
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

/// Error of this crate inside an error of the system, if there is one.
pub(crate) fn inner_error(error: &io::Error) -> Option<Error> {
    error.get_ref()?.downcast_ref::<Error>().cloned()
}

impl fmt::Debug for InputReader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SourceReader").field("source", &self.source).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compression_is_detected_from_the_first_bytes() {
        assert_eq!(FileCompression::of(b"\x1f\x8b\x08\x00"), FileCompression::Gzip);
        assert_eq!(FileCompression::of(b"\x28\xb5\x2f\xfd"), FileCompression::Zstd);
        assert_eq!(FileCompression::of(b"\x50\x2a\x4d\x18"), FileCompression::Zstd);
        assert_eq!(FileCompression::of(b"BZh9"), FileCompression::Bzip2);
        assert_eq!(FileCompression::of(b"BZhx"), FileCompression::Plain);
        assert_eq!(FileCompression::of(b"PK\x03\x04\x14"), FileCompression::Zip);
        assert_eq!(FileCompression::of(b""), FileCompression::Plain);
    }

    #[test]
    fn a_small_file_that_decodes_to_very_much_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("zeros.zst");
        std::fs::write(&path, zstd::encode_all(&vec![b'0'; 1 << 20][..], 1).unwrap()).unwrap();
        let source = InputFile::open(&path).unwrap();
        let decode = |limit: DecodedLimit| {
            let mut reader = source.reader().unwrap();
            reader.limit = limit;
            reader.fill(&mut vec![0; 1 << 20])
        };
        assert_eq!(decode(DECODED_LIMIT), Ok(1 << 20), "small results are allowed at any ratio");
        let told = decode(DecodedLimit { bytes: 1 << 16, ratio: 200 }).unwrap_err().to_string();
        assert!(told.contains("zeros.zst") && told.contains("more than 200 times"), "{told}");
        assert_eq!(decode(DecodedLimit { bytes: 1 << 16, ratio: 1 << 20 }), Ok(1 << 20));
    }

    #[test]
    fn denied_permission_names_action_path_and_way_out() {
        let error = Error::io("list", Path::new("/data/x"), &io::ErrorKind::PermissionDenied.into());
        assert_eq!(
            error.to_string(),
            "cannot list `/data/x`: permission denied; ask the owner or run as a user with access"
        );
        assert_eq!(error.kind(), hemiola_core::ErrorKind::Usage);
    }
}
