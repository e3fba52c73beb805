//! A seeded generator whose whole state is one number, for graphs and tests. (`SplitMix64`.)

use serde::{Deserialize, Serialize};

/// A seeded generator: the same seed gives the same numbers on every machine.
///
/// ```
/// use hemiola_collective_proto::Random;
/// assert_eq!(Random::new(7).below(100), Random::new(7).below(100));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The generator of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number in `0..bound`.
    ///
    /// # Panics
    /// If the bound is zero.
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "there is no number below zero");
        ((u128::from(self.bits()) * bound as u128) >> 64) as usize
    }

    /// A number in `-1.0..1.0`.
    pub fn symmetric(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }

    /// Puts elements into random order.
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
        let mut random = Random::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.bits()).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn a_shuffle_keeps_the_elements() {
        let mut elements: Vec<u32> = (0..100).collect();
        Random::new(3).shuffle(&mut elements);
        assert_ne!(elements, (0..100).collect::<Vec<_>>());
        elements.sort_unstable();
        assert_eq!(elements, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn symmetric_numbers_stay_in_range_and_average_to_zero() {
        let mut random = Random::new(9);
        let numbers: Vec<f64> = (0..10_000).map(|_| random.symmetric()).collect();
        assert!(numbers.iter().all(|number| (-1.0..1.0).contains(number)));
        assert!((numbers.iter().sum::<f64>() / 10_000.0).abs() < 0.03);
    }
}
