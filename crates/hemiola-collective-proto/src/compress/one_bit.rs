//! One-bit quantization (Seide et al. 2014): for each block of elements the mean of those at or
//! above zero, the mean of those below, and one bit per element for its side. The quantization
//! error is added to the next update.

use super::add_residual;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// One-bit compressor of one vector on one peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OneBitCompressor {
    block: usize,
    residual: Vec<f32>,
}

/// Payload size: two means and one bit per element, rounded up to bytes, block by block.
pub(super) fn bytes(length: u64, block: u64) -> u64 {
    let block = block.max(1);
    let one = |length: u64| if length == 0 { 0 } else { 8 + length.div_ceil(8) };
    (length / block).saturating_mul(one(block)).saturating_add(one(length % block))
}

impl OneBitCompressor {
    /// Creates a compressor for vectors of `length` elements, in blocks of `block`.
    #[must_use]
    pub fn new(length: usize, block: usize) -> Self {
        Self { block: block.max(1), residual: vec![0.0; length] }
    }

    /// Residual: the sum of the quantization errors so far.
    #[must_use]
    pub fn residual(&self) -> &[f32] {
        &self.residual
    }

    /// Payload bytes of a whole vector.
    #[must_use]
    pub fn bytes(&self) -> usize {
        bytes(self.residual.len() as u64, self.block as u64) as usize
    }

    /// Payload bytes of a vector of another length.
    pub(super) fn bytes_of(&self, length: usize) -> usize {
        bytes(length as u64, self.block as u64) as usize
    }

    /// Compresses a vector plus the residual.
    pub fn compress(&mut self, values: &[f32]) -> Result<Vec<u8>> {
        let whole = 0..self.residual.len();
        Ok(self.compress_parts(values, std::slice::from_ref(&whole))?.concat())
    }

    /// Compresses a vector plus the residual into one payload per part, which can be decompressed
    /// on its own: blocks start anew with each part.
    pub fn compress_parts(&mut self, values: &[f32], parts: &[Range<usize>]) -> Result<Vec<Vec<u8>>> {
        let mut sums = add_residual(values, &self.residual)?;
        let strings = parts.iter().map(|part| quantize_blocks(&mut sums[part.clone()], self.block)).collect();
        self.residual = sums;
        Ok(strings)
    }

    /// Replaces the residual and returns the previous one.
    pub(super) fn replace_residual(&mut self, residual: Vec<f32>) -> Vec<f32> {
        std::mem::replace(&mut self.residual, residual)
    }

    /// Payload sent instead of a vector that cannot be compressed: means that no vector has.
    pub(super) fn rejection_marker(&self) -> Vec<u8> {
        vec![u8::MAX; self.bytes()]
    }

    pub(super) fn is_rejection(bytes: &[u8]) -> bool {
        bytes.first_chunk().is_some_and(|size| f32::from_le_bytes(*size).is_nan())
    }

    /// Adds the decompressed payload of a vector with the same length and blocks to a vector.
    pub fn decompress_add(bytes: &[u8], block: usize, into: &mut [f32]) -> Result<()> {
        let block = block.max(1);
        let length = into.len();
        if bytes.len() as u64 != self::bytes(length as u64, block as u64) {
            return Err(Error::CorruptPayload { length, problem: "its size does not fit the number of elements" });
        }
        let mut rest = bytes;
        for values in into.chunks_mut(block) {
            let (sizes, after) = rest.split_at(8);
            let size = |offset: usize| {
                let bytes = [sizes[offset], sizes[offset + 1], sizes[offset + 2], sizes[offset + 3]];
                f32::from_le_bytes(bytes)
            };
            let (low, high) = (size(0), size(4));
            let (bits, after) = after.split_at(values.len().div_ceil(8));
            for (values, bits) in values.chunks_mut(8).zip(bits) {
                for (bit, value) in values.iter_mut().enumerate() {
                    *value += if bits >> bit & 1 == 1 { high } else { low };
                }
            }
            rest = after;
        }
        Ok(())
    }
}

