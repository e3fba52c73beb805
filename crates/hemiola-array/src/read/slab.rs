//! The bytes of a range as slabs of whole lines.
//!
//! Parsers want a long slice that begins and ends at line boundaries: no call per line, no copy per line. A slab is as much
//! of the range as fits a buffer in the second-level cache, cut after its last line ending; the unfinished line moves to
//! the front of the buffer before the next read. **Why not a memory map:** a file that shrinks while mapped kills the
//! process, and reading into a warm buffer takes a fifth of the time that parsing does.
//!
//! **Invariant:** concatenated, the slabs of a range are exactly the lines that start in it. A byte order mark at the
//! beginning of the file is left out.

use super::source::{Compression, SourceReader};
use super::split::ByteRange;
use crate::{Error, Result};

const SLAB: usize = 256 * 1024;
/// A longer line is no text: most often a binary file, or line endings of 1990 (a lone CR).
const LONGEST_LINE: usize = 1 << 30;

/// Whole lines and where they stand.
#[derive(Debug)]
pub(super) struct Slab<'a> {
    pub(super) bytes: &'a [u8],
    /// Where the first byte is in the decoded file.
    pub(super) offset: u64,
}

/// Reads the slabs of a range.
pub(super) struct Slabs {
    reader: SourceReader,
    /// Where lines stop belonging to the range.
    end: u64,
    buffer: Vec<u8>,
    /// How much of the buffer holds data.
    filled: usize,
    /// How much of that was handed out with the last slab.
    taken: usize,
    /// Where the beginning of the buffer is in the decoded file.
    offset: u64,
    finished: bool,
}

impl Slabs {
    pub(super) fn open(range: &ByteRange) -> Result<Self> {
        let mut reader = range.source().reader()?;
        reader.plan_to(range.end());
        let slabs = |reader, offset, finished| Self {
            reader,
            end: range.end(),
            buffer: vec![0; SLAB],
            filled: 0,
            taken: 0,
            offset,
            finished,
        };
        if range.start() == 0 {
            return Ok(slabs(reader, 0, range.end() == 0));
        }
        // The line that starts before the range belongs to the range before.
        let mut at = range.start() - 1;
        reader.seek(at)?;
        let mut piece = [0; 4096];
        let start = loop {
            let count = reader.read(&mut piece)?;
            if let Some(ending) = memchr::memchr(b'\n', &piece[..count]) {
                break at + ending as u64 + 1;
            }
            if count == 0 {
                break u64::MAX;
            }
            at += count as u64;
        };
        if start >= range.end() {
            return Ok(slabs(reader, range.end(), true));
        }
        reader.seek(start)?;
        Ok(slabs(reader, start, false))
    }

    /// The next slab; `None` at the end of the range, after a check that the file did not change.
    pub(super) fn next(&mut self) -> Result<Option<Slab<'_>>> {
        self.buffer.copy_within(self.taken..self.filled, 0);
        self.filled -= self.taken;
        self.offset += self.taken as u64;
        self.taken = 0;
        while !self.finished {
            if self.filled == self.buffer.len() {
                if self.buffer.len() >= LONGEST_LINE {
                    let file = self.reader.source().path().to_owned();
                    return Err(Error::LineTooLong { file, limit: LONGEST_LINE as u64 });
                }
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
            let before = self.filled;
            self.fill()?;
            let fresh = &self.buffer[before..self.filled];
            let inside = self.end - self.offset;
            let cut = if self.filled as u64 >= inside {
                // The line that holds the last byte of the range is the last one.
                let from = (inside as usize).saturating_sub(1).max(before);
                let ending = memchr::memchr(b'\n', &self.buffer[from..self.filled]).map(|ending| from + ending + 1);
                self.finished |= ending.is_some();
                ending
            } else if self.finished {
                Some(self.filled)
            } else {
                memchr::memrchr(b'\n', fresh).map(|ending| before + ending + 1)
            };
            match cut {
                Some(cut) => {
                    self.taken = cut;
                    break;
                }
                None if self.finished => self.taken = self.filled,
                None => {}
            }
        }
        if self.taken == 0 {
            self.reader.must_be_unchanged()?;
            return Ok(None);
        }
        let skip = self.byte_order_mark()?;
        Ok(Some(Slab { bytes: &self.buffer[skip..self.taken], offset: self.offset + skip as u64 }))
    }

    /// Reads until the buffer is full, the range ends, or the file does.
    fn fill(&mut self) -> Result<()> {
        let inside = self.end - self.offset;
        // Up to the end of the range in large reads; past it, where the last line ends, in small ones.
        let limit = if (self.filled as u64) < inside {
            self.buffer.len().min(usize::try_from(inside).unwrap_or(usize::MAX))
        } else {
            self.buffer.len().min(self.filled + 4096)
        };
        let count = self.reader.fill(&mut self.buffer[self.filled..limit])?;
        self.filled += count;
        if self.filled < limit {
            self.finished = true;
            if self.reader.source().compression() == Compression::Plain {
                let end = self.offset + self.filled as u64;
                if end != self.reader.source().bytes() {
                    // The file was cut or extended. How far this reader came depends on when; the size it has now does not.
                    self.reader.must_be_unchanged()?;
                }
                self.reader.source().must_still_have(end)?;
            }
        }
        Ok(())
    }

    fn byte_order_mark(&self) -> Result<usize> {
        if self.offset > 0 {
            return Ok(0);
        }
        match self.buffer[..self.taken] {
            [0xef, 0xbb, 0xbf, ..] => Ok(3),
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Err(Error::BadFile {
                file: self.reader.source().path().to_owned(),
                problem: "it is UTF-16 text; convert it with `iconv -f UTF-16 -t UTF-8`".to_owned(),
            }),
            _ => Ok(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Source;
    use super::*;
    use proptest::prelude::*;

    fn read(range: &ByteRange) -> Vec<u8> {
        let mut slabs = Slabs::open(range).unwrap();
        let mut bytes = Vec::new();
        while let Some(slab) = slabs.next().unwrap() {
            bytes.extend_from_slice(slab.bytes);
        }
        bytes
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_line_is_in_exactly_one_range(text in "[ab\r\n]{0,60}", target in 1_u64..20) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("text");
            std::fs::write(&path, &text).unwrap();
            let ranges = ByteRange::split(&[Source::open(&path).unwrap()], target);
            let pieces: Vec<Vec<u8>> = ranges.iter().map(read).collect();
            prop_assert_eq!(pieces.concat(), text.as_bytes());
            for piece in pieces.iter().filter(|piece| !piece.is_empty()).rev().skip(1) {
                prop_assert_eq!(piece.last(), Some(&b'\n'), "a range ends with a whole line");
            }
        }
    }

    #[test]
    fn lines_longer_than_the_buffer_are_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        let text = [vec![b'a'; SLAB * 3], b"\nshort\n".to_vec(), vec![b'b'; SLAB + 7]].concat();
        std::fs::write(&path, &text).unwrap();
        let source = Source::open(&path).unwrap();
        assert_eq!(read(&ByteRange::whole(source.clone())), text);
        let pieces: Vec<u8> = ByteRange::split(&[source], 100_000).iter().flat_map(read).collect();
        assert!(pieces == text);
    }
}
