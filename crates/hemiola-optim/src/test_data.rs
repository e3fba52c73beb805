//! Gradients for the tests of all rules.

use proptest::prelude::*;

/// Some steps of four gradients each, of very different sizes, with zeros.
pub(crate) fn gradients() -> impl Strategy<Value = Vec<[f32; 4]>> {
    let gradient = prop_oneof![8 => -10.0..10.0_f32, 1 => Just(0.0_f32), 1 => -1e-6..1e-6_f32, 1 => -1e6..1e6_f32];
    prop::collection::vec(prop::array::uniform4(gradient), 1..20)
}

/// Gradient of a step and an element, for tests over many steps in double precision.
pub(crate) fn wave(step: u32, element: u32) -> f64 {
    (f64::from(step) * 0.7 + f64::from(element)).sin() * 3.0 + 0.1
}
