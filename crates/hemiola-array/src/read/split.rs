//! Splitting of plain files into byte ranges that any worker can parse independently.
//!
//! **Invariant:** a range contains the lines that *start* in it. A line across a boundary is read
//! by the range before it, so every line is read exactly once for any split. A range knows its
//! bytes and not its lines; the line number of an error is counted from the start of the file when
//! the error occurs. Compressed files and files with a view are one range.
//!
//! A quoted field must therefore not contain a line ending: no range can know whether it starts
//! inside quotes. The CSV reader reports such fields.

use super::input::InputFile;
use serde::{Deserialize, Serialize};

/// Byte range of a file, parsed by one worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByteRange {
    source: InputFile,
    start: u64,
    /// First byte after the range; `u64::MAX` where the size of the text is unknown.
    end: u64,
}

impl ByteRange {
    /// Range of a whole file.
    #[must_use]
    pub fn whole(source: InputFile) -> Self {
        let end = if source.is_splittable() { source.bytes() } else { u64::MAX };
        Self { source, start: 0, end }
    }

    /// Splits files into ranges of about `target` bytes, in file and offset order. Every file has
    /// at least one range.
    #[must_use]
    pub fn split(sources: &[InputFile], target: u64) -> Vec<Self> {
        let mut ranges = Vec::new();
        for source in sources {
            if !source.is_splittable() {
                ranges.push(Self::whole(source.clone()));
                continue;
            }
            let pieces = source.bytes().div_ceil(target.max(1)).max(1);
            let bound = |piece: u64| (u128::from(source.bytes()) * u128::from(piece) / u128::from(pieces)) as u64;
            ranges.extend((0..pieces).map(|piece| Self {
                source: source.clone(),
                start: bound(piece),
                end: bound(piece + 1),
            }));
        }
        ranges
    }

    /// File of the range.
    #[must_use]
    pub fn source(&self) -> &InputFile {
        &self.source
    }

    /// Offset of the first byte.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Offset of the first byte after the range.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Cost of reading the range: its stored size in bytes.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.end.min(self.source.bytes()) - self.start.min(self.source.bytes())
    }
}
