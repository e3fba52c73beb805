//! Optimizers of the staleness study; each worker has its own state. Their arithmetic is that of
//! `hemiola-optim`.

use hemiola_optim::{AdaGrad, Adam, BiasCorrection, Momentum, RmsProp, Sgd, SquareOrder};
use serde::{Deserialize, Serialize};

/// Update rule. Hyperparameters are the usual ones, and those of the study.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StudyOptimizer {
    /// Stochastic gradient descent without momentum.
    #[default]
    Sgd,
    /// SGD with momentum 0.9.
    Momentum,
    /// AdaGrad with the sum of squared gradients.
    Adagrad,
    /// `RMSProp` with a decay of 0.9.
    Rmsprop,
    /// Adam with decays of 0.9 and 0.999, bias-corrected.
    Adam,
}

impl StudyOptimizer {
    /// All optimizers, in the order of the command line.
    pub const ALL: [Self; 5] = [Self::Sgd, Self::Momentum, Self::Adagrad, Self::Rmsprop, Self::Adam];

    /// Returns the name on the command line.
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

/// Added to divisors for numerical stability.
const EPSILON: f64 = 1e-8;
/// Decays of Adam's averages.
const BETAS: [f32; 2] = [0.9, 0.999];

/// Optimizer state of one worker.
#[derive(Clone, Debug)]
pub(super) struct StudyOptimizerState {
    optimizer: StudyOptimizer,
    first: Vec<f32>,
    second: Vec<f32>,
    steps: i32,
}

impl StudyOptimizerState {
    pub(super) fn new(optimizer: StudyOptimizer, size: usize) -> Self {
        let (first, second) = match optimizer {
            StudyOptimizer::Sgd => (0, 0),
            StudyOptimizer::Momentum => (size, 0),
            StudyOptimizer::Adagrad | StudyOptimizer::Rmsprop => (0, size),
            StudyOptimizer::Adam => (size, size),
        };
        Self { optimizer, first: vec![0.0; first], second: vec![0.0; second], steps: 0 }
    }

    /// Replaces a gradient by the update of the model.
    pub(super) fn step(&mut self, gradient: &mut [f32], learning_rate: f32) {
        self.steps += 1;
        let rate = f64::from(learning_rate);
        match self.optimizer {
            StudyOptimizer::Sgd => gradient.iter_mut().for_each(|slope| *slope = -Sgd::new(rate).step(*slope)),
            StudyOptimizer::Momentum => {
                let rule = Momentum::new(rate, 0.9);
                for (slope, velocity) in gradient.iter_mut().zip(&mut self.first) {
                    *slope = -rule.step(*slope, velocity);
                }
            }
            StudyOptimizer::Adagrad => {
                let rule = AdaGrad { epsilon: EPSILON, initial_sum: 0.0, ..AdaGrad::new(rate) };
                for (slope, sum) in gradient.iter_mut().zip(&mut self.second) {
                    *slope = -rule.step(*slope, sum);
                }
            }
            StudyOptimizer::Rmsprop => {
                let rule = RmsProp { epsilon: EPSILON, ..RmsProp::new(rate, 0.9) };
                for (slope, square) in gradient.iter_mut().zip(&mut self.second) {
                    *slope = -rule.step(*slope, square);
                }
            }
            StudyOptimizer::Adam => {
                let rule = Adam { epsilon: EPSILON, square_order: SquareOrder::WeightFirst, ..Adam::new(rate) };
                let [first, second] = BETAS.map(|beta| beta.powi(self.steps));
                let correction = BiasCorrection::from_powers(first, second);
                for ((slope, first), second) in gradient.iter_mut().zip(&mut self.first).zip(&mut self.second) {
                    *slope = -rule.step(*slope, (first, second), correction);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(optimizer: StudyOptimizer, gradients: &[f32]) -> Vec<f32> {
        let mut state = StudyOptimizerState::new(optimizer, 1);
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
    fn first_updates_match_the_formulas() {
        let near = |found: &[f32], expected: &[f32]| {
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{found:?} {expected:?}");
        };
        near(&steps(StudyOptimizer::Sgd, &[2.0, 2.0]), &[-0.2, -0.2]);
        near(&steps(StudyOptimizer::Momentum, &[2.0, 2.0]), &[-0.2, -0.38]);
        near(&steps(StudyOptimizer::Adagrad, &[2.0, 2.0]), &[-0.1, -0.1 / 2.0_f32.sqrt()]);
        near(&steps(StudyOptimizer::Rmsprop, &[2.0]), &[-0.1 / 0.1_f32.sqrt()]);
        // The first updates of Adam are as large as the learning rate, whatever the gradient.
        near(&steps(StudyOptimizer::Adam, &[2.0, 2.0]), &[-0.1, -0.1]);
    }
}
