//! Synthetic model for tests of training: variables of any kind, with gradients that depend on the
//! current values.
//!
//! **Invariant:** a gradient is a function of seed, peer, step and values, and its factors or rows
//! are those of its dense form. Numbers are such that sums depend on the order of addition, so a
//! wrong order, a wrong version of the values or a lost update changes the result.

use crate::actors::sync::{BatchTotals, SimulatedModel};
use hemiola_core::Rank;
use hemiola_core::rng::{SplitMix64, mix64};
use hemiola_optim::Momentum;
use hemiola_strategy::{GradientKind, ModelSpec, VariableSpec};
use hemiola_sync_proto::row_key::key_of;
use hemiola_sync_proto::{GradientPayload, UpdateKernel, VariableId};

/// Maximum number of examples of a peer in a step.
pub const MAX_EXAMPLES: u64 = 3;
/// Learning rate of all steps.
const LEARNING_RATE: f64 = 0.1;

/// Model of one peer.
#[derive(Clone, Debug)]
pub struct SyntheticModel {
    seed: u64,
    peer: Rank,
    spec: ModelSpec,
    /// Examples of the current step.
    examples: u64,
}

impl SyntheticModel {
    /// Creates the model of a peer. The gradients of variables have the kinds of `spec`.
    #[must_use]
    pub fn new(seed: u64, peer: Rank, spec: ModelSpec) -> Self {
        Self { seed, peer, spec, examples: 0 }
    }

    /// Returns initial values for a model, by variable.
    #[must_use]
    pub fn initial_values(seed: u64, spec: &ModelSpec) -> Vec<Vec<f32>> {
        let mut random = SplitMix64::new(mix64(seed));
        let numbers = |elements: u64| (0..elements).map(|_| random.symmetric() as f32).collect();
        spec.variables.iter().map(VariableSpec::elements).map(numbers).collect()
    }

    /// Random numbers of one purpose, the same whenever they are needed.
    fn random(&self, step: u64, purpose: u64) -> SplitMix64 {
        let peer = mix64(self.peer.index() as u64 + 1);
        SplitMix64::new(mix64(self.seed ^ peer ^ mix64(step << 32 | purpose)))
    }

    /// Inputs and output gradients of each example of a linear layer.
    fn factors(&self, random: &mut SplitMix64, (rows, width): (usize, usize), weights: &[f32]) -> Vec<f32> {
        let mut pairs = Vec::new();
        for _ in 0..self.examples {
            let input: Vec<f32> = (0..rows).map(|_| random.symmetric() as f32).collect();
            let error = |column: usize| {
                let products = input.iter().enumerate().map(|(row, input)| input * weights[row * width + column]);
                products.sum::<f32>() - random.symmetric() as f32
            };
            let errors: Vec<f32> = (0..width).map(error).collect();
            pairs.extend(input);
            pairs.extend(errors);
        }
        pairs
    }

    /// Touched rows of an embedding and their gradients, one for each example.
    fn rows(&self, random: &mut SplitMix64, (rows, width): (usize, usize), values: &[f32]) -> Vec<(usize, Vec<f32>)> {
        let touch = |_| {
            let row = random.below(rows);
            let own = &values[row * width..(row + 1) * width];
            (row, own.iter().map(|value| 0.5 * value + random.symmetric() as f32).collect())
        };
        (0..self.examples).map(touch).collect()
    }
}

impl SimulatedModel for SyntheticModel {
    fn forward(&mut self, step: u64, values: &[Vec<f32>]) -> BatchTotals {
        let drawn = self.random(step, 0).below(MAX_EXAMPLES as usize + 1) as u64;
        // Some peers have no examples in some steps; the first always has one.
        self.examples = if self.peer == Rank::ROOT { drawn.max(1) } else { drawn };
        let loss = values.iter().flatten().map(|value| f64::from(*value).powi(2)).sum();
        BatchTotals { examples: self.examples, loss, rate: LEARNING_RATE }
    }

    fn gradient(&mut self, step: u64, variable: VariableId, structured: bool, values: &[Vec<f32>]) -> GradientPayload {
        if self.examples == 0 {
            return GradientPayload::Absent;
        }
        let (spec, values) = (&self.spec.variables[variable], &values[variable]);
        let random = &mut self.random(step, 1 + variable.index() as u64);
        let (rows, width) = spec.matrix();
        match spec.gradient {
            GradientKind::Product { .. } => {
                let pairs = self.factors(random, (rows, width), values);
                if structured {
                    GradientPayload::Structured(pairs)
                } else {
                    GradientPayload::Dense(MomentumKernel.multiply_factors(pairs, (rows, width)))
                }
            }
            GradientKind::Rows { .. } => {
                let touched = self.rows(random, (rows, width), values);
                if structured {
                    let keyed = touched.into_iter().flat_map(|(row, numbers)| key_of(row).into_iter().chain(numbers));
                    return GradientPayload::Structured(keyed.collect());
                }
                let mut dense = vec![0.0; rows * width];
                for (row, numbers) in touched {
                    let own = &mut dense[row * width..(row + 1) * width];
                    own.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
                }
                GradientPayload::Dense(dense)
            }
            _ => {
                let share = self.examples as f32;
                let number = |value: &f32| share * (0.5 * value + random.symmetric() as f32);
                GradientPayload::Dense(values.iter().map(number).collect())
            }
        }
    }
}

/// Gradient descent with momentum; the state is the velocity of each element.
#[derive(Clone, Copy, Debug)]
pub struct MomentumKernel;

impl MomentumKernel {
    const MOMENTUM: f64 = 0.5;
}

impl UpdateKernel for MomentumKernel {
    type State = Vec<f32>;

    fn update(&self, rate: f64, values: &mut [f32], gradient: &mut [f32], scale: f32, velocities: &mut Vec<f32>) {
        velocities.resize(values.len(), 0.0);
        for number in gradient.iter_mut() {
            *number *= scale;
        }
        Momentum::new(rate, Self::MOMENTUM).update(values, gradient, velocities);
    }

    fn update_rows(
        &self,
        rate: f64,
        values: &mut [f32],
        (rows, gradients, width): (&[usize], &mut [f32], usize),
        scale: f32,
        velocities: &mut Vec<f32>,
    ) {
        velocities.resize(values.len(), 0.0);
        for number in gradients.iter_mut() {
            *number *= scale;
        }
        for (row, gradient) in rows.iter().zip(gradients.chunks(width)) {
            let own = row * width..(row + 1) * width;
            let (values, velocities) = (&mut values[own.clone()], &mut velocities[own]);
            Momentum::new(rate, Self::MOMENTUM).update(values, gradient, velocities);
        }
    }

    fn can_update_rows(&self) -> bool {
        true
    }

    fn multiply_factors(&self, pairs: Vec<f32>, (rows, width): (usize, usize)) -> Vec<f32> {
        let mut product = vec![0.0; rows * width];
        for pair in pairs.chunks(rows + width) {
            for (index, element) in product.iter_mut().enumerate() {
                *element += pair[index / width] * pair[rows + index % width];
            }
        }
        product
    }
}
