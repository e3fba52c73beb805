//! Separated values: one record per line, fields between separators.
//!
//! Any separator will do: a comma, a tab, the `::` of old rating files, runs of white space. Fields may be quoted with `"`
//! (doubled inside), but a quoted field ends on its line, see [`split`](super::split). Empty lines are left out.
//!
//! **Invariant:** whether the first line is a header is decided from the first two lines of the file and never from the
//! type of the records or the cut into ranges: it is one if none of its fields is a number and the second line has one.

use super::field::{Fields, FromFields, NonFinite, Separator};
use super::pass::{Mistake, Report, Taken, first_line, pass};
use super::source::Source;
use super::split::ByteRange;
use crate::Result;

/// Whether the first line of each file names the columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Header {
    /// Look at the first two lines.
    #[default]
    Detect,
    /// There is one.
    Present,
    /// There is none.
    Absent,
}

/// How separated values are read.
#[derive(Clone, Debug)]
#[must_use]
pub struct Csv {
    separator: Separator,
    header: Header,
    quoted: bool,
    comment: Option<u8>,
    non_finite: NonFinite,
    allowed: u64,
}

impl Default for Csv {
    fn default() -> Self {
        Self::new()
    }
}

impl Csv {
    /// Commas, a header if there is one, quotes understood, no comments, finite numbers only, no bad line tolerated.
    pub fn new() -> Self {
        Self {
            separator: Separator::Byte(b','),
            header: Header::Detect,
            quoted: true,
            comment: None,
            non_finite: NonFinite::Refuse,
            allowed: 0,
        }
    }

    /// What stands between two fields: `,`, `\t`, `::`, or a single space for runs of white space.
    ///
    /// # Panics
    /// If the text is empty, or holds a quote or a line ending.
    pub fn separator(mut self, text: &str) -> Self {
        self.separator = Separator::new(text);
        self
    }

    /// Whether the first line of each file names the columns. Default: look.
    pub fn header(mut self, header: Header) -> Self {
        self.header = header;
        self
    }

    /// Whether `"` quotes a field. Default: yes.
    pub fn quoted(mut self, quoted: bool) -> Self {
        self.quoted = quoted;
        self
    }

    /// Lines that begin with this byte are left out. Default: none.
    pub fn comment(mut self, byte: Option<u8>) -> Self {
        self.comment = byte;
        self
    }

    /// What to do with NaN and infinity. Default: the line is bad.
    pub fn non_finite(mut self, policy: NonFinite) -> Self {
        self.non_finite = policy;
        self
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

    /// Hands every record of a range to `visit`. A mistake it returns makes the line a bad one.
    pub fn read<R: FromFields>(
        &self,
        range: &ByteRange,
        mut visit: impl FnMut(R) -> Result<(), Box<Mistake>>,
    ) -> Result<Report> {
        self.run(range, |text| {
            let mut fields = Fields::new(text, &self.separator, self.non_finite, self.quoted);
            let record = R::from_fields(&mut fields)?;
            let bytes = fields.finish()?;
            visit(record)?;
            Ok(bytes)
        })
    }

    /// Hands the fields of every line to `visit`, which takes them as it likes: the way to read names without allocating
    /// and lines whose number of fields varies. Fields left over are no mistake.
    pub fn read_fields(
        &self,
        range: &ByteRange,
        mut visit: impl FnMut(&mut Fields<'_>) -> Result<(), Box<Mistake>>,
    ) -> Result<Report> {
        self.run(range, |text| {
            let mut fields = Fields::new(text, &self.separator, self.non_finite, self.quoted);
            visit(&mut fields)?;
            fields.skip_rest();
            fields.finish()
        })
    }

    /// The names of the columns, if the file has a header.
    pub fn column_names(&self, source: &Source) -> Result<Option<Vec<String>>> {
        let names =
            |line: &[u8]| self.split(line).iter().map(|field| String::from_utf8_lossy(field).into_owned()).collect();
        Ok(self.header_of(source)?.map(|(_, line)| names(&line)))
    }

    /// The fields of up to `count` records from the beginning of a file, as text: what its columns seem to be.
    pub fn first_records(&self, source: &Source, count: usize) -> Result<Vec<Vec<String>>> {
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
            let all = bytes.len() < size || size >= LONGEST_HEAD;
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

    /// The header line and where it begins.
    fn header_of(&self, source: &Source) -> Result<Option<(u64, Vec<u8>)>> {
        if self.header == Header::Absent {
            return Ok(None);
        }
        let head = Head::read(source, |line| self.is_comment(line))?;
        let numbers = |line: &[u8]| self.split(line).iter().any(|field| is_number(field));
        let present = !head.first.is_empty()
            && (self.header == Header::Present || !numbers(&head.first) && numbers(&head.second));
        Ok(present.then_some((head.offset, head.first)))
    }

    fn run(&self, range: &ByteRange, mut parse: impl FnMut(&[u8]) -> Result<usize, Box<Mistake>>) -> Result<Report> {
        // Comments may stand before the header, so any range may own it.
        let header = self.header_of(range.source())?.map_or(u64::MAX, |(offset, _)| offset);
        let whitespace = self.separator == Separator::Whitespace;
        pass(range, self.allowed, |text, offset| {
            let blank = matches!(text, [b'\n', ..] | [b'\r', b'\n', ..] | [b'\r']);
            if blank || offset == header || self.is_comment(text) {
                return Ok(Taken { bytes: first_line(text).1, records: 0 });
            }
            if whitespace && first_line(text).0.trim_ascii().is_empty() {
                return Ok(Taken { bytes: first_line(text).1, records: 0 });
            }
            Ok(Taken { bytes: parse(text)?, records: 1 })
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

/// The first two lines that are neither empty nor comments.
#[derive(Default)]
struct Head {
    /// Where the first one begins.
    offset: u64,
    first: Vec<u8>,
    second: Vec<u8>,
}

/// A head that does not end within this many bytes has no header worth looking for.
const LONGEST_HEAD: usize = 1 << 24;

impl Head {
    fn read(source: &Source, is_comment: impl Fn(&[u8]) -> bool) -> Result<Self> {
        let mut reader = source.reader()?;
        let mut bytes = Vec::new();
        let mut size = 4096;
        loop {
            let before = bytes.len();
            bytes.resize(size, 0);
            let count = reader.fill(&mut bytes[before..])?;
            bytes.truncate(before + count);
            let all = bytes.len() < size || size >= LONGEST_HEAD;
            if let Some(head) = Self::find(&bytes, all, &is_comment) {
                return Ok(head);
            }
            size *= 4;
        }
    }

    /// The two lines, if they are whole. A last line without an ending is whole when `all` of the file is there.
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
