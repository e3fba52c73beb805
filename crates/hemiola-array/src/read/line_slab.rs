//! Bytes of a range as slabs of whole lines.
//!
//! Parsers work best on a long slice that starts and ends at line boundaries: no call and no copy
//! per line. A slab is as much of the range as fits a buffer in the L2 cache, ending after its last
//! line ending; the unfinished line moves to the front of the buffer before the next read.
//! **Decision:** a memory map was rejected. A file that shrinks while mapped kills the process, and
//! reading into a warm buffer takes a fifth of the time of parsing.
//!
//! **Invariant:** concatenated, the slabs of a range are exactly the lines that start in it. A byte
//! order mark at the start of the file is skipped.

use super::input::InputReader;
use super::split::ByteRange;
use crate::{Error, Result};

const SLAB_BYTES: usize = 256 * 1024;
/// A longer line is not text: usually a binary file, or line endings of a lone CR.
const MAX_LINE_BYTES: usize = 1 << 30;

/// Whole lines and their offset in the file.
#[derive(Debug)]
pub(super) struct LineSlab<'a> {
    pub(super) bytes: &'a [u8],
    /// Offset of the first byte in the decoded file.
    pub(super) offset: u64,
}

/// Reader of the slabs of a range.
pub(super) struct LineSlabs {
    reader: InputReader,
    /// End of the range; later lines belong to the next range.
    end: u64,
    buffer: Vec<u8>,
    /// Number of bytes in the buffer.
    filled: usize,
    /// Number of bytes that the last slab consumed.
    taken: usize,
    /// Offset of the buffer in the decoded file.
    offset: u64,
    finished: bool,
}

impl LineSlabs {
    pub(super) fn open(range: &ByteRange) -> Result<Self> {
        let mut reader = range.source().reader()?;
        reader.hint_end(range.end());
        let slabs = |reader, offset, finished| Self {
            reader,
            end: range.end(),
            buffer: vec![0; SLAB_BYTES],
            filled: 0,
            taken: 0,
            offset,
            finished,
        };
        if range.start() == 0 {
            return Ok(slabs(reader, 0, range.end() == 0));
        }
        // A line that starts before the range belongs to the previous range.
        let mut at = range.start() - 1;
        reader.seek(at)?;
        let mut buffer = [0; 4096];
        let start = loop {
            let count = reader.read(&mut buffer)?;
            if let Some(ending) = memchr::memchr(b'\n', &buffer[..count]) {
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

    /// Returns the next slab; `None` at the end of the range, after a check that the file is
    /// unchanged.
    pub(super) fn next(&mut self) -> Result<Option<LineSlab<'_>>> {
        self.buffer.copy_within(self.taken..self.filled, 0);
        self.filled -= self.taken;
        self.offset += self.taken as u64;
        self.taken = 0;
        while !self.finished {
            if self.filled == self.buffer.len() {
                if self.buffer.len() >= MAX_LINE_BYTES {
                    let file = self.reader.source().path().to_owned();
                    return Err(Error::LineTooLong { file, limit: MAX_LINE_BYTES as u64 });
                }
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
            let before = self.filled;
            self.fill()?;
            let fresh = &self.buffer[before..self.filled];
            let inside = self.end - self.offset;
            let boundary = if self.filled as u64 >= inside {
                // The line that contains the last byte of the range is the last one.
                let from = (inside as usize).saturating_sub(1).max(before);
                let ending = memchr::memchr(b'\n', &self.buffer[from..self.filled]).map(|ending| from + ending + 1);
                self.finished |= ending.is_some();
                ending
            } else if self.finished {
                Some(self.filled)
            } else {
                memchr::memrchr(b'\n', fresh).map(|ending| before + ending + 1)
            };
            match boundary {
                Some(boundary) => {
                    self.taken = boundary;
                    break;
                }
                None if self.finished => self.taken = self.filled,
                None => {}
            }
        }
        if self.taken == 0 {
            self.reader.check_unchanged()?;
            return Ok(None);
        }
        let skip = self.byte_order_mark()?;
        Ok(Some(LineSlab { bytes: &self.buffer[skip..self.taken], offset: self.offset + skip as u64 }))
    }

    /// Reads until the buffer is full, the range ends, or the file does.
    fn fill(&mut self) -> Result<()> {
        let inside = self.end - self.offset;
        // Large reads up to the end of the range; past it, small ones to the end of the last line.
        let limit = if (self.filled as u64) < inside {
            self.buffer.len().min(usize::try_from(inside).unwrap_or(usize::MAX))
        } else {
            self.buffer.len().min(self.filled + 4096)
        };
        let count = self.reader.fill(&mut self.buffer[self.filled..limit])?;
        self.filled += count;
        if self.filled < limit {
            self.finished = true;
            if self.reader.source().is_splittable() {
                let end = self.offset + self.filled as u64;
                if end != self.reader.source().bytes() {
                    // The file was truncated or extended. The position of this reader depends on
                    // timing, the current size does not.
                    self.reader.check_unchanged()?;
                }
                self.reader.source().check_size(end)?;
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
    use super::super::InputFile;
    use super::*;
    use proptest::prelude::*;

    fn read(range: &ByteRange) -> Vec<u8> {
        let mut slabs = LineSlabs::open(range).unwrap();
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
            let ranges = ByteRange::split(&[InputFile::open(&path).unwrap()], target);
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
        let text = [vec![b'a'; SLAB_BYTES * 3], b"\nshort\n".to_vec(), vec![b'b'; SLAB_BYTES + 7]].concat();
        std::fs::write(&path, &text).unwrap();
        let source = InputFile::open(&path).unwrap();
        assert_eq!(read(&ByteRange::whole(source.clone())), text);
        let pieces: Vec<u8> = ByteRange::split(&[source], 100_000).iter().flat_map(read).collect();
        assert!(pieces == text);
    }
}
