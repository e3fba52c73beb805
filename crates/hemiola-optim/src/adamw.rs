//! `AdamW` (Loshchilov and Hutter 2019): `Adam` with decoupled weight decay.
//!
//! The decay shrinks values directly instead of entering the gradient, where Adam would divide it
//! by the root of the squares: `x ← x - (r w) x`, then the update of [`Adam`].

use crate::{Adam, BiasCorrection, Float};
use serde::{Deserialize, Serialize};

/// `AdamW`: Adam with decoupled weight decay.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdamW {
    /// Rule of the gradients, and the learning rate.
    pub adam: Adam,
    /// Weight decay `w`, per unit of the learning rate.
    pub weight_decay: f64,
}

impl AdamW {
    /// Creates the rule with the settings of [`Adam::new`] and this weight decay.
    #[must_use]
    pub const fn new(learning_rate: f64, weight_decay: f64) -> Self {
        Self { adam: Adam::new(learning_rate), weight_decay }
    }

    /// Shrinks values by the weight decay of one step: the first half of
    /// [`update`](Self::update).
    #[inline]
    pub fn decay<W: Float>(self, values: &mut [W]) {
        let share = W::from_f64(self.adam.learning_rate) * W::from_f64(self.weight_decay);
        for value in values {
            *value = *value - share * *value;
        }
    }

    /// Updates values with a gradient of the same length.
    #[inline]
    pub fn update<W: Float>(
        self,
        values: &mut [W],
        gradient: &[W],
        moments: (&mut [W], &mut [W]),
        correction: BiasCorrection,
    ) {
        self.decay(values);
        self.adam.update(values, gradient, moments, correction);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_data::wave;

    #[test]
    fn values_match_the_textbook_in_double_precision() {
        let rule = AdamW::new(0.01, 0.1);
        let (mut value, mut means, mut squares) = ([2.0_f64], [0.0], [0.0]);
        let (mut x, mut mean, mut square) = (2.0_f64, 0.0_f64, 0.0_f64);
        for t in 1..100_i32 {
            let g = wave(t as u32, 0);
            rule.update(&mut value, &[g], (&mut means, &mut squares), rule.adam.bias_correction(t as u64));
            mean = 0.9 * mean + 0.1 * g;
            square = 0.999 * square + 0.001 * g * g;
            let power = |beta: f64| 1.0 - beta.powi(t);
            let step = (mean / power(0.9)) / ((square / power(0.999)).sqrt() + 1e-8);
            x -= 0.01 * (step + 0.1 * x);
            assert!((value[0] - x).abs() < 1e-9, "{t}: {} {x}", value[0]);
        }
    }

    #[test]
    fn decay_rounds_in_the_type_of_the_values() {
        let rule = AdamW::new(f64::from(0.03_f32), f64::from(0.01_f32));
        let mut values = [1.7_f32, -0.3, 1e-20, 4e8];
        let expected = values.map(|value| (value - 0.03_f32 * 0.01 * value).to_bits());
        rule.decay(&mut values);
        assert_eq!(values.map(f32::to_bits), expected);
    }

    #[test]
    fn values_without_gradient_decay_geometrically() {
        let rule = AdamW::new(0.5, 0.5);
        let (mut value, mut means, mut squares) = ([1.0_f64], [0.0], [0.0]);
        for t in 1..=4 {
            rule.update(&mut value, &[0.0], (&mut means, &mut squares), rule.adam.bias_correction(t));
        }
        assert_eq!(value[0].to_bits(), 0.75_f64.powi(4).to_bits());
    }
}
