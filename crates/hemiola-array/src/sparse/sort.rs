//! Sort of entries into the columns of a block.
//!
//! A stable pass ([`bucket`](super::bucket)) scatters entries to buckets by the leading bits of
//! their keys, straight from the chunks they were collected in. Then each bucket, small enough for
//! the cache, is sorted by the remaining bits. Entries sorted by another order of dimensions, as in
//! a shuffle, are in order after the pass alone. Entries that are in order already are only
//! concatenated.
//!
//! One large step touches memory, the rest happens in the cache. An out-of-place sort of all
//! columns at once would hold the block twice. Sorting a permutation and applying it would miss the
//! cache once per entry and column.
//!
//! **Invariant:** entries with equal keys stay in the order of arrival. Memory never exceeds 1.6
//! times the block: where one column is most of an entry, and where ordinals are requested and a
//! dimension does not fit into the digit, the columns are sorted [in place](super::in_place).

use super::KeyColumn;
use super::bucket::{BucketedColumns, scatter_to_buckets};
use super::chunk::ColumnChunk;
use super::digits::KeyDigits;
use super::in_place::{self, SortColumns, permute};
use crate::Shape;
use std::ops::Range;

/// Buckets up to this many entries are sorted in scratch memory: their columns and scratch memory
/// fit the L2 cache.
const SMALL_BUCKET: usize = 8 * 1024;
/// Bits per pass of the radix sort of a bucket.
const RADIX_BITS: u32 = 8;
/// Minimum bucket size for radix sort, if that takes few passes.
const MIN_RADIX_LENGTH: usize = 128;

/// Sorted columns of a block.
pub(super) struct SortedColumns<T, const N: usize> {
    pub(super) keys: [KeyColumn; N],
    pub(super) values: Vec<T>,
    /// Ordinal of each entry in the order of arrival; `None` if not requested or nothing moved.
    pub(super) ordinals: Option<Vec<u32>>,
}

/// Sorts entries by key, with the dimensions in the given order; `number` requests ordinals. Keys
/// must lie inside the shape, whose packed keys have at most 128 bits, and there must be fewer than
/// 2³² entries.
pub(super) fn sort_chunks<T, const N: usize>(
    chunks: Vec<ColumnChunk<T, N>>,
    shape: Shape<N>,
    order: [usize; N],
    number: bool,
) -> SortedColumns<T, N> {
    if is_sorted(&chunks, order) {
        let (keys, values) = concatenate(chunks, shape);
        return SortedColumns { keys, values, ordinals: None };
    }
    let digits = KeyDigits::choose(&chunks, shape, order);
    if digits.is_trivial()
        || exceeds_memory_bound::<T, N>(shape, &digits)
        || (number && digits.split_dimension().is_some())
    {
        let (mut keys, mut values) = concatenate(chunks, shape);
        let mut ordinals = number.then(|| (0..values.len() as u32).collect::<Vec<_>>());
        let remaining: Vec<_> = order.map(|dimension| (dimension, shape.index_bits(dimension))).into();
        let range = 0..values.len();
        BucketSorter::new(shape, order, &mut keys, &mut values, ordinals.as_deref_mut()).sort(range, &remaining);
        return SortedColumns { keys, values, ordinals };
    }
    let BucketedColumns { mut keys, mut values, mut ordinals, starts } =
        scatter_to_buckets(chunks, &digits, shape, number);
    let mut sorter = BucketSorter::new(shape, order, &mut keys, &mut values, ordinals.as_deref_mut());
    for ends in starts.windows(2) {
        sorter.sort(ends[0] as usize..ends[1] as usize, digits.remaining());
    }
    SortedColumns { keys, values, ordinals }
}

/// Returns true if a column that the pass holds twice is more than 0.6 of an entry.
fn exceeds_memory_bound<T, const N: usize>(shape: Shape<N>, digits: &KeyDigits<N>) -> bool {
    let width = |dimension: usize| if shape.fits_u32(dimension) { 4 } else { 8 };
    let moved = (0..N).filter(|&dimension| !digits.covers(dimension)).chain(digits.split_dimension()).map(width);
    let widest = moved.chain([size_of::<T>()]).max().unwrap_or(0);
    widest * 10 > ((0..N).map(width).sum::<usize>() + size_of::<T>()) * 6
}

