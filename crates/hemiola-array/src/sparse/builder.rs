//! Collection of entries that arrive in any order, before the shape is known.
//!
//! A reader fills one builder per byte range; builders are appended in range order and finished
//! into a block. Entries lie in chunks of bounded size, because a vector that doubles holds three
//! times its contents while it grows. Finishing sorts the chunks into exact columns, one column at
//! a time, and frees each column's chunks on the way. **Invariant:** memory never exceeds 1.6 times
//! that of the finished block (for 2-D `f32`: 12 bytes per entry, 16 at the peak).

use super::block::SparseBlock;
use super::chunk::ColumnChunk;
use super::in_place::packed_bits;
use super::keys::KeySlice;
use super::sort::{SortedColumns, sort_chunks};
use super::{DuplicatePolicy, KeyColumn};
use crate::error::EntryOrigin;
use crate::{Error, Result, Shape};
use std::fmt;

/// Entries of the first chunk. Each next chunk is as large as all before it together, up to
/// [`LARGEST_CHUNK`], so that a shuffle may hold one builder per part.
const FIRST_CHUNK: usize = 1024;
/// 1.5 MiB of 2-D `f32` entries: a nearly empty last chunk of a large builder is negligible.
/// Columns of half a megabyte are also large enough for the system allocator to return each to the
/// system when it is freed. With half of that, freed chunks stayed resident, and the peak while
/// loading was 1.8 times the array instead of 1.5.
const LARGEST_CHUNK: usize = 128 * 1024;

/// Builder of a [`SparseBlock`].
///
/// ```
/// use hemiola_array::sparse::{DuplicatePolicy, SparseBuilder};
/// let mut builder = SparseBuilder::new();
/// builder.push([1, 0], 4.0_f32);
/// builder.push([0, 2], 5.0);
/// let shape = builder.shape(); // discovered
/// let block = builder.finish(shape, [0, 1], DuplicatePolicy::Error)?;
/// assert_eq!(block.iter().collect::<Vec<_>>(), [([0, 2], &5.0), ([1, 0], &4.0)]);
/// # Ok::<(), hemiola_array::Error>(())
/// ```
pub struct SparseBuilder<T, const N: usize> {
    chunks: Vec<ColumnChunk<T, N>>,
    length: usize,
    /// Largest index of each dimension; undefined while there are no entries.
    largest: [usize; N],
}

impl<T, const N: usize> Default for SparseBuilder<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

/// Converts a block back into a builder, to sort or scatter it anew; nothing is copied.
impl<T, const N: usize> From<SparseBlock<T, N>> for SparseBuilder<T, N> {
    fn from(block: SparseBlock<T, N>) -> Self {
        let (keys, values) = block.into_columns();
        let mut builder = Self::new();
        builder.push_columns(keys, values);
        builder
    }
}

impl<T, const N: usize> SparseBuilder<T, N> {
    /// Creates a builder without entries.
    #[must_use]
    pub fn new() -> Self {
        Self { chunks: Vec::new(), length: 0, largest: [0; N] }
    }

    /// Appends an entry with its key.
    #[inline]
    pub fn push(&mut self, key: [usize; N], value: T) {
        let chunk = match self.chunks.last_mut() {
            Some(chunk) if chunk.values.len() < chunk.capacity => chunk,
            _ => self.add_chunk(),
        };
        for (column, index) in chunk.keys.iter_mut().zip(key) {
            column.push(index as u64);
        }
        chunk.values.push(value);
        for (largest, index) in self.largest.iter_mut().zip(key) {
            *largest = index.max(*largest);
        }
        self.length += 1;
    }

