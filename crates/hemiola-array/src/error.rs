//! Errors of this crate, with the facts in fields.
//!
//! **Invariant:** recovery code asks [`Error::kind`] and never parses the text. The text says what
//! was expected and, where there is one, the way out. Every variant is plain serde data: the
//! distributed layer sends the first error (in file and offset order) to all peers, and every peer
//! raises that error.

use hemiola_core::ErrorKind;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Result of the fallible functions of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Failure to build, read or save an array.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Error {
    /// The product of the extents overflows the index type.
    #[error("a shape of {} has more cells than an index can count; use smaller extents", Extents(.shape))]
    TooManyCells {
        /// The requested extents, one per dimension.
        shape: Vec<usize>,
    },
    /// An entry lies outside the array.
    #[error("key {} is outside the shape {}; omit the shape to infer it from the data", Extents(.key), Extents(.shape))]
    KeyOutOfShape {
        /// Key of the offending entry.
        key: Vec<usize>,
        /// Extents of the array, one per dimension.
        shape: Vec<usize>,
    },
    /// Two arrays of different shapes were combined.
    #[error("the shapes {} and {} differ; element-wise arithmetic needs equal ones", Extents(.left), Extents(.right))]
    ShapeMismatch {
        /// Extents of the left operand.
        left: Vec<usize>,
        /// Extents of the right operand.
        right: Vec<usize>,
    },
    /// The array does not fit in the memory of this peer.
    #[error("cannot allocate {bytes} bytes for an array of shape {}; partition it over more peers", Extents(.shape))]
    OutOfMemory {
        /// The requested extents, one per dimension.
        shape: Vec<usize>,
        /// Size of the failed allocation in bytes.
        bytes: u64,
    },
    /// The array is locked by a running loop.
    #[error(
        "{requested_by} uses an array that is locked by {holder}; the arrays of a loop must be distinct, and only one loop at \
         a time may use an array"
    )]
    ArrayLocked {
        /// The loop that holds the lock.
        holder: String,
        /// The loop that requested the lock.
        requested_by: String,
    },
    /// A loop failed while parts of the array were in flight between peers.
    #[error("{requested_by} uses an array that {holder} left incomplete when it failed; create it again or load it")]
    ArrayPoisoned {
        /// The loop that failed.
        holder: String,
        /// The loop that requested the array.
        requested_by: String,
    },
    /// A key occurs twice and the duplicate policy is
    /// [`Error`](crate::sparse::DuplicatePolicy::Error).
    #[error("key {} is given twice: at {first} and at {second}; choose a policy for duplicates (sum, last)", Extents(.key))]
    DuplicateKey {
        /// The key that occurs twice.
        key: Vec<usize>,
        /// Origin of the first occurrence.
        first: EntryOrigin,
        /// Origin of the second occurrence.
        second: EntryOrigin,
    },
    /// A block has more entries than a 32-bit ordinal can count.
    #[error(
        "a block of {entries} entries is too large (the limit is 4294967295); partition the array into more blocks"
    )]
    BlockFull {
        /// Number of entries of the block.
        entries: u64,
    },
    /// A line of text does not match its format.
    #[error("{0}")]
    BadLine(Box<BadLine>),
    /// There are more bad lines than the reader tolerates.
    #[error("more than the {allowed} bad lines that `skip_bad_lines` allows; the first line over the limit is {first}")]
    TooManyBadLines {
        /// Number of tolerated bad lines, over all peers.
        allowed: u64,
        /// The first line over the limit.
        first: Box<BadLine>,
    },
    /// The file as a whole does not match its format.
    #[error("`{}`: {problem}", .file.display())]
    BadFile {
        /// Path or URL of the file.
        #[serde(with = "crate::path_bytes")]
        file: PathBuf,
        /// Expectation and finding, as text.
        problem: String,
    },
    /// A binary file contains a NaN or an infinity, and the policy is
    /// [`Reject`](crate::read::NonFiniteHandling::Reject).
    #[error("`{}`: expected a finite number at {position}, found {found}; clean the data or keep non-finite values", .file.display())]
    NotFinite {
        /// Path or URL of the file.
        #[serde(with = "crate::path_bytes")]
        file: PathBuf,
        /// Row and column of the value, counted from 0.
        position: String,
        /// The value as text: `NaN`, `inf` or `-inf`.
        found: String,
    },
    /// The input has no records.
    #[error("`{}` is empty; expected at least one line with a record", .file.display())]
    EmptyInput {
        /// The file, or the first one of several.
        #[serde(with = "crate::path_bytes")]
        file: PathBuf,
    },
    /// A path or pattern matches no file.
    #[error("`{pattern}` matches no file; check the path (hidden files and names that start with `_` are skipped)")]
    NoFiles {
        /// The path or pattern as given.
        pattern: String,
    },
    /// A file belongs to two of the given paths.
    #[error("`{}` is given twice; leave one out", .file.display())]
    FileRepeated {
        /// Path or URL of the file.
        #[serde(with = "crate::path_bytes")]
        file: PathBuf,
    },
    /// A glob pattern is malformed.
    #[error("`{pattern}` is not a pattern: {problem} at character {position}; quote `*`, `?` and `[` as `[*]`")]
    BadPattern {
        /// The pattern as given by the user.
        pattern: String,
        /// The complaint of the pattern parser.
        problem: String,
        /// Character position of the problem, counted from 0.
        position: usize,
    },
    /// A URL is malformed or not supported.
    #[error("`{url}` cannot be read: {problem}")]
    BadUrl {
        /// The URL as given by the user.
        url: String,
        /// Description of a valid URL.
        problem: String,
    },
    /// The request needs a cargo feature that this build lacks.
    #[error("`{input}` cannot be read by this build; build with the cargo feature `{feature}`")]
    NeedsFeature {
        /// The path or URL as given.
        input: String,
        /// Name of the cargo feature.
        feature: String,
    },
    /// A file or object was modified between planning and the end of reading.
    #[error("`{}` {} while it was read; wait until its writer has finished", .file.display(), FileChange(*.before, *.after))]
    FileChanged {
        /// Path or URL of the file.
        #[serde(with = "crate::path_bytes")]
        file: PathBuf,
        /// Size in bytes when reading was planned.
        before: u64,
        /// Size in bytes at the time of the error.
        after: u64,
    },
    /// Peers of one job read different files.
    #[error("peer {rank} reads {peer}, and peer 0 {root}; give all peers the same files under the same path")]
    PeersReadDifferentFiles {
        /// Rank of the peer that differs.
        rank: usize,
        /// Pattern or file of the root.
        root: String,
        /// Pattern or file of the other peer.
        peer: String,
    },
    /// A compressed file is truncated or damaged.
    #[error(
        "`{}` is not a complete {format} file: {problem} after {decoded} decoded bytes; fetch or compress it again",
        .file.display()
    )]
    BadCompression {
        /// Path or URL of the file.
        #[serde(with = "crate::path_bytes")]
        file: PathBuf,
        /// Compression format: `gzip`, `zstd` or `bzip2`.
        format: String,
        /// The complaint of the decoder.
        problem: String,
        /// Bytes that were decoded before the failure.
        decoded: u64,
    },
    /// A line exceeds the line buffer.
    #[error("`{}`: a line is longer than {limit} bytes; is this a text file with line endings LF or CRLF?", .file.display())]
    LineTooLong {
        /// Path or URL of the file.
        #[serde(with = "crate::path_bytes")]
        file: PathBuf,
        /// Maximum line length in bytes.
        limit: u64,
    },
    /// Two arrays with different layouts were combined.
    #[error(
        "the two arrays have different layouts; create them with the same shape, or `repartition` one like the other"
    )]
    LayoutMismatch,
    /// The operation is not defined for this storage, dense or sparse.
    #[error("a {found} array cannot {operation}; {hint}")]
    WrongStorage {
        /// Storage of the array: `dense` or `sparse`.
        found: String,
        /// The requested operation, as a verb phrase.
        operation: String,
        /// The way out, for the message.
        hint: String,
    },
    /// A message from another peer cannot be decoded.
    #[error("a peer sent entries that cannot be decoded: {problem}")]
    BadMessage {
        /// Defect of the message, as text.
        problem: String,
    },
    /// A saved array is torn, modified, or not a save.
    #[error("`{}` is not a complete save: {problem}", .path.display())]
    BadSave {
        /// Path of the file or directory.
        #[serde(with = "crate::path_bytes")]
        path: PathBuf,
        /// Defect and expectation, as text.
        problem: String,
    },
    /// Another process holds the lock of the save.
    #[error("`{}` is being written by {holder}; wait until it finishes, or choose another folder", .path.display())]
    SaveBusy {
        /// Path of the save to replace.
        #[serde(with = "crate::path_bytes")]
        path: PathBuf,
        /// Holder of the lock: `process 4711`.
        holder: String,
    },
    /// The disk has too little free space for the save.
    #[error(
        "`{}` needs {} on its disk, which has {} left; free some space or choose another folder",
        .path.display(), ByteSize(*.needed), ByteSize(*.free)
    )]
    DiskFull {
        /// Path of the save to write.
        #[serde(with = "crate::path_bytes")]
        path: PathBuf,
        /// Bytes that the save takes.
        needed: u64,
        /// Bytes that are free on the disk.
        free: u64,
    },
    /// The operating system or the object store reported an error.
    #[error("cannot {action} `{}`: {message}", .path.display())]
    Io {
        /// The attempted action: `open`, `read`, `list`, `write`.
        action: String,
        /// Path or URL of the file.
        #[serde(with = "crate::path_bytes")]
        path: PathBuf,
        /// The error message, with a hint where there is one.
        message: String,
        /// True if the call may succeed later.
        may_retry: bool,
    },
}

