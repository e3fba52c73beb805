//! Top-k sparsification: the elements of largest magnitude and their indices. All others stay in
//! the residual, exactly; of equal magnitudes the first are sent.
//!
//! Wire format: the number of entries, then for each the gap to the previous index (LEB128: groups
//! of seven bits, low first) and the value.

use super::add_residual;
use crate::{Error, Result};
use hemiola_core::varint::{self, VarintError};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Top-k compressor of one vector on one peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopKCompressor {
    keep: usize,
    residual: Vec<f32>,
}

/// Upper bound of the payload size: all gaps as long as the longest possible.
pub(super) fn bytes_at_most(length: u64, keep: u64) -> u64 {
    let gap = u64::from(length.max(2).ilog2()) / 7 + 1;
    keep.min(length).saturating_mul(gap + 4).saturating_add(4)
}

impl TopKCompressor {
    /// Creates a compressor for vectors of `length` elements, of which `keep` are sent.
    #[must_use]
    pub fn new(length: usize, keep: usize) -> Self {
        Self { keep: keep.min(length).min(u32::MAX as usize - 1), residual: vec![0.0; length] }
    }

    /// Residual: the part of the updates that has not been sent yet.
    #[must_use]
    pub fn residual(&self) -> &[f32] {
        &self.residual
    }

    /// Upper bound of the payload bytes of a vector.
    #[must_use]
    pub fn bytes_at_most(&self) -> usize {
        bytes_at_most(self.residual.len() as u64, self.keep as u64) as usize
    }

    /// Compresses a vector plus the residual.
    pub fn compress(&mut self, values: &[f32]) -> Result<Vec<u8>> {
        let whole = 0..self.residual.len();
        Ok(self.compress_parts(values, std::slice::from_ref(&whole))?.concat())
    }

    /// Compresses a vector plus the residual into one payload per part, which can be decompressed
    /// on its own. The k elements are those of the whole vector; the parts are consecutive and
    /// cover it.
    pub fn compress_parts(&mut self, values: &[f32], parts: &[Range<usize>]) -> Result<Vec<Vec<u8>>> {
        let mut sums = add_residual(values, &self.residual)?;
        let mut order: Vec<usize> = (0..sums.len()).collect();
        if self.keep < order.len() {
            let larger = |&a: &usize, &b: &usize| sums[b].abs().total_cmp(&sums[a].abs()).then(a.cmp(&b));
            if self.keep > 0 {
                order.select_nth_unstable_by(self.keep - 1, larger);
            }
            order.truncate(self.keep);
            order.sort_unstable();
        }
        let mut rest = order.as_slice();
        let payload = |part: &Range<usize>| {
            let (here, after) = rest.split_at(rest.partition_point(|&index| index < part.end));
            rest = after;
            write_entries(&mut sums, part.start, here)
        };
        let payloads = parts.iter().map(payload).collect();
        self.residual = sums;
        Ok(payloads)
    }

    /// Replaces the residual and returns the previous one.
    pub(super) fn replace_residual(&mut self, residual: Vec<f32>) -> Vec<f32> {
        std::mem::replace(&mut self.residual, residual)
    }

    /// Adds the decompressed payload of a vector of the same length to a vector.
    pub fn decompress_add(bytes: &[u8], into: &mut [f32]) -> Result<()> {
        let rest = Self::decompress_prefix(bytes, into)?;
        let problem = "bytes are left over";
        if rest.is_empty() { Ok(()) } else { Err(Error::CorruptPayload { length: into.len(), problem }) }
    }

    /// Adds a decompressed payload that may be padded with zeros.
    pub(super) fn decompress_add_padded(bytes: &[u8], into: &mut [f32]) -> Result<()> {
        let rest = Self::decompress_prefix(bytes, into)?;
        let problem = "bytes other than padding are left over";
        if rest.iter().all(|&byte| byte == 0) {
            Ok(())
        } else {
            Err(Error::CorruptPayload { length: into.len(), problem })
        }
    }

