//! LDA-C text: `n id:count id:count ...`, one document per line, ids from 0.
//!
//! The leading number is the number of pairs; a line with a wrong count was truncated or edited and
//! is rejected. Rows are counted from 0 in each range, as in [`libsvm`](super::libsvm).

use super::field::NonFiniteHandling;
use super::index_value::{IndexBounds, PairBuffer, line_end, word_end};
use super::libsvm::Example;
use super::number;
use super::parse::{ParseError, ParsedLine, ReadReport, parse_lines};
use super::split::ByteRange;
use crate::Result;

/// Reader of LDA-C text, with its options.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Ldac {
    words: Option<usize>,
    allowed: u64,
}

impl Ldac {
    /// Creates a reader with the defaults: any vocabulary size, no bad lines.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the size of the vocabulary; a larger id is an error. Default: inferred.
    pub fn words(mut self, words: Option<usize>) -> Self {
        self.words = words;
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

    /// Calls `visit` with every document of a range; its label is the number of distinct words.
    pub fn read(
        &self,
        range: &ByteRange,
        mut visit: impl FnMut(Example<'_>) -> Result<(), Box<ParseError>>,
    ) -> Result<ReadReport> {
        let indices = IndexBounds { base: 0, extent: self.words.unwrap_or(1 << 32).min(1 << 32) as u64 };
        let mut pairs = PairBuffer::default();
        let mut row = 0;
        parse_lines(range, self.allowed, |text, _| {
            let start = text.iter().position(|byte| !matches!(byte, b' ' | b'\t')).unwrap_or(text.len());
            if let Some(bytes) = line_end(text, start) {
                return Ok(ParsedLine { bytes, records: 0 });
            }
            let Some((count, length)) = number::unsigned(&text[start..]) else {
                return Err(ParseError::at(start..word_end(text, start), "the number of words in the document"));
            };
            let bytes = pairs.parse(text, start + length, indices, NonFiniteHandling::Reject)?;
            if pairs.columns.len() as u64 != count {
                let expected = format!("{} as the number of `id:count` pairs that follow", pairs.columns.len());
                return Err(ParseError::at(start..start + length, expected));
            }
            visit(Example { row, label: count as f32, columns: &pairs.columns, values: &pairs.values })?;
            row += 1;
            Ok(ParsedLine { bytes, records: 1 })
        })
    }
}