impl Error {
    /// Error of the operating system while doing `action` to `path`.
    pub(crate) fn io(action: &str, path: &Path, source: &io::Error) -> Self {
        let usage = matches!(
            source.kind(),
            io::ErrorKind::NotFound
                | io::ErrorKind::PermissionDenied
                | io::ErrorKind::IsADirectory
                | io::ErrorKind::NotADirectory
        );
        let message = match source.kind() {
            io::ErrorKind::PermissionDenied => {
                "permission denied; ask the owner or run as a user with access".to_owned()
            }
            io::ErrorKind::NotFound => "no such file or directory; check the path".to_owned(),
            io::ErrorKind::StorageFull => "no space left on the device; free some and run again".to_owned(),
            _ => source.to_string(),
        };
        Self::Io { action: action.to_owned(), path: path.to_owned(), message, may_retry: !usage }
    }

    /// Class of the error: usage, environment or bug.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::FileChanged { .. } | Self::DiskFull { .. } | Self::Io { may_retry: true, .. } => ErrorKind::External,
            Self::BadMessage { .. } => ErrorKind::Bug,
            _ => ErrorKind::Usage,
        }
    }
}

/// Number of bytes, shown in a human-readable unit.
struct ByteSize(u64);

impl fmt::Display for ByteSize {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match units.into_iter().find(|(unit, _)| self.0 >= *unit) {
            Some((unit, name)) => write!(formatter, "{:.1} {name}", self.0 as f64 / unit as f64),
            None => write!(formatter, "{} bytes", self.0),
        }
    }
}

