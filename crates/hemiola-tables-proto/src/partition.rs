//! Partition of rows over shards: the ownership map of tables and of served arrays.
//!
//! Rows of tables are interleaved if their number is known, and hashed otherwise, so popular low
//! keys are spread evenly. Rows of a served array stay where the array has them, in one range per
//! shard. **Invariant:** a row has one owner, which is a function of the row and the partition
//! alone, and all peers have the same partition.

use crate::spec::ShardId;
use std::ops::Range;

/// Owner of a row if neighbouring rows belong to different shards in turn.
#[must_use]
#[inline]
pub fn interleaved(row: u64, shards: usize) -> ShardId {
    let shards = shards as u64;
    // A division would take as long as the rest of a read of a cached row.
    ShardId::new(if shards.is_power_of_two() { row & (shards - 1) } else { row % shards } as u32)
}

/// Owner of a row if keys are arbitrary: that of the hashed key.
#[must_use]
#[inline]
pub fn hashed(row: u64, shards: usize) -> ShardId {
    // The high half of the product is independent of the bits that the hash tables of shards use.
    interleaved(((u128::from(row ^ 0x5851_f42d_4c95_7f2d) * 0xda94_2042_e4dd_58b5) >> 64) as u64, shards)
}

/// Partition into one range of consecutive rows per shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangePartition {
    /// End of each shard's range, exclusive.
    ends: Vec<u64>,
}

impl RangePartition {
    /// Creates the partition in which the range of each shard ends at `ends`, exclusive.
    ///
    /// # Panics
    /// If the ends do not ascend, or there are none.
    #[must_use]
    pub fn new(ends: Vec<u64>) -> Self {
        assert!(!ends.is_empty(), "a partition needs at least one shard");
        assert!(ends.is_sorted(), "the ends of the ranges must ascend");
        Self { ends }
    }

    /// Number of shards.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.ends.len()
    }

    /// Total number of rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Shard that owns a row. A row past the end is assigned to the last shard, which rejects it.
    #[must_use]
    pub fn shard_of(&self, row: u64) -> ShardId {
        ShardId::new(self.ends.partition_point(|end| *end <= row).min(self.ends.len() - 1) as u32)
    }

    /// Rows of a shard.
    ///
    /// # Panics
    /// If there is no such shard.
    #[must_use]
    pub fn range(&self, shard: ShardId) -> Range<u64> {
        let start = shard.index().checked_sub(1).map_or(0, |before| self.ends[before]);
        start..self.ends[shard.index()]
    }

    /// Splits ascending rows by owner: for each shard, the positions of its rows in the slice.
    pub fn split(&self, rows: &[u64]) -> impl Iterator<Item = (ShardId, Range<usize>)> {
        let mut start = 0;
        self.ends.iter().enumerate().map(move |(shard, end)| {
            let length = rows[start..].partition_point(|row| row < end);
            start += length;
            (ShardId::new(shard as u32), start - length..start)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_row_has_one_owner(
            mut ends in prop::collection::vec(0_u64..50, 1..6), mut rows in prop::collection::vec(0_u64..50, 0..20),
        ) {
            ends.sort_unstable();
            rows.sort_unstable();
            let partition = RangePartition::new(ends);
            rows.retain(|row| *row < partition.rows());
            let mut next = 0;
            for (shard, share) in partition.split(&rows) {
                prop_assert_eq!(share.start, next);
                next = share.end;
                for row in &rows[share] {
                    prop_assert!(partition.range(shard).contains(row));
                    prop_assert_eq!(partition.shard_of(*row), shard);
                }
            }
            prop_assert_eq!(next, rows.len());
        }
    }

    #[test]
    fn shards_without_rows_own_nothing() {
        let partition = RangePartition::new(vec![3, 3, 10]);
        assert_eq!([0, 2, 3, 9, 12].map(|row| partition.shard_of(row).index()), [0, 0, 2, 2, 2]);
        let shares: Vec<_> = partition.split(&[1, 2, 3, 4, 9]).map(|(_, share)| share).collect();
        assert_eq!(shares, [0..2, 2..2, 2..5]);
        assert_eq!(partition.range(ShardId::new(1)), 3..3);
    }
}
