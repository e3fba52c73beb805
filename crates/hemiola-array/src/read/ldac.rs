//! LDA-C text: `n id:count id:count ...`, one document per line, ids from 0.
//!
//! The leading number says how many pairs follow; a line that says otherwise was cut or edited and is refused. Rows are
//! counted from 0 in each range, as in [`libsvm`](super::libsvm).

use super::field::NonFinite;
use super::libsvm::Example;
use super::number;
use super::pairs::{Indices, Pairs, line_end, word_end};
use super::pass::{Mistake, Report, Taken, pass};
use super::split::ByteRange;
use crate::Result;

/// How LDA-C text is read.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Ldac {
    words: Option<u64>,
    allowed: u64,
}

impl Ldac {
    /// Any number of words, no bad line tolerated.
    pub fn new() -> Self {
        Self::default()
    }

    /// The size of the vocabulary; a larger id is a mistake. Default: discovered.
    pub fn words(mut self, words: Option<u64>) -> Self {
        self.words = words;
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

    /// Hands every document of a range to `visit`; its label is the number of different words.
    pub fn read(
        &self,
        range: &ByteRange,
        mut visit: impl FnMut(Example<'_>) -> Result<(), Box<Mistake>>,
    ) -> Result<Report> {
        let indices = Indices { base: 0, extent: self.words.unwrap_or(1 << 32).min(1 << 32) };
        let mut pairs = Pairs::default();
        let mut row = 0;
        pass(range, self.allowed, |text, _| {
            let start = text.iter().position(|byte| !matches!(byte, b' ' | b'\t')).unwrap_or(text.len());
            if let Some(bytes) = line_end(text, start) {
                return Ok(Taken { bytes, records: 0 });
            }
            let Some((count, length)) = number::unsigned(&text[start..]) else {
                return Err(Mistake::at(start..word_end(text, start), "the number of words in the document"));
            };
            let bytes = pairs.parse(text, start + length, indices, NonFinite::Refuse)?;
            if pairs.columns.len() as u64 != count {
                let expected = format!("{} as the number of `id:count` pairs that follow", pairs.columns.len());
                return Err(Mistake::at(start..start + length, expected));
            }
            visit(Example { row, label: count as f32, columns: &pairs.columns, values: &pairs.values })?;
            row += 1;
            Ok(Taken { bytes, records: 1 })
        })
    }
}
