//! `index:value` pairs of LIBSVM and LDA-C.
//!
//! **Invariant:** the scratch vectors hold the pairs of one line at a time and are passed on only
//! if the whole line was good, so a bad line leaves no entries behind.

use super::field::NonFiniteHandling;
use super::number;
use super::parse::ParseError;
use crate::error::ONE_BASED_INDEX;

/// Pairs of one line.
#[derive(Debug, Default)]
pub(super) struct PairBuffer {
    pub(super) columns: Vec<u32>,
    pub(super) values: Vec<f32>,
}

/// Range of valid indices.
#[derive(Clone, Copy, Debug)]
pub(super) struct IndexBounds {
    /// Smallest valid index: 1, or 0 if zero-based.
    pub(super) base: u64,
    /// Number of columns, 2³² if unknown.
    pub(super) extent: u64,
}

impl IndexBounds {
    #[cold]
    fn expected(self) -> String {
        let last = (self.extent - 1) + self.base;
        if self.base == 1 {
            format!("{ONE_BASED_INDEX}{last} (ask for zero-based indices if 0 is the first)")
        } else {
            format!("an index from 0 to {last}")
        }
    }
}

impl PairBuffer {
    /// Parses pairs from `at` to the end of the line. Returns the number of bytes including the
    /// line ending.
    #[inline]
    pub(super) fn parse(
        &mut self,
        text: &[u8],
        mut at: usize,
        indices: IndexBounds,
        non_finite: NonFiniteHandling,
    ) -> Result<usize, Box<ParseError>> {
        self.columns.clear();
        self.values.clear();
        loop {
            while matches!(text.get(at), Some(b' ' | b'\t')) {
                at += 1;
            }
            let Some((index, length)) = number::unsigned(&text[at..]) else {
                match line_end(text, at) {
                    Some(next) => return Ok(next),
                    None if text[at..].starts_with(b"qid:") => {
                        at = word_end(text, at);
                        continue;
                    }
                    None => return Err(ParseError::at(at..word_end(text, at), "`index:value`")),
                }
            };
            let column = index.wrapping_sub(indices.base);
            if text.get(at + length) != Some(&b':') {
                return Err(ParseError::at(at..word_end(text, at), "`index:value`"));
            }
            if column >= indices.extent {
                return Err(ParseError::at(at..at + length, indices.expected()));
            }
            at += length + 1;
            let Some((value, length)) = number(text, at, non_finite) else {
                return Err(bad_value(text, at));
            };
            at += length;
            self.columns.push(column as u32);
            self.values.push(value);
        }
    }
}

/// Parses the number at `at`. Returns it with its length, up to the end of the word or a comment.
#[inline]
pub(super) fn number(text: &[u8], at: usize, non_finite: NonFiniteHandling) -> Option<(f32, usize)> {
    number::float32(&text[at..])
        .filter(|(_, length)| matches!(text.get(at + length), None | Some(b' ' | b'\t' | b'\n' | b'\r' | b'#')))
        .or_else(|| if non_finite == NonFiniteHandling::Keep { any_number(text, at) } else { None })
}

/// Slow path, which also accepts `nan` and `inf`.
#[cold]
fn any_number(text: &[u8], at: usize) -> Option<(f32, usize)> {
    let word = &text[at..word_end(text, at)];
    let word = word.split(|byte| *byte == b'#').next().unwrap_or_default();
    fast_float2::parse(word).ok().map(|value| (value, word.len()))
}

#[cold]
#[expect(clippy::unnecessary_box_returns, reason = "it becomes the error of a result that is returned for every pair")]
fn bad_value(text: &[u8], at: usize) -> Box<ParseError> {
    ParseError::at(at..word_end(text, at), "a finite number")
}

/// Offset of the next line if the line ends at `at`, or only a comment follows.
#[inline]
pub(super) fn line_end(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at) {
        None => Some(at),
        Some(b'\n') => Some(at + 1),
        Some(b'\r') if matches!(text.get(at + 1), None | Some(b'\n')) => Some(text.len().min(at + 2)),
        Some(b'#') => Some(at + super::parse::first_line(&text[at..]).1),
        Some(_) => None,
    }
}

pub(super) fn word_end(text: &[u8], at: usize) -> usize {
    let ends = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    text[at..].iter().position(ends).map_or(text.len(), |length| at + length)
}
