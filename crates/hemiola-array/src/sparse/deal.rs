//! Dealing entries out to parts, column by column: the local half of a shuffle.
//!
//! For a stretch of entries that fits the first-level cache, the positions that go to each part are listed; then each column
//! is copied part by part through these lists. Where neighbours go to the same part, as in an array whose rows are sorted, a
//! list is a run and its columns are copied as they lie. No entry is put together from its columns and taken apart again.
//! **Invariant:** the entries of a part keep their order.

use super::chunk::Chunk;
use super::{KeyColumn, SparseBlock, SparseBuilder};
use std::ops::Range;

/// Entries that are dealt out at a time.
const STRETCH: usize = 2048;

/// Entries per run from which on runs are copied one by one.
const WORTH_A_RUN: usize = 32;

/// Deals the entries of a builder out to `parts`. `part_of` writes the parts of the entries at some positions of the key
/// columns it is given.
///
/// # Panics
/// If `part_of` names a part that is not there.
pub(crate) fn deal_builder<T: Clone, const N: usize>(
    builder: SparseBuilder<T, N>,
    parts: &mut [SparseBuilder<T, N>],
    part_of: impl Fn(&[KeyColumn; N], Range<usize>, &mut [u32]),
) {
    // Memory that the system hands out anew costs more than what is copied into it, so chunks are used again.
    let mut spare = Vec::new();
    for mut chunk in builder.into_chunks() {
        deal(&chunk.keys, Values::Given(chunk.values.drain(..)), parts, &part_of, &mut spare);
        spare.extend(chunk.emptied());
    }
}

/// The same with copies of the entries of a block.
pub(crate) fn deal_block<T: Clone, const N: usize>(
    block: &SparseBlock<T, N>,
    parts: &mut [SparseBuilder<T, N>],
    part_of: impl Fn(&[KeyColumn; N], Range<usize>, &mut [u32]),
) {
    deal(block.columns(), Values::Kept(block.values()), parts, part_of, &mut Vec::new());
}

/// Values on their way to parts.
enum Values<'a, T> {
    /// Of an array that stays.
    Kept(&'a [T]),
    /// Of a chunk that is used up.
    Given(std::vec::Drain<'a, T>),
}

impl<T> Values<'_, T> {
    fn rest(&self) -> &[T] {
        match self {
            Self::Kept(values) => values,
            Self::Given(values) => values.as_slice(),
        }
    }

    fn advance(&mut self, count: usize) {
        match self {
            Self::Kept(values) => *values = &values[count..],
            Self::Given(values) => values.by_ref().take(count).for_each(drop),
        }
    }
}

fn deal<T: Clone, const N: usize>(
    keys: &[KeyColumn; N],
    mut values: Values<'_, T>,
    parts: &mut [SparseBuilder<T, N>],
    part_of: impl Fn(&[KeyColumn; N], Range<usize>, &mut [u32]),
    spare: &mut Vec<Chunk<T, N>>,
) {
    let mut lists: Vec<Vec<u32>> = parts.iter().map(|_| Vec::new()).collect();
    let mut homes = [0_u32; STRETCH];
    let ascending: [u32; STRETCH] = std::array::from_fn(|place| place as u32);
    // Values that own memory are moved, others copied.
    let mut moving: Vec<Option<T>> = Vec::new();
    let length = values.rest().len();
    for start in (0..length).step_by(STRETCH) {
        let positions = start..(start + STRETCH).min(length);
        let homes = &mut homes[..positions.len()];
        part_of(keys, positions.clone(), homes);
        let keys = keys.each_ref().map(|column| column.slice(positions.clone()));
        let mut each_list = |take: &mut dyn FnMut(&mut SparseBuilder<T, N>, &[u32])| {
            if homes.array_windows().filter(|[left, right]| left != right).count() * WORTH_A_RUN < homes.len() {
                let mut start = 0;
                for run in homes.chunk_by(u32::eq) {
                    take(&mut parts[run[0] as usize], &ascending[start..start + run.len()]);
                    start += run.len();
                }
                return;
            }
            lists.iter_mut().for_each(Vec::clear);
            for (&home, place) in homes.iter().zip(0..) {
                lists[home as usize].push(place);
            }
            parts.iter_mut().zip(&lists).for_each(|(part, list)| take(part, list));
        };
        match &mut values {
            Values::Given(values) if std::mem::needs_drop::<T>() => {
                moving.clear();
                moving.extend(values.by_ref().take(positions.len()).map(Some));
                each_list(&mut |part, list| {
                    part.push_listed(&keys, list, spare, |place| moving[place].take().expect("a place is listed once"));
                });
            }
            values => {
                let here = values.rest();
                each_list(&mut |part, list| part.push_listed(&keys, list, spare, |place| here[place].clone()));
                values.advance(positions.len());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn by_row(keys: &[KeyColumn; 2], positions: Range<usize>, parts: usize, homes: &mut [u32]) {
        for (home, position) in homes.iter_mut().zip(positions) {
            *home = (keys[0].get(position) % parts as u64) as u32;
        }
    }

    fn dealt<T: Clone>(entries: impl Iterator<Item = ([u64; 2], T)>, parts: usize) -> Vec<SparseBuilder<T, 2>> {
        let mut builder = SparseBuilder::new();
        entries.for_each(|(key, value)| builder.push(key, value));
        let mut dealt: Vec<SparseBuilder<T, 2>> = (0..parts).map(|_| SparseBuilder::new()).collect();
        deal_builder(builder, &mut dealt, |keys, positions, homes| by_row(keys, positions, parts, homes));
        dealt
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn each_part_gets_its_entries_in_order(count in 0_u64..300_000, parts in 1_usize..9, base in 0_u64..1 << 33, runs: bool) {
            let row = |number: u64| if runs { number / 300 } else { number * number % 97 };
            let entries = || (0..count).map(|number| ([base + row(number), number], number));
            let given = dealt(entries(), parts);
            let moved = dealt(entries().map(|(key, value)| (key, value.to_string())), parts);
            let mut columns = [KeyColumn::with_capacity(true, 0), KeyColumn::with_capacity(true, 0)];
            entries().for_each(|(key, _)| columns.iter_mut().zip(key).for_each(|(column, index)| column.push(index)));
            let values: Vec<u64> = (0..count).collect();
            let mut copied: Vec<SparseBuilder<u64, 2>> = (0..parts).map(|_| SparseBuilder::new()).collect();
            let part_of = |keys: &_, positions, homes: &mut _| by_row(keys, positions, parts, homes);
            deal(&columns, Values::Kept(&values), &mut copied, part_of, &mut Vec::new());
            prop_assert_eq!(copied.iter().map(SparseBuilder::len).sum::<usize>() as u64, count);
            for (part, ((copied, given), moved)) in copied.iter().zip(&given).zip(&moved).enumerate() {
                let expected = entries().filter(|([row, _], _)| (row % parts as u64) as usize == part);
                prop_assert!(copied.iter().map(|(key, &value)| (key, value)).eq(expected));
                prop_assert!(copied.iter().eq(given.iter()));
                let texts = copied.iter().map(|(key, value)| (key, value.to_string()));
                prop_assert!(moved.iter().map(|(key, text)| (key, text.clone())).eq(texts));
                prop_assert_eq!((moved.len(), moved.largest()), (copied.len(), copied.largest()));
                let largest = copied.iter().map(|(key, _)| key).reduce(|all, key| [all[0].max(key[0]), all[1].max(key[1])]);
                prop_assert_eq!(copied.largest(), largest);
            }
        }
    }
}
