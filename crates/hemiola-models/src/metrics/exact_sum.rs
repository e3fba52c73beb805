//! Sum of floating-point numbers without rounding errors.
//!
//! The sum is kept as an expansion: a list of numbers, smallest first, that do not overlap and
//! whose exact sum is the sum of everything added (J. R. Shewchuk: Adaptive Precision
//! Floating-Point Arithmetic and Fast Robust Geometric Predicates. Discrete & Computational Geometry
//! 18, 1997, section 2.4). **Invariant:** the [value](ExactSum::value) is the exact sum rounded
//! once, so it does not depend on the order of additions and merges.

use serde::{Deserialize, Serialize};

/// Exact sum of floating-point numbers.
///
/// ```
/// use hemiola_models::metrics::ExactSum;
/// let mut sum = ExactSum::default();
/// [1e100, 0.1, 0.2, -1e100].into_iter().for_each(|value| sum.add(value));
/// assert_eq!(sum.value(), 0.1 + 0.2);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExactSum {
    /// Expansion without zeros, smallest magnitude first.
    parts: Vec<f64>,
    /// Sum of the numbers that are not finite, if there were any.
    special: Option<f64>,
}

impl ExactSum {
    /// Adds a number.
    #[inline]
    pub fn add(&mut self, value: f64) {
        if !value.is_finite() {
            self.special = Some(self.special.unwrap_or(0.0) + value);
            return;
        }
        let (mut sum, mut kept) = (value, 0);
        for index in 0..self.parts.len() {
            let (high, low) = two_sum(sum, self.parts[index]);
            if low != 0.0 {
                self.parts[kept] = low;
                kept += 1;
            }
            sum = high;
        }
        self.parts.truncate(kept);
        if !sum.is_finite() {
            // The sum exceeds the range of numbers.
            self.special = Some(self.special.unwrap_or(0.0) + sum);
            self.parts.clear();
        } else if sum != 0.0 {
            self.parts.push(sum);
        }
    }

    /// Adds all numbers of another sum.
    pub fn merge(&mut self, other: &Self) {
        other.parts.iter().chain(&other.special).for_each(|part| self.add(*part));
    }

    /// Returns the sum, rounded once to the nearest number.
    #[must_use]
    pub fn value(&self) -> f64 {
        if let Some(special) = self.special {
            return special;
        }
        let mut parts = self.parts.iter().rev().copied();
        let Some(mut high) = parts.next() else { return 0.0 };
        while let Some(part) = parts.next() {
            let (sum, low) = two_sum(high, part);
            high = sum;
            if low == 0.0 {
                continue;
            }
            // `low` decides the rounding; if it is half a unit exactly, the next part does.
            if let Some(next) = parts.next()
                && (low > 0.0) == (next > 0.0)
            {
                let doubled = low * 2.0;
                let moved = high + doubled;
                if (moved - high).total_cmp(&doubled).is_eq() {
                    high = moved;
                }
            }
            break;
        }
        high
    }
}

impl FromIterator<f64> for ExactSum {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut sum = Self::default();
        values.into_iter().for_each(|value| sum.add(value));
        sum
    }
}

/// Returns the rounded sum of two numbers, and its exact error (Knuth).
#[inline]
fn two_sum(left: f64, right: f64) -> (f64, f64) {
    let sum = left + right;
    let shifted = sum - left;
    (sum, (left - (sum - shifted)) + (right - shifted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola_core::rng::SplitMix64;

    /// Numbers of very different magnitudes and both signs.
    fn numbers(count: usize, seed: u64) -> Vec<f64> {
        let mut random = SplitMix64::new(seed);
        let mut number = || {
            let magnitude = 10_f64.powi(i32::try_from(random.below(40)).unwrap() - 20);
            (random.below(1 << 20) as f64 / f64::from(1 << 19) - 1.0) * magnitude
        };
        (0..count).map(|_| number()).collect()
    }

    #[test]
    fn the_value_does_not_depend_on_the_order() {
        for seed in 0..20 {
            let mut values = numbers(500, seed);
            let forward: ExactSum = values.iter().copied().collect();
            let mut halves: Vec<ExactSum> = values.chunks(77).map(|part| part.iter().copied().collect()).collect();
            let mut merged = halves.pop().unwrap();
            for half in &halves {
                merged.merge(half);
            }
            values.sort_by(f64::total_cmp);
            let sorted: ExactSum = values.into_iter().collect();
            let bits = [&forward, &merged, &sorted].map(|sum| sum.value().to_bits());
            assert_eq!(bits, [bits[0]; 3]);
        }
    }

    #[test]
    fn the_value_is_rounded_once() {
        let of = |values: &[f64]| values.iter().copied().collect::<ExactSum>().value();
        // Python: math.fsum
        assert_eq!(of(&[0.1; 10]).to_bits(), 1.0_f64.to_bits());
        assert_eq!(of(&[1e16, 1.0, 1e-16]).to_bits(), 10_000_000_000_000_002.0_f64.to_bits());
        assert_eq!(of(&[1e16 - 2.0, 1.0 - 2_f64.powi(-53), -(1e16 - 2.0), -(1.0 - 2_f64.powi(-53))]).to_bits(), 0);
        assert_eq!(of(&[]).to_bits(), 0);
        // Integers are exact in 128 bits.
        let mut random = SplitMix64::new(3);
        let whole: Vec<i64> = (0..1000).map(|_| i64::try_from(random.below(1 << 52)).unwrap() - (1 << 51)).collect();
        let exact: i128 = whole.iter().map(|value| i128::from(*value)).sum();
        assert_eq!(
            of(&whole.iter().map(|value| *value as f64).collect::<Vec<_>>()).to_bits(),
            (exact as f64).to_bits()
        );
    }

    #[test]
    fn numbers_that_are_not_finite_are_kept() {
        let of = |values: &[f64]| values.iter().copied().collect::<ExactSum>().value();
        assert!(of(&[1.0, f64::NAN, 2.0]).is_nan() && of(&[f64::INFINITY, f64::NEG_INFINITY]).is_nan());
        assert_eq!(of(&[1.0, f64::INFINITY]).to_bits(), f64::INFINITY.to_bits());
        assert_eq!(of(&[f64::MAX, f64::MAX]).to_bits(), f64::INFINITY.to_bits());
    }
}