    /// Appends the entries at `positions` of a batch of columns; `value` is called once per
    /// position. New chunks are taken from `spare` if suitable ones are there.
    pub(super) fn push_selected(
        &mut self,
        batch: &[KeySlice<'_>; N],
        mut positions: &[u32],
        spare: &mut Vec<ColumnChunk<T, N>>,
        mut value: impl FnMut(usize) -> T,
    ) {
        while !positions.is_empty() {
            let chunk = match self.chunks.last_mut() {
                Some(chunk) if chunk.values.len() < chunk.capacity => chunk,
                // A spare chunk must not be larger than the one that would be allocated.
                _ => match spare.pop_if(|chunk| chunk.capacity <= self.length.max(FIRST_CHUNK)) {
                    Some(chunk) => self.chunks.push_mut(chunk),
                    None => self.add_chunk(),
                },
            };
            let (now, later) = positions.split_at(positions.len().min(chunk.capacity - chunk.values.len()));
            let mut largest = [0; N];
            for ((column, batch), largest) in chunk.keys.iter_mut().zip(batch).zip(&mut largest) {
                *largest = column.push_selected(*batch, now);
            }
            chunk.values.extend(now.iter().map(|&position| value(position as usize)));
            for (all, largest) in self.largest.iter_mut().zip(largest) {
                *all = (*all).max(largest as usize);
            }
            self.length += now.len();
            positions = later;
        }
    }

    #[cold]
    fn add_chunk(&mut self) -> &mut ColumnChunk<T, N> {
        self.chunks.push_mut(ColumnChunk::new(self.length.clamp(FIRST_CHUNK, LARGEST_CHUNK)))
    }

    /// Number of entries in the builder.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns true if the builder has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Largest index seen in each dimension.
    #[must_use]
    pub fn largest_key(&self) -> Option<[usize; N]> {
        (!self.is_empty()).then_some(self.largest)
    }

    /// Smallest shape that covers all entries.
    #[must_use]
    pub fn shape(&self) -> Shape<N> {
        Shape::covering(self.largest_key())
    }

    /// Adds `base` to every index of a dimension. The rows of a byte range count from 0 until the
    /// rows of the ranges before it are known.
    pub fn shift(&mut self, dimension: usize, base: usize) {
        if base == 0 || self.is_empty() {
            return;
        }
        self.largest[dimension] += base;
        for chunk in &mut self.chunks {
            chunk.keys[dimension].shift(base as u64, self.largest[dimension] as u64);
        }
    }

    /// Maps every index of a dimension, for instance after dictionaries were merged.
    pub fn renumber(&mut self, dimension: usize, mut number: impl FnMut(usize) -> usize) {
        let mut largest = 0;
        for chunk in &mut self.chunks {
            let old = std::mem::replace(&mut chunk.keys[dimension], KeyColumn::with_capacity(true, 0));
            let mut new = KeyColumn::with_capacity(true, chunk.capacity);
            for key in old.iter() {
                let key = number(key as usize);
                largest = largest.max(key);
                new.push(key as u64);
            }
            chunk.keys[dimension] = new;
        }
        self.largest[dimension] = largest;
    }

    /// Appends the entries of the next range.
    pub fn append(&mut self, next: Self) {
        if next.is_empty() {
            return;
        }
        // A partly filled last chunk is shrunk, so that many small ranges do not hold many large
        // chunks.
        if let Some(last) = self.chunks.last_mut() {
            last.keys.iter_mut().for_each(KeyColumn::shrink);
            last.values.shrink_to_fit();
            last.capacity = last.values.len();
        }
        for dimension in 0..N {
            self.largest[dimension] = self.largest[dimension].max(next.largest[dimension]);
        }
        self.length += next.length;
        self.chunks.extend(next.chunks);
    }

    /// Appends entries given as columns, for instance from another peer.
    ///
    /// # Panics
    /// Panics if the columns do not have the same length.
    pub fn push_columns(&mut self, keys: [KeyColumn; N], values: Vec<T>) {
        assert!(
            keys.iter().all(|column| column.len() == values.len()),
            "columns must have one key per value and dimension"
        );
        let largest =
            std::array::from_fn(|dimension| keys[dimension].min_max().map_or(0, |(_, largest)| largest as usize));
        let (length, capacity) = (values.len(), values.len());
        self.append(Self { chunks: vec![ColumnChunk { keys, values, capacity }], length, largest });
    }

    /// Iterates over the entries as columns, chunk by chunk in the order of arrival. A shuffle
    /// sends these without touching single entries.
    pub fn columns(&self) -> impl Iterator<Item = (&[KeyColumn; N], &[T])> {
        self.chunks.iter().map(|chunk| (&chunk.keys, chunk.values.as_slice()))
    }

    pub(super) fn into_chunks(self) -> impl Iterator<Item = ColumnChunk<T, N>> {
        self.chunks.into_iter()
    }

    /// Iterates over the entries as owned columns, chunk by chunk in the order of arrival.
    pub fn into_columns(self) -> impl Iterator<Item = ([KeyColumn; N], Vec<T>)> {
        self.chunks.into_iter().map(|chunk| (chunk.keys, chunk.values))
    }

    /// Iterates over all entries in the order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = ([usize; N], &T)> {
        self.chunks.iter().flat_map(|chunk| {
            chunk
                .values
                .iter()
                .enumerate()
                .map(|(position, value)| (std::array::from_fn(|at| chunk.keys[at].get(position) as usize), value))
        })
    }

