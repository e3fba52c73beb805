//! Philox4x32-10, the counter-based generator of Salmon et al., "Parallel random numbers: as easy
//! as 1, 2, 3" (SC 2011).
//!
//! Ten rounds of two 32-bit multiplications turn a 128-bit counter and a 64-bit key into 128 random
//! bits. It passes `TestU01`'s `BigCrush`. **Decision:** the counter *is* the index, so the value
//! at an index costs one evaluation (9 ns measured with the conversion to `f32`). `ChaCha` with
//! `set_word_pos` could do the same, but computes a block of 16 words where an element needs one or
//! two. cuRAND, JAX, PyTorch and TensorFlow have Philox too, so values can be compared across
//! systems. It is not a cipher: never use it for secrets.

/// Philox generator for one key.
///
/// ```
/// use hemiola_core::rng::Philox;
/// let words = Philox::new(7).words(1_000_000, 0);
/// assert_eq!(words, Philox::new(7).words(1_000_000, 0));
/// assert_ne!(words, Philox::new(8).words(1_000_000, 0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Philox {
    key: [u32; 2],
}

const MULTIPLIERS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
/// Weyl increments of the key per round: the golden ratio and the square root of 3 minus 1, as
/// 32-bit fractions.
const WEYL: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];
const ROUNDS: usize = 10;

impl Philox {
    /// Creates the generator with the seed as its key.
    #[must_use]
    #[inline]
    pub const fn new(seed: u64) -> Self {
        Self { key: [seed as u32, (seed >> 32) as u32] }
    }

    /// Four random words for an index. `stream` separates several draws of one index.
    #[must_use]
    #[inline]
    pub const fn words(self, index: u64, stream: u64) -> [u32; 4] {
        self.block([index as u32, (index >> 32) as u32, stream as u32, (stream >> 32) as u32])
    }

    /// The raw function of counter and key, as published.
    #[must_use]
    #[inline]
    pub const fn block(self, counter: [u32; 4]) -> [u32; 4] {
        let [mut c0, mut c1, mut c2, mut c3] = counter;
        let [mut k0, mut k1] = self.key;
        let mut round = 0;
        while round < ROUNDS {
            let first = MULTIPLIERS[0] as u64 * c0 as u64;
            let second = MULTIPLIERS[1] as u64 * c2 as u64;
            c0 = (second >> 32) as u32 ^ c1 ^ k0;
            c1 = second as u32;
            c2 = (first >> 32) as u32 ^ c3 ^ k1;
            c3 = first as u32;
            k0 = k0.wrapping_add(WEYL[0]);
            k1 = k1.wrapping_add(WEYL[1]);
            round += 1;
        }
        [c0, c1, c2, c3]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors from `kat_vectors` of the Random123 distribution, lines `philox4x32 10`.
    #[test]
    fn known_answers_of_random123() {
        let cases = [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, expected) in cases {
            assert_eq!(Philox { key }.block(counter), expected);
        }
    }
}
