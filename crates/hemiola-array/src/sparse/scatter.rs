//! Scatter of entries to parts, column by column: the local half of a shuffle.
//!
//! For a batch of entries that fits the L1 cache, the positions of each part are listed; then each
//! column is copied part by part through these lists. Where neighbours go to the same part, as in
//! an array with sorted rows, a list is a run and its columns are copied as slices. No entry is
//! assembled from its columns and taken apart again. **Invariant:** the entries of a part keep
//! their order.

use super::chunk::ColumnChunk;
use super::{KeyColumn, SparseBlock, SparseBuilder};
use std::ops::Range;

/// Number of entries per batch.
const BATCH: usize = 2048;

/// Mean run length from which runs are copied one by one.
const MIN_RUN_LENGTH: usize = 32;

/// Scatters the entries of a builder to `parts`. `part_of` writes the parts of the entries at some
/// positions of the given key columns.
///
/// # Panics
/// Panics if `part_of` returns an invalid part.
pub(crate) fn scatter_builder<T: Clone, const N: usize>(
    builder: SparseBuilder<T, N>,
    parts: &mut [SparseBuilder<T, N>],
    part_of: impl Fn(&[KeyColumn; N], Range<usize>, &mut [u32]),
) {
    // Fresh memory from the system costs more than the copy into it, so chunks are reused.
    let mut spare = Vec::new();
    for mut chunk in builder.into_chunks() {
        scatter(&chunk.keys, ScatterValues::Drained(chunk.values.drain(..)), parts, &part_of, &mut spare);
        spare.extend(chunk.recycled());
    }
}

/// Scatters copies of the entries of a block.
pub(crate) fn scatter_block<T: Clone, const N: usize>(
    block: &SparseBlock<T, N>,
    parts: &mut [SparseBuilder<T, N>],
    part_of: impl Fn(&[KeyColumn; N], Range<usize>, &mut [u32]),
) {
    scatter(block.columns(), ScatterValues::Borrowed(block.values()), parts, part_of, &mut Vec::new());
}

/// Values to scatter, borrowed or drained.
enum ScatterValues<'a, T> {
    /// Values of an array that remains.
    Borrowed(&'a [T]),
    /// Values of a chunk that is consumed.
    Drained(std::vec::Drain<'a, T>),
}

impl<T> ScatterValues<'_, T> {
    fn rest(&self) -> &[T] {
        match self {
            Self::Borrowed(values) => values,
            Self::Drained(values) => values.as_slice(),
        }
    }

    fn advance(&mut self, count: usize) {
        match self {
            Self::Borrowed(values) => *values = &values[count..],
            Self::Drained(values) => values.by_ref().take(count).for_each(drop),
        }
    }
}