fn is_sorted<T, const N: usize>(chunks: &[ColumnChunk<T, N>], order: [usize; N]) -> bool {
    let keys = chunks.iter().flat_map(|chunk| (0..chunk.values.len()).map(|position| chunk.key(position)));
    keys.map(|key| order.map(|dimension| key[dimension])).is_sorted()
}

/// Chunks as exact columns, each chunk freed after its copy.
fn concatenate<T, const N: usize>(mut chunks: Vec<ColumnChunk<T, N>>, shape: Shape<N>) -> ([KeyColumn; N], Vec<T>) {
    let length = chunks.iter().map(|chunk| chunk.values.len()).sum();
    let keys = std::array::from_fn(|dimension| {
        let mut column = KeyColumn::with_capacity(shape.fits_u32(dimension), length);
        for chunk in &mut chunks {
            column.append(&chunk.keys[dimension]);
            chunk.keys[dimension] = KeyColumn::with_capacity(true, 0);
        }
        column
    });
    let mut values = Vec::with_capacity(length);
    for mut chunk in chunks {
        values.append(&mut chunk.values);
    }
    (keys, values)
}

/// Sorter of ranges of the columns that are short or agree in their leading bits.
struct BucketSorter<'a, T, const N: usize> {
    shape: Shape<N>,
    order: [usize; N],
    keys: &'a mut [KeyColumn; N],
    values: &'a mut [T],
    ordinals: Option<&'a mut [u32]>,
    /// Largest range that is sorted in scratch memory.
    small: usize,
    /// For one range: the differing key bits, and below them the position in the range.
    packed: Vec<u64>,
    spare: Vec<u64>,
    /// Source position of each entry.
    sources: Vec<u32>,
}

impl<'a, T, const N: usize> BucketSorter<'a, T, N> {
    fn new(
        shape: Shape<N>,
        order: [usize; N],
        keys: &'a mut [KeyColumn; N],
        values: &'a mut [T],
        ordinals: Option<&'a mut [u32]>,
    ) -> Self {
        let small = SMALL_BUCKET.max(values.len() / 64);
        let (packed, spare, sources) = (Vec::new(), Vec::new(), Vec::new());
        Self { shape, order, keys, values, ordinals, small, packed, spare, sources }
    }

    /// Sorts the entries at `range`, whose keys differ only in the low bits that `remaining` lists,
    /// from the top.
    fn sort(&mut self, range: Range<usize>, remaining: &[(usize, u32)]) {
        if range.len() < 2 {
            return;
        }
        let bits: u32 = remaining.iter().map(|(_, bits)| bits).sum();
        let position_bits = usize::BITS - (range.len() - 1).leading_zeros();
        if range.len() > self.small || bits + position_bits > u64::BITS {
            self.sort_in_place(range, bits);
            return;
        }
        // Bits above the remaining ones agree, so a single dimension needs no packing to be seen in
        // order.
        let mut open = remaining.iter().filter(|(_, bits)| *bits > 0);
        if let (Some(&(dimension, _)), None) = (open.next(), open.next())
            && self.keys[dimension].is_sorted(range.clone())
        {
            return;
        }
        self.packed.clear();
        self.packed.resize(range.len(), 0);
        for &(dimension, bits) in remaining {
            self.keys[dimension].pack_low(range.clone(), bits, &mut self.packed);
        }
        for (packed, position) in self.packed.iter_mut().zip(0_u64..) {
            *packed = *packed << position_bits | position;
        }
        if self.packed.is_sorted() {
            return;
        }
        let passes = bits.div_ceil(RADIX_BITS);
        if range.len() >= MIN_RADIX_LENGTH && passes <= 4 {
            for pass in 0..passes {
                radix_pass(&self.packed, &mut self.spare, position_bits + pass * RADIX_BITS);
                std::mem::swap(&mut self.packed, &mut self.spare);
            }
        } else {
            self.packed.sort_unstable();
        }
        self.write_back(range, remaining, position_bits);
    }

