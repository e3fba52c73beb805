//! Numbers and comparisons of the tests.

/// Numbers between -1 and 1 from a linear congruential generator.
pub(crate) fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 40) as f32 / (1_u64 << 23) as f32) - 1.0
    };
    std::iter::repeat_with(draw).take(count).collect()
}

/// Compares elements, relative to the largest expected one.
pub(crate) fn assert_close(found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len());
    let scale = expected.iter().fold(1e-3_f32, |most, value| most.max(value.abs()));
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let difference = (found - expected).abs();
        assert!(difference <= tolerance * scale, "element {index}: {found} instead of {expected} (scale {scale})");
    }
}

/// Gradient of `Σ weights · function(at)` by central differences in `f64`.
pub(crate) fn numeric_gradient(at: &[f32], function: impl Fn(&[f64]) -> f64) -> Vec<f32> {
    let step = 1e-5;
    let mut point: Vec<f64> = at.iter().map(|value| f64::from(*value)).collect();
    (0..at.len())
        .map(|index| {
            let middle = point[index];
            point[index] = middle + step;
            let above = function(&point);
            point[index] = middle - step;
            let below = function(&point);
            point[index] = middle;
            ((above - below) / (2.0 * step)) as f32
        })
        .collect()
}
