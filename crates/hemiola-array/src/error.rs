//! Everything that can go wrong in this crate, with the facts in fields.
//!
//! **Invariant:** recovery code asks [`Error::kind`] and never reads the text; the text always says what was expected and,
//! where there is one, the way out. Every variant is plain serde data: the distributed layer sends the first error (in
//! file and offset order) to all peers and every peer raises the same one.

use hemiola_core::ErrorKind;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The result of everything fallible here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an array could not be built, read or saved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Error {
    /// The product of the extents does not fit the index type.
    #[error("a shape of {} has more cells than an index can count; use smaller extents", Extents(.shape))]
    TooManyCells {
        /// The extents asked for.
        shape: Vec<u64>,
    },
    /// An entry lies outside the array.
    #[error("key {} is outside the shape {}; leave the shape out to have it discovered", Extents(.key), Extents(.shape))]
    KeyOutOfShape {
        /// The key of the entry.
        key: Vec<u64>,
        /// The extents of the array.
        shape: Vec<u64>,
    },
    /// Two arrays were combined that do not have the same shape.
    #[error("the shapes {} and {} differ; element-wise arithmetic needs equal ones", Extents(.left), Extents(.right))]
    ShapeMismatch {
        /// The extents on the left.
        left: Vec<u64>,
        /// The extents on the right.
        right: Vec<u64>,
    },
    /// An array that does not fit the memory of this peer.
    #[error("cannot reserve {bytes} bytes for an array of {}; cut it over more peers", Extents(.shape))]
    OutOfMemory {
        /// The extents asked for.
        shape: Vec<u64>,
        /// The memory they take.
        bytes: u64,
    },
    /// An array was asked for while a loop has it.
    #[error(
        "{wanted_by} uses an array that {by} holds; arrays of a loop must be different ones, used by one loop at a time"
    )]
    ArrayHeld {
        /// Who has it.
        by: String,
        /// Who asked.
        wanted_by: String,
    },
    /// An array was asked for after a loop failed that had parts of it under way.
    #[error("{by}, which failed, has left an array incomplete that {wanted_by} uses; make it anew or load it")]
    ArrayIncomplete {
        /// The loop that failed.
        by: String,
        /// Who asked.
        wanted_by: String,
    },
    /// One key was given twice and the policy does not allow that.
    #[error("key {} is given twice: at {first} and at {second}; choose a policy for duplicates (sum, last)", Extents(.key))]
    DuplicateKey {
        /// The key.
        key: Vec<u64>,
        /// Where it came first.
        first: Place,
        /// Where it came again.
        second: Place,
    },
    /// A block would hold more entries than its ordinals can count.
    #[error("a block of {entries} entries is too large (the limit is 4294967295); cut the array into more blocks")]
    BlockFull {
        /// The number of entries.
        entries: u64,
    },
    /// A line of text is not what its format asks for.
    #[error("{0}")]
    BadLine(Box<BadLine>),
    /// More bad lines than the caller tolerates.
    #[error("more than the {allowed} bad lines that skip_bad_lines allows; the first over the limit is {first}")]
    TooManyBadLines {
        /// How many are tolerated.
        allowed: u64,
        /// The first line over the limit.
        first: Box<BadLine>,
    },
    /// The file as a whole is not what its format asks for.
    #[error("`{}`: {problem}", .file.display())]
    BadFile {
        /// The file.
        #[serde(with = "crate::path_bytes")]
        file: PathBuf,
        /// What was expected and what is there.
        problem: String,
    },
    /// A file of numbers has one that is not finite, and the reader was not told to keep such values.
    #[error("`{}`: expected a finite number at {place}, found {found}; clean the data or keep such values", .file.display())]
    NotFinite {
        /// The file.
        #[serde(with = "crate::path_bytes")]
        file: PathBuf,
        /// Row and column, counted from 0.
        place: String,
        /// `NaN`, `inf`, `-inf`.
        found: String,
    },
    /// Nothing to read.
    #[error("`{}` is empty; expected at least one line with a record", .file.display())]
    EmptyInput {
        /// The file, or the first of them.
        #[serde(with = "crate::path_bytes")]
        file: PathBuf,
    },
    /// A path or pattern that names no file.
    #[error("`{pattern}` matches no file; check the path (hidden files and names beginning with `_` are not read)")]
    NoFiles {
        /// What was asked for.
        pattern: String,
    },
    /// A glob pattern that cannot be understood.
    #[error("`{pattern}` is not a pattern: {problem} at character {position}; quote `*`, `?` and `[` as `[*]`")]
    BadPattern {
        /// What was asked for.
        pattern: String,
        /// Why it is none.
        problem: String,
        /// Where, counted from 0.
        position: usize,
    },
    /// A URL that cannot be understood.
    #[error("`{url}` cannot be read: {problem}")]
    BadUrl {
        /// What was asked for.
        url: String,
        /// What was expected.
        problem: String,
    },
    /// What was asked for was left out of this build.
    #[error("`{asked}` cannot be read by this build; build with the cargo feature `{feature}`")]
    NeedsFeature {
        /// What was asked for.
        asked: String,
        /// The feature.
        feature: String,
    },
    /// A file or object was written to between planning and the end of reading.
    #[error("`{}` {} while it was read; wait until its writer has finished", .file.display(), Change(*.before, *.after))]
    FileChanged {
        /// The file.
        #[serde(with = "crate::path_bytes")]
        file: PathBuf,
        /// Its size when reading was planned.
        before: u64,
        /// Its size now.
        after: u64,
    },
    /// A compressed file that ends early or is damaged.
    #[error(
        "`{}` is not a complete {format} file: {problem} after {decoded} decoded bytes; fetch or compress it again",
        .file.display()
    )]
    BadCompression {
        /// The file.
        #[serde(with = "crate::path_bytes")]
        file: PathBuf,
        /// `gzip`, `zstd` or `bzip2`.
        format: String,
        /// What the decoder said.
        problem: String,
        /// How much could be decoded.
        decoded: u64,
    },
    /// A line that does not fit the memory set aside for one.
    #[error("`{}`: a line is longer than {limit} bytes; is this a text file with line endings LF or CRLF?", .file.display())]
    LineTooLong {
        /// The file.
        #[serde(with = "crate::path_bytes")]
        file: PathBuf,
        /// The limit.
        limit: u64,
    },
    /// Two arrays were combined that are not cut in the same way.
    #[error("the two arrays are cut differently; make them with the same shape, or `repartition` one like the other")]
    LayoutMismatch,
    /// A dense array was asked for what only a sparse one can do, or the other way round.
    #[error("a {found} array cannot {asked}; {hint}")]
    WrongStorage {
        /// `dense` or `sparse`.
        found: String,
        /// What was asked for.
        asked: String,
        /// The way out.
        hint: String,
    },
    /// Another peer sent something that cannot be understood.
    #[error("a peer sent entries that cannot be understood: {problem}")]
    BadMessage {
        /// What was wrong with it.
        problem: String,
    },
    /// A saved array that is torn, tampered with or not one.
    #[error("`{}` is not a complete save: {problem}", .path.display())]
    BadSave {
        /// The file or directory.
        #[serde(with = "crate::path_bytes")]
        path: PathBuf,
        /// What is wrong and what was expected.
        problem: String,
    },
    /// Somebody else works on what is to be replaced.
    #[error("`{}` is being written by {holder}; wait for its end, or choose another folder", .path.display())]
    SaveBusy {
        /// What is to be saved.
        #[serde(with = "crate::path_bytes")]
        path: PathBuf,
        /// Who has it: `process 4711`.
        holder: String,
    },
    /// A save that would be replaced, with something beside it that is not part of it.
    #[error(
        "`{}` holds `{file}`, which is no part of the save there and would be lost when that is replaced; move it away, \
         or choose another folder",
        .path.display()
    )]
    ForeignFile {
        /// The folder.
        #[serde(with = "crate::path_bytes")]
        path: PathBuf,
        /// The first such file.
        file: String,
    },
    /// A disk too small for what is to be saved.
    #[error(
        "`{}` needs {} on its disk, which has {} left; free some space or choose another place",
        .path.display(), Size(*.needed), Size(*.free)
    )]
    NoRoom {
        /// What is to be saved.
        #[serde(with = "crate::path_bytes")]
        path: PathBuf,
        /// The bytes it takes.
        needed: u64,
        /// The bytes there are.
        free: u64,
    },
    /// The operating system refused.
    #[error("cannot {action} `{}`: {message}", .path.display())]
    Io {
        /// What was tried: `open`, `read`, `list`, `write`.
        action: String,
        /// On what.
        #[serde(with = "crate::path_bytes")]
        path: PathBuf,
        /// The system's words.
        message: String,
        /// Whether the same call may succeed later.
        may_retry: bool,
    },
}

