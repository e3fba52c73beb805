//! `Adam` (Kingma and Ba 2015): steps along the bias-corrected moving average of gradients, divided
//! by the root of that of their squares.
//!
//! State: the averages `m` and `v`, 0 at first, and the number `t` of the step, counted from 1.
//! `m ← k₁ m + (1 - k₁) g`, `v ← k₂ v + (1 - k₂) g²`. The averages start at zero, which the
//! divisors `1 - k₁ᵗ` and `1 - k₂ᵗ` of [`BiasCorrection`] correct.

use crate::order::AverageWeights;
use crate::{Float, SquareOrder};
use serde::{Deserialize, Serialize};

/// `Adam`: gradient descent along averaged gradients, with a learning rate for each element.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Adam {
    /// Learning rate of all elements.
    pub learning_rate: f64,
    /// Decay `k₁` of the average of gradients.
    pub beta1: f64,
    /// Decay `k₂` of the average of squares.
    pub beta2: f64,
    /// Added to the corrected root.
    pub epsilon: f64,
    /// Order of operations of the average of squares.
    pub square_order: SquareOrder,
    /// Form of the step.
    pub form: AdamForm,
}

/// Form in which `Adam` applies the bias correction, with the divisors `c₁` and `c₂`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AdamForm {
    /// `(r (m / c₁)) / (√(v / c₂) + e)`: Algorithm 1 of the paper.
    #[default]
    Textbook,
    /// `((r / c₁) m) / (√v (1 / √c₂) + e)`: the corrections become factors of the whole step, which
    /// saves two divisions per element.
    Folded,
}

/// Divisors that correct the bias of Adam's averages at a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BiasCorrection {
    first: f64,
    second: f64,
}

impl BiasCorrection {
    /// Divisors from the powers `k₁ᵗ` and `k₂ᵗ`, rounded in their type. The caller keeps a running
    /// product of the decays, or raises them to a power.
    #[inline]
    #[must_use]
    pub fn from_powers<W: Float>(first: W, second: W) -> Self {
        let complement = |power: W| (W::from_f64(1.0) - power).to_f64();
        Self { first: complement(first), second: complement(second) }
    }
}

impl Adam {
    /// Creates the rule with this learning rate, betas of 0.9 and 0.999, and epsilon 1e-8.
    #[must_use]
    pub const fn new(learning_rate: f64) -> Self {
        Self {
            learning_rate,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            square_order: SquareOrder::SquareFirst,
            form: AdamForm::Textbook,
        }
    }

    /// Sets the decay rates of the two moving averages.
    #[must_use]
    pub const fn betas(mut self, beta1: f64, beta2: f64) -> Self {
        (self.beta1, self.beta2) = (beta1, beta2);
        self
    }

    /// Divisors at step `t`, counted from 1, computed in `f64`.
    #[must_use]
    pub fn bias_correction(self, t: u64) -> BiasCorrection {
        let t = i32::try_from(t).unwrap_or(i32::MAX);
        BiasCorrection::from_powers(self.beta1.powi(t), self.beta2.powi(t))
    }

    /// Advances both averages and returns the step, to be subtracted from the value.
    #[inline]
    pub fn step<W: Float>(self, gradient: W, (m, v): (&mut W, &mut W), correction: BiasCorrection) -> W {
        let (rate, epsilon) = (W::from_f64(self.learning_rate), W::from_f64(self.epsilon));
        let weights = AverageWeights::<W>::new(self.beta1);
        *m = weights.old * *m + weights.new * gradient;
        let weights = AverageWeights::<W>::new(self.beta2);
        *v = weights.old * *v + self.square_order.term(weights.new, gradient);
        let BiasCorrection { first, second } = correction;
        match self.form {
            AdamForm::Textbook => rate * (*m / W::from_f64(first)) / ((*v / W::from_f64(second)).sqrt() + epsilon),
            AdamForm::Folded => {
                let (rate, root) = (rate / W::from_f64(first), W::from_f64(1.0 / second.sqrt()));
                rate * *m / (v.sqrt() * root + epsilon)
            }
        }
    }