    /// Reorders the entries at `range` by `packed`.
    fn write_back(&mut self, range: Range<usize>, remaining: &[(usize, u32)], position_bits: u32) {
        self.sources.clear();
        self.sources.extend(self.packed.iter().map(|packed| (packed & low_mask(position_bits)) as u32));
        let mut shift = position_bits;
        for &(dimension, bits) in remaining.iter().rev() {
            // Bits of an index above the differing ones are the same in the whole range.
            let high = self.keys[dimension].get(range.start) & !low_mask(bits);
            let low = self.packed.iter().map(|packed| packed.unbounded_shr(shift) & low_mask(bits));
            self.keys[dimension].overwrite(range.start, low.map(|low| high | low));
            shift += bits;
        }
        if let Some(ordinals) = self.ordinals.as_deref_mut() {
            // The packed keys are no longer needed: their memory holds the old ordinals.
            let ordinals = &mut ordinals[range.clone()];
            self.packed.clear();
            self.packed.extend(ordinals.iter().map(|&ordinal| u64::from(ordinal)));
            for (ordinal, &from) in ordinals.iter_mut().zip(&self.sources) {
                *ordinal = self.packed[from as usize] as u32;
            }
        }
        permute(&mut self.values[range], &mut self.sources);
    }

    fn sort_in_place(&mut self, range: Range<usize>, bits: u32) {
        let mut own;
        let ordinals = if let Some(ordinals) = self.ordinals.as_deref_mut() {
            &mut ordinals[range.clone()]
        } else {
            own = (0..range.len() as u32).collect::<Vec<_>>();
            &mut own[..]
        };
        let columns = SortColumns { shape: self.shape, order: self.order, keys: self.keys, values: self.values };
        if in_place::packed_bits(self.shape) <= u64::BITS {
            in_place::sort::<u64, T, N>(columns, range, bits, ordinals);
        } else {
            in_place::sort::<u128, T, N>(columns, range, bits, ordinals);
        }
    }
}

/// Mask of the lowest `bits` bits.
fn low_mask(bits: u32) -> u64 {
    1_u64.unbounded_shl(bits).wrapping_sub(1)
}

