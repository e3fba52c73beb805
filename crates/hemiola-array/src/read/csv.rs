//! Separated values: one record per line, fields between separators.
//!
//! The separator can be any text: a comma, a tab, the `::` of old rating files, runs of white
//! space. Fields may be quoted with `"` (doubled inside), but a quoted field ends on its line, see
//! [`split`](super::split). Empty lines are skipped.
//!
//! **Invariant:** the header is detected from the first two lines of the file and never from the
//! type of the records or the split into ranges. The first line is a header if none of its fields
//! is a number and the second line has one.

use super::field::{Fields, FromFields, NonFiniteHandling, Separator};
use super::input::InputFile;
use super::parse::{ParseError, ParsedLine, ReadReport, first_line, parse_lines};
use super::split::ByteRange;
use crate::Result;

/// Treatment of the first line of each file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CsvHeader {
    /// Detect a header from the first two lines.
    #[default]
    Detect,
    /// The first line is a header.
    Present,
    /// There is no header line.
    Absent,
}

/// Reader of separated values, with its options.
#[derive(Clone, Debug)]
#[must_use]
pub struct Csv {
    separator: Separator,
    header: CsvHeader,
    quoted: bool,
    comment: Option<u8>,
    non_finite: NonFiniteHandling,
    allowed: u64,
}

impl Default for Csv {
    fn default() -> Self {
        Self::new()
    }
}

impl Csv {
    /// Creates a reader with the defaults: commas, header detection, quotes, no comments, finite
    /// numbers only, no bad lines.
    pub fn new() -> Self {
        Self {
            separator: Separator::Byte(b','),
            header: CsvHeader::Detect,
            quoted: true,
            comment: None,
            non_finite: NonFiniteHandling::Reject,
            allowed: 0,
        }
    }

    /// Sets the field separator: `,`, `\t`, `::`, or a single space for runs of white space.
    ///
    /// # Panics
    /// Panics if the text is empty, or contains a quote or a line ending.
    pub fn separator(mut self, text: &str) -> Self {
        self.separator = Separator::new(text);
        self
    }

    /// Sets the treatment of the first line. Default: detect a header.
    pub fn header(mut self, header: CsvHeader) -> Self {
        self.header = header;
        self
    }

    /// Enables or disables quoting with `"`. Default: enabled.
    pub fn quoted(mut self, quoted: bool) -> Self {
        self.quoted = quoted;
        self
    }

    /// Sets the byte that starts a comment line. Default: no comments.
    pub fn comment(mut self, byte: Option<u8>) -> Self {
        self.comment = byte;
        self
    }