/// Quantizes values to bytes and leaves the quantization errors in their index.
fn quantize_blocks(values: &mut [f32], block: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes(values.len() as u64, block as u64) as usize);
    for block in values.chunks_mut(block) {
        let (low, high) = means(block);
        out.extend_from_slice(&low.to_le_bytes());
        out.extend_from_slice(&high.to_le_bytes());
        for byte in block.chunks_mut(8) {
            let mut bits = 0;
            for (bit, value) in byte.iter_mut().enumerate() {
                let above = *value >= 0.0;
                bits |= u8::from(above) << bit;
                *value -= if above { high } else { low };
            }
            out.push(bits);
        }
    }
    out
}

/// Means of the values below zero and of the others; zero where there are none. Summed in `f64`,
/// which cannot overflow here.
fn means(values: &[f32]) -> (f32, f32) {
    let mean = |above: bool| {
        let side = values.iter().filter(|value| (**value >= 0.0) == above);
        let (sum, count) = side.fold((0.0, 0_u32), |(sum, count), value| (sum + f64::from(*value), count + 1));
        if count == 0 { 0.0 } else { (sum / f64::from(count)) as f32 }
    };
    (mean(false), mean(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola_core::rng::SplitMix64;

    #[test]
    fn decompressed_plus_residual_equals_given() {
        let mut random = SplitMix64::new(1);
        for (length, block) in [(0, 4), (1, 4), (7, 4), (64, 64), (100, 33), (100, 1000)] {
            let mut compressor = OneBitCompressor::new(length, block);
            let (mut given, mut decoded) = (vec![0.0_f64; length], vec![0.0_f64; length]);
            for _ in 0..50 {
                let values: Vec<f32> = (0..length).map(|_| random.symmetric() as f32).collect();
                let bytes = compressor.compress(&values).unwrap();
                assert_eq!(bytes.len(), compressor.bytes());
                let mut one = vec![0.0; length];
                OneBitCompressor::decompress_add(&bytes, block, &mut one).unwrap();
                for index in 0..length {
                    given[index] += f64::from(values[index]);
                    decoded[index] += f64::from(one[index]);
                }
            }
            for index in 0..length {
                let sent = decoded[index] + f64::from(compressor.residual()[index]);
                assert!((sent - given[index]).abs() < 1e-4, "{sent} of {}", given[index]);
            }
        }
    }

    #[test]
    fn the_residual_stays_bounded() {
        let mut random = SplitMix64::new(4);
        let mut compressor = OneBitCompressor::new(64, 64);
        for _ in 0..2000 {
            let values: Vec<f32> = (0..64).map(|_| random.symmetric() as f32).collect();
            compressor.compress(&values).unwrap();
        }
        assert!(compressor.residual().iter().all(|residual| residual.abs() < 20.0), "{:?}", compressor.residual());
    }

    #[test]
    fn a_restored_compressor_continues_identically() {
        let mut compressor = OneBitCompressor::new(3, 2);
        compressor.compress(&[0.1, -5.0, 2.0]).unwrap();
        let mut restored: OneBitCompressor = postcard::from_bytes(&postcard::to_stdvec(&compressor).unwrap()).unwrap();
        assert_eq!(restored, compressor);
        assert_eq!(restored.compress(&[1.0; 3]), compressor.compress(&[1.0; 3]));
    }

    #[test]
    fn bytes_of_another_length_are_refused() {
        let bytes = OneBitCompressor::new(9, 8).compress(&[1.0; 9]).unwrap();
        assert!(OneBitCompressor::decompress_add(&bytes, 8, &mut [0.0; 8]).is_err());
        assert!(OneBitCompressor::decompress_add(&[], 8, &mut [0.0; 9]).is_err());
        assert!(OneBitCompressor::decompress_add(&[], 8, &mut []).is_ok());
    }
}