/// Stable counting sort by the digit at `shift`.
fn radix_pass(from: &[u64], to: &mut Vec<u64>, shift: u32) {
    const DIGITS: usize = 1 << RADIX_BITS;
    let digit = |packed: u64| (packed >> shift) as usize & (DIGITS - 1);
    let mut next = [0_u32; DIGITS];
    for &packed in from {
        next[digit(packed)] += 1;
    }
    let mut sum = 0;
    for next in &mut next {
        sum += std::mem::replace(next, sum);
    }
    to.resize(from.len(), 0);
    for &packed in from {
        let next = &mut next[digit(packed)];
        to[*next as usize] = packed;
        *next += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Chunks of uneven lengths, as several builders leave them.
    fn chunks<T: Clone, const N: usize>(entries: &[([usize; N], T)], split: usize) -> Vec<ColumnChunk<T, N>> {
        let chunk = |entries: &[([usize; N], T)]| {
            let mut chunk = ColumnChunk::new(entries.len());
            for (key, value) in entries {
                chunk.keys.iter_mut().zip(key).for_each(|(column, &index)| column.push(index as u64));
                chunk.values.push(value.clone());
            }
            chunk
        };
        let (first, second) = entries.split_at(split.min(entries.len()));
        [first, second].into_iter().map(chunk).collect()
    }

    /// Compares with the stable comparison sort of the standard library.
    fn agrees_with_a_stable_comparison_sort<T, const N: usize>(
        shape: Shape<N>,
        order: [usize; N],
        entries: &[([usize; N], T)],
        split: usize,
    ) where
        T: Clone + PartialEq + std::fmt::Debug,
    {
        let mut expected: Vec<(u32, &([usize; N], T))> = (0..).zip(entries).collect();
        expected.sort_by_key(|(_, (key, _))| order.map(|dimension| key[dimension]));
        for number in [false, true] {
            let SortedColumns { keys, values, ordinals } = sort_chunks(chunks(entries, split), shape, order, number);
            assert!(keys.iter().all(|column| column.len() == entries.len() && values.len() == entries.len()));
            for (position, &(ordinal, (key, value))) in expected.iter().enumerate() {
                assert_eq!(&keys.each_ref().map(|column| column.get(position) as usize), key);
                assert_eq!(&values[position], value);
                if number {
                    let found = ordinals.as_ref().map_or(position as u32, |ordinals| ordinals[position]);
                    assert_eq!(found, ordinal);
                }
            }
            assert!((0..N).all(|dimension| keys[dimension].as_narrow().is_some() == shape.fits_u32(dimension)));
        }
    }

    /// Random keys below `extents`, skewed towards low indices.
    fn drawn<const N: usize>(extents: [usize; N], count: usize, seed: u64, skew: u32) -> Vec<([usize; N], u32)> {
        let rng = hemiola_core::rng::PhiloxRng::new(seed);
        let index = |number: usize, dimension: usize| {
            let unit = rng.random_f64(number as u64, dimension as u64);
            let spread = (0..skew).fold(1.0, |product, _| product * unit);
            ((unit * spread * extents[dimension] as f64) as usize).min(extents[dimension] - 1)
        };
        (0..count).map(|number| (std::array::from_fn(|dimension| index(number, dimension)), number as u32)).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn entries_are_in_order_and_equal_keys_in_the_order_of_arrival(
            extents in [0_usize..7, 0_usize..7, 0_usize..7],
            count in 0_usize..30_000, split in 0_usize..30_000, seed: u64, skew in 0_u32..4, turn in 0_usize..3,
        ) {
            let extents = extents.map(|choice| [1, 3, 70, 1000, 5000, 1 << 20, 1 << 40][choice]);
            let order = [turn, (turn + 1) % 3, (turn + 2) % 3];
            let entries = drawn(extents, count, seed, skew);
            agrees_with_a_stable_comparison_sort(Shape::new(extents), order, &entries, split);
            // The entries sorted by another order, as after a shuffle.
            let mut other = entries;
            other.sort_by_key(|(key, _)| key.map(std::cmp::Reverse));
            agrees_with_a_stable_comparison_sort(Shape::new(extents), order, &other, split);
        }

        #[test]
        fn values_of_any_width_move_with_their_keys(count in 0_usize..12_000, seed: u64, extent in 1_usize..20_000) {
            let entries = drawn([extent, 50], count, seed, 1);
            let texts: Vec<_> = entries.iter().map(|(key, value)| (*key, value.to_string())).collect();
            agrees_with_a_stable_comparison_sort(Shape::new([extent, 50]), [0, 1], &texts, count / 3);
            let bytes: Vec<_> = entries.iter().map(|&([index, _], value)| ([index], value as u8)).collect();
            agrees_with_a_stable_comparison_sort(Shape::new([extent]), [0], &bytes, count / 3);
            let nothing: Vec<_> = entries.iter().map(|&(key, _)| (key, ())).collect();
            agrees_with_a_stable_comparison_sort(Shape::new([extent, 50]), [1, 0], &nothing, count / 3);
        }
    }

    #[test]
    fn an_index_with_most_of_the_entries_and_keys_of_100_bits_are_sorted_too() {
        let mut entries = drawn([1 << 40, 1 << 60], 40_000, 5, 0);
        entries.iter_mut().skip(5000).for_each(|(key, _)| key[0] = 77);
        agrees_with_a_stable_comparison_sort(Shape::new([1 << 40, 1 << 60]), [0, 1], &entries, 10_000);
        agrees_with_a_stable_comparison_sort(Shape::new([1 << 40, 1 << 60]), [1, 0], &entries, 10_000);
    }

    #[test]
    fn a_narrow_dimension_may_come_in_a_wide_column() {
        let mut entries = chunks(&drawn([5000, 90], 6000, 1, 0), 0);
        for chunk in &mut entries {
            let wide = chunk.keys[0].iter().collect();
            chunk.keys[0] = KeyColumn::Wide(wide);
        }
        let SortedColumns { keys, .. } = sort_chunks(entries, Shape::new([5000, 90]), [1, 0], false);
        assert!(keys[0].as_narrow().is_some() && keys[1].iter().is_sorted());
    }
}
