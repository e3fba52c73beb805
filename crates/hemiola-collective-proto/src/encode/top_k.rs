//! The numbers furthest from zero, and where they are. All others are kept for later, exactly; of equals the first are sent.
//!
//! In bytes: how many, then for each the gap to the one before (a number in groups of seven bits, low first) and its value.

use super::with_kept;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The encoder of one vector on one peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopK {
    keep: usize,
    kept: Vec<f32>,
}

/// All gaps as long as the longest there can be.
pub(super) fn bytes_at_most(length: u64, keep: u64) -> u64 {
    let gap = u64::from(length.max(2).ilog2()) / 7 + 1;
    keep.min(length).saturating_mul(gap + 4).saturating_add(4)
}

impl TopK {
    /// For vectors of so many numbers, of which so many are sent.
    #[must_use]
    pub fn new(length: usize, keep: usize) -> Self {
        Self { keep: keep.min(length).min(u32::MAX as usize - 1), kept: vec![0.0; length] }
    }

    /// What is still to be told.
    #[must_use]
    pub fn kept(&self) -> &[f32] {
        &self.kept
    }

    /// Bytes that an encoded vector has at most.
    #[must_use]
    pub fn bytes_at_most(&self) -> usize {
        bytes_at_most(self.kept.len() as u64, self.keep as u64) as usize
    }

    /// Encodes a vector, with what was kept of those before.
    pub fn encode(&mut self, values: &[f32]) -> Result<Vec<u8>> {
        let whole = 0..self.kept.len();
        Ok(self.encode_parts(values, std::slice::from_ref(&whole))?.concat())
    }

    /// The same as a string for each part of the vector, which can be decoded by itself. The largest numbers are those of the whole vector; parts follow one another and
    /// cover it.
    pub fn encode_parts(&mut self, values: &[f32], parts: &[Range<usize>]) -> Result<Vec<Vec<u8>>> {
        let mut sums = with_kept(values, &self.kept)?;
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
        let string = |part: &Range<usize>| {
            let (here, after) = rest.split_at(rest.partition_point(|&place| place < part.end));
            rest = after;
            write_places(&mut sums, part.start, here)
        };
        let strings = parts.iter().map(string).collect();
        self.kept = sums;
        Ok(strings)
    }

    /// Goes back to what was kept at some time before; what was kept until now.
    pub(super) fn put_back(&mut self, kept: Vec<f32>) -> Vec<f32> {
        std::mem::replace(&mut self.kept, kept)
    }

    /// Adds to a vector what another of the same length was encoded as.
    pub fn decode_add(bytes: &[u8], into: &mut [f32]) -> Result<()> {
        let rest = Self::decode_first(bytes, into)?;
        let problem = "bytes are left over";
        if rest.is_empty() { Ok(()) } else { Err(Error::BadEncoding { length: into.len(), problem }) }
    }

    /// The same where zeros may follow.
    pub(super) fn decode_add_padded(bytes: &[u8], into: &mut [f32]) -> Result<()> {
        let rest = Self::decode_first(bytes, into)?;
        let problem = "something is left over";
        if rest.iter().all(|&byte| byte == 0) {
            Ok(())
        } else {
            Err(Error::BadEncoding { length: into.len(), problem })
        }
    }

    /// The same with whatever behind it; that is returned.
    fn decode_first<'a>(bytes: &'a [u8], into: &mut [f32]) -> Result<&'a [u8]> {
        let length = into.len();
        let bad = |problem: &'static str| Error::BadEncoding { length, problem };
        let short = || bad("its bytes end early");
        let (count, mut rest) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
        let mut place = 0_usize;
        for number in 0..u32::from_le_bytes(*count) {
            let (mut gap, mut shift) = (0_usize, 0);
            loop {
                let (&byte, after) = rest.split_first().ok_or_else(short)?;
                rest = after;
                if shift > 56 {
                    return Err(bad("a gap is too long"));
                }
                gap |= usize::from(byte & 127) << shift;
                shift += 7;
                if byte < 128 {
                    break;
                }
            }
            if number > 0 && gap == 0 {
                return Err(bad("a place comes twice"));
            }
            let (value, after) = rest.split_first_chunk::<4>().ok_or_else(short)?;
            rest = after;
            place = place
                .checked_add(gap)
                .filter(|&place| place < length)
                .ok_or_else(|| bad("a place is beyond the end"))?;
            into[place] += f32::from_le_bytes(*value);
        }
        Ok(rest)
    }
}

