//! What a gradient becomes: an update, and state that each worker keeps for itself.

use serde::{Deserialize, Serialize};

/// How a step is made of a gradient. The numbers are the usual ones, and those of the study.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Optimizer {
    /// The gradient times the rate.
    #[default]
    Sgd,
    /// A running sum of gradients, each counting 0.9 of the one after it.
    Momentum,
    /// Divided by the root of the sum of squares.
    Adagrad,
    /// Divided by the root of a running mean of squares (0.9).
    Rmsprop,
    /// A running mean (0.9) over the root of a running mean of squares (0.999), both without the bias of their beginning.
    Adam,
}

impl Optimizer {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Sgd, Self::Momentum, Self::Adagrad, Self::Rmsprop, Self::Adam];

    /// As it is typed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sgd => "sgd",
            Self::Momentum => "momentum",
            Self::Adagrad => "adagrad",
            Self::Rmsprop => "rmsprop",
            Self::Adam => "adam",
        }
    }
}

/// Keeps divisors from zero.
const SMALL: f32 = 1e-8;

/// What one worker keeps.
#[derive(Clone, Debug)]
pub(super) struct State {
    optimizer: Optimizer,
    first: Vec<f32>,
    second: Vec<f32>,
    steps: i32,
}

impl State {
    pub(super) fn new(optimizer: Optimizer, size: usize) -> Self {
        let (first, second) = match optimizer {
            Optimizer::Sgd => (0, 0),
            Optimizer::Momentum => (size, 0),
            Optimizer::Adagrad | Optimizer::Rmsprop => (0, size),
            Optimizer::Adam => (size, size),
        };
        Self { optimizer, first: vec![0.0; first], second: vec![0.0; second], steps: 0 }
    }

    /// Turns a gradient into what is added to the model.
    pub(super) fn step(&mut self, gradient: &mut [f32], rate: f32) {
        self.steps += 1;
        match self.optimizer {
            Optimizer::Sgd => gradient.iter_mut().for_each(|slope| *slope *= -rate),
            Optimizer::Momentum => {
                for (slope, first) in gradient.iter_mut().zip(&mut self.first) {
                    *first = 0.9 * *first + *slope;
                    *slope = -rate * *first;
                }
            }
            Optimizer::Adagrad => {
                for (slope, second) in gradient.iter_mut().zip(&mut self.second) {
                    *second += *slope * *slope;
                    *slope *= -rate / (second.sqrt() + SMALL);
                }
            }
            Optimizer::Rmsprop => {
                for (slope, second) in gradient.iter_mut().zip(&mut self.second) {
                    *second = 0.9 * *second + 0.1 * *slope * *slope;
                    *slope *= -rate / (second.sqrt() + SMALL);
                }
            }
            Optimizer::Adam => {
                let unbiased = |decay: f32| 1.0 - decay.powi(self.steps);
                let (mean, square) = (unbiased(0.9), unbiased(0.999));
                for ((slope, first), second) in gradient.iter_mut().zip(&mut self.first).zip(&mut self.second) {
                    *first = 0.9 * *first + 0.1 * *slope;
                    *second = 0.999 * *second + 0.001 * *slope * *slope;
                    *slope = -rate * (*first / mean) / ((*second / square).sqrt() + SMALL);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(optimizer: Optimizer, gradients: &[f32]) -> Vec<f32> {
        let mut state = State::new(optimizer, 1);
        gradients
            .iter()
            .map(|gradient| {
                let mut slope = [*gradient];
                state.step(&mut slope, 0.1);
                slope[0]
            })
            .collect()
    }

    #[test]
    fn the_first_steps_are_those_of_the_formulas() {
        let near = |found: &[f32], expected: &[f32]| {
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{found:?} {expected:?}");
        };
        near(&steps(Optimizer::Sgd, &[2.0, 2.0]), &[-0.2, -0.2]);
        near(&steps(Optimizer::Momentum, &[2.0, 2.0]), &[-0.2, -0.38]);
        near(&steps(Optimizer::Adagrad, &[2.0, 2.0]), &[-0.1, -0.1 / 2.0_f32.sqrt()]);
        near(&steps(Optimizer::Rmsprop, &[2.0]), &[-0.1 / 0.1_f32.sqrt()]);
        // Adam's first steps are as long as the rate, whatever the gradient.
        near(&steps(Optimizer::Adam, &[2.0, 2.0]), &[-0.1, -0.1]);
    }
}
