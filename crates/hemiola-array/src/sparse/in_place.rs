//! In-place sort of a range of a block's columns, with 4 extra bytes per entry.
//!
//! It handles the cases that [`sort`](super::sort) cannot split in one stable pass: values too wide
//! to be held twice, and buckets that one index fills. The key of an entry, packed into one integer
//! in the chosen order of dimensions, is sorted from the top bits down. An American flag sort
//! (`McIlroy`, Bostic, `McIlroy` 1993) swaps entries into 64 buckets. A bucket that fits the cache is
//! sorted by comparison on `(packed key, ordinal)` pairs and permuted there. Every pass writes to
//! at most 64 positions per column, so no step stalls on memory.
//!
//! The *ordinal*, the number of an entry in the order of arrival, is a separate column while
//! sorting. It makes the result that of a stable sort although swapping is not stable.
//!
//! **Invariant:** at any moment the columns together hold the same entries; only their order
//! changes.

use super::KeyColumn;
use crate::Shape;
use std::ops::Range;

/// Buckets up to this many entries are sorted by comparison: their columns and scratch memory fit
/// the L2 cache.
const SMALL_BUCKET: usize = 8 * 1024;
const DIGIT_BITS: u32 = 6;
const BUCKETS: usize = 1 << DIGIT_BITS;

/// Columns to be sorted.
pub(super) struct SortColumns<'a, T, const N: usize> {
    pub(super) shape: Shape<N>,
    /// Dimensions in sort order, the slowest first.
    pub(super) order: [usize; N],
    pub(super) keys: &'a mut [KeyColumn; N],
    pub(super) values: &'a mut [T],
}

/// Key packed into one integer with the same order.
pub(super) trait PackedKey: Copy + Ord {
    const ZERO: Self;
    fn append(self, bits: u32, index: u64) -> Self;
    /// Inverse of [`append`](Self::append): the integer before it, and the index.
    fn split(self, bits: u32) -> (Self, u64);
    fn digit(self, shift: u32) -> usize;
}

macro_rules! packed {
    ($($integer:ty),*) => {$(
        impl PackedKey for $integer {
            const ZERO: Self = 0;
            #[inline]
            fn append(self, bits: u32, index: u64) -> Self {
                self.checked_shl(bits).unwrap_or(0) | Self::from(index)
            }
            #[inline]
            fn split(self, bits: u32) -> (Self, u64) {
                let rest = self.checked_shr(bits).unwrap_or(0);
                (rest, (self ^ rest.checked_shl(bits).unwrap_or(0)) as u64)
            }
            #[inline]
            fn digit(self, shift: u32) -> usize {
                (self >> shift) as usize & (BUCKETS - 1)
            }
        }
    )*};
}
packed!(u64, u128);

/// Number of bits of a packed key of this shape.
pub(super) fn packed_bits<const N: usize>(shape: Shape<N>) -> u32 {
    (0..N).map(|dimension| shape.index_bits(dimension)).sum()
}

#[inline]
pub(super) fn pack<P: PackedKey, const N: usize>(
    shape: Shape<N>,
    order: [usize; N],
    keys: &[KeyColumn; N],
    position: usize,
) -> P {
    order
        .into_iter()
        .fold(P::ZERO, |packed, dimension| packed.append(shape.index_bits(dimension), keys[dimension].get(position)))
}

/// Sorts the entries at `range`, whose packed keys agree above the lowest `bits` bits, together
/// with their ordinals. Ascending ordinals make the sort stable. Keys must lie inside the shape.
pub(super) fn sort<P: PackedKey, T, const N: usize>(
    columns: SortColumns<'_, T, N>,
    range: Range<usize>,
    bits: u32,
    ordinals: &mut [u32],
) {
    debug_assert_eq!(range.len(), ordinals.len(), "there must be one ordinal per entry");
    let small = SMALL_BUCKET.max(range.len() / 64);
    let mut sorter = InPlaceSorter::<'_, P, T, N> {
        columns,
        ordinals,
        first: range.start,
        scratch: Vec::new(),
        sources: Vec::new(),
        small,
    };
    sorter.sort_range(range.start, range.end, bits);
}

struct InPlaceSorter<'a, P, T, const N: usize> {
    columns: SortColumns<'a, T, N>,
    /// Ordinals of the entries from `first` on.
    ordinals: &'a mut [u32],
    first: usize,
    /// Packed key, ordinal and offset in the bucket, of one small bucket at a time.
    scratch: Vec<(P, u32, u32)>,
    sources: Vec<u32>,
    /// Largest bucket that is sorted in scratch memory.
    small: usize,
}