    /// Iterates over all entries by value in the order of arrival, freeing each finished chunk.
    pub fn into_entries(self) -> impl Iterator<Item = ([usize; N], T)> {
        self.chunks.into_iter().flat_map(|chunk| {
            let ColumnChunk { keys, values, .. } = chunk;
            values
                .into_iter()
                .enumerate()
                .map(move |(position, value)| (std::array::from_fn(|at| keys[at].get(position) as usize), value))
        })
    }

    /// Allocated memory in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let chunk = |chunk: &ColumnChunk<T, N>| {
            chunk.keys.iter().map(KeyColumn::memory_bytes).sum::<usize>() + chunk.values.capacity() * size_of::<T>()
        };
        self.chunks.iter().map(chunk).sum()
    }

    /// Sorts the entries into a block.
    ///
    /// `order` lists the dimensions, the slowest first: `[0, 1]` sorts by row, `[1, 0]` by column.
    /// It must be a permutation of the dimensions.
    ///
    /// # Panics
    /// Panics if `order` is not a permutation of `0..N`.
    pub fn finish(self, shape: Shape<N>, order: [usize; N], policy: DuplicatePolicy<T>) -> Result<SparseBlock<T, N>> {
        // Only an error names entries by their ordinal.
        let number = matches!(policy, DuplicatePolicy::Error);
        self.finish_numbered(shape, order, policy, number)
    }

    /// Sorts the entries into a block for callers that locate duplicates by themselves. An error
    /// then names no reliable ordinals, which saves a column of them.
    pub(crate) fn finish_unnumbered(
        self,
        shape: Shape<N>,
        order: [usize; N],
        policy: DuplicatePolicy<T>,
    ) -> Result<SparseBlock<T, N>> {
        self.finish_numbered(shape, order, policy, false)
    }

    fn finish_numbered(
        self,
        shape: Shape<N>,
        order: [usize; N],
        policy: DuplicatePolicy<T>,
        number: bool,
    ) -> Result<SparseBlock<T, N>> {
        let mut named = order;
        named.sort_unstable();
        assert!(named.into_iter().eq(0..N), "the order {order:?} must name every dimension once");
        self.check(shape)?;
        let SortedColumns { mut keys, mut values, ordinals } = sort_chunks(self.chunks, shape, order, number);
        merge_duplicates(&mut keys, &mut values, ordinals.as_deref(), policy)?;
        Ok(SparseBlock::from_sorted(shape, order, keys, values))
    }
}

impl<T, const N: usize> SparseBuilder<T, N> {
    /// Returns an error unless the entries fit into a block of this shape.
    fn check(&self, shape: Shape<N>) -> Result<()> {
        if u32::try_from(self.length).is_err() {
            return Err(Error::BlockFull { entries: self.length as u64 });
        }
        if packed_bits(shape) > u128::BITS {
            return Err(Error::TooManyCells { shape: shape.extents().to_vec() });
        }
        if let Some(largest) = self.largest_key()
            && !shape.contains(largest)
        {
            let (key, _) = self
                .iter()
                .find(|&(key, _)| !shape.contains(key))
                .unwrap_or_else(|| unreachable!("one entry has the largest index"));
            return Err(Error::KeyOutOfShape { key: key.to_vec(), shape: shape.extents().to_vec() });
        }
        Ok(())
    }
}

impl<T> SparseBuilder<T, 1> {
    /// Groups the values of each index, in the order of arrival: one entry per index that occurs.
    pub(crate) fn finish_groups(self, shape: Shape<1>) -> Result<SparseBlock<Vec<T>, 1>> {
        self.check(shape)?;
        let SortedColumns { keys: [keys], values, .. } = sort_chunks(self.chunks, shape, [0], false);
        let mut groups: Vec<(u64, usize)> = Vec::new();
        for key in keys.iter() {
            match groups.last_mut() {
                Some((last, count)) if *last == key => *count += 1,
                _ => groups.push((key, 1)),
            }
        }
        drop(keys);
        let mut column = KeyColumn::with_capacity(shape.fits_u32(0), groups.len());
        let mut lists = Vec::with_capacity(groups.len());
        let mut values = values.into_iter();
        for (key, count) in groups {
            column.push(key);
            lists.push(values.by_ref().take(count).collect());
        }
        Ok(SparseBlock::from_sorted(shape, [0], [column], lists))
    }
}