    /// Adds a decompressed payload and returns the bytes behind it.
    fn decompress_prefix<'a>(bytes: &'a [u8], into: &mut [f32]) -> Result<&'a [u8]> {
        let length = into.len();
        let bad = |problem: &'static str| Error::CorruptPayload { length, problem };
        let short = || bad("its bytes end early");
        let (count, mut rest) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
        let mut index = 0_usize;
        for number in 0..u32::from_le_bytes(*count) {
            let gap = varint::read(&mut rest).map_err(|error| match error {
                VarintError::Truncated => short(),
                VarintError::TooLong => bad("a gap is too long"),
            })?;
            if number > 0 && gap == 0 {
                return Err(bad("an index occurs twice"));
            }
            let (value, after) = rest.split_first_chunk::<4>().ok_or_else(short)?;
            rest = after;
            index = index
                .checked_add(gap as usize)
                .filter(|&index| index < length)
                .ok_or_else(|| bad("an index is beyond the end"))?;
            into[index] += f32::from_le_bytes(*value);
        }
        Ok(rest)
    }
}

/// Writes the elements at these indices, with gaps counted from `start`, and sets them to zero.
fn write_entries(values: &mut [f32], start: usize, indices: &[usize]) -> Vec<u8> {
    let mut out = (indices.len() as u32).to_le_bytes().to_vec();
    let mut last = start;
    for &index in indices {
        varint::write((index - last) as u64, &mut out);
        out.extend_from_slice(&values[index].to_le_bytes());
        (values[index], last) = (0.0, index);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola_core::rng::SplitMix64;

    #[test]
    fn decompressed_plus_residual_equals_given_exactly() {
        let mut random = SplitMix64::new(1);
        for (length, keep) in [(0, 3), (1, 1), (10, 0), (10, 3), (10, 99), (5000, 7)] {
            let mut compressor = TopKCompressor::new(length, keep);
            for _ in 0..20 {
                let values: Vec<f32> = (0..length).map(|_| random.symmetric() as f32).collect();
                let given: Vec<f32> = values.iter().zip(compressor.residual()).map(|(a, b)| a + b).collect();
                let bytes = compressor.compress(&values).unwrap();
                assert!(bytes.len() <= compressor.bytes_at_most());
                let mut decoded = vec![0.0; length];
                TopKCompressor::decompress_add(&bytes, &mut decoded).unwrap();
                assert_eq!(decoded.iter().filter(|value| **value != 0.0).count(), keep.min(length));
                let smallest = decoded.iter().filter(|value| **value != 0.0).fold(f32::INFINITY, |a, b| a.min(b.abs()));
                for (index, total) in given.iter().enumerate() {
                    let (sent, residual) = (decoded[index], compressor.residual()[index]);
                    assert!(
                        sent.to_bits() == total.to_bits() && residual == 0.0
                            || sent == 0.0 && residual.to_bits() == total.to_bits()
                    );
                    assert!(residual.abs() <= smallest);
                }
            }
        }
    }

    #[test]
    fn of_equal_magnitudes_the_first_are_sent() {
        let mut compressor = TopKCompressor::new(4, 2);
        let bytes = compressor.compress(&[1.0, -1.0, 1.0, 1.0]).unwrap();
        let mut decoded = [0.0; 4];
        TopKCompressor::decompress_add(&bytes, &mut decoded).unwrap();
        assert_eq!(decoded.map(f32::to_bits), [1.0_f32, -1.0, 0.0, 0.0].map(f32::to_bits));
    }

    #[test]
    fn a_restored_compressor_continues_identically() {
        let mut compressor = TopKCompressor::new(3, 1);
        compressor.compress(&[0.1, -5.0, 2.0]).unwrap();
        let mut restored: TopKCompressor = postcard::from_bytes(&postcard::to_stdvec(&compressor).unwrap()).unwrap();
        assert_eq!(restored.compress(&[1.0; 3]), compressor.compress(&[1.0; 3]));
    }

    #[test]
    fn decompression_never_panics() {
        let mut random = SplitMix64::new(3);
        let good = TopKCompressor::new(1000, 20).compress(&(0..1000_u16).map(f32::from).collect::<Vec<_>>()).unwrap();
        let mut refused = 0;
        for _ in 0..20_000 {
            let mut bytes = good.clone();
            let index = random.below(bytes.len());
            bytes[index] = random.next_u64() as u8;
            bytes.truncate(random.below(2 * bytes.len()));
            refused += usize::from(TopKCompressor::decompress_add(&bytes, &mut [0.0; 1000]).is_err());
        }
        assert!(refused > 5_000, "{refused}");
    }
}