impl Error {
    /// An operating-system error while doing `action` to `path`.
    pub(crate) fn io(action: &str, path: &Path, source: &io::Error) -> Self {
        let usage = matches!(
            source.kind(),
            io::ErrorKind::NotFound
                | io::ErrorKind::PermissionDenied
                | io::ErrorKind::IsADirectory
                | io::ErrorKind::NotADirectory
        );
        let message = match source.kind() {
            io::ErrorKind::PermissionDenied => "permission denied; ask its owner or run as a user who may".to_owned(),
            io::ErrorKind::NotFound => "no such file or directory; check the path".to_owned(),
            io::ErrorKind::StorageFull => "no space left on the device; free some and run again".to_owned(),
            _ => source.to_string(),
        };
        Self::Io { action: action.to_owned(), path: path.to_owned(), message, may_retry: !usage }
    }

    /// Who has to act.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::FileChanged { .. } | Self::NoRoom { .. } | Self::Io { may_retry: true, .. } => ErrorKind::World,
            Self::BadMessage { .. } => ErrorKind::Bug,
            _ => ErrorKind::Usage,
        }
    }
}

/// A number of bytes in the unit that people would use.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match units.into_iter().find(|(unit, _)| self.0 >= *unit) {
            Some((unit, name)) => write!(formatter, "{:.1} {name}", self.0 as f64 / unit as f64),
            None => write!(formatter, "{} bytes", self.0),
        }
    }
}

