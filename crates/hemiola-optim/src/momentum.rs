//! Momentum (Polyak 1964), and its form by Nesterov (1983) as Sutskever et al. (2013) write it.
//!
//! State: the velocity `v`, 0 at first. `v ← k v + g`, `x ← x - r v`. With Nesterov's form,
//! `x ← x - r (g + k v)` with the new `v`: the gradient that the next step would see if it stayed
//! the same.

use crate::Float;
use serde::{Deserialize, Serialize};

/// Gradient descent with momentum: steps along a decaying sum of gradients.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Momentum {
    /// Learning rate of all elements.
    pub learning_rate: f64,
    /// Share `k` of the velocity that a step keeps.
    pub momentum: f64,
    /// Uses Nesterov's form of the step.
    pub nesterov: bool,
}

impl Momentum {
    /// Creates the rule with this learning rate and momentum, without Nesterov's form.
    #[must_use]
    pub const fn new(learning_rate: f64, momentum: f64) -> Self {
        Self { learning_rate, momentum, nesterov: false }
    }

    /// Advances the velocity and returns the step, to be subtracted from the value.
    #[inline]
    pub fn step<W: Float>(self, gradient: W, velocity: &mut W) -> W {
        let keep = W::from_f64(self.momentum);
        *velocity = keep * *velocity + gradient;
        let direction = if self.nesterov { gradient + keep * *velocity } else { *velocity };
        W::from_f64(self.learning_rate) * direction
    }

    /// Updates values with a gradient of the same length.
    #[inline]
    pub fn update<W: Float>(self, values: &mut [W], gradient: &[W], velocities: &mut [W]) {
        for ((value, gradient), velocity) in values.iter_mut().zip(gradient).zip(velocities) {
            *value = *value - self.step(*gradient, velocity);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_data::gradients;
    use proptest::prelude::*;

    #[test]
    fn first_steps_match_those_computed_by_hand() {
        let rule = Momentum::new(0.5, 0.5);
        let (mut values, mut velocities) = ([0.0_f64], [0.0]);
        let mut after = |rule: Momentum| {
            rule.update(&mut values, &[2.0], &mut velocities);
            (values[0], velocities[0])
        };
        assert_eq!(after(rule), (-1.0, 2.0));
        assert_eq!(after(rule), (-2.5, 3.0));
        // 2 + 0.5 · (0.5 · 3 + 2), times 0.5
        assert_eq!(after(Momentum { nesterov: true, ..rule }), (-4.375, 3.5));
    }

    proptest! {
        #[test]
        fn updates_equal_the_formula_bit_for_bit(gradients in gradients(), nesterov: bool) {
            let rule = Momentum { nesterov, ..Momentum::new(f64::from(0.03_f32), f64::from(0.9_f32)) };
            let (mut values, mut velocities) = ([0.5_f32; 4], [0.0_f32; 4]);
            let (mut x, mut v) = (values, velocities);
            for gradient in gradients {
                rule.update(&mut values, &gradient, &mut velocities);
                for k in 0..4 {
                    v[k] = 0.9 * v[k] + gradient[k];
                    x[k] -= 0.03 * if nesterov { gradient[k] + 0.9 * v[k] } else { v[k] };
                }
                prop_assert_eq!((values, velocities), (x, v));
            }
        }
    }
}
