//! `index:value` pairs, as LIBSVM and LDA-C have them.
//!
//! **Invariant:** the scratch vectors hold the pairs of one line at a time and are handed out only when the whole line was
//! good, so a bad line leaves nothing behind.

use super::field::NonFinite;
use super::number;
use super::pass::Mistake;

/// The pairs of one line.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    pub(super) columns: Vec<u32>,
    pub(super) values: Vec<f32>,
}

/// What the indices may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Indices {
    /// The smallest index a file may use: 1, or 0 if zero-based.
    pub(super) base: u64,
    /// The number of columns, if it is known.
    pub(super) extent: u64,
}

impl Indices {
    #[cold]
    fn expected(self) -> String {
        let last = (self.extent - 1) + self.base;
        if self.base == 1 {
            format!("an index from 1 to {last} (ask for zero-based indices if 0 is the first)")
        } else {
            format!("an index from 0 to {last}")
        }
    }
}

impl Pairs {
    /// Parses pairs from `at` to the end of the line and returns the bytes up to and with its ending.
    #[inline]
    pub(super) fn parse(
        &mut self,
        text: &[u8],
        mut at: usize,
        indices: Indices,
        non_finite: NonFinite,
    ) -> Result<usize, Box<Mistake>> {
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
                    None => return Err(Mistake::at(at..word_end(text, at), "`index:value`")),
                }
            };
            let column = index.wrapping_sub(indices.base);
            if text.get(at + length) != Some(&b':') {
                return Err(Mistake::at(at..word_end(text, at), "`index:value`"));
            }
            if column >= indices.extent {
                return Err(Mistake::at(at..at + length, indices.expected()));
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

/// The number at `at`, and the bytes it takes up to where the word or a comment ends.
#[inline]
pub(super) fn number(text: &[u8], at: usize, non_finite: NonFinite) -> Option<(f32, usize)> {
    number::float32(&text[at..])
        .filter(|(_, length)| matches!(text.get(at + length), None | Some(b' ' | b'\t' | b'\n' | b'\r' | b'#')))
        .or_else(|| if non_finite == NonFinite::Keep { any_number(text, at) } else { None })
}

/// The slow way, which knows `nan` and `inf` too.
#[cold]
fn any_number(text: &[u8], at: usize) -> Option<(f32, usize)> {
    let word = &text[at..word_end(text, at)];
    let word = word.split(|byte| *byte == b'#').next().unwrap_or_default();
    fast_float2::parse(word).ok().map(|value| (value, word.len()))
}

#[cold]
#[expect(clippy::unnecessary_box_returns, reason = "it goes into a result that is returned for every pair")]
fn bad_value(text: &[u8], at: usize) -> Box<Mistake> {
    Mistake::at(at..word_end(text, at), "a finite number")
}

/// The beginning of the next line if the line ends at `at`, or has but a comment there.
#[inline]
pub(super) fn line_end(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at) {
        None => Some(at),
        Some(b'\n') => Some(at + 1),
        Some(b'\r') if matches!(text.get(at + 1), None | Some(b'\n')) => Some(text.len().min(at + 2)),
        Some(b'#') => Some(at + super::pass::first_line(&text[at..]).1),
        Some(_) => None,
    }
}

pub(super) fn word_end(text: &[u8], at: usize) -> usize {
    let ends = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    text[at..].iter().position(ends).map_or(text.len(), |length| at + length)
}