/// Where an entry came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Place {
    /// The entry with this number, counted from 0 in the order of arrival at the block.
    Entry(u64),
    /// A line of a file, counted from 1.
    Line {
        /// The file.
        #[serde(with = "crate::path_bytes")]
        file: PathBuf,
        /// The line.
        line: u64,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry(number) => write!(formatter, "entry {number}"),
            Self::Line { file, line } => write!(formatter, "`{}:{line}`", file.display()),
        }
    }
}

/// One line that could not be read: where it is, what was expected and what stands there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadLine {
    /// The file.
    #[serde(with = "crate::path_bytes")]
    pub file: PathBuf,
    /// The line, counted from 1. A byte range does not know it until an error asks, see
    /// [`ByteRange`](crate::read::ByteRange).
    pub line: u64,
    /// The column, counted from 1 in characters.
    pub column: u64,
    /// What should stand there.
    pub expected: String,
    /// What stands there: shortened, control characters escaped; `None` at the end of a line.
    pub found: Option<String>,
}

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

/// How a file changed, in words.
struct Change(u64, u64);

impl fmt::Display for Change {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self(before, after) if before == after => write!(formatter, "was replaced by another of {after} bytes"),
            Self(before, after) => write!(formatter, "changed from {before} to {after} bytes"),
        }
    }
}

/// Extents or a key as `[6040, 3952]`.
pub(crate) struct Extents<'a>(pub(crate) &'a [u64]);

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
