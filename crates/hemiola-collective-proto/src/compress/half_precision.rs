//! Half-precision elements, rounded to nearest. Collectives can sum them like any element, with a
//! rounding at each step.

use half::{bf16, f16};

/// Rounds `f32` to `bf16`: the range of `f32`, 8 bits of precision.
#[must_use]
pub fn to_bf16(values: &[f32]) -> Vec<bf16> {
    values.iter().map(|&value| bf16::from_f32(value)).collect()
}

/// Converts `bf16` to `f32` exactly.
#[must_use]
pub fn from_bf16(values: &[bf16]) -> Vec<f32> {
    values.iter().map(|value| value.to_f32()).collect()
}

/// Rounds `f32` to `f16`: 11 bits of precision, up to 65504; infinity beyond that.
#[must_use]
pub fn to_f16(values: &[f32]) -> Vec<f16> {
    values.iter().map(|&value| f16::from_f32(value)).collect()
}

/// Converts `f16` to `f32` exactly.
#[must_use]
pub fn from_f16(values: &[f16]) -> Vec<f32> {
    values.iter().map(|value| value.to_f32()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola_core::rng::SplitMix64;

    #[test]
    fn rounding_is_within_half_a_step_and_done_once() {
        let mut random = SplitMix64::new(2);
        let values: Vec<f32> = (0..1000).map(|_| (random.symmetric() * 1000.0) as f32).collect();
        let (b, f) = (from_bf16(&to_bf16(&values)), from_f16(&to_f16(&values)));
        for ((value, b), f) in values.iter().zip(&b).zip(&f) {
            assert!((value - b).abs() <= value.abs() / 256.0);
            assert!((value - f).abs() <= value.abs() / 2048.0 + 1e-7);
        }
        assert_eq!(from_bf16(&to_bf16(&b)), b);
        assert_eq!(from_f16(&to_f16(&f)), f);
        assert!(to_f16(&[1e6])[0].is_infinite() && to_bf16(&[f32::NAN])[0].is_nan());
    }
}
