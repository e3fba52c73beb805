//! Parsing of a byte range: each line goes to a parser, bad lines are collected, reports are
//! merged.
//!
//! A parser that meets something unexpected returns a [`ParseError`]: the position in the line, and
//! the expectation. Only then is the text copied and the line number counted, from the start of the
//! file, for all errors of a range at once; clean input costs nothing.
//!
//! **Invariant:** the result of [`ReadReport::merge`] depends only on the files, not on the split
//! into ranges. A range stops after one bad line more than tolerated. The first `n + 1` bad lines
//! in file and offset order are therefore always known, and line `n + 1` is reported.

use super::input::InputFile;
use super::line_slab::LineSlabs;
use super::split::ByteRange;
use crate::error::BadLine;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Rejection of a line by a parser or a visitor.
///
/// It is boxed because results are returned for every record and errors are rare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Byte range in the line; `None` for the whole line.
    at: Option<Range<usize>>,
    expected: String,
}

impl ParseError {
    /// Error about the whole line, with the expectation: `a rating from 1 to 5`.
    #[must_use]
    #[cold]
    pub fn new(expected: impl Into<String>) -> Box<Self> {
        Box::new(Self { at: None, expected: expected.into() })
    }

    /// Error at these bytes of the line. An empty range at the end of the line stands for that end.
    #[must_use]
    #[cold]
    pub fn at(bytes: Range<usize>, expected: impl Into<String>) -> Box<Self> {
        Box::new(Self { at: Some(bytes), expected: expected.into() })
    }

    fn into_bad_line(self, source: &InputFile, line: &[u8]) -> BadLine {
        let at = self.at.unwrap_or(0..line.len());
        let at = at.start.min(line.len())..at.end.min(line.len());
        let found = if at.start == line.len() && !line.is_empty() { None } else { Some(printable(&line[at.clone()])) };
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
pub(crate) fn printable(text: &[u8]) -> String {
    // Any character has at most four bytes, so the slice keeps the first 41.
    let text = String::from_utf8_lossy(&text[..text.len().min(4 * 41)]).into_owned();
    let mut printable = String::new();
    for (count, character) in text.chars().enumerate() {
        if count == 40 {
            printable.push('…');
            break;
        }
        if character.is_control() || character == '\u{feff}' {
            printable.extend(character.escape_default());
        } else {
            printable.push(character);
        }
    }
    printable
}

/// Report on reading one range.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadReport {
    /// Number of records passed to the visitor.
    pub records: u64,
    /// Skipped lines, in order: at most one more than tolerated.
    pub bad: Vec<BadLine>,
}

/// Merged reports of all ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadSummary {
    /// Number of records of all ranges.
    pub records: u64,
    /// Bad lines that were skipped.
    pub skipped: Vec<BadLine>,
}

impl ReadReport {
    /// Merges the reports of all ranges of `sources`, in range order. Returns an error if there are
    /// more than `allowed` bad lines, or no records at all.
    pub fn merge(sources: &[InputFile], reports: impl IntoIterator<Item = Self>, allowed: u64) -> Result<ReadSummary> {
        let mut summary = ReadSummary::default();
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

/// Line consumed by a parser.
#[derive(Clone, Copy, Debug)]
pub(super) struct ParsedLine {
    /// Length of the line in bytes, including its ending.
    pub(super) bytes: usize,
    /// Number of records in the line: 0 for a comment or an empty line.
    pub(super) records: u64,
}

/// Passes the rest of each slab to `parse`, which consumes its first line. The second argument of
/// `parse` is the offset of that line in the file.
pub(super) fn parse_lines(
    range: &ByteRange,
    allowed: u64,
    mut parse: impl FnMut(&[u8], u64) -> Result<ParsedLine, Box<ParseError>>,
) -> Result<ReadReport> {
    let mut slabs = LineSlabs::open(range)?;
    let mut report = ReadReport::default();
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
        number_lines(range.source(), &offsets, &mut report.bad)?;
    }
    Ok(report)
}

/// First line without its ending, and its length with it. LF and CRLF end a line; a lone CR does
/// not.
#[inline]
pub(super) fn first_line(text: &[u8]) -> (&[u8], usize) {
    match memchr::memchr(b'\n', text) {
        Some(ending) => (trim_ending(&text[..ending]), ending + 1),
        None => (trim_ending(text), text.len()),
    }
}

fn trim_ending(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Counts lines from the first one of the file up to each of the ascending offsets.
#[cold]
fn number_lines(source: &InputFile, offsets: &[u64], bad: &mut [BadLine]) -> Result<()> {
    let mut reader = source.reader()?;
    let mut buffer = vec![0; 256 * 1024];
    let (mut at, mut line) = (0_u64, source.first_line());
    for (&offset, bad) in offsets.iter().zip(bad) {
        while at < offset {
            let wanted = buffer.len().min((offset - at) as usize);
            let count = reader.read(&mut buffer[..wanted])?;
            if count == 0 {
                break; // the file shrank; the parse reports that
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
    fn printable_text_is_short_and_has_no_control_characters() {
        assert_eq!(printable(b"a\tb\x00\x1b[31m\r"), "a\\tb\\u{0}\\u{1b}[31m\\r");
        assert_eq!(printable("é".repeat(100).as_bytes()), format!("{}…", "é".repeat(40)));
        assert_eq!(printable(b"\xff\xfe"), "\u{fffd}\u{fffd}");
    }
}
