//! A stream of random numbers whose whole state is a seed and a counter, so that it can be saved and continued.

use hemiola_array::random::Philox;
use serde::{Deserialize, Serialize};

/// A seeded generator.
///
/// ```
/// use hemiola_tables_proto::Random;
/// let mut random = Random::new(7);
/// random.below(10);
/// let mut copy = random.clone();
/// assert_eq!(random.below(1000), copy.below(1000));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Random {
    seed: u64,
    drawn: u64,
}

impl Random {
    /// The generator with this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed, drawn: 0 }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let words = Philox::new(self.seed).words(self.drawn, 0);
        self.drawn += 1;
        u64::from(words[0]) | u64::from(words[1]) << 32
    }

    /// A number in `0..bound`.
    ///
    /// # Panics
    /// If the bound is zero.
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "there is no number below zero");
        ((u128::from(self.bits()) * bound as u128) >> 64) as usize
    }
}
