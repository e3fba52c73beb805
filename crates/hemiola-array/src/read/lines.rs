//! Any text, line by line, parsed by a closure.
//!
//! Lines end with LF or CRLF, also mixed in one file; the last one may end with the file. A lone CR
//! does not end a line: it stays in the line, where messages show it as `\r`.

use super::input::InputFile;
use super::parse::{ParseError, ParsedLine, ReadReport, first_line, parse_lines};
use super::split::ByteRange;
use crate::{Error, Result};

/// Reader of plain lines, with its options.
///
/// ```
/// use hemiola_array::read::{ByteRange, LineReader, ParseError, InputFile};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("levels.txt");
/// std::fs::write(&path, "low\r\nhigh\n").unwrap();
/// let mut levels = Vec::new();
/// LineReader::new().read(&ByteRange::whole(InputFile::open(&path)?), |line| {
///     levels.push(match line {
///         "low" => 0,
///         "high" => 1,
///         _ => return Err(ParseError::new("`low` or `high`")),
///     });
///     Ok(())
/// })?;
/// assert_eq!(levels, [0, 1]);
/// # Ok::<(), hemiola_array::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct LineReader {
    allowed: u64,
}

impl LineReader {
    /// Creates a reader that tolerates no bad lines.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of bad lines that are skipped and reported before reading fails. Default: 0.
    pub fn skip_bad_lines(mut self, count: u64) -> Self {
        self.allowed = count;
        self
    }

    /// Number of tolerated bad lines, for [`ReadReport::merge`].
    #[must_use]
    pub fn bad_lines_allowed(&self) -> u64 {
        self.allowed
    }

    /// Calls `visit` with every line of a range as text, empty lines included.
    pub fn read(
        &self,
        range: &ByteRange,
        mut visit: impl FnMut(&str) -> Result<(), Box<ParseError>>,
    ) -> Result<ReadReport> {
        self.read_bytes(range, |line| match std::str::from_utf8(line) {
            Ok(line) => visit(line),
            Err(error) => Err(ParseError::at(error.valid_up_to()..line.len(), "UTF-8 text")),
        })
    }

    /// Calls `visit` with every line of a range as bytes, in any encoding.
    pub fn read_bytes(
        &self,
        range: &ByteRange,
        mut visit: impl FnMut(&[u8]) -> Result<(), Box<ParseError>>,
    ) -> Result<ReadReport> {
        parse_lines(range, self.allowed, |text, _| {
            let (line, bytes) = first_line(text);
            visit(line)?;
            Ok(ParsedLine { bytes, records: 1 })
        })
    }
}

/// Reads the lines of a small file, such as a vocabulary or a list of labels.
pub fn read_names(source: &InputFile) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let report = LineReader::new().read_bytes(&ByteRange::whole(source.clone()), |line| {
        names.push(String::from_utf8_lossy(line).into_owned());
        Ok(())
    })?;
    ReadReport::merge(std::slice::from_ref(source), [report], 0)?;
    Ok(names)
}

/// Returns an error unless a vocabulary names every id below `needed`.
pub fn check_vocabulary(source: &InputFile, names: &[String], needed: usize) -> Result<()> {
    if names.len() >= needed {
        return Ok(());
    }
    let problem = format!(
        "the vocabulary has {} words, but ids go up to word {needed}; expected one word per line for every id",
        names.len()
    );
    Err(Error::BadFile { file: source.path().to_owned(), problem })
}