/// The numbers at these places as bytes, with gaps counted from `start`; zeros are left in their place.
fn write_places(values: &mut [f32], start: usize, places: &[usize]) -> Vec<u8> {
    let mut out = (places.len() as u32).to_le_bytes().to_vec();
    let mut last = start;
    for &place in places {
        let mut gap = place - last;
        while gap >= 128 {
            out.push(gap as u8 | 128);
            gap >>= 7;
        }
        out.push(gap as u8);
        out.extend_from_slice(&values[place].to_le_bytes());
        (values[place], last) = (0.0, place);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    #[test]
    fn what_is_decoded_and_what_is_kept_are_exactly_what_there_was() {
        let mut random = Random::new(1);
        for (length, keep) in [(0, 3), (1, 1), (10, 0), (10, 3), (10, 99), (5000, 7)] {
            let mut encoder = TopK::new(length, keep);
            for _ in 0..20 {
                let values: Vec<f32> = (0..length).map(|_| random.symmetric() as f32).collect();
                let there_was: Vec<f32> = values.iter().zip(encoder.kept()).map(|(a, b)| a + b).collect();
                let bytes = encoder.encode(&values).unwrap();
                assert!(bytes.len() <= encoder.bytes_at_most());
                let mut decoded = vec![0.0; length];
                TopK::decode_add(&bytes, &mut decoded).unwrap();
                assert_eq!(decoded.iter().filter(|value| **value != 0.0).count(), keep.min(length));
                let smallest = decoded.iter().filter(|value| **value != 0.0).fold(f32::INFINITY, |a, b| a.min(b.abs()));
                for (place, total) in there_was.iter().enumerate() {
                    let (told, kept) = (decoded[place], encoder.kept()[place]);
                    assert!(
                        told.to_bits() == total.to_bits() && kept == 0.0
                            || told == 0.0 && kept.to_bits() == total.to_bits()
                    );
                    assert!(kept.abs() <= smallest);
                }
            }
        }
    }

    #[test]
    fn of_equals_the_first_are_sent() {
        let mut encoder = TopK::new(4, 2);
        let bytes = encoder.encode(&[1.0, -1.0, 1.0, 1.0]).unwrap();
        let mut decoded = [0.0; 4];
        TopK::decode_add(&bytes, &mut decoded).unwrap();
        assert_eq!(decoded.map(f32::to_bits), [1.0_f32, -1.0, 0.0, 0.0].map(f32::to_bits));
    }

    #[test]
    fn a_saved_encoder_goes_on_as_if_nothing_had_been() {
        let mut encoder = TopK::new(3, 1);
        encoder.encode(&[0.1, -5.0, 2.0]).unwrap();
        let mut restored: TopK = postcard::from_bytes(&postcard::to_stdvec(&encoder).unwrap()).unwrap();
        assert_eq!(restored.encode(&[1.0; 3]), encoder.encode(&[1.0; 3]));
    }

    #[test]
    fn no_bytes_make_decoding_panic() {
        let mut random = Random::new(3);
        let good = TopK::new(1000, 20).encode(&(0..1000_u16).map(f32::from).collect::<Vec<_>>()).unwrap();
        let mut refused = 0;
        for _ in 0..20_000 {
            let mut bytes = good.clone();
            let place = random.below(bytes.len());
            bytes[place] = random.bits() as u8;
            bytes.truncate(random.below(2 * bytes.len()));
            refused += usize::from(TopK::decode_add(&bytes, &mut [0.0; 1000]).is_err());
        }
        assert!(refused > 5_000, "{refused}");
    }
}
