//! Which block entries belong to, asked for many at once.
//!
//! Where a dimension is short, every index is looked up once and kept in a table, which turns the search for a bound or the
//! hash of an index into one read from the cache.

use crate::Cut;
use crate::dist::partition::{Axis, Layout};
use crate::sparse::KeyColumn;
use std::ops::Range;

/// Dimensions up to this extent get a table: a quarter of a megabyte.
const TABLE: u64 = 1 << 16;

/// The blocks of a layout by key.
#[derive(Debug)]
pub(crate) struct Homes<'a> {
    space: Parts<'a>,
    time: Option<Parts<'a>>,
    per_part: u32,
}

impl<'a> Homes<'a> {
    pub(crate) fn new(layout: &'a Layout) -> Self {
        let space = Parts::new(&layout.space);
        Self { space, time: layout.time.as_ref().map(Parts::new), per_part: layout.blocks_per_part() as u32 }
    }

    /// Writes the block of every entry at `positions`, as [`Layout::block_of`] counts them.
    pub(crate) fn fill<const N: usize>(&self, keys: &[KeyColumn; N], positions: Range<usize>, homes: &mut [u32]) {
        let per_part = self.per_part;
        self.space.each(keys, positions.clone(), homes, |home, part| *home = part * per_part);
        if let Some(time) = &self.time {
            time.each(keys, positions, homes, |home, part| *home += part);
        }
    }
}

#[derive(Debug)]
struct Parts<'a> {
    dimension: usize,
    cut: &'a Cut,
    /// The part of every index, if there are few.
    table: Vec<u32>,
}

impl<'a> Parts<'a> {
    fn new(axis: &'a Axis) -> Self {
        let known = if axis.cut.extent() <= TABLE { axis.cut.extent() } else { 0 };
        let table = (0..known).map(|index| axis.cut.part_of(index) as u32).collect();
        Self { dimension: axis.dimension, cut: &axis.cut, table }
    }

    fn each<const N: usize>(
        &self,
        keys: &[KeyColumn; N],
        positions: Range<usize>,
        homes: &mut [u32],
        put: impl Fn(&mut u32, u32),
    ) {
        let slow = |index: u64| self.cut.part_of(index) as u32;
        match &keys[self.dimension] {
            KeyColumn::Narrow(keys) => {
                for (home, &key) in homes.iter_mut().zip(&keys[positions]) {
                    put(home, self.table.get(key as usize).copied().unwrap_or_else(|| slow(u64::from(key))));
                }
            }
            KeyColumn::Wide(keys) => {
                for (home, &key) in homes.iter_mut().zip(&keys[positions]) {
                    put(home, self.table.get(key as usize).copied().unwrap_or_else(|| slow(key)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_home_is_the_block_the_layout_says(
            keys in prop::collection::vec([0_u64..400, 0_u64..1 << 34], 1..200), seed: u64, long: bool, timed: bool,
        ) {
            let extent = if long { TABLE + 1 } else { 300 };
            let space = Axis { dimension: 0, cut: Cut::at(vec![0, 5, 5, 90, extent]) };
            let time = timed.then(|| Axis { dimension: 1, cut: Cut::hashed(1 << 34, 3, seed) });
            let layout = Layout { space, time, peers: 2 };
            let mut columns = [KeyColumn::with_capacity(true, 0), KeyColumn::with_capacity(true, 0)];
            for key in &keys {
                columns.iter_mut().zip(key).for_each(|(column, &index)| column.push(index));
            }
            let mut homes = vec![0; keys.len() - 1];
            Homes::new(&layout).fill(&columns, 1..keys.len(), &mut homes);
            let expected: Vec<u32> = keys[1..].iter().map(|&key| layout.block_of(key) as u32).collect();
            prop_assert_eq!(homes, expected);
        }
    }
}
