//! Chunks of a block: entries that run together, between two ends of an interval.
//!
//! Buffers are applied after intervals of entries, and clocks of tables end after intervals of
//! iterations. A chunk ends at the next end of any of them.

use super::clock_schedule::ClockSchedule;
use crate::capture::CaptureKind;
use hemiola_tables_proto::ClockInterval;
use std::ops::Range;
use std::sync::Arc;

/// Range of all entries of a block.
pub(super) const ALL_ENTRIES: Range<u64> = 0..u64::MAX;

/// Intervals at which the blocks of a loop are cut into chunks.
#[derive(Clone, Debug)]
pub(super) struct ChunkIntervals {
    /// Entries of a worker after which buffered writes are applied, if not only at the end of a
    /// block. The smallest of all buffers.
    flush: Option<u64>,
    /// Iterations of a worker after which clocks of tables end.
    clocks: Vec<u64>,
}

impl ChunkIntervals {
    pub(super) fn new(declared: &[CaptureKind], clocks: &[Option<Arc<ClockSchedule>>]) -> Self {
        let flush = declared.iter().filter_map(|captured| match captured {
            CaptureKind::Buffer { flush_interval, .. } => *flush_interval,
            _ => None,
        });
        let clocks = clocks.iter().flatten().filter_map(|schedule| match schedule.interval() {
            ClockInterval::Iterations(count) => Some(count.get()),
            ClockInterval::Run | ClockInterval::Step => None,
        });
        Self { flush: flush.min(), clocks: clocks.collect() }
    }

    /// Interval at which buffers are applied inside a block.
    pub(super) fn flush(&self) -> Option<u64> {
        self.flush
    }

    /// True if blocks run as a whole.
    pub(super) fn is_whole(&self) -> bool {
        self.flush.is_none() && self.clocks.is_empty()
    }

    /// True if clocks end inside blocks.
    pub(super) fn has_clocks(&self) -> bool {
        !self.clocks.is_empty()
    }

    /// True if buffers are applied before the entry at `position`.
    pub(super) fn flushes_at(&self, position: u64) -> bool {
        self.flush.is_some_and(|interval| position > 0 && position.is_multiple_of(interval))
    }

    /// Chunk that starts at `start`, in a block of `count` entries.
    pub(super) fn chunk_at(&self, start: u64, count: u64) -> Range<u64> {
        if self.is_whole() {
            return ALL_ENTRIES;
        }
        let next = |interval: &u64| (start / interval + 1).saturating_mul(*interval);
        let end = self.flush.iter().chain(&self.clocks).map(next).min().unwrap_or(count);
        start..end.min(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_ends_where_the_first_interval_ends() {
        let intervals = ChunkIntervals { flush: Some(6), clocks: vec![4] };
        let (mut chunks, mut end) = (Vec::new(), 0);
        while end < 15 {
            let chunk = intervals.chunk_at(end, 15);
            end = chunk.end;
            chunks.push(chunk);
        }
        assert_eq!(chunks, [0..4, 4..6, 6..8, 8..12, 12..15]);
        assert!(intervals.flushes_at(6) && !intervals.flushes_at(4) && !intervals.flushes_at(0));
    }
}
