//! Ownership of the rows of a distributed array: one consecutive range per peer.

use hemiola_core::Rank;
use std::ops::Range;

/// Row ranges of all peers, in rank order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owners {
    /// End of each peer's range, exclusive.
    ends: Vec<u64>,
}

impl Owners {
    /// Creates ranges in rank order; `ends` holds the exclusive end of each.
    ///
    /// # Panics
    /// If the ends do not ascend.
    #[must_use]
    pub(crate) fn new(ends: Vec<u64>) -> Self {
        assert!(ends.is_sorted(), "the ends of the ranges must ascend");
        Self { ends }
    }

    /// Peer that owns a row. A row past the end belongs to the last peer.
    #[must_use]
    pub(crate) fn owner_of(&self, row: u64) -> Rank {
        Rank::new(self.ends.partition_point(|end| *end <= row).min(self.ends.len() - 1) as u32)
    }

    /// Total number of rows.
    #[must_use]
    pub(crate) fn rows(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Splits ascending rows by owner: for each peer, the index range of its rows.
    #[must_use]
    pub(crate) fn divide(&self, rows: &[u64]) -> Vec<Range<usize>> {
        let mut start = 0;
        let mut share = |end: &u64| {
            let length = rows[start..].partition_point(|row| row < end);
            start += length;
            start - length..start
        };
        self.ends.iter().map(&mut share).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_divided_among_their_owners() {
        let owners = Owners::new(vec![3, 3, 10]);
        assert_eq!([0, 2, 3, 9].map(|row| owners.owner_of(row).index()), [0, 0, 2, 2]);
        assert_eq!(owners.divide(&[1, 2, 3, 4, 9]), [0..2, 2..2, 2..5]);
        assert_eq!(owners.divide(&[]), [0..0, 0..0, 0..0]);
    }
}
