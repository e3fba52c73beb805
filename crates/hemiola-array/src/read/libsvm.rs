//! LIBSVM text: `label index:value index:value ...`, one example per line.
//!
//! Indices count from 1 unless zero-based ones are asked for; a 0 in a one-based file is a mistake that is named, because
//! taking it silently would shift every column. `qid:` fields are ignored, `#` begins a comment.
//!
//! A range cannot know how many examples stand before it: rows are counted from 0 in each range, and whoever joins the
//! ranges adds up ([`SparseBuilder::shift`](crate::sparse::SparseBuilder::shift)).

use super::field::NonFinite;
use super::pairs::{Indices, Pairs, line_end, number, word_end};
use super::pass::{Mistake, Report, Taken, pass};
use super::split::ByteRange;
use crate::Result;

/// One line: a label and the non-zero features.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Example<'a> {
    /// The number of the example in its range, from 0.
    pub row: u64,
    /// The label: a class or a target.
    pub label: f32,
    /// The columns of the features, from 0, in file order.
    pub columns: &'a [u32],
    /// The value of each.
    pub values: &'a [f32],
}

/// How LIBSVM text is read.
#[derive(Clone, Debug)]
#[must_use]
pub struct Libsvm {
    base: u64,
    columns: Option<u64>,
    non_finite: NonFinite,
    allowed: u64,
}

impl Default for Libsvm {
    fn default() -> Self {
        Self::new()
    }
}

impl Libsvm {
    /// One-based indices, any number of columns, finite numbers only, no bad line tolerated.
    pub fn new() -> Self {
        Self { base: 1, columns: None, non_finite: NonFinite::Refuse, allowed: 0 }
    }

    /// Whether the first column has index 0. Default: no, it has index 1.
    pub fn zero_based(mut self, zero_based: bool) -> Self {
        self.base = u64::from(!zero_based);
        self
    }

    /// The number of columns, for instance that of the training set; a larger index is a mistake. Default: discovered.
    pub fn columns(mut self, columns: Option<u64>) -> Self {
        self.columns = columns;
        self
    }

    /// What to do with NaN and infinity, in labels and features. Default: the line is bad.
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

    /// Hands every example of a range to `visit`.
    pub fn read(
        &self,
        range: &ByteRange,
        mut visit: impl FnMut(Example<'_>) -> Result<(), Box<Mistake>>,
    ) -> Result<Report> {
        let indices = Indices { base: self.base, extent: self.columns.unwrap_or(1 << 32).min(1 << 32) };
        let mut pairs = Pairs::default();
        let mut row = 0;
        pass(range, self.allowed, |text, _| {
            let start = text.iter().position(|byte| !matches!(byte, b' ' | b'\t')).unwrap_or(text.len());
            if let Some(bytes) = line_end(text, start) {
                return Ok(Taken { bytes, records: 0 });
            }
            let Some((label, length)) = number(text, start, self.non_finite) else {
                return Err(Mistake::at(start..word_end(text, start), "a label (a finite number)"));
            };
            let bytes = pairs.parse(text, start + length, indices, self.non_finite)?;
            visit(Example { row, label, columns: &pairs.columns, values: &pairs.values })?;
            row += 1;
            Ok(Taken { bytes, records: 1 })
        })
    }
}