    /// Sets the handling of NaN and infinity. Default: the line is bad.
    pub fn non_finite(mut self, policy: NonFiniteHandling) -> Self {
        self.non_finite = policy;
        self
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

    /// Calls `visit` with every record of a range. An error from `visit` makes the line a bad one.
    pub fn read<R: FromFields>(
        &self,
        range: &ByteRange,
        mut visit: impl FnMut(R) -> Result<(), Box<ParseError>>,
    ) -> Result<ReadReport> {
        self.parse_records(range, |text| {
            let mut fields = Fields::new(text, &self.separator, self.non_finite, self.quoted);
            let record = R::from_fields(&mut fields)?;
            let bytes = fields.finish()?;
            visit(record)?;
            Ok(bytes)
        })
    }

    /// Calls `visit` with the fields of every line. For names without allocation, and for lines
    /// with a varying number of fields. Unread fields are allowed.
    pub fn read_fields(
        &self,
        range: &ByteRange,
        mut visit: impl FnMut(&mut Fields<'_>) -> Result<(), Box<ParseError>>,
    ) -> Result<ReadReport> {
        self.parse_records(range, |text| {
            let mut fields = Fields::new(text, &self.separator, self.non_finite, self.quoted);
            visit(&mut fields)?;
            fields.skip_rest();
            fields.finish()
        })
    }

    /// Names of the columns, if the file has a header.
    pub fn column_names(&self, source: &InputFile) -> Result<Option<Vec<String>>> {
        let names =
            |line: &[u8]| self.split(line).iter().map(|field| String::from_utf8_lossy(field).into_owned()).collect();
        Ok(self.header_of(source)?.map(|(_, line)| names(&line)))
    }

    /// Fields of up to `count` records from the start of a file, as text: a preview of its columns.
    pub fn first_records(&self, source: &InputFile, count: usize) -> Result<Vec<Vec<String>>> {
        let header = self.header_of(source)?.map_or(u64::MAX, |(offset, _)| offset);
        let text =
            |line: &[u8]| self.split(line).iter().map(|field| String::from_utf8_lossy(field).into_owned()).collect();
        let mut reader = source.reader()?;
        let mut bytes = Vec::new();
        let mut size = 256 * 1024;
        loop {
            let before = bytes.len();
            bytes.resize(size, 0);
            let read = reader.fill(&mut bytes[before..])?;
            bytes.truncate(before + read);
            let all = bytes.len() < size || size >= MAX_HEAD_BYTES;
            let mut at = if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
            let mut records = Vec::new();
            while at < bytes.len() && records.len() < count {
                let (line, taken) = first_line(&bytes[at..]);
                let cut_off = at + taken == bytes.len() && !all;
                if !cut_off && !line.trim_ascii().is_empty() && at as u64 != header && !self.is_comment(line) {
                    records.push(text(line));
                }
                at += taken;
            }
            if !records.is_empty() || all {
                return Ok(records);
            }
            size *= 4;
        }
    }

    /// Header line and its offset.
    fn header_of(&self, source: &InputFile) -> Result<Option<(u64, Vec<u8>)>> {
        if self.header == CsvHeader::Absent && !source.has_header() {
            return Ok(None);
        }
        let head = CsvFirstLines::read(source, |line| self.is_comment(line))?;
        let numbers = |line: &[u8]| self.split(line).iter().any(|field| is_number(field));
        let present = !head.first.is_empty()
            && (self.header == CsvHeader::Present
                || source.has_header()
                || !numbers(&head.first) && numbers(&head.second));
        Ok(present.then_some((head.offset, head.first)))
    }

    fn parse_records(
        &self,
        range: &ByteRange,
        mut parse: impl FnMut(&[u8]) -> Result<usize, Box<ParseError>>,
    ) -> Result<ReadReport> {
        // Comments may precede the header, so any range may contain it.
        let header = self.header_of(range.source())?.map_or(u64::MAX, |(offset, _)| offset);
        let whitespace = self.separator == Separator::Whitespace;
        parse_lines(range, self.allowed, |text, offset| {
            let blank = matches!(text, [b'\n', ..] | [b'\r', b'\n', ..] | [b'\r']);
            if blank || offset == header || self.is_comment(text) {
                return Ok(ParsedLine { bytes: first_line(text).1, records: 0 });
            }
            if whitespace && first_line(text).0.trim_ascii().is_empty() {
                return Ok(ParsedLine { bytes: first_line(text).1, records: 0 });
            }
            Ok(ParsedLine { bytes: parse(text)?, records: 1 })
        })
    }

    #[inline]
    fn is_comment(&self, text: &[u8]) -> bool {
        self.comment.is_some() && self.comment == text.first().copied()
    }

    fn split(&self, line: &[u8]) -> Vec<Vec<u8>> {
        let mut fields = Fields::new(line, &self.separator, self.non_finite, self.quoted);
        let mut texts = Vec::new();
        while !fields.is_empty() {
            match fields.text() {
                Ok(text) => texts.push(text.trim_ascii().to_vec()),
                Err(_) => break,
            }
        }
        texts
    }
}

fn is_number(field: &[u8]) -> bool {
    fast_float2::parse::<f64, _>(field).is_ok_and(f64::is_finite)
}

/// First two lines that are neither empty nor comments.
#[derive(Default)]
struct CsvFirstLines {
    /// Offset of the first line in the file.
    offset: u64,
    first: Vec<u8>,
    second: Vec<u8>,
}

/// Maximum number of bytes that are searched for the first two lines.
const MAX_HEAD_BYTES: usize = 1 << 24;

impl CsvFirstLines {
    fn read(source: &InputFile, is_comment: impl Fn(&[u8]) -> bool) -> Result<Self> {
        let mut reader = source.reader()?;
        let mut bytes = Vec::new();
        let mut size = 4096;
        loop {
            let before = bytes.len();
            bytes.resize(size, 0);
            let count = reader.fill(&mut bytes[before..])?;
            bytes.truncate(before + count);
            let all = bytes.len() < size || size >= MAX_HEAD_BYTES;
            if let Some(head) = Self::find(&bytes, all, &is_comment) {
                return Ok(head);
            }
            size *= 4;
        }
    }

    /// Returns the two lines if they are complete. A last line without an ending is complete if
    /// `all` of the file was read.
    fn find(bytes: &[u8], all: bool, is_comment: impl Fn(&[u8]) -> bool) -> Option<Self> {
        let mut head = Self::default();
        let mut at = if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        while at < bytes.len() {
            let (line, taken) = first_line(&bytes[at..]);
            if !all && at + taken == bytes.len() {
                return None;
            }
            if !line.is_empty() && !is_comment(line) {
                if !head.first.is_empty() {
                    head.second = line.to_vec();
                    return Some(head);
                }
                (head.offset, head.first) = (at as u64, line.to_vec());
            }
            at += taken;
        }
        all.then_some(head)
    }
}
