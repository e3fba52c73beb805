//! `AdaGrad` (Duchi, Hazan and Singer 2011): the learning rate of each element shrinks with the
//! squares of its gradients.
//!
//! State: `z`, the initial value plus the sum of squares. `z ← z + g²`, `x ← x - r g / (√z + e)`.
//! An initial value of 1 bounds the first step by the learning rate without an epsilon, and equals
//! that of [`AdaRevision`](crate::AdaRevision). With an initial value of 0, as in most libraries,
//! the first step has the size of the learning rate, and epsilon keeps `0 / 0` away.

use crate::{Float, StepOrder};
use serde::{Deserialize, Serialize};

/// `AdaGrad`: gradient descent with a learning rate for each element.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdaGrad {
    /// Initial learning rate of all elements.
    pub learning_rate: f64,
    /// Added to the root. 0 changes no bit of it.
    pub epsilon: f64,
    /// Initial value of `z`, which the owner of the state sets.
    pub initial_sum: f64,
    /// Order of operations of the step.
    pub order: StepOrder,
}

impl AdaGrad {
    /// Creates the rule with this initial learning rate, an initial sum of 1 and no epsilon.
    #[must_use]
    pub const fn new(learning_rate: f64) -> Self {
        Self { learning_rate, epsilon: 0.0, initial_sum: 1.0, order: StepOrder::DivideRate }
    }

    /// Adds the square of the gradient to `sum` and returns the step, to be subtracted from the
    /// value.
    #[inline]
    pub fn step<W: Float>(self, gradient: W, sum: &mut W) -> W {
        *sum = *sum + gradient * gradient;
        let divisor = sum.sqrt() + W::from_f64(self.epsilon);
        self.order.step(W::from_f64(self.learning_rate), gradient, divisor)
    }

    /// Updates values with a gradient of the same length.
    #[inline]
    pub fn update<W: Float>(self, values: &mut [W], gradient: &[W], sums: &mut [W]) {
        for ((value, gradient), sum) in values.iter_mut().zip(gradient).zip(sums) {
            *value = *value - self.step(*gradient, sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_data::{gradients, wave};
    use proptest::prelude::*;

    #[test]
    fn updates_in_double_precision_match_the_textbook() {
        let rule = AdaGrad::new(0.5);
        let (mut values, mut sums) = ([1.0_f64, -1.0], [1.0; 2]);
        let (mut x, mut z) = ([1.0_f64, -1.0], [1.0_f64; 2]);
        for step in 1..50 {
            let gradient = [wave(step, 0), wave(step, 1)];
            rule.update(&mut values, &gradient, &mut sums);
            for k in 0..2 {
                z[k] += gradient[k].powi(2);
                x[k] -= 0.5 * gradient[k] / z[k].sqrt();
            }
            assert!(values.iter().zip(x).all(|(a, b)| (a - b).abs() < 1e-12), "{values:?} {x:?}");
        }
    }

    proptest! {
        #[test]
        fn updates_equal_the_formula_of_each_order_bit_for_bit(gradients in gradients(), product: bool, one: bool) {
            let order = if product { StepOrder::DivideProduct } else { StepOrder::DivideRate };
            let (epsilon, initial_sum) = if one { (0.0, 1.0) } else { (1e-8, 0.0) };
            let rule = AdaGrad { epsilon, initial_sum, order, ..AdaGrad::new(f64::from(0.03_f32)) };
            let (mut values, mut sums) = ([0.5_f32; 4], [initial_sum as f32; 4]);
            let (mut x, mut z) = (values, sums);
            for gradient in gradients {
                rule.update(&mut values, &gradient, &mut sums);
                for k in 0..4 {
                    z[k] += gradient[k] * gradient[k];
                    let root = if one { z[k].sqrt() } else { z[k].sqrt() + 1e-8 };
                    x[k] -= if product { 0.03 * gradient[k] / root } else { 0.03 / root * gradient[k] };
                }
                prop_assert_eq!((values, sums), (x, z));
            }
        }

        /// The change of a value is the negated step, also if the sign is in the learning rate.
        #[test]
        fn negated_steps_equal_a_negative_learning_rate(gradient in -1e3..1e3_f32, sum in 0.0..1e3_f32) {
            let rule = AdaGrad { epsilon: 1e-8, ..AdaGrad::new(f64::from(0.03_f32)) };
            let step = rule.step(gradient, &mut sum.clone());
            let change = gradient * (-0.03 / ((sum + gradient * gradient).sqrt() + 1e-8));
            prop_assert_eq!((-step).to_bits(), change.to_bits());
        }
    }
}
