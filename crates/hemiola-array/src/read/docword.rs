//! The bag-of-words format of the UCI repository: three header lines `D`, `W`, `NNZ`, then `document word count`, both ids
//! counted from 1.
//!
//! **Invariant:** every range checks ids against the header, which is read once from the beginning of the file; the number
//! of entries promised there is checked when all ranges are joined ([`Docword::must_have`]).

use super::field::{Fields, NonFinite, Separator};
use super::pass::{Mistake, Report, Taken, first_line, pass};
use super::source::Source;
use super::split::ByteRange;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// A bag-of-words file whose header was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Docword {
    source: Source,
    documents: u64,
    words: u64,
    entries: u64,
    /// Where the first entry begins.
    body: u64,
    allowed: u64,
}

impl Docword {
    /// Reads the header.
    pub fn open(source: &Source) -> Result<Self> {
        let mut reader = source.reader()?;
        let mut head = vec![0; 4096];
        let length = reader.fill(&mut head)?;
        head.truncate(length);
        let mark = if head.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let mut at = mark;
        let mut numbers = [0; 3];
        for (number, name) in numbers.iter_mut().zip(["documents", "words", "entries"]) {
            let (line, taken) = first_line(&head[at..]);
            let text = std::str::from_utf8(line.trim_ascii()).unwrap_or_default();
            *number = text.parse().map_err(|_| Error::BadFile {
                file: source.path().to_owned(),
                problem: format!(
                    "expected three header lines (documents, words, entries), found `{}` for the number of {name}",
                    super::pass::shown(line)
                ),
            })?;
            at += taken;
        }
        let [documents, words, entries] = numbers;
        Ok(Self { source: source.clone(), documents, words, entries, body: at as u64, allowed: 0 })
    }

    /// How many bad lines are left out and reported before reading fails. Default: 0.
    #[must_use]
    pub fn skip_bad_lines(mut self, count: u64) -> Self {
        self.allowed = count;
        self
    }

    /// How many bad lines are tolerated, for [`Report::settle`].
    #[must_use]
    pub fn bad_lines_allowed(&self) -> u64 {
        self.allowed
    }

    /// The number of documents.
    #[must_use]
    pub fn documents(&self) -> u64 {
        self.documents
    }

    /// The number of words.
    #[must_use]
    pub fn words(&self) -> u64 {
        self.words
    }

    /// The number of entries.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Hands every entry of a range of this file to `visit`: document and word counted from 0, and the count.
    pub fn read(
        &self,
        range: &ByteRange,
        mut visit: impl FnMut(u64, u64, u32) -> Result<(), Box<Mistake>>,
    ) -> Result<Report> {
        pass(range, self.allowed, |text, offset| {
            if offset < self.body || first_line(text).0.trim_ascii().is_empty() {
                return Ok(Taken { bytes: first_line(text).1, records: 0 });
            }
            let mut fields = Fields::new(text, &Separator::Whitespace, NonFinite::Refuse, false);
            let document: u64 = fields.next()?;
            if document.wrapping_sub(1) >= self.documents {
                return Err(fields.refuse(format!("a document from 1 to {}", self.documents)));
            }
            let word: u64 = fields.next()?;
            if word.wrapping_sub(1) >= self.words {
                return Err(fields.refuse(format!("a word from 1 to {}", self.words)));
            }
            let count = fields.next()?;
            let bytes = fields.finish()?;
            visit(document - 1, word - 1, count)?;
            Ok(Taken { bytes, records: 1 })
        })
    }

    /// An error unless the file had as many entries, good and bad, as its header promises.
    pub fn must_have(&self, found: u64) -> Result<()> {
        if found == self.entries {
            return Ok(());
        }
        let problem = format!("the header promises {} entries, the file has {found}; is it complete?", self.entries);
        Err(Error::BadFile { file: self.source.path().to_owned(), problem })
    }
}