impl<T: Copy> SparseBuilder<T, 2> {
    /// Appends the entries of one row, as LIBSVM and LDA-C lines have them, with one check per row
    /// instead of one per entry.
    ///
    /// # Panics
    /// Panics if there are not as many values as columns.
    pub fn push_row(&mut self, row: usize, mut columns: &[u32], mut values: &[T]) {
        assert_eq!(columns.len(), values.len(), "a row must have one value per column");
        let Some(&largest) = columns.iter().max() else { return };
        self.largest = [self.largest[0].max(row), self.largest[1].max(largest as usize)];
        while !values.is_empty() {
            let chunk = match self.chunks.last_mut() {
                Some(chunk) if chunk.values.len() < chunk.capacity => chunk,
                _ => self.add_chunk(),
            };
            let count = values.len().min(chunk.capacity - chunk.values.len());
            chunk.keys[0].push_repeated(row as u64, count);
            chunk.keys[1].push_narrow(&columns[..count]);
            chunk.values.extend_from_slice(&values[..count]);
            (columns, values) = (&columns[count..], &values[count..]);
            self.length += count;
        }
    }
}

/// Applies the policy to runs of equal keys, which are adjacent and in the order of arrival.
fn merge_duplicates<T, const N: usize>(
    keys: &mut [KeyColumn; N],
    values: &mut Vec<T>,
    ordinals: Option<&[u32]>,
    policy: DuplicatePolicy<T>,
) -> Result<()> {
    let Some(from) = first_duplicate(keys, values.len()) else { return Ok(()) };
    let mut dropped: Vec<u32> = Vec::new();
    let mut first = from - 1;
    let complete = |values: &mut [T], first: usize, next: usize| match policy {
        DuplicatePolicy::Aggregate { complete, .. } if next - first > 1 => {
            complete(&mut values[first], (next - first) as u64);
        }
        _ => {}
    };
    for position in from..values.len() {
        if keys.iter().any(|column| column.get(position) != column.get(first)) {
            complete(values, first, position);
            first = position;
            continue;
        }
        match policy {
            DuplicatePolicy::Error => {
                let origin =
                    |at: usize| EntryOrigin::Entry(ordinals.map_or(at as u64, |ordinals| u64::from(ordinals[at])));
                return Err(Error::DuplicateKey {
                    key: keys.iter().map(|column| column.get(first) as usize).collect(),
                    first: origin(first),
                    second: origin(position),
                });
            }
            DuplicatePolicy::Last => values.swap(first, position),
            DuplicatePolicy::Combine(combine) | DuplicatePolicy::Aggregate { combine, .. } => {
                let (before, after) = values.split_at_mut(position);
                combine(&mut before[first], &after[0]);
            }
        }
        dropped.push(position as u32);
    }
    let end = values.len();
    complete(values, first, end);
    let keeper = || {
        let (mut position, mut next) = (0_u32, dropped.iter().copied().peekable());
        move || {
            let keep = next.next_if_eq(&position).is_none();
            position += 1;
            keep
        }
    };
    for column in keys {
        column.retain(keeper());
        column.shrink();
    }
    let mut keep = keeper();
    values.retain(|_| keep());
    values.shrink_to_fit();
    Ok(())
}

/// Position of the first entry whose key equals that of the entry before it. There is nearly always
/// none, so the search compares whole columns.
fn first_duplicate<const N: usize>(keys: &[KeyColumn; N], length: usize) -> Option<usize> {
    const BATCH: usize = 1024;
    let mut same = [false; BATCH];
    (1..length).step_by(BATCH).find_map(|start| {
        let same = &mut same[..BATCH.min(length - start)];
        same.fill(true);
        for column in keys {
            column.compare_with_previous(start, same);
        }
        same.iter().position(|&same| same).map(|offset| start + offset)
    })
}

