//! Leading bits of keys as small digits, for a stable bucket pass.
//!
//! A digit takes whole dimensions in sort order while they are narrow, and the top bits of the
//! first one that is not. Indices count from the smallest that occurs, so a part of an array fills
//! its buckets as well as the whole array does. **Invariant:** entries of one bucket agree in every
//! key bit that is in the digit, and buckets ascend like keys.

use super::KeyColumn;
use super::chunk::ColumnChunk;
use crate::Shape;
use std::ops::Range;

/// Number of entries whose digits are computed at a time, so that they stay in the L1 cache.
pub(super) const BATCH: usize = 2048;
/// At most 4096 buckets: one cache line of each, for the column being written, stays in the L2
/// cache.
const MAX_DIGIT_BITS: u32 = 12;
/// With 256 buckets or more, no further dimension is added.
const MIN_DIGIT_BITS: u32 = 8;

/// Selection of the key bits that make the digit, and of those that remain.
#[derive(Debug)]
pub(super) struct KeyDigits<const N: usize> {
    /// Bit fields of the digit, from the top.
    fields: Vec<DigitField>,
    /// Dimensions and the number of their low bits outside the digit, from the top.
    remaining: Vec<(usize, u32)>,
    bits: u32,
}

/// Bit field of one dimension in the digit: `(key >> drop) - base`.
#[derive(Debug)]
struct DigitField {
    dimension: usize,
    base: u64,
    bits: u32,
    drop: u32,
}

impl<const N: usize> KeyDigits<N> {
    /// Chooses digits for these entries; none if there are few.
    pub(super) fn choose<T>(chunks: &[ColumnChunk<T, N>], shape: Shape<N>, order: [usize; N]) -> Self {
        let mut digits = Self { fields: Vec::new(), remaining: Vec::new(), bits: 0 };
        let few = chunks.iter().map(|chunk| chunk.values.len()).sum::<usize>() <= BATCH;
        for dimension in order {
            if few || digits.bits >= MIN_DIGIT_BITS {
                digits.remaining.push((dimension, shape.index_bits(dimension)));
                continue;
            }
            let ends = chunks.iter().filter_map(|chunk| chunk.keys[dimension].min_max());
            let (low, high) = ends.reduce(|all, ends| (all.0.min(ends.0), all.1.max(ends.1))).unwrap_or((0, 0));
            let needed = |drop: u32| u64::BITS - ((high >> drop) - (low >> drop)).leading_zeros();
            let room = MAX_DIGIT_BITS - digits.bits;
            let drop = (0..u64::BITS).find(|&drop| needed(drop) <= room).unwrap_or(0);
            digits.bits += needed(drop);
            digits.fields.push(DigitField { dimension, base: low >> drop, bits: needed(drop), drop });
            if drop > 0 {
                digits.remaining.push((dimension, drop));
            }
        }
        digits
    }

    /// Returns true if the digit has no bits: all entries lie in one bucket.
    pub(super) fn is_trivial(&self) -> bool {
        self.bits == 0
    }

    /// Number of buckets, some of them empty.
    pub(super) fn buckets(&self) -> usize {
        1 << self.bits
    }

    /// Dimensions and the number of their low bits outside the digit, from the top.
    pub(super) fn remaining(&self) -> &[(usize, u32)] {
        &self.remaining
    }

    /// Dimension of which the digit has only the top bits.
    pub(super) fn split_dimension(&self) -> Option<usize> {
        self.fields.iter().find(|field| field.drop > 0).map(|field| field.dimension)
    }

    /// Returns true if the digit has bits of a dimension: all of them, unless it is the
    /// [`split_dimension`](Self::split_dimension).
    pub(super) fn covers(&self, dimension: usize) -> bool {
        self.fields.iter().any(|field| field.dimension == dimension)
    }

    /// Number of entries of a chunk. Only the columns of the digit may be left in it.
    pub(super) fn length(&self, keys: &[KeyColumn; N]) -> usize {
        self.fields.first().map_or(0, |field| keys[field.dimension].len())
    }

    /// Index in a dimension that the digit covers entirely.
    pub(super) fn index(&self, dimension: usize, bucket: usize) -> u64 {
        let mut shift = self.fields.iter().map(|field| field.bits).sum::<u32>();
        for field in &self.fields {
            shift -= field.bits;
            if field.dimension == dimension {
                return field.base + (bucket >> shift & ((1 << field.bits) - 1)) as u64;
            }
        }
        0
    }

    /// Computes the digits of the entries at `positions` of a chunk.
    pub(super) fn fill(&self, keys: &[KeyColumn; N], positions: Range<usize>, digits: &mut [u16]) {
        digits.fill(0);
        for &DigitField { dimension, base, bits, drop } in &self.fields {
            // A digit has at most 12 bits, so the difference survives the truncation to 16.
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
