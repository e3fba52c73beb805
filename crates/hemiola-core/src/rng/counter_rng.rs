//! Uniform and normal random numbers at an index.
//!
//! **Invariant:** a value is a pure function of `(seed, index, draw)`, computed with integer
//! arithmetic, IEEE basic operations and the `libm` crate only. The C library's `ln` and `cos`
//! differ between systems in the last bit; `libm` does not. Peers with different systems therefore
//! agree bit for bit.

use super::Philox;
use std::ops::Range;

/// Random numbers at any index. `draw` separates several numbers of one index.
///
/// ```
/// use hemiola_core::rng::PhiloxRng;
/// let rng = PhiloxRng::new(42);
/// let forward: Vec<f64> = (0..5).map(|index| rng.uniform(index, 0, 0.0..1.0)).collect();
/// let backward: Vec<f64> = (0..5).rev().map(|index| rng.uniform(index, 0, 0.0..1.0)).collect();
/// assert!(forward.iter().eq(backward.iter().rev()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhiloxRng {
    generator: Philox,
}

impl PhiloxRng {
    /// Creates the generator for a seed.
    #[must_use]
    #[inline]
    pub const fn new(seed: u64) -> Self {
        Self { generator: Philox::new(seed) }
    }

    /// Uniformly distributed 64-bit integer.
    #[must_use]
    #[inline]
    pub fn random_u64(&self, index: u64, draw: u64) -> u64 {
        let words = self.generator.words(index, draw);
        u64::from(words[0]) | u64::from(words[1]) << 32
    }

    /// Uniform number in `[0, 1)` with 53 random bits.
    #[must_use]
    #[inline]
    pub fn random_f64(&self, index: u64, draw: u64) -> f64 {
        to_unit_interval(self.random_u64(index, draw))
    }

    /// Uniform number in `[start, end)`.
    #[must_use]
    #[inline]
    pub fn uniform(&self, index: u64, draw: u64, range: Range<f64>) -> f64 {
        let value = range.start + self.random_f64(index, draw) * (range.end - range.start);
        // Rounding may reach the end of the range.
        if value < range.end { value } else { range.end.next_down().max(range.start) }
    }

    /// Uniform `f32` in `[start, end)`, with 24 random bits.
    #[must_use]
    #[inline]
    pub fn uniform_f32(&self, index: u64, draw: u64, range: Range<f32>) -> f32 {
        let unit = (self.random_u64(index, draw) >> 40) as f32 * (1.0 / 16_777_216.0);
        let value = range.start + unit * (range.end - range.start);
        if value < range.end { value } else { range.end.next_down().max(range.start) }
    }

    /// Normally distributed number, by the Box-Muller transform. It takes two uniform numbers and
    /// no rejection, so that the cost and the counter per value are constant.
    #[must_use]
    #[inline]
    pub fn normal(&self, index: u64, draw: u64, mean: f64, deviation: f64) -> f64 {
        let words = self.generator.words(index, draw);
        let radius_bits = u64::from(words[0]) | u64::from(words[1]) << 32;
        let angle_bits = u64::from(words[2]) | u64::from(words[3]) << 32;
        // In (0, 1], so that the logarithm is finite.
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - to_unit_interval(radius_bits)));
        mean + deviation * radius * libm::cos(std::f64::consts::TAU * to_unit_interval(angle_bits))
    }

    /// Uniform integer in `0..bound`; 0 for a bound of 0. The bias is below `bound / 2^64`.
    #[must_use]
    #[inline]
    pub fn random_below(&self, index: u64, draw: u64, bound: u64) -> u64 {
        ((u128::from(self.random_u64(index, draw)) * u128::from(bound)) >> 64) as u64
    }

    /// Bernoulli trial for the entry with this key: true with probability `fraction`. It depends
    /// only on the key, so a train/test split is the same for every order of the file and every
    /// number of peers.
    ///
    /// ```
    /// use hemiola_core::rng::PhiloxRng;
    /// let split = PhiloxRng::new(1);
    /// let train = (0..10_000).filter(|&cell| split.random_bool_for_key([cell / 100, cell % 100], 0.8)).count();
    /// assert!((7800..8200).contains(&train));
    /// ```
    #[must_use]
    #[inline]
    pub fn random_bool_for_key<const N: usize>(&self, key: [u64; N], fraction: f64) -> bool {
        // The counter of one evaluation takes two indices; further ones are folded in one by one.
        let mut bits = self.random_u64(key[0], if N > 1 { key[1] } else { 0 });
        for &index in key.iter().skip(2) {
            bits = self.random_u64(bits, index);
        }
        to_unit_interval(bits) < fraction
    }

    /// Bernoulli trial: true with probability `fraction`.
    #[must_use]
    #[inline]
    pub fn random_bool(&self, index: u64, draw: u64, fraction: f64) -> bool {
        self.random_f64(index, draw) < fraction
    }
}

#[inline]
fn to_unit_interval(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: u64 = 100_000;

    #[test]
    fn uniform_numbers_have_the_right_mean_and_stay_in_the_range() {
        let rng = PhiloxRng::new(1);
        let mut sum = 0.0;
        for index in 0..COUNT {
            let value = rng.uniform(index, 0, -1.0..3.0);
            assert!((-1.0..3.0).contains(&value));
            assert!((0.0..0.1).contains(&rng.uniform_f32(index, 0, 0.0..0.1)));
            sum += value;
        }
        // Standard deviation of the mean: 4 / sqrt(12 * 100000) = 0.0037; the bound is five of
        // them.
        assert!((sum / COUNT as f64 - 1.0).abs() < 0.019);
    }

    #[test]
    fn normal_numbers_have_the_right_moments() {
        let rng = PhiloxRng::new(2);
        let (mut sum, mut squares, mut tail) = (0.0, 0.0, 0);
        for index in 0..COUNT {
            let value = rng.normal(index, 0, 0.0, 1.0);
            sum += value;
            squares += value * value;
            tail += u32::from(value.abs() > 1.96);
        }
        let count = COUNT as f64;
        assert!((sum / count).abs() < 0.016, "mean {}", sum / count);
        assert!((squares / count - 1.0).abs() < 0.023, "variance {}", squares / count);
        assert!((f64::from(tail) / count - 0.05).abs() < 0.0035, "tail {tail}");
    }

    #[test]
    fn neighbouring_indices_and_draws_are_uncorrelated() {
        let rng = PhiloxRng::new(3);
        let unit = |index, draw| rng.random_f64(index, draw) - 0.5;
        let by_index: f64 = (0..COUNT).map(|index| unit(index, 0) * unit(index + 1, 0)).sum();
        let by_draw: f64 = (0..COUNT).map(|index| unit(index, 0) * unit(index, 1)).sum();
        // Standard deviation of the sum: sqrt(100000) / 12 = 26.
        assert!(by_index.abs() < 132.0 && by_draw.abs() < 132.0, "{by_index} {by_draw}");
    }

    #[test]
    fn values_are_the_same_on_every_release() {
        // Computed independently in Python.
        let rng = PhiloxRng::new(2026);
        assert_eq!(rng.normal(17, 0, 0.0, 1.0).to_bits(), 0xbfef_116e_faa4_fd13);
    }
}
