//! One pass over a byte range: every line is given to a parser, bad lines are collected, reports are joined.
//!
//! A parser that meets something unexpected returns a [`Mistake`]: where in the line, and what it expected. Only then is
//! the text of the mistake copied and its line number counted, from the beginning of the file, all mistakes of a range in
//! one go; a clean pass pays nothing.
//!
//! **Invariant:** what [`Report::settle`] decides depends on the files alone, not on how they were cut. A range stops after
//! one bad line more than tolerated; the first `n + 1` bad lines in file and offset order are therefore always known, and
//! line `n + 1` is the one that is reported.

use super::slab::Slabs;
use super::source::Source;
use super::split::ByteRange;
use crate::error::BadLine;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// What a parser or a visitor did not like about a line.
///
/// It is boxed because results are returned for every record and mistakes are rare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where in the line, in bytes. `None`: the whole line.
    at: Option<Range<usize>>,
    expected: String,
}

impl Mistake {
    /// Something else was expected of the line: `a rating from 1 to 5`.
    #[must_use]
    #[cold]
    pub fn new(expected: impl Into<String>) -> Box<Self> {
        Box::new(Self { at: None, expected: expected.into() })
    }

    /// Something else was expected at these bytes of the line. An empty range at the end of the line stands for that end.
    #[must_use]
    #[cold]
    pub fn at(bytes: Range<usize>, expected: impl Into<String>) -> Box<Self> {
        Box::new(Self { at: Some(bytes), expected: expected.into() })
    }

    fn into_bad_line(self, source: &Source, line: &[u8]) -> BadLine {
        let at = self.at.unwrap_or(0..line.len());
        let at = at.start.min(line.len())..at.end.min(line.len());
        let found = if at.start == line.len() && !line.is_empty() { None } else { Some(shown(&line[at.clone()])) };
        BadLine {
            file: source.path().to_owned(),
            line: 0,
            column: String::from_utf8_lossy(&line[..at.start]).chars().count() as u64 + 1,
            expected: self.expected,
            found,
        }
    }
}

/// Text for a message: at most 40 characters, control characters escaped.
pub(crate) fn shown(text: &[u8]) -> String {
    // Four bytes hold any character, so the cut cannot take away one of the first 41.
    let text = String::from_utf8_lossy(&text[..text.len().min(4 * 41)]).into_owned();
    let mut shown = String::new();
    for (count, character) in text.chars().enumerate() {
        if count == 40 {
            shown.push('…');
            break;
        }
        if character.is_control() || character == '\u{feff}' {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// What a pass over one range found besides the records themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The records handed to the visitor.
    pub records: u64,
    /// The lines left out, in order: at most one more than tolerated.
    pub bad: Vec<BadLine>,
}

/// The joined reports of all ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The records of all ranges.
    pub records: u64,
    /// The lines that were left out, as tolerated.
    pub skipped: Vec<BadLine>,
}

impl Report {
    /// Joins the reports of all ranges of `sources`, in range order, into one verdict.
    pub fn settle(sources: &[Source], reports: impl IntoIterator<Item = Self>, allowed: u64) -> Result<Summary> {
        let mut summary = Summary::default();
        for report in reports {
            summary.records += report.records;
            summary.skipped.extend(report.bad);
        }
        if summary.skipped.len() as u64 > allowed {
            let first = Box::new(summary.skipped.swap_remove(allowed as usize));
            return Err(if allowed == 0 { Error::BadLine(first) } else { Error::TooManyBadLines { allowed, first } });
        }
        if summary.records == 0 && summary.skipped.is_empty() {
            let file = sources.first().map(|source| source.path().to_owned()).unwrap_or_default();
            return Err(Error::EmptyInput { file });
        }
        Ok(summary)
    }
}

/// What a parser did with a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// The bytes of the line with its ending.
    pub(super) bytes: usize,
    /// Records handed out: 0 for a comment or an empty line.
    pub(super) records: u64,
}

/// Gives the rest of each slab to `parse`, which takes the first line of it. `offset` is where that line is in the file.
pub(super) fn pass(
    range: &ByteRange,
    allowed: u64,
    mut parse: impl FnMut(&[u8], u64) -> Result<Taken, Box<Mistake>>,
) -> Result<Report> {
    let mut slabs = Slabs::open(range)?;
    let mut report = Report::default();
    let mut offsets = Vec::new();
    'range: while let Some(slab) = slabs.next()? {
        let mut at = 0;
        while at < slab.bytes.len() {
            let text = &slab.bytes[at..];
            match parse(text, slab.offset + at as u64) {
                Ok(taken) => {
                    at += taken.bytes;
                    report.records += taken.records;
                }
                Err(mistake) => {
                    let (line, taken) = first_line(text);
                    report.bad.push(mistake.into_bad_line(range.source(), line));
                    offsets.push(slab.offset + at as u64);
                    at += taken;
                    if report.bad.len() as u64 > allowed {
                        break 'range;
                    }
                }
            }
        }
    }
    if !offsets.is_empty() {
        number(range.source(), &offsets, &mut report.bad)?;
    }
    Ok(report)
}

/// The first line without its ending, and its length with it. LF and CRLF end a line; a lone CR does not.
#[inline]
pub(super) fn first_line(text: &[u8]) -> (&[u8], usize) {
    match memchr::memchr(b'\n', text) {
        Some(ending) => (trimmed(&text[..ending]), ending + 1),
        None => (trimmed(text), text.len()),
    }
}

fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Counts lines from the beginning of the file up to each of the ascending offsets.
#[cold]
fn number(source: &Source, offsets: &[u64], bad: &mut [BadLine]) -> Result<()> {
    let mut reader = source.reader()?;
    let mut buffer = vec![0; 256 * 1024];
    let (mut at, mut line) = (0_u64, 1_u64);
    for (&offset, bad) in offsets.iter().zip(bad) {
        while at < offset {
            let wanted = buffer.len().min((offset - at) as usize);
            let count = reader.read(&mut buffer[..wanted])?;
            if count == 0 {
                break; // The file shrank; the pass over it has said so or will.
            }
            line += memchr::memchr_iter(b'\n', &buffer[..count]).count() as u64;
            at += count as u64;
        }
        bad.line = line;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_text_is_short_and_has_no_control_characters() {
        assert_eq!(shown(b"a\tb\x00\x1b[31m\r"), "a\\tb\\u{0}\\u{1b}[31m\\r");
        assert_eq!(shown("é".repeat(100).as_bytes()), format!("{}…", "é".repeat(40)));
        assert_eq!(shown(b"\xff\xfe"), "\u{fffd}\u{fffd}");
    }
}