fn scatter<T: Clone, const N: usize>(
    keys: &[KeyColumn; N],
    mut values: ScatterValues<'_, T>,
    parts: &mut [SparseBuilder<T, N>],
    part_of: impl Fn(&[KeyColumn; N], Range<usize>, &mut [u32]),
    spare: &mut Vec<ColumnChunk<T, N>>,
) {
    let mut lists: Vec<Vec<u32>> = parts.iter().map(|_| Vec::new()).collect();
    let mut targets = [0_u32; BATCH];
    let ascending: [u32; BATCH] = std::array::from_fn(|position| position as u32);
    // Values that own memory are moved, others are copied.
    let mut moving: Vec<Option<T>> = Vec::new();
    let length = values.rest().len();
    for start in (0..length).step_by(BATCH) {
        let positions = start..(start + BATCH).min(length);
        let targets = &mut targets[..positions.len()];
        part_of(keys, positions.clone(), targets);
        let keys = keys.each_ref().map(|column| column.slice(positions.clone()));
        let mut each_list = |take: &mut dyn FnMut(&mut SparseBuilder<T, N>, &[u32])| {
            if targets.array_windows().filter(|[left, right]| left != right).count() * MIN_RUN_LENGTH < targets.len() {
                let mut start = 0;
                for run in targets.chunk_by(u32::eq) {
                    take(&mut parts[run[0] as usize], &ascending[start..start + run.len()]);
                    start += run.len();
                }
                return;
            }
            lists.iter_mut().for_each(Vec::clear);
            for (&target, position) in targets.iter().zip(0..) {
                lists[target as usize].push(position);
            }
            parts.iter_mut().zip(&lists).for_each(|(part, list)| take(part, list));
        };
        match &mut values {
            ScatterValues::Drained(values) if std::mem::needs_drop::<T>() => {
                moving.clear();
                moving.extend(values.by_ref().take(positions.len()).map(Some));
                each_list(&mut |part, list| {
                    part.push_selected(&keys, list, spare, |position| {
                        moving[position].take().expect("a position is listed once")
                    });
                });
            }
            values => {
                let here = values.rest();
                each_list(&mut |part, list| part.push_selected(&keys, list, spare, |position| here[position].clone()));
                values.advance(positions.len());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn by_row(keys: &[KeyColumn; 2], positions: Range<usize>, parts: usize, targets: &mut [u32]) {
        for (target, position) in targets.iter_mut().zip(positions) {
            *target = (keys[0].get(position) % parts as u64) as u32;
        }
    }

    fn scattered<T: Clone>(entries: impl Iterator<Item = ([usize; 2], T)>, parts: usize) -> Vec<SparseBuilder<T, 2>> {
        let mut builder = SparseBuilder::new();
        entries.for_each(|(key, value)| builder.push(key, value));
        let mut scattered: Vec<SparseBuilder<T, 2>> = (0..parts).map(|_| SparseBuilder::new()).collect();
        scatter_builder(builder, &mut scattered, |keys, positions, targets| by_row(keys, positions, parts, targets));
        scattered
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn each_part_gets_its_entries_in_order(count in 0_usize..300_000, parts in 1_usize..9, base in 0_usize..1 << 33, runs: bool) {
            let row = |number: usize| if runs { number / 300 } else { number * number % 97 };
            let entries = || (0..count).map(|number| ([base + row(number), number], number as u64));
            let given = scattered(entries(), parts);
            let moved = scattered(entries().map(|(key, value)| (key, value.to_string())), parts);
            let mut columns = [KeyColumn::with_capacity(true, 0), KeyColumn::with_capacity(true, 0)];
            entries().for_each(|(key, _)| columns.iter_mut().zip(key).for_each(|(column, index)| column.push(index as u64)));
            let values: Vec<u64> = (0..count as u64).collect();
            let mut copied: Vec<SparseBuilder<u64, 2>> = (0..parts).map(|_| SparseBuilder::new()).collect();
            let part_of = |keys: &_, positions, targets: &mut _| by_row(keys, positions, parts, targets);
            scatter(&columns, ScatterValues::Borrowed(&values), &mut copied, part_of, &mut Vec::new());
            prop_assert_eq!(copied.iter().map(SparseBuilder::len).sum::<usize>(), count);
            for (part, ((copied, given), moved)) in copied.iter().zip(&given).zip(&moved).enumerate() {
                let expected = entries().filter(|([row, _], _)| row % parts == part);
                prop_assert!(copied.iter().map(|(key, &value)| (key, value)).eq(expected));
                prop_assert!(copied.iter().eq(given.iter()));
                let texts = copied.iter().map(|(key, value)| (key, value.to_string()));
                prop_assert!(moved.iter().map(|(key, text)| (key, text.clone())).eq(texts));
                prop_assert_eq!((moved.len(), moved.largest_key()), (copied.len(), copied.largest_key()));
                let largest = copied.iter().map(|(key, _)| key).reduce(|all, key| [all[0].max(key[0]), all[1].max(key[1])]);
                prop_assert_eq!(copied.largest_key(), largest);
            }
        }
    }
}
