//! `SplitMix64`, the sequential generator of Steele, Lea and Flood, "Fast splittable pseudorandom
//! number generators" (OOPSLA 2014).
//!
//! The state is a 64-bit counter that grows by [`GOLDEN_GAMMA`]; the output is its hash
//! [`mix64`]. The hash alone also serves where a number must be a function of a key.

use serde::{Deserialize, Serialize};

/// Increment of the state: the golden ratio as an odd 64-bit fraction.
pub const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hash of 64 bits: every bit of the result depends on every input bit. It is a bijection with
/// `mix64(0) == 0`.
#[must_use]
#[inline]
pub const fn mix64(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Sequential random number generator with 64 bits of state. The same seed gives the same numbers
/// on every machine.
///
/// ```
/// use hemiola_core::rng::SplitMix64;
/// assert_eq!(SplitMix64::new(7).below(100), SplitMix64::new(7).below(100));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// Creates a generator from a seed.
    #[must_use]
    #[inline]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns the next 64 random bits.
    #[inline]
    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN_GAMMA);
        mix64(self.state)
    }

    /// Returns a uniform number in `0..bound`.
    ///
    /// # Panics
    /// If the bound is zero.
    #[inline]
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "there is no number below zero");
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }

    /// Returns a uniform number in `-1.0..1.0`.
    #[inline]
    pub fn symmetric(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }

    /// Shuffles the elements uniformly (Fisher–Yates).
    #[inline]
    pub fn shuffle<T>(&mut self, elements: &mut [T]) {
        for last in (1..elements.len()).rev() {
            elements.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_numbers_are_those_of_the_published_generator() {
        let mut random = SplitMix64::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn a_shuffle_keeps_the_elements() {
        let mut elements: Vec<u32> = (0..100).collect();
        SplitMix64::new(3).shuffle(&mut elements);
        assert_ne!(elements, (0..100).collect::<Vec<_>>());
        elements.sort_unstable();
        assert_eq!(elements, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn symmetric_numbers_stay_in_range_and_average_to_zero() {
        let mut random = SplitMix64::new(9);
        let numbers: Vec<f64> = (0..10_000).map(|_| random.symmetric()).collect();
        assert!(numbers.iter().all(|number| (-1.0..1.0).contains(number)));
        assert!((numbers.iter().sum::<f64>() / 10_000.0).abs() < 0.03);
    }
}
