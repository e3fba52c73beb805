//! LIBSVM text: `label index:value index:value ...`, one example per line.
//!
//! Indices count from 1 unless zero-based ones are requested. A 0 in a one-based file is an error,
//! because accepting it silently would shift every column. `qid:` fields are ignored, `#` starts a
//! comment.
//!
//! A range does not know the number of examples before it. Rows are counted from 0 in each range,
//! and the caller that merges the ranges shifts them
//! ([`SparseBuilder::shift`](crate::sparse::SparseBuilder::shift)).

use super::field::NonFiniteHandling;
use super::index_value::{IndexBounds, PairBuffer, line_end, number, word_end};
use super::parse::{ParseError, ParsedLine, ReadReport, parse_lines};
use super::split::ByteRange;
use crate::Result;
use crate::sparse::DuplicatePolicy;

/// Example on one line: a label and the non-zero features.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Example<'a> {
    /// Number of the example in its range, from 0.
    pub row: usize,
    /// Label: a class or a regression target.
    pub label: f32,
    /// Columns of the features, from 0, in file order.
    pub columns: &'a [u32],
    /// Value of each feature.
    pub values: &'a [f32],
}

/// Reader of LIBSVM text, with its options.
#[derive(Clone, Debug)]
#[must_use]
pub struct Libsvm {
    base: u64,
    columns: Option<usize>,
    non_finite: NonFiniteHandling,
    allowed: u64,
    duplicates: DuplicatePolicy<f32>,
}

impl Default for Libsvm {
    fn default() -> Self {
        Self::new()
    }
}

impl Libsvm {
    /// Creates a reader with the defaults: one-based indices, any number of columns, finite numbers
    /// only, no bad lines.
    pub fn new() -> Self {
        let (non_finite, duplicates) = (NonFiniteHandling::Reject, DuplicatePolicy::Error);
        Self { base: 1, columns: None, non_finite, allowed: 0, duplicates }
    }

    /// Selects indices from 0. Default: indices from 1.
    pub fn zero_based(mut self, zero_based: bool) -> Self {
        self.base = u64::from(!zero_based);
        self
    }

    /// Sets the number of columns, such as that of the training set; a larger index is an error.
    /// Default: inferred.
    pub fn columns(mut self, columns: Option<usize>) -> Self {
        self.columns = columns;
        self
    }

    /// Sets the handling of NaN and infinity in labels and features. Default: the line is bad.
    pub fn non_finite(mut self, policy: NonFiniteHandling) -> Self {
        self.non_finite = policy;
        self
    }

    /// Sets the number of bad lines that are skipped and reported before reading fails. Default: 0.
    pub fn skip_bad_lines(mut self, count: u64) -> Self {
        self.allowed = count;
        self
    }

    /// Sets the policy for an index that occurs twice on a line, for readers into arrays. Default: an
    /// error.
    pub fn duplicates(mut self, policy: DuplicatePolicy<f32>) -> Self {
        self.duplicates = policy;
        self
    }

    /// Policy for an index that occurs twice on a line.
    pub(crate) fn duplicates_policy(&self) -> DuplicatePolicy<f32> {
        self.duplicates
    }

    /// Number of tolerated bad lines, for [`ReadReport::merge`].
    #[must_use]
    pub fn bad_lines_allowed(&self) -> u64 {
        self.allowed
    }

    /// Calls `visit` with every example of a range.
    pub fn read(
        &self,
        range: &ByteRange,
        mut visit: impl FnMut(Example<'_>) -> Result<(), Box<ParseError>>,
    ) -> Result<ReadReport> {
        let indices = IndexBounds { base: self.base, extent: self.columns.unwrap_or(1 << 32).min(1 << 32) as u64 };
        let mut pairs = PairBuffer::default();
        let mut row = 0;
        parse_lines(range, self.allowed, |text, _| {
            let start = text.iter().position(|byte| !matches!(byte, b' ' | b'\t')).unwrap_or(text.len());
            if let Some(bytes) = line_end(text, start) {
                return Ok(ParsedLine { bytes, records: 0 });
            }
            let Some((label, length)) = number(text, start, self.non_finite) else {
                return Err(ParseError::at(start..word_end(text, start), "a label (a finite number)"));
            };
            let bytes = pairs.parse(text, start + length, indices, self.non_finite)?;
            visit(Example { row, label, columns: &pairs.columns, values: &pairs.values })?;
            row += 1;
            Ok(ParsedLine { bytes, records: 1 })
        })
    }
}
