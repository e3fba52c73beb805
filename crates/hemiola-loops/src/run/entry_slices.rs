//! Slices of a chunk of entries, between which a worker looks whether it is to stop.
//!
//! An entry takes from some nanoseconds to some seconds. The first slice is short, and slices double
//! as long as one takes less than [`SLICE_TIME`], so a request is seen soon and looking costs
//! nothing.
//!
//! **Invariant:** the slices of a chunk are its entries in order, each once. Results do not depend on
//! where they are cut.

use hemiola_core::Moment;
use std::ops::Range;
use std::time::Duration;

/// Number of entries of the first slice.
const FIRST_SLICE: u64 = 64;
/// Maximum number of entries of a slice.
const LONGEST_SLICE: u64 = 1 << 20;
/// Duration of a slice after which slices do not grow.
const SLICE_TIME: Duration = Duration::from_millis(10);

/// Slices of the entries of a chunk.
#[derive(Debug)]
pub(super) struct EntrySlices {
    entries: Range<u64>,
    length: u64,
    /// Last slice; empty before the first.
    last: Range<u64>,
    /// Start of the last slice.
    begun: Option<Moment>,
}

impl EntrySlices {
    pub(super) fn new(entries: Range<u64>) -> Self {
        Self { last: entries.start..entries.start, entries, length: FIRST_SLICE, begun: None }
    }

    /// Returns the next slice. `visited` is the position after the last entry that was visited, which
    /// lies before the end of the last slice if the block has no more entries.
    pub(super) fn next(&mut self, visited: u64, now: impl Fn() -> Moment) -> Option<Range<u64>> {
        let start = self.last.end;
        if visited < start || start >= self.entries.end {
            return None;
        }
        let now = now();
        if let Some(begun) = self.begun.replace(now)
            && now - begun < SLICE_TIME
        {
            self.length = (self.length * 2).min(LONGEST_SLICE);
        }
        self.last = start..start.saturating_add(self.length).min(self.entries.end);
        Some(self.last.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the slices of a block of `count` entries, each of which takes `nanos`.
    fn slices(entries: Range<u64>, count: u64, nanos: u64) -> Vec<Range<u64>> {
        let (mut slices, mut visited, mut found) = (EntrySlices::new(entries.clone()), entries.start, Vec::new());
        while let Some(slice) = slices.next(visited, || Moment::from_nanos(visited * nanos)) {
            visited = slice.end.min(count).max(visited);
            found.push(slice);
        }
        found
    }

    #[test]
    fn slices_double_as_long_as_they_are_short() {
        assert_eq!(slices(0..u64::MAX, 500, 10), [0..64, 64..192, 192..448, 448..960]);
        assert_eq!(slices(10..200, 1000, 10), [10..74, 74..200]);
        assert_eq!(slices(0..u64::MAX, 150, 1_000_000), [0..64, 64..128, 128..192]);
        assert_eq!(slices(0..u64::MAX, 64, 10), [0..64, 64..192]);
        assert_eq!(slices(0..u64::MAX, 0, 10).len(), 1);
    }
}