/// Origin of an entry, for messages about duplicate keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum EntryOrigin {
    /// Number of the entry, counted from 0 in the order of arrival at its block.
    Entry(u64),
    /// Line of a file, counted from 1.
    Line {
        /// Path or URL of the file.
        #[serde(with = "crate::path_bytes")]
        file: PathBuf,
        /// Line number, counted from 1.
        line: u64,
    },
}

impl fmt::Display for EntryOrigin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry(number) => write!(formatter, "entry {number}"),
            Self::Line { file, line } => write!(formatter, "`{}:{line}`", file.display()),
        }
    }
}

/// Line that could not be parsed: position, expectation and finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadLine {
    /// Path or URL of the file.
    #[serde(with = "crate::path_bytes")]
    pub file: PathBuf,
    /// Line number, counted from 1. A byte range knows it only after an error, see
    /// [`ByteRange`](crate::read::ByteRange).
    pub line: u64,
    /// Column, counted from 1 in characters.
    pub column: u64,
    /// Description of the expected text: `a number`.
    pub expected: String,
    /// The text found, shortened and with control characters escaped; `None` at the end of a line.
    pub found: Option<String>,
}

impl BadLine {
    /// Returns true if the line has an index 0 where indices count from 1.
    #[must_use]
    pub fn is_index_zero(&self) -> bool {
        self.expected.starts_with(ONE_BASED_INDEX) && self.found.as_deref() == Some("0")
    }
}

/// Beginning of what is expected where indices count from 1.
pub(crate) const ONE_BASED_INDEX: &str = "an index from 1 to ";

impl fmt::Display for BadLine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}:{}:{}`: expected {}", self.file.display(), self.line, self.column, self.expected)?;
        match self.found.as_deref() {
            None => formatter.write_str(", found the end of the line"),
            Some("") => formatter.write_str(", found an empty field"),
            Some(found) => write!(formatter, ", found `{found}`"),
        }
    }
}

/// Change of a file between two sizes, as text.
struct FileChange(u64, u64);

impl fmt::Display for FileChange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self(before, after) if before == after => write!(formatter, "was replaced by another of {after} bytes"),
            Self(before, after) => write!(formatter, "changed from {before} to {after} bytes"),
        }
    }
}

/// Extents or a key, shown as `[6040, 3952]`.
pub(crate) struct Extents<'a>(pub(crate) &'a [usize]);

impl fmt::Display for Extents<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[")?;
        for (position, extent) in self.0.iter().enumerate() {
            if position > 0 {
                formatter.write_str(", ")?;
            }
            write!(formatter, "{extent}")?;
        }
        formatter.write_str("]")
    }
}
