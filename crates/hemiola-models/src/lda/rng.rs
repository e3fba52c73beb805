//! Counter-based random numbers: keyed by purpose, independent of the order of calls.
//!
//! A number is a hash of a key and a counter (finalizer of `SplitMix64`): the key contains the
//! seed, the sweep and the cell, the counter the token. Nothing depends on threads or on the order
//! of calls.

use hemiola_core::rng::{GOLDEN_GAMMA, mix64};

/// Stream of random numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct CounterRng(u64);

impl CounterRng {
    /// Creates the stream keyed by these numbers, in this order.
    pub(super) fn new(numbers: &[u64]) -> Self {
        let next =
            |key, number: &u64| mix64(key ^ number.wrapping_mul(GOLDEN_GAMMA).wrapping_add(0x632b_e59b_d9b4_e019));
        Self(numbers.iter().fold(0x243f_6a88_85a3_08d3, next))
    }

    #[inline(always)]
    pub(super) const fn random_u64(self, counter: u64) -> u64 {
        mix64(self.0.wrapping_add(counter.wrapping_mul(GOLDEN_GAMMA)))
    }

    /// Returns a uniform number in [0, 1), in steps of 2⁻²⁴.
    #[inline(always)]
    pub(super) fn unit(self, counter: u64) -> f32 {
        unit(self.random_u64(counter))
    }

    /// Returns a uniform integer below `bound`, which is at most 2³².
    #[inline(always)]
    pub(super) const fn below(self, counter: u64, bound: u64) -> u64 {
        ((self.random_u64(counter) >> 32) * bound) >> 32
    }
}

/// Converts the upper 24 bits to a number in [0, 1).
#[inline(always)]
pub(super) fn unit(bits: u64) -> f32 {
    (bits >> 40) as f32 * (1.0 / 16_777_216.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_uniform_and_differ_by_key() {
        let key = CounterRng::new(&[1, 2, 3]);
        let mean = (0..10_000).map(|at| f64::from(key.unit(at))).sum::<f64>() / 1e4;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
        let mut seen = [0; 7];
        (0..7000).for_each(|at| seen[key.below(at, 7) as usize] += 1);
        assert!(seen.iter().all(|count| (850..1150).contains(count)), "{seen:?}");
        assert_ne!(key.random_u64(0), CounterRng::new(&[1, 3, 2]).random_u64(0));
    }
}
