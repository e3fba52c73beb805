//! Tensor fusion: many small vectors are packed into buckets, so that they cost the latency of one
//! message.
//!
//! Whole vectors are packed one after the other; none is cut, so each comes back from a single
//! collective. The bits of a *ring* sum depend on the position of an element in its bucket (the
//! order of a chunk starts at another peer): the same vectors and the same limit give the same
//! bits.

use super::CollectiveElement;
use crate::{Error, Result};
use std::ops::Range;

/// Consecutive vectors that are reduced together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Indices of the vectors in the given list.
    pub vectors: Range<usize>,
    /// Total number of elements.
    pub length: usize,
}

/// Cuts a list of vectors into buckets of up to `limit` elements; a longer vector gets a bucket of
/// its own.
///
/// ```
/// use hemiola_collective_proto::protocol::buckets;
/// let cuts: Vec<_> = buckets(&[3, 3, 3, 10, 1], 8).into_iter().map(|bucket| bucket.vectors).collect();
/// assert_eq!(cuts, [0..2, 2..3, 3..4, 4..5]);
/// ```
#[must_use]
pub fn buckets(lengths: &[usize], limit: usize) -> Vec<Bucket> {
    let mut buckets: Vec<Bucket> = Vec::new();
    for (index, &length) in lengths.iter().enumerate() {
        match buckets.last_mut() {
            Some(last) if last.length.saturating_add(length) <= limit => {
                last.length += length;
                last.vectors.end = index + 1;
            }
            _ => buckets.push(Bucket { vectors: index..index + 1, length }),
        }
    }
    buckets
}

/// Copies vectors back that were packed one after the other.
pub fn unpack<T: CollectiveElement>(packed: &[T], vectors: &mut [&mut [T]]) -> Result<()> {
    let expected: usize = vectors.iter().map(|vector| vector.len()).sum();
    if expected != packed.len() {
        return Err(Error::WrongFusedLength { expected, found: packed.len() });
    }
    let mut rest = packed;
    for vector in vectors {
        let (first, after) = rest.split_at(vector.len());
        vector.copy_from_slice(first);
        rest = after;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_all_vectors_in_order() {
        assert!(buckets(&[], 5).is_empty());
        for limit in [0, 1, 4, 100] {
            let lengths = [0, 3, 1, 0, 9, 2, 2];
            let found = buckets(&lengths, limit);
            assert_eq!((found[0].vectors.start, found[found.len() - 1].vectors.end), (0, lengths.len()));
            assert!(found.windows(2).all(|pair| pair[0].vectors.end == pair[1].vectors.start));
            for bucket in found {
                assert_eq!(bucket.length, lengths[bucket.vectors.clone()].iter().sum::<usize>());
                assert!(
                    bucket.length <= limit || lengths[bucket.vectors].iter().filter(|&&length| length > 0).count() <= 1
                );
            }
        }
    }

    #[test]
    fn unpacking_undoes_packing() {
        let packed = [1.0_f32, 2.0, 3.0];
        let (mut a, mut b, mut c) = ([0.0; 2], [0.0; 0], [0.0; 1]);
        unpack(&packed, &mut [&mut a, &mut b, &mut c]).unwrap();
        assert_eq!((a, c), ([1.0, 2.0], [3.0]));
        assert!(unpack(&packed, &mut [&mut a]).is_err());
    }
}
