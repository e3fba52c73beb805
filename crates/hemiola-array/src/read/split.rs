//! Cutting plain files into byte ranges that any worker can parse alone.
//!
//! **Invariant:** a range owns the lines that *start* in it: a line across a boundary is read by the range before it, so
//! every line is read exactly once however the file is cut. A range knows its bytes and not its lines; which line of the
//! file a mistake is on is counted when there is a mistake, from the beginning of the file. Compressed files are one range.
//!
//! A quoted field must therefore not contain a line ending: no range can know whether it starts inside quotes. The csv
//! reader says so when it meets one.

use super::source::{Compression, Source};
use serde::{Deserialize, Serialize};

/// A piece of a file, to be parsed by one worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByteRange {
    source: Source,
    start: u64,
    /// The first byte that is not in the range; `u64::MAX` for a compressed file, whose decoded size is unknown.
    end: u64,
}

impl ByteRange {
    /// The whole of a file.
    #[must_use]
    pub fn whole(source: Source) -> Self {
        let end = if source.compression() == Compression::Plain { source.bytes() } else { u64::MAX };
        Self { source, start: 0, end }
    }

    /// Cuts files into ranges of about `target` bytes, in file and offset order. Every file has at least one range.
    #[must_use]
    pub fn split(sources: &[Source], target: u64) -> Vec<Self> {
        let mut ranges = Vec::new();
        for source in sources {
            if source.compression() != Compression::Plain {
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

    /// The file.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The first byte.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The first byte after the range.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The work it takes to read: bytes on disk.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.end.min(self.source.bytes()) - self.start.min(self.source.bytes())
    }
}
