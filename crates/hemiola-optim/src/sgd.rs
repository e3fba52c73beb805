//! Stochastic gradient descent (Robbins and Monro 1951): `x ← x - r g`.

use crate::Float;
use serde::{Deserialize, Serialize};

/// Stochastic gradient descent: subtracts the learning rate times the gradient.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sgd {
    /// Learning rate of all elements.
    pub learning_rate: f64,
}

impl Sgd {
    /// Creates the rule with this learning rate.
    #[must_use]
    pub const fn new(learning_rate: f64) -> Self {
        Self { learning_rate }
    }

    /// Returns the step `r g`, to be subtracted from the value.
    #[inline]
    #[must_use]
    pub fn step<W: Float>(self, gradient: W) -> W {
        W::from_f64(self.learning_rate) * gradient
    }

    /// Updates values with a gradient of the same length.
    #[inline]
    pub fn update<W: Float>(self, values: &mut [W], gradient: &[W]) {
        for (value, gradient) in values.iter_mut().zip(gradient) {
            *value = *value - self.step(*gradient);
        }
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these values are exact")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn steps_are_the_learning_rate_times_the_gradient() {
        let mut values = [1.0_f32, -2.0, 0.0];
        for _ in 0..3 {
            Sgd::new(0.25).update(&mut values, &[4.0, -8.0, 0.5]);
        }
        assert_eq!(values, [-2.0, 4.0, -0.375]);
    }

    proptest! {
        /// A parameter-server client adds gradients times `-r`.
        #[test]
        fn subtraction_equals_adding_a_negative_multiple(x in any::<f32>(), g in any::<f32>(), r in any::<f32>()) {
            let mut values = [x];
            Sgd::new(f64::from(r)).update(&mut values, &[g]);
            let sum = x + -r * g;
            prop_assert!(values[0].to_bits() == sum.to_bits() || values[0].is_nan() && sum.is_nan());
        }
    }
}
