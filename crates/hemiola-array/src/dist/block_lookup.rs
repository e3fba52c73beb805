//! Block numbers of many entries at once.
//!
//! For a short dimension, the part of every index is computed once and kept in a table. A binary
//! search or a hash per entry becomes one read from the cache.

use crate::Partitioner;
use crate::dist::partition::{ArrayLayout, PartitionedDimension};
use crate::sparse::KeyColumn;
use std::ops::Range;

/// Largest extent with a lookup table: a quarter of a megabyte.
const LOOKUP_TABLE_LIMIT: usize = 1 << 16;

/// Blocks of a layout by key.
#[derive(Debug)]
pub(crate) struct BlockLookup<'a> {
    space: PartLookup<'a>,
    time: Option<PartLookup<'a>>,
    blocks_per_part: u32,
}

impl<'a> BlockLookup<'a> {
    pub(crate) fn new(layout: &'a ArrayLayout) -> Self {
        let space = PartLookup::new(&layout.space);
        Self {
            space,
            time: layout.time.as_ref().map(PartLookup::new),
            blocks_per_part: layout.blocks_per_part() as u32,
        }
    }

    /// Writes the block number of every entry at `positions`, as [`ArrayLayout::block_of`] counts
    /// them.
    pub(crate) fn fill<const N: usize>(&self, keys: &[KeyColumn; N], positions: Range<usize>, blocks: &mut [u32]) {
        let blocks_per_part = self.blocks_per_part;
        self.space.each(keys, positions.clone(), blocks, |block, part| *block = part * blocks_per_part);
        if let Some(time) = &self.time {
            time.each(keys, positions, blocks, |block, part| *block += part);
        }
    }
}

#[derive(Debug)]
struct PartLookup<'a> {
    dimension: usize,
    partitioner: &'a Partitioner,
    /// Part of every index; empty for a long dimension.
    table: Vec<u32>,
}

impl<'a> PartLookup<'a> {
    fn new(partitioned: &'a PartitionedDimension) -> Self {
        let known =
            if partitioned.partitioner.extent() <= LOOKUP_TABLE_LIMIT { partitioned.partitioner.extent() } else { 0 };
        let table = (0..known).map(|index| partitioned.partitioner.part_of(index) as u32).collect();
        Self { dimension: partitioned.dimension, partitioner: &partitioned.partitioner, table }
    }

    fn each<const N: usize>(
        &self,
        keys: &[KeyColumn; N],
        positions: Range<usize>,
        blocks: &mut [u32],
        put: impl Fn(&mut u32, u32),
    ) {
        let slow = |index: usize| self.partitioner.part_of(index) as u32;
        match &keys[self.dimension] {
            KeyColumn::Narrow(keys) => {
                for (block, &key) in blocks.iter_mut().zip(&keys[positions]) {
                    put(block, self.table.get(key as usize).copied().unwrap_or_else(|| slow(key as usize)));
                }
            }
            KeyColumn::Wide(keys) => {
                for (block, &key) in blocks.iter_mut().zip(&keys[positions]) {
                    put(block, self.table.get(key as usize).copied().unwrap_or_else(|| slow(key as usize)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola_core::Seed;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lookup_agrees_with_the_layout(
            keys in prop::collection::vec([0_usize..400, 0_usize..1 << 34], 1..200), seed: u64, long: bool, timed: bool,
        ) {
            let extent = if long { LOOKUP_TABLE_LIMIT + 1 } else { 300 };
            let space = PartitionedDimension { dimension: 0, partitioner: Partitioner::from_bounds(vec![0, 5, 5, 90, extent]) };
            let time = timed.then(|| PartitionedDimension { dimension: 1, partitioner: Partitioner::hashed(1 << 34, 3, Seed(seed)) });
            let layout = ArrayLayout { space, time, peers: 2 };
            let mut columns = [KeyColumn::with_capacity(true, 0), KeyColumn::with_capacity(true, 0)];
            for key in &keys {
                columns.iter_mut().zip(key).for_each(|(column, &index)| column.push(index as u64));
            }
            let mut blocks = vec![0; keys.len() - 1];
            BlockLookup::new(&layout).fill(&columns, 1..keys.len(), &mut blocks);
            let expected: Vec<u32> = keys[1..].iter().map(|&key| layout.block_of(key) as u32).collect();
            prop_assert_eq!(blocks, expected);
        }
    }
}
