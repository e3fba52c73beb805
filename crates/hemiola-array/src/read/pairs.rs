//! `index:value` pairs, as LIBSVM and LDA-C have them.
//!
//! **Invariant:** the scratch vectors hold the pairs of one line at a time and are handed out only when the whole line was
//! good, so a bad line leaves nothing behind.

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
    pub(super) fn parse(&mut self, text: &[u8], mut at: usize, indices: Indices) -> Result<usize, Box<Mistake>> {
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
            let Some((value, length)) = number::float32(&text[at..]) else {
                return Err(bad_value(text, at));
            };
            if !matches!(text.get(at + length), None | Some(b' ' | b'\t' | b'\n' | b'\r' | b'#')) {
                return Err(bad_value(text, at));
            }
            at += length;
            self.columns.push(column as u32);
            self.values.push(value);
        }
    }
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