impl<P: PackedKey, T, const N: usize> InPlaceSorter<'_, P, T, N> {
    #[inline]
    fn packed(&self, position: usize) -> P {
        pack(self.columns.shape, self.columns.order, self.columns.keys, position)
    }

    #[inline]
    fn swap(&mut self, left: usize, right: usize) {
        for column in self.columns.keys.iter_mut() {
            column.swap(left, right);
        }
        self.columns.values.swap(left, right);
        self.ordinals.swap(left - self.first, right - self.first);
    }

    /// Sorts `start..end`, whose packed keys agree above the lowest `bits` bits.
    fn sort_range(&mut self, start: usize, end: usize, bits: u32) {
        if end - start < 2 {
            return;
        }
        if end - start <= SMALL_BUCKET || (bits == 0 && end - start <= self.small) {
            self.sort_small(start, end);
            return;
        }
        if bits == 0 {
            self.sort_equal(start, end);
            return;
        }
        let shift = bits.saturating_sub(DIGIT_BITS);
        let mut counts = [0_usize; BUCKETS];
        // Bits above `bits` agree, so they would not spread the digit; mask them if the digit is
        // short.
        let mask = BUCKETS.min(1 << bits.min(DIGIT_BITS)) - 1;
        for position in start..end {
            counts[self.packed(position).digit(shift) & mask] += 1;
        }
        let mut ends = [0_usize; BUCKETS];
        let mut heads = [0_usize; BUCKETS];
        let mut at = start;
        for bucket in 0..BUCKETS {
            heads[bucket] = at;
            at += counts[bucket];
            ends[bucket] = at;
        }
        for bucket in 0..BUCKETS {
            while heads[bucket] < ends[bucket] {
                let target = self.packed(heads[bucket]).digit(shift) & mask;
                if target == bucket {
                    heads[bucket] += 1;
                } else {
                    self.swap(heads[bucket], heads[target]);
                    heads[target] += 1;
                }
            }
        }
        let mut at = start;
        for end in ends {
            self.sort_range(at, end, shift);
            at = end;
        }
    }

    fn sort_small(&mut self, start: usize, end: usize) {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        scratch.extend((start..end).map(|at| (self.packed(at), self.ordinals[at - self.first], (at - start) as u32)));
        scratch.sort_unstable();
        // Keys and ordinals are written from the sorted scratch in order; only the values are
        // permuted.
        let SortColumns { shape, order, keys, values } = &mut self.columns;
        for (at, &(packed, ordinal, _)) in (start..end).zip(&scratch) {
            self.ordinals[at - self.first] = ordinal;
            let mut rest = packed;
            for &dimension in order.iter().rev() {
                let index;
                (rest, index) = rest.split(shape.index_bits(dimension));
                keys[dimension].set(at, index);
            }
        }
        self.sources.clear();
        self.sources.extend(scratch.iter().map(|&(.., source)| source));
        permute(&mut values[start..end], &mut self.sources);
        self.scratch = scratch;
    }

    /// Restores the order of arrival in a large bucket of a single key. Heap sort, because it needs
    /// no memory; so many duplicates mean that the policy is about to fold them.
    fn sort_equal(&mut self, start: usize, end: usize) {
        let length = end - start;
        for root in (0..length / 2).rev() {
            self.sift(start, root, length);
        }
        for last in (1..length).rev() {
            self.swap(start, start + last);
            self.sift(start, 0, last);
        }
    }

    fn sift(&mut self, start: usize, mut root: usize, length: usize) {
        let ordinal = |sorter: &Self, at: usize| sorter.ordinals[start + at - sorter.first];
        loop {
            let mut child = 2 * root + 1;
            if child >= length {
                return;
            }
            if child + 1 < length && ordinal(self, child) < ordinal(self, child + 1) {
                child += 1;
            }
            if ordinal(self, root) >= ordinal(self, child) {
                return;
            }
            self.swap(start + root, start + child);
            root = child;
        }
    }
}

/// Moves the value at `sources[at]` to `at`, for every position, along each cycle of the
/// permutation. The sources are overwritten.
pub(super) fn permute<T>(values: &mut [T], sources: &mut [u32]) {
    for first in 0..sources.len() {
        let mut at = first;
        loop {
            let from = std::mem::replace(&mut sources[at], at as u32) as usize;
            if from == first {
                break;
            }
            values.swap(at, from);
            at = from;
        }
    }
}