    /// Updates values with a gradient of the same length.
    #[inline]
    pub fn update<W: Float>(
        self,
        values: &mut [W],
        gradient: &[W],
        (m, v): (&mut [W], &mut [W]),
        correction: BiasCorrection,
    ) {
        for (((value, gradient), m), v) in values.iter_mut().zip(gradient).zip(m).zip(v) {
            *value = *value - self.step(*gradient, (m, v), correction);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_data::{gradients, wave};
    use proptest::prelude::*;

    #[test]
    fn both_forms_in_double_precision_match_the_textbook() {
        for form in [AdamForm::Textbook, AdamForm::Folded] {
            let rule = Adam { form, ..Adam::new(0.01) };
            let (mut value, mut means, mut squares) = ([2.0_f64], [0.0], [0.0]);
            let (mut x, mut mean, mut square) = (2.0_f64, 0.0_f64, 0.0_f64);
            for t in 1..200_i32 {
                let g = wave(t as u32, 0);
                rule.update(&mut value, &[g], (&mut means, &mut squares), rule.bias_correction(t as u64));
                mean = 0.9 * mean + 0.1 * g;
                square = 0.999 * square + 0.001 * g * g;
                let power = |beta: f64| 1.0 - beta.powi(t);
                x -= 0.01 * (mean / power(0.9)) / ((square / power(0.999)).sqrt() + 1e-8);
                assert!((value[0] - x).abs() < 1e-9, "{form:?}, {t}: {} {x}", value[0]);
            }
        }
    }

    #[test]
    fn first_steps_have_the_size_of_the_learning_rate() {
        for gradient in [1e-3_f64, -5.0, 1e4] {
            let rule = Adam::new(0.1);
            let step = rule.step(gradient, (&mut 0.0, &mut 0.0), rule.bias_correction(1));
            assert!((step - 0.1 * gradient.signum()).abs() < 1e-5, "{step}");
        }
    }

    proptest! {
        /// As server-side rules do it: the powers of the decays are running products.
        #[test]
        fn the_textbook_form_equals_its_formula_bit_for_bit(gradients in gradients(), weight_first: bool) {
            let square_order = if weight_first { SquareOrder::WeightFirst } else { SquareOrder::SquareFirst };
            let rule = Adam { square_order, ..Adam::new(f64::from(0.03_f32)) };
            let (mut values, mut means, mut squares) = ([0.5_f32; 4], [0.0_f32; 4], [0.0_f32; 4]);
            let (mut x, mut mean, mut square, mut powers) = (values, means, squares, [1.0_f32; 2]);
            for gradient in gradients {
                powers = [powers[0] * 0.9, powers[1] * 0.999];
                rule.update(
                    &mut values, &gradient, (&mut means, &mut squares), BiasCorrection::from_powers(powers[0], powers[1]),
                );
                let (c1, c2) = (1.0 - powers[0], 1.0 - powers[1]);
                for k in 0..4 {
                    let g = gradient[k];
                    mean[k] = 0.9 * mean[k] + 0.1 * g;
                    square[k] = 0.999 * square[k] + if weight_first { 0.001 * g * g } else { 0.001 * (g * g) };
                    x[k] -= 0.03 * (mean[k] / c1) / ((square[k] / c2).sqrt() + 1e-8);
                }
                prop_assert_eq!((values, means, squares), (x, mean, square));
            }
        }

        /// As trainers do it: decays in single precision, corrections in double precision.
        #[test]
        fn the_folded_form_equals_its_formula_bit_for_bit(gradients in gradients()) {
            let betas = [0.9_f32, 0.999];
            let rule = Adam {
                square_order: SquareOrder::WeightFirst,
                form: AdamForm::Folded,
                ..Adam::new(f64::from(0.03_f32)).betas(betas[0].into(), betas[1].into())
            };
            let (mut values, mut means, mut squares) = ([0.5_f32; 4], [0.0_f32; 4], [0.0_f32; 4]);
            let (mut x, mut mean, mut square) = (values, means, squares);
            for (t, gradient) in (1_i32..).zip(gradients) {
                rule.update(&mut values, &gradient, (&mut means, &mut squares), rule.bias_correction(t as u64));
                let corrections = betas.map(|beta| 1.0 - f64::from(beta).powi(t));
                let (rate, root) = (0.03 / corrections[0] as f32, (1.0 / corrections[1].sqrt()) as f32);
                for k in 0..4 {
                    let g = gradient[k];
                    mean[k] = betas[0] * mean[k] + (1.0 - betas[0]) * g;
                    square[k] = betas[1] * square[k] + (1.0 - betas[1]) * g * g;
                    x[k] -= rate * mean[k] / (square[k].sqrt() * root + 1e-8);
                }
                prop_assert_eq!((values, means, squares), (x, mean, square));
            }
        }
    }
}
