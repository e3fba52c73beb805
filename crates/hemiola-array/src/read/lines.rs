//! Any text, line by line, with a closure that makes sense of it.
//!
//! Lines end with LF or CRLF, also mixed in one file; the last one may end with the file. A lone CR is no line ending: it
//! stays in the line, where messages show it as `\r`.

use super::pass::{Mistake, Report, Taken, first_line, pass};
use super::source::Source;
use super::split::ByteRange;
use crate::{Error, Result};

/// How plain lines are read.
///
/// ```
/// use hemiola_array::read::{ByteRange, Lines, Mistake, Source};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("levels.txt");
/// std::fs::write(&path, "low\r\nhigh\n").unwrap();
/// let mut levels = Vec::new();
/// Lines::new().read(&ByteRange::whole(Source::open(&path)?), |line| {
///     levels.push(match line {
///         "low" => 0,
///         "high" => 1,
///         _ => return Err(Mistake::new("`low` or `high`")),
///     });
///     Ok(())
/// })?;
/// assert_eq!(levels, [0, 1]);
/// # Ok::<(), hemiola_array::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Lines {
    allowed: u64,
}

impl Lines {
    /// No bad line tolerated.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many bad lines are left out and reported before reading fails. Default: 0.
    pub fn skip_bad_lines(mut self, count: u64) -> Self {
        self.allowed = count;
        self
    }

    /// How many bad lines are tolerated, for [`Report::settle`].
    #[must_use]
    pub fn bad_lines_allowed(&self) -> u64 {
        self.allowed
    }

    /// Hands every line of a range, empty ones too, to `visit` as text.
    pub fn read(&self, range: &ByteRange, mut visit: impl FnMut(&str) -> Result<(), Box<Mistake>>) -> Result<Report> {
        self.read_bytes(range, |line| match std::str::from_utf8(line) {
            Ok(line) => visit(line),
            Err(error) => Err(Mistake::at(error.valid_up_to()..line.len(), "UTF-8 text")),
        })
    }

    /// Hands every line of a range to `visit` as bytes, in whatever encoding they are.
    pub fn read_bytes(
        &self,
        range: &ByteRange,
        mut visit: impl FnMut(&[u8]) -> Result<(), Box<Mistake>>,
    ) -> Result<Report> {
        pass(range, self.allowed, |text, _| {
            let (line, bytes) = first_line(text);
            visit(line)?;
            Ok(Taken { bytes, records: 1 })
        })
    }
}

/// The lines of a small file: a vocabulary, a list of labels.
pub fn read_names(source: &Source) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let report = Lines::new().read_bytes(&ByteRange::whole(source.clone()), |line| {
        names.push(String::from_utf8_lossy(line).into_owned());
        Ok(())
    })?;
    Report::settle(std::slice::from_ref(source), [report], 0)?;
    Ok(names)
}

/// An error unless a vocabulary names every id below `needed`.
pub fn must_name(source: &Source, names: &[String], needed: u64) -> Result<()> {
    if names.len() as u64 >= needed {
        return Ok(());
    }
    let problem = format!(
        "the vocabulary has {} words, but ids go up to word {needed}; expected one word per line for every id",
        names.len()
    );
    Err(Error::BadFile { file: source.path().to_owned(), problem })
}
