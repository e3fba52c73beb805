//! `RMSProp` (Tieleman and Hinton 2012): `AdaGrad` with a moving average of squares instead of their
//! sum.
//!
//! State: `z`, 0 at first. `z ← k z + ((1 - k) g) g`, `x ← x - r g / (√z + e)`.

use crate::order::AverageWeights;
use crate::{Float, SquareOrder, StepOrder};
use serde::{Deserialize, Serialize};

/// `RMSProp`: gradient descent with steps divided by the root mean square of recent gradients.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RmsProp {
    /// Learning rate of all elements.
    pub learning_rate: f64,
    /// Decay `k` of the moving average.
    pub decay: f64,
    /// Added to the root.
    pub epsilon: f64,
    /// Order of operations of the step.
    pub order: StepOrder,
}

impl RmsProp {
    /// Creates the rule with this learning rate and decay, and epsilon 1e-8.
    #[must_use]
    pub const fn new(learning_rate: f64, decay: f64) -> Self {
        Self { learning_rate, decay, epsilon: 1e-8, order: StepOrder::DivideRate }
    }

    /// Advances the average of squares and returns the step, to be subtracted from the value.
    #[inline]
    pub fn step<W: Float>(self, gradient: W, square: &mut W) -> W {
        let weights = AverageWeights::<W>::new(self.decay);
        *square = weights.old * *square + SquareOrder::WeightFirst.term(weights.new, gradient);
        let divisor = square.sqrt() + W::from_f64(self.epsilon);
        self.order.step(W::from_f64(self.learning_rate), gradient, divisor)
    }

    /// Updates values with a gradient of the same length.
    #[inline]
    pub fn update<W: Float>(self, values: &mut [W], gradient: &[W], squares: &mut [W]) {
        for ((value, gradient), square) in values.iter_mut().zip(gradient).zip(squares) {
            *value = *value - self.step(*gradient, square);
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
        let rule = RmsProp::new(0.1, 0.9);
        let (mut values, mut squares) = ([1.0_f64, -1.0], [0.0; 2]);
        let (mut x, mut z) = ([1.0_f64, -1.0], [0.0_f64; 2]);
        for step in 1..50 {
            let gradient = [wave(step, 0), wave(step, 1)];
            rule.update(&mut values, &gradient, &mut squares);
            for k in 0..2 {
                z[k] = 0.9 * z[k] + 0.1 * gradient[k].powi(2);
                x[k] -= 0.1 * gradient[k] / (z[k].sqrt() + 1e-8);
            }
            assert!(values.iter().zip(x).all(|(a, b)| (a - b).abs() < 1e-12), "{values:?} {x:?}");
        }
    }

    proptest! {
        #[test]
        fn updates_equal_the_formula_of_each_order_bit_for_bit(gradients in gradients(), product: bool) {
            // A decay in single precision with one order, and a decimal decay with the other.
            let (order, decay, new) = if product {
                (StepOrder::DivideProduct, f64::from(0.99_f32), 1.0 - 0.99_f32)
            } else {
                (StepOrder::DivideRate, 0.9, 0.1)
            };
            let rule = RmsProp { order, ..RmsProp::new(f64::from(0.03_f32), decay) };
            let (mut values, mut squares) = ([0.5_f32; 4], [0.0_f32; 4]);
            let (mut x, mut z) = (values, squares);
            for gradient in gradients {
                rule.update(&mut values, &gradient, &mut squares);
                for k in 0..4 {
                    let g = gradient[k];
                    z[k] = decay as f32 * z[k] + new * g * g;
                    x[k] -= if product { 0.03 * g / (z[k].sqrt() + 1e-8) } else { 0.03 / (z[k].sqrt() + 1e-8) * g };
                }
                prop_assert_eq!((values, squares), (x, z));
            }
        }
    }
}
