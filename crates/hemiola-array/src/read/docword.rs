//! Bag-of-words format of the UCI repository: three header lines `D`, `W`, `NNZ`, then `document
//! word count`, with both ids counted from 1.
//!
//! **Invariant:** every range checks ids against the header, which is read once from the start of
//! the file. The number of entries in the header is checked after all ranges are merged
//! ([`Docword::check_count`]).

use super::field::{Fields, NonFiniteHandling, Separator};
use super::input::InputFile;
use super::parse::{ParseError, ParsedLine, ReadReport, first_line, parse_lines};
use super::split::ByteRange;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Bag-of-words file with its header read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Docword {
    source: InputFile,
    documents: usize,
    words: usize,
    entries: u64,
    /// Offset of the first entry.
    body: u64,
    allowed: u64,
}

impl Docword {
    /// Reads the header of a file.
    pub fn open(source: &InputFile) -> Result<Self> {
        let mut reader = source.reader()?;
        let mut head = vec![0; 4096];
        let length = reader.fill(&mut head)?;
        head.truncate(length);
        let mark = if head.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let mut at = mark;
        let mut numbers = [0_usize; 3];
        for (number, name) in numbers.iter_mut().zip(["documents", "words", "entries"]) {
            let (line, taken) = first_line(&head[at..]);
            let text = std::str::from_utf8(line.trim_ascii()).unwrap_or_default();
            *number = text.parse().map_err(|_| Error::BadFile {
                file: source.path().to_owned(),
                problem: format!(
                    "expected three header lines (documents, words, entries), found `{}` for the number of {name}",
                    super::parse::printable(line)
                ),
            })?;
            at += taken;
        }
        let [documents, words, entries] = numbers;
        let (entries, body) = (entries as u64, at as u64);
        Ok(Self { source: source.clone(), documents, words, entries, body, allowed: 0 })
    }

    /// Sets the number of bad lines that are skipped and reported before reading fails. Default: 0.
    #[must_use]
    pub fn skip_bad_lines(mut self, count: u64) -> Self {
        self.allowed = count;
        self
    }

    /// Number of tolerated bad lines, for [`ReadReport::merge`].
    #[must_use]
    pub fn bad_lines_allowed(&self) -> u64 {
        self.allowed
    }

    /// Number of documents, from the header.
    #[must_use]
    pub fn documents(&self) -> usize {
        self.documents
    }

    /// Size of the vocabulary, from the header.
    #[must_use]
    pub fn words(&self) -> usize {
        self.words
    }

    /// Number of entries, from the header.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Calls `visit` with every entry of a range of this file: document and word counted from 0,
    /// and the count.
    pub fn read(
        &self,
        range: &ByteRange,
        mut visit: impl FnMut(usize, usize, u32) -> Result<(), Box<ParseError>>,
    ) -> Result<ReadReport> {
        parse_lines(range, self.allowed, |text, offset| {
            if offset < self.body || first_line(text).0.trim_ascii().is_empty() {
                return Ok(ParsedLine { bytes: first_line(text).1, records: 0 });
            }
            let mut fields = Fields::new(text, &Separator::Whitespace, NonFiniteHandling::Reject, false);
            let document: usize = fields.next()?;
            if document.wrapping_sub(1) >= self.documents {
                return Err(fields.reject(format!("a document from 1 to {}", self.documents)));
            }
            let word: usize = fields.next()?;
            if word.wrapping_sub(1) >= self.words {
                return Err(fields.reject(format!("a word from 1 to {}", self.words)));
            }
            let count = fields.next()?;
            let bytes = fields.finish()?;
            visit(document - 1, word - 1, count)?;
            Ok(ParsedLine { bytes, records: 1 })
        })
    }

    /// Returns an error unless the file had as many entries, good and bad, as its header declares.
    pub fn check_count(&self, found: u64) -> Result<()> {
        if found == self.entries {
            return Ok(());
        }
        let problem = format!("the header declares {} entries, the file has {found}; is it complete?", self.entries);
        Err(Error::BadFile { file: self.source.path().to_owned(), problem })
    }
}
