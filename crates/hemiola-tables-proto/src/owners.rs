//! Which peer owns which row.

use hemiola_core::Rank;
use std::ops::Range;

/// Ranges of rows, one per peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owners {
    /// By peer: one behind its last row.
    ends: Vec<u64>,
}

impl Owners {
    /// Peers own consecutive ranges, in the order of ranks; `ends` are their ends.
    ///
    /// # Panics
    /// If the ends do not ascend.
    #[must_use]
    pub fn new(ends: Vec<u64>) -> Self {
        assert!(ends.is_sorted(), "ranges follow each other");
        Self { ends }
    }

    /// The peer that owns a row; the last one, if there is no such row.
    #[must_use]
    pub fn of(&self, row: u64) -> Rank {
        Rank::new(self.ends.partition_point(|end| *end <= row).min(self.ends.len() - 1) as u32)
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Divides ascending rows by owner: for each peer, the positions of its rows.
    #[must_use]
    pub fn divide(&self, rows: &[u64]) -> Vec<Range<usize>> {
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
        assert_eq!([0, 2, 3, 9].map(|row| owners.of(row).index()), [0, 0, 2, 2]);
        assert_eq!(owners.divide(&[1, 2, 3, 4, 9]), [0..2, 2..2, 2..5]);
        assert_eq!(owners.divide(&[]), [0..0, 0..0, 0..0]);
    }
}
