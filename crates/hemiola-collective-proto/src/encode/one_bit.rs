//! One bit per number (Seide et al. 2014): of each block of numbers the mean of those at or above zero, the mean of those below, and for each number on
//! which side it is. What that misses is added to the next update.

use super::with_kept;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The encoder of one vector on one peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OneBit {
    block: usize,
    kept: Vec<f32>,
}

/// Two sizes and a bit for each number, rounded up to bytes, block by block.
pub(super) fn bytes(length: u64, block: u64) -> u64 {
    let block = block.max(1);
    let one = |length: u64| if length == 0 { 0 } else { 8 + length.div_ceil(8) };
    (length / block).saturating_mul(one(block)).saturating_add(one(length % block))
}

impl OneBit {
    /// For vectors of so many numbers, in blocks of so many.
    #[must_use]
    pub fn new(length: usize, block: usize) -> Self {
        Self { block: block.max(1), kept: vec![0.0; length] }
    }

    /// What is still to be told.
    #[must_use]
    pub fn kept(&self) -> &[f32] {
        &self.kept
    }

    /// Bytes of every encoded vector.
    #[must_use]
    pub fn bytes(&self) -> usize {
        bytes(self.kept.len() as u64, self.block as u64) as usize
    }

    /// Bytes of an encoded vector of another length.
    pub(super) fn bytes_of(&self, length: usize) -> usize {
        bytes(length as u64, self.block as u64) as usize
    }

    /// Encodes a vector, with what was kept of those before.
    pub fn encode(&mut self, values: &[f32]) -> Result<Vec<u8>> {
        let whole = 0..self.kept.len();
        Ok(self.encode_parts(values, std::slice::from_ref(&whole))?.concat())
    }

    /// The same as a string for each part of the vector, which can be decoded by itself: blocks begin anew with each.
    pub fn encode_parts(&mut self, values: &[f32], parts: &[Range<usize>]) -> Result<Vec<Vec<u8>>> {
        let mut sums = with_kept(values, &self.kept)?;
        let strings = parts.iter().map(|part| encode_block_by_block(&mut sums[part.clone()], self.block)).collect();
        self.kept = sums;
        Ok(strings)
    }

    /// Goes back to what was kept at some time before; what was kept until now.
    pub(super) fn put_back(&mut self, kept: Vec<f32>) -> Vec<f32> {
        std::mem::replace(&mut self.kept, kept)
    }

    /// Sent instead of a vector that cannot be encoded: sizes that no vector has.
    pub(super) fn refusal(&self) -> Vec<u8> {
        vec![u8::MAX; self.bytes()]
    }

    pub(super) fn is_refusal(bytes: &[u8]) -> bool {
        bytes.first_chunk().is_some_and(|size| f32::from_le_bytes(*size).is_nan())
    }

    /// Adds to a vector what another of the same length and blocks was encoded as.
    pub fn decode_add(bytes: &[u8], block: usize, into: &mut [f32]) -> Result<()> {
        let block = block.max(1);
        let length = into.len();
        if bytes.len() as u64 != self::bytes(length as u64, block as u64) {
            return Err(Error::BadEncoding { length, problem: "it has more or fewer bytes than that needs" });
        }
        let mut rest = bytes;
        for values in into.chunks_mut(block) {
            let (sizes, after) = rest.split_at(8);
            let size = |place: usize| {
                let bytes = [sizes[place], sizes[place + 1], sizes[place + 2], sizes[place + 3]];
                f32::from_le_bytes(bytes)
            };
            let (low, high) = (size(0), size(4));
            let (bits, after) = after.split_at(values.len().div_ceil(8));
            for (values, bits) in values.chunks_mut(8).zip(bits) {
                for (place, value) in values.iter_mut().enumerate() {
                    *value += if bits >> place & 1 == 1 { high } else { low };
                }
            }
            rest = after;
        }
        Ok(())
    }
}

/// The numbers as bytes; what those do not tell is left in their place.
fn encode_block_by_block(values: &mut [f32], block: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes(values.len() as u64, block as u64) as usize);
    for block in values.chunks_mut(block) {
        let (low, high) = means(block);
        out.extend_from_slice(&low.to_le_bytes());
        out.extend_from_slice(&high.to_le_bytes());
        for byte in block.chunks_mut(8) {
            let mut bits = 0;
            for (place, value) in byte.iter_mut().enumerate() {
                let above = *value >= 0.0;
                bits |= u8::from(above) << place;
                *value -= if above { high } else { low };
            }
            out.push(bits);
        }
    }
    out
}

/// Means of the numbers below zero, and of the others; zero where there are none. Summed in `f64`, which cannot overflow here.
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
    use crate::Random;

    #[test]
    fn what_is_decoded_and_what_is_kept_add_up_to_what_was_given() {
        let mut random = Random::new(1);
        for (length, block) in [(0, 4), (1, 4), (7, 4), (64, 64), (100, 33), (100, 1000)] {
            let mut encoder = OneBit::new(length, block);
            let (mut given, mut decoded) = (vec![0.0_f64; length], vec![0.0_f64; length]);
            for _ in 0..50 {
                let values: Vec<f32> = (0..length).map(|_| random.symmetric() as f32).collect();
                let bytes = encoder.encode(&values).unwrap();
                assert_eq!(bytes.len(), encoder.bytes());
                let mut one = vec![0.0; length];
                OneBit::decode_add(&bytes, block, &mut one).unwrap();
                for place in 0..length {
                    given[place] += f64::from(values[place]);
                    decoded[place] += f64::from(one[place]);
                }
            }
            for place in 0..length {
                let told = decoded[place] + f64::from(encoder.kept()[place]);
                assert!((told - given[place]).abs() < 1e-4, "{told} of {}", given[place]);
            }
        }
    }

    #[test]
    fn what_is_kept_stays_bounded() {
        let mut random = Random::new(4);
        let mut encoder = OneBit::new(64, 64);
        for _ in 0..2000 {
            let values: Vec<f32> = (0..64).map(|_| random.symmetric() as f32).collect();
            encoder.encode(&values).unwrap();
        }
        assert!(encoder.kept().iter().all(|kept| kept.abs() < 20.0), "{:?}", encoder.kept());
    }

    #[test]
    fn a_saved_encoder_goes_on_as_if_nothing_had_been() {
        let mut encoder = OneBit::new(3, 2);
        encoder.encode(&[0.1, -5.0, 2.0]).unwrap();
        let mut restored: OneBit = postcard::from_bytes(&postcard::to_stdvec(&encoder).unwrap()).unwrap();
        assert_eq!(restored, encoder);
        assert_eq!(restored.encode(&[1.0; 3]), encoder.encode(&[1.0; 3]));
    }

    #[test]
    fn bytes_of_another_length_are_refused() {
        let bytes = OneBit::new(9, 8).encode(&[1.0; 9]).unwrap();
        assert!(OneBit::decode_add(&bytes, 8, &mut [0.0; 8]).is_err());
        assert!(OneBit::decode_add(&[], 8, &mut [0.0; 9]).is_err());
        assert!(OneBit::decode_add(&[], 8, &mut []).is_ok());
    }
}
