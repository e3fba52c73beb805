//! Exact sums of numbers and of their squares.
//!
//! An `f32` is an integer times a power of two, so sums of many are sums of integers. They are kept
//! in windows of 32 binary digits, each of which has room for 2^46 summands. **Invariant:** the sums
//! are exact, so they do not depend on the order of the numbers, nor on their division among peers
//! and workers; mean and variance are correct to the last digits even if they differ by many orders
//! of magnitude.

use serde::{Deserialize, Serialize};

/// Exponents of the last digit of an `f32`, and of its square.
const LEAST: [i32; 2] = [-149, -298];
/// Number of binary digits of a window.
const WINDOW: i32 = 32;

/// Exact moments of a set of finite numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ExactMoments {
    /// Windows of the sum, and of the sum of squares, from the lowest digits on.
    windows: [Vec<i128>; 2],
}

/// Unevaluated sum of two `f64`, the second smaller than the last digit of the first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DoubleDouble {
    high: f64,
    low: f64,
}

impl ExactMoments {
    pub(super) fn add(&mut self, value: f32) {
        let bits = value.to_bits();
        let (exponent, fraction) = ((bits >> 23 & 0xff).cast_signed(), i128::from(bits & 0x7f_ffff));
        // Subnormal numbers have the exponent of the smallest normal one, and no leading 1.
        let (shift, digits) = if exponent == 0 { (0, fraction) } else { (exponent - 1, fraction | 1 << 23) };
        let signed = if value < 0.0 { -digits } else { digits };
        for (windows, (shift, digits)) in self.windows.iter_mut().zip([(shift, signed), (2 * shift, digits * digits)]) {
            let window = (shift / WINDOW) as usize;
            if windows.len() <= window {
                windows.resize(window + 1, 0);
            }
            windows[window] += digits << (shift % WINDOW);
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.windows.iter_mut().zip(&other.windows) {
            if mine.len() < theirs.len() {
                mine.resize(theirs.len(), 0);
            }
            for (window, more) in mine.iter_mut().zip(theirs) {
                *window += more;
            }
        }
    }

    /// Returns the sum of the numbers or, for `power` 2, of their squares.
    fn sum(&self, power: usize) -> DoubleDouble {
        let mut sum = DoubleDouble::default();
        for (index, window) in (0_i32..).zip(&self.windows[power - 1]).collect::<Vec<_>>().into_iter().rev() {
            let unit = 2.0_f64.powi(LEAST[power - 1] + WINDOW * index);
            // Pieces of 48 digits are exact as `f64`.
            let magnitude = window.unsigned_abs();
            for piece in (0..3).rev() {
                let digits = (magnitude >> (48 * piece)) as u64 & 0xffff_ffff_ffff;
                let part = digits as f64 * 2.0_f64.powi(48 * piece) * unit;
                sum = sum.plus(if *window < 0 { -part } else { part });
            }
        }
        sum
    }

    /// Returns mean and variance (divided by the count) of `count` numbers: those that were added,
    /// `filled` times the number `fill`, and zeros.
    pub(super) fn mean_and_variance(&self, count: u64, filled: u64, fill: f32) -> (f64, f64) {
        let (count, filled, fill) = (count as f64, filled as f64, f64::from(fill));
        // A product of an `f32` and a count below 2^29, or of two `f32`, is exact.
        let sum = self.sum(1).plus_product(filled, fill);
        let squares = self.sum(2).plus_product(filled, fill * fill);
        let mean = (sum.high + sum.low) / count;
        let square = DoubleDouble::default().plus_product(sum.high, sum.high).plus(2.0 * sum.high * sum.low);
        let deviations = squares.minus(square.divided_by(count));
        (mean, ((deviations.high + deviations.low) / count).max(0.0))
    }
}

impl DoubleDouble {
    fn plus(self, value: f64) -> Self {
        let high = self.high + value;
        let rest = high - self.high;
        let error = (self.high - (high - rest)) + (value - rest);
        Self::normalized(high, self.low + error)
    }

    fn minus(self, other: Self) -> Self {
        self.plus(-other.high).plus(-other.low)
    }

    fn plus_product(self, left: f64, right: f64) -> Self {
        let product = left * right;
        self.plus(product).plus(left.mul_add(right, -product))
    }

    fn divided_by(self, divisor: f64) -> Self {
        let quotient = self.high / divisor;
        let rest = (-quotient).mul_add(divisor, self.high) + self.low;
        Self::normalized(quotient, rest / divisor)
    }

    fn normalized(high: f64, low: f64) -> Self {
        let sum = high + low;
        Self { high: sum, low: low - (sum - high) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(values: &[f32]) -> ExactMoments {
        let mut moments = ExactMoments::default();
        for value in values {
            moments.add(*value);
        }
        moments
    }

    #[test]
    fn order_and_division_do_not_matter() {
        let values: Vec<f32> = (0..1000).map(|n| (n as f32 - 300.0) * 1e-3_f32.powi(n % 7 - 3)).collect();
        let all = moments(&values);
        let reversed: Vec<f32> = values.iter().rev().copied().collect();
        assert_eq!(moments(&reversed), all);
        let mut merged = moments(&values[900..]);
        merged.merge(&moments(&values[..900]));
        assert_eq!(merged, all);
        let exact: f64 = values.iter().map(|value| f64::from(*value)).sum();
        let (mean, variance) = all.mean_and_variance(1000, 0, 0.0);
        assert!((mean - exact / 1000.0).abs() <= 1e-12 * mean.abs());
        let squares = values.iter().map(|value| (f64::from(*value) - mean).powi(2)).sum::<f64>() / 1000.0;
        assert!((variance - squares).abs() <= 1e-12 * squares);
    }

    #[test]
    fn a_large_mean_does_not_drown_the_variance() {
        let values: Vec<f32> = (0..100).map(|n| 1e7 + (n % 2) as f32).collect();
        let (mean, variance) = moments(&values).mean_and_variance(100, 0, 0.0);
        assert!((mean - 10_000_000.5).abs() < 1e-9 && (variance - 0.25).abs() < 1e-12, "{mean} {variance}");
        let extremes = [f32::MAX, -f32::MAX, f32::MIN_POSITIVE / 8.0, 3.0];
        let (mean, variance) = moments(&extremes).mean_and_variance(4, 0, 0.0);
        assert!((mean - 0.75).abs() < 1e-12 && variance.is_finite());
    }

    #[test]
    fn filled_values_and_zeros_count() {
        let (mean, variance) = moments(&[1.0, 3.0]).mean_and_variance(8, 2, 2.0);
        assert!((mean - 1.0).abs() < 1e-12 && (variance - (1.0 + 9.0 + 8.0) / 8.0 + 1.0).abs() < 1e-12);
    }
}
