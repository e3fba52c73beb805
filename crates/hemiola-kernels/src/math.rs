//! Elementary functions that compilers vectorize: no branches, no tables, no calls.
//!
//! They use separate multiplications and additions, so the bits do not depend on the instructions
//! of the machine.

/// Largest absolute argument of [`exp`] whose result is a normal number.
const EXP_LIMIT: f32 = 87.0;

/// Exponential function, with a relative error below 2·10⁻⁷ (polynomial of Cephes' `expf`).
/// Arguments are limited to ±87; NaN stays NaN.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // Adding and subtracting 1.5 · 2²³ rounds to an integer, which is left in the low bits.
    const ROUND: f32 = 12_582_912.0;
    const LOG2_HIGH: f32 = 0.693_359_4;
    const LOG2_LOW: f32 = -2.121_944_4e-4;
    let x = if x > EXP_LIMIT { EXP_LIMIT } else { x };
    let x = if x < -EXP_LIMIT { -EXP_LIMIT } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let whole = shifted - ROUND;
    let rest = x - whole * LOG2_HIGH - whole * LOG2_LOW;
    let mut sum = 1.987_569_1e-4;
    sum = sum * rest + 1.398_199_9e-3;
    sum = sum * rest + 8.333_452e-3;
    sum = sum * rest + 4.166_579_6e-2;
    sum = sum * rest + 1.666_666_5e-1;
    sum = sum * rest + 0.5;
    let fraction = sum * (rest * rest) + rest + 1.0;
    let power = f32::from_bits(shifted.to_bits().wrapping_shl(23).wrapping_add(1.0_f32.to_bits()));
    fraction * power
}

/// Logistic function.
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Hyperbolic tangent, with an absolute error below 3·10⁻⁷.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    2.0 / (1.0 + exp(-2.0 * x)) - 1.0
}

/// Standard normal distribution function and density at `x`. The absolute error is below 2·10⁻⁷
/// (Abramowitz and Stegun 7.1.26).
#[inline(always)]
pub(crate) fn normal(x: f32) -> (f32, f32) {
    let size = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let bell = exp(-(size * size));
    let t = 1.0 / (1.0 + 0.327_591_1 * size);
    let sum = ((((1.061_405_4 * t - 1.453_152_1) * t + 1.421_413_8) * t - 0.284_496_72) * t + 0.254_829_6) * t;
    let upper = 0.5 * sum * bell;
    let cumulative = if x < 0.0 { upper } else { 1.0 - upper };
    (cumulative, bell * 0.398_942_3)
}

/// Lanes of a sum: enough for the widest registers, and the same on every machine.
pub(crate) const LANES: usize = 16;

/// Sum of `term` over two slices of equal length, in lanes.
#[inline(always)]
pub(crate) fn sum_by(left: &[f32], right: &[f32], term: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    let (left_chunks, left_rest) = left.as_chunks::<LANES>();
    let (right_chunks, right_rest) = right.as_chunks::<LANES>();
    for (left, right) in left_chunks.iter().zip(right_chunks) {
        for lane in 0..LANES {
            lanes[lane] += term(left[lane], right[lane]);
        }
    }
    let rest: f32 = left_rest.iter().zip(right_rest).map(|(left, right)| term(*left, *right)).sum();
    fold(lanes) + rest
}

/// Sum of the lanes, in pairs.
#[inline(always)]
fn fold(mut lanes: [f32; LANES]) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// Maximum of a slice; `-inf` of an empty one.
#[inline(always)]
pub(crate) fn maximum(values: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] = if chunk[lane] > lanes[lane] { chunk[lane] } else { lanes[lane] };
        }
    }
    lanes.iter().chain(rest).fold(f32::NEG_INFINITY, |most, value| if *value > most { *value } else { most })
}

/// Adds `other` to `sums`.
#[inline(always)]
pub(crate) fn add_to(sums: &mut [f32], other: &[f32]) {
    for (sum, value) in sums.iter_mut().zip(other) {
        *sum += value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(limit: f64) -> impl Iterator<Item = f64> {
        (-20_000..=20_000).map(move |step| f64::from(step) / 20_000.0 * limit)
    }

    #[test]
    fn exp_has_single_precision() {
        for x in arguments(86.9) {
            let (found, expected) = (f64::from(exp(x as f32)), f64::from(x as f32).exp());
            assert!((found / expected - 1.0).abs() < 2e-7, "exp({x}): {found}, {expected}");
        }
        assert!(exp(f32::NEG_INFINITY) < 1e-37 && exp(f32::INFINITY) > 1e37 && exp(f32::NAN).is_nan());
        assert_eq!(exp(0.0).to_bits(), 1.0_f32.to_bits());
    }

    #[test]
    fn tanh_and_sigmoid_have_single_precision() {
        for x in arguments(30.0) {
            let exact = f64::from(x as f32);
            assert!((f64::from(tanh(x as f32)) - exact.tanh()).abs() < 3e-7, "tanh({x})");
            assert!((f64::from(sigmoid(x as f32)) - 1.0 / (1.0 + (-exact).exp())).abs() < 2e-7, "sigmoid({x})");
        }
    }

    #[test]
    fn the_normal_distribution_is_the_integral_of_its_density() {
        // Simpson's rule in double precision from -12, where the integral is below 1e-32.
        let density = |x: f64| (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let (step, mut integral, mut x) = (0.001, 0.0, -12.0);
        while x < 8.0 {
            let (cumulative, bell) = normal(x as f32);
            assert!((f64::from(cumulative) - integral).abs() < 4e-7, "{x}: {cumulative}, {integral}");
            assert!((f64::from(bell) - density(x)).abs() < 4e-7, "{x}");
            integral += (density(x) + 4.0 * density(x + step / 2.0) + density(x + step)) * step / 6.0;
            x += step;
        }
    }

    #[test]
    fn sums_and_maxima_include_the_rest() {
        for count in [0, 1, 15, 16, 17, 40] {
            let values: Vec<f32> = (0..count).map(|index| ((index * 7) % 11) as f32).collect();
            let ones = vec![1.0; values.len()];
            let sum = sum_by(&values, &ones, |value, one| value * one);
            assert_eq!(sum.to_bits(), (0.0 + values.iter().sum::<f32>()).to_bits());
            let most = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            assert_eq!(maximum(&values).to_bits(), most.to_bits());
        }
    }
}