impl<T, const N: usize> fmt::Debug for SparseBuilder<T, N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SparseBuilder of {} entries in {:?}", self.length, self.shape())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn built<const N: usize>(entries: &[([usize; N], u32)]) -> SparseBuilder<u32, N> {
        let mut builder = SparseBuilder::new();
        for &(key, value) in entries {
            builder.push(key, value);
        }
        builder
    }

    fn entries<const N: usize>(block: &SparseBlock<u32, N>) -> Vec<([usize; N], u32)> {
        block.iter().map(|(key, &value)| (key, value)).collect()
    }

    proptest! {
        #[test]
        fn block_holds_the_entries_sorted_in_the_chosen_order(
            entries_in in prop::collection::vec(([0_usize..40, 0_usize..9, 0_usize..1 << 33], any::<u32>()), 0..400),
            turn in 0_usize..3,
        ) {
            let order = [turn, (turn + 1) % 3, (turn + 2) % 3];
            let builder = built(&entries_in);
            let shape = builder.shape();
            let block = builder.finish(shape, order, DuplicatePolicy::Last).unwrap();
            let expected: BTreeMap<_, _> =
                entries_in.iter().map(|&(key, value)| (order.map(|dimension| key[dimension]), (key, value))).collect();
            prop_assert_eq!(entries(&block), expected.into_values().collect::<Vec<_>>());
        }

        #[test]
        fn sum_adds_every_duplicate_once(keys in prop::collection::vec([0_usize..5, 0_usize..5], 0..200)) {
            let entries_in: Vec<_> = keys.iter().zip(1..).map(|(&key, value)| (key, value)).collect();
            let block = built(&entries_in).finish(Shape::new([5, 5]), [0, 1], DuplicatePolicy::sum()).unwrap();
            let mut expected = BTreeMap::new();
            for &(key, value) in &entries_in {
                *expected.entry(key).or_insert(0) += value;
            }
            prop_assert_eq!(entries(&block), expected.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn mean_and_first_see_every_duplicate(keys in prop::collection::vec([0_usize..4, 0_usize..4], 0..100)) {
            let entries_in: Vec<_> = keys.iter().zip(1_u16..).map(|(&key, value)| (key, f32::from(value))).collect();
            let mut expected: BTreeMap<_, Vec<f32>> = BTreeMap::new();
            for &(key, value) in &entries_in {
                expected.entry(key).or_default().push(value);
            }
            let finish = |policy| {
                let mut builder = SparseBuilder::new();
                for &(key, value) in &entries_in {
                    builder.push(key, value);
                }
                let block = builder.finish(Shape::new([4, 4]), [0, 1], policy).unwrap();
                block.iter().map(|(key, value)| (key, *value)).collect::<Vec<_>>()
            };
            let mean = |all: &Vec<f32>| all.iter().sum::<f32>() / all.len() as f32;
            let means: Vec<_> = expected.iter().map(|(key, all)| (*key, mean(all))).collect();
            prop_assert_eq!(finish(DuplicatePolicy::mean()), means);
            let firsts: Vec<_> = expected.iter().map(|(key, all)| (*key, all[0])).collect();
            prop_assert_eq!(finish(DuplicatePolicy::first()), firsts);
        }

        #[test]
        fn builders_appended_in_range_order_equal_one_builder(
            entries_in in prop::collection::vec(([0_usize..40, 0_usize..40], any::<u32>()), 0..300), at in 0_usize..300,
        ) {
            let at = at.min(entries_in.len());
            let mut parts = built(&entries_in[..at]);
            parts.append(built(&entries_in[at..]));
            prop_assert!(parts.iter().map(|(key, &value)| (key, value)).eq(entries_in.iter().copied()));
            let whole = built(&entries_in);
            prop_assert_eq!(parts.shape(), whole.shape());
            let shape = whole.shape();
            let finish = |builder: SparseBuilder<u32, 2>| builder.finish(shape, [0, 1], DuplicatePolicy::Last).unwrap();
            prop_assert_eq!(finish(parts), finish(whole));
        }
    }

    /// Pseudorandom entries, enough for several levels of buckets.
    fn many(count: u64, rows: usize, columns: usize) -> Vec<([usize; 2], u32)> {
        let permutation = hemiola_core::rng::Permutation::new((rows * columns) as u64, hemiola_core::Seed(1));
        (0..count)
            .map(|index| (permutation.apply(index) as usize, index as u32))
            .map(|(cell, value)| ([cell / columns, cell % columns], value))
            .collect()
    }

    #[test]
    fn large_blocks_go_through_all_levels_of_buckets() {
        let mut entries_in = many(200_000, 1 << 16, 1 << 12);
        let block = built(&entries_in).finish(Shape::new([1 << 16, 1 << 12]), [0, 1], DuplicatePolicy::Error).unwrap();
        entries_in.sort_unstable();
        assert_eq!(entries(&block), entries_in);
        let wide = built(&entries_in).finish(Shape::new([1 << 40, 1 << 60]), [1, 0], DuplicatePolicy::Error).unwrap();
        entries_in.sort_unstable_by_key(|&([row, column], _)| (column, row));
        assert_eq!(entries(&wide), entries_in);
    }

    #[test]
    fn a_hundred_thousand_entries_of_one_key_keep_their_order() {
        let mut entries_in: Vec<_> = (0..100_000).map(|value| ([3_usize, 3], value)).collect();
        entries_in.push(([0, 0], 7));
        let block = built(&entries_in).finish(Shape::new([4, 4]), [0, 1], DuplicatePolicy::Last).unwrap();
        assert_eq!(entries(&block), [([0, 0], 7), ([3, 3], 99_999)]);
    }

    #[test]
    fn duplicates_are_reported_with_both_origins() {
        let error = built(&[([2, 1], 0), ([0, 0], 1), ([2, 1], 2)])
            .finish(Shape::new([3, 3]), [0, 1], DuplicatePolicy::Error)
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "key [2, 1] is given twice: at entry 0 and at entry 2; choose a policy for duplicates (sum, last)"
        );
    }

    #[test]
    fn an_entry_outside_a_given_shape_is_named() {
        let error = built(&[([2, 1], 0)]).finish(Shape::new([2, 2]), [0, 1], DuplicatePolicy::Error).unwrap_err();
        assert!(matches!(error, Error::KeyOutOfShape { key, .. } if key == [2, 1]));
    }

    #[test]
    fn values_need_no_clone_and_no_default() {
        struct Opaque(#[expect(dead_code, reason = "only moved")] Box<dyn Fn() + Send>);
        let mut builder = SparseBuilder::new();
        (0..100).rev().for_each(|index| builder.push([index], Opaque(Box::new(|| ()))));
        assert_eq!(builder.finish(Shape::new([100]), [0], DuplicatePolicy::Last).unwrap().len(), 100);
    }

    #[test]
    fn a_two_dimensional_f32_entry_costs_twelve_bytes() {
        let mut builder = SparseBuilder::new();
        for &(key, value) in &many(100_000, 1 << 10, 1 << 10) {
            builder.push(key, value as f32);
        }
        let block = builder.finish(Shape::new([1 << 10, 1 << 10]), [0, 1], DuplicatePolicy::Error).unwrap();
        assert!(block.memory_bytes() <= 12 * 100_000 * 105 / 100, "{}", block.memory_bytes());
    }

    #[test]
    fn entries_pushed_as_columns_are_the_same_entries() {
        let entries_in = many(10_000, 100, 1000);
        let mut gathered = SparseBuilder::new();
        for part in entries_in.chunks(3000) {
            for (keys, values) in built(part).into_columns() {
                gathered.push_columns(keys, values);
            }
        }
        assert_eq!((gathered.len(), gathered.shape()), (10_000, built(&entries_in).shape()));
        let finish = |builder: SparseBuilder<u32, 2>| {
            builder.finish(Shape::new([100, 1000]), [0, 1], DuplicatePolicy::Error).unwrap()
        };
        assert_eq!(finish(gathered), finish(built(&entries_in)));
    }

    #[test]
    fn rows_are_the_same_as_their_entries() {
        let (mut by_row, mut by_entry) = (SparseBuilder::new(), SparseBuilder::new());
        for row in [0_usize, 5, 1 << 33, 7] {
            let columns: Vec<u32> = (0..row as u32 % 4000).rev().collect();
            by_row.push_row(row, &columns, &columns);
            for &column in &columns {
                by_entry.push([row, column as usize], column);
            }
        }
        by_row.push_row(9, &[1], &[1]);
        by_entry.push([9, 1], 1);
        assert_eq!((by_row.len(), by_row.largest_key()), (by_entry.len(), by_entry.largest_key()));
        assert!(by_row.iter().eq(by_entry.iter()));
    }

    #[test]
    fn a_small_builder_is_small() {
        assert!(built(&[([0, 0], 0)]).memory_bytes() <= 12 * FIRST_CHUNK);
        assert_eq!(SparseBuilder::<u32, 2>::new().memory_bytes(), 0);
    }

    #[test]
    fn shifting_and_renumbering_move_the_shape_too() {
        let mut builder = built(&[([0, 1], 5), ([1, 0], 6)]);
        builder.shift(0, 1 << 32);
        assert_eq!(builder.shape(), Shape::new([(1 << 32) + 2, 2]));
        builder.renumber(0, |row| (1 << 32) + 1 - row);
        assert_eq!(builder.shape(), Shape::new([2, 2]));
        assert_eq!(builder.into_entries().collect::<Vec<_>>(), [([1, 1], 5), ([0, 0], 6)]);
    }
}
