//! The leading bits of keys as small numbers, for a stable pass that deals entries out to buckets.
//!
//! A digit takes whole dimensions in the order of sorting while they are narrow, and the top bits of the first one that is
//! not. Indices count from the smallest that occurs: a part of an array fills its buckets as well as the whole array
//! does. **Invariant:** entries of one bucket agree in every bit of the key that their digit was made of, and buckets ascend
//! like keys.

use super::KeyColumn;
use super::chunk::Chunk;
use crate::Shape;
use std::ops::Range;

/// Digits are computed for this many entries at a time, so that they stay in the first-level cache.
pub(super) const STRETCH: usize = 2048;
/// At most 4096 buckets: a line of each, for the column being written, stays in the second-level cache.
const MOST_BITS: u32 = 12;
/// With 256 buckets or more the next dimension is left alone.
const ENOUGH_BITS: u32 = 8;

/// Which bits of a key make its digit, and which are left.
#[derive(Debug)]
pub(super) struct Digits<const N: usize> {
    /// From the top.
    taken: Vec<Taken>,
    /// From the top: dimensions and how many of their low bits the digit does not hold.
    left: Vec<(usize, u32)>,
    bits: u32,
}

/// What a digit takes of one dimension: `(key >> drop) - base`.
#[derive(Debug)]
struct Taken {
    dimension: usize,
    base: u64,
    bits: u32,
    drop: u32,
}

impl<const N: usize> Digits<N> {
    /// The digits that suit these entries: none if they are few.
    pub(super) fn choose<T>(chunks: &[Chunk<T, N>], shape: Shape<N>, order: [usize; N]) -> Self {
        let mut digits = Self { taken: Vec::new(), left: Vec::new(), bits: 0 };
        let few = chunks.iter().map(|chunk| chunk.values.len()).sum::<usize>() <= STRETCH;
        for dimension in order {
            if few || digits.bits >= ENOUGH_BITS {
                digits.left.push((dimension, shape.bits(dimension)));
                continue;
            }
            let ends = chunks.iter().filter_map(|chunk| chunk.keys[dimension].ends());
            let (low, high) = ends.reduce(|all, ends| (all.0.min(ends.0), all.1.max(ends.1))).unwrap_or((0, 0));
            let needed = |drop: u32| u64::BITS - ((high >> drop) - (low >> drop)).leading_zeros();
            let room = MOST_BITS - digits.bits;
            let drop = (0..u64::BITS).find(|&drop| needed(drop) <= room).unwrap_or(0);
            digits.bits += needed(drop);
            digits.taken.push(Taken { dimension, base: low >> drop, bits: needed(drop), drop });
            if drop > 0 {
                digits.left.push((dimension, drop));
            }
        }
        digits
    }

    /// Whether no bits are taken: all entries lie in one bucket.
    pub(super) fn is_trivial(&self) -> bool {
        self.bits == 0
    }

    /// The number of buckets, some of them empty.
    pub(super) fn buckets(&self) -> usize {
        1 << self.bits
    }

    /// Dimensions and how many of their low bits the digit does not hold, from the top.
    pub(super) fn left(&self) -> &[(usize, u32)] {
        &self.left
    }

    /// The dimension of which the digit holds the top bits only.
    pub(super) fn split(&self) -> Option<usize> {
        self.taken.iter().find(|taken| taken.drop > 0).map(|taken| taken.dimension)
    }

    /// Whether the digit holds bits of a dimension; all of them, unless it is the one that is [`split`](Self::split).
    pub(super) fn takes(&self, dimension: usize) -> bool {
        self.taken.iter().any(|taken| taken.dimension == dimension)
    }

    /// The number of entries of a chunk of which only the columns that digits are made of may be left.
    pub(super) fn length(&self, keys: &[KeyColumn; N]) -> usize {
        self.taken.first().map_or(0, |taken| keys[taken.dimension].len())
    }

    /// The index in a dimension that the digit holds whole.
    pub(super) fn index(&self, dimension: usize, bucket: usize) -> u64 {
        let mut shift = self.taken.iter().map(|taken| taken.bits).sum::<u32>();
        for taken in &self.taken {
            shift -= taken.bits;
            if taken.dimension == dimension {
                return taken.base + (bucket >> shift & ((1 << taken.bits) - 1)) as u64;
            }
        }
        0
    }

    /// The digits of the entries at `positions` of a chunk.
    pub(super) fn fill(&self, keys: &[KeyColumn; N], positions: Range<usize>, digits: &mut [u16]) {
        digits.fill(0);
        for &Taken { dimension, base, bits, drop } in &self.taken {
            // A digit has 12 bits at most, so the difference fits although it is cut to 16.
            match &keys[dimension] {
                KeyColumn::Narrow(keys) if drop < u32::BITS => {
                    for (digit, &key) in digits.iter_mut().zip(&keys[positions.clone()]) {
                        *digit = *digit << bits | (key >> drop).wrapping_sub(base as u32) as u16;
                    }
                }
                keys => {
                    for (digit, position) in digits.iter_mut().zip(positions.clone()) {
                        *digit = *digit << bits | ((keys.get(position) >> drop) - base) as u16;
                    }
                }
            }
        }
    }
}
