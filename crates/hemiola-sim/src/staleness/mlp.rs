//! Multilayer perceptron with `ReLU` units for classification; without hidden layers, multinomial
//! logistic regression.

use super::learner::{LearnerSettings, ModelUpdate, StudyLearner};
use super::optimizer::StudyOptimizerState;
use crate::sampling;
use hemiola_core::rng::SplitMix64;

const INPUTS: usize = 12;
const CLASSES: usize = 6;
const WIDTH: usize = 24;
const BATCH: usize = 32;
const TRAINING: usize = 2000;
const TEST: usize = 600;

type Example = ([f32; INPUTS], usize);

pub(super) struct MlpLearner {
    /// Sizes of all layers, including inputs and classes.
    widths: Vec<usize>,
    training: Vec<Example>,
    test: Vec<Example>,
    initial: Vec<f32>,
    workers: Vec<(StudyOptimizerState, SplitMix64)>,
    learning_rate: f32,
}

/// Draws examples around a centre for each class. Features have different scales, so directions are
/// learned at different speeds.
fn examples(count: usize, centres: &[[f64; INPUTS]], random: &mut SplitMix64) -> Vec<Example> {
    let example = |_| {
        let class = random.below(CLASSES);
        let mut input = [0.0; INPUTS];
        for (at, value) in input.iter_mut().enumerate() {
            let scale = 0.3 + 1.4 * at as f64 / INPUTS as f64;
            *value = (scale * (centres[class][at] + sampling::normal(random))) as f32;
        }
        (input, class)
    };
    (0..count).map(example).collect()
}

impl MlpLearner {
    pub(super) fn new(settings: &LearnerSettings, depth: usize) -> Self {
        let random = &mut sampling::generator(settings.seed, 11);
        let centre = |_| std::array::from_fn(|_| 0.9 * sampling::normal(random));
        let centres: Vec<[f64; INPUTS]> = (0..CLASSES).map(centre).collect();
        let random = &mut sampling::generator(settings.seed, 12);
        let (training, test) = (examples(TRAINING, &centres, random), examples(TEST, &centres, random));
        let mut widths = vec![INPUTS];
        widths.extend(std::iter::repeat_n(WIDTH, depth));
        widths.push(CLASSES);
        let mut initial = Vec::new();
        for pair in widths.windows(2) {
            let scale = 0.5 * (2.0 / pair[0] as f64).sqrt();
            initial.extend((0..pair[0] * pair[1]).map(|_| (scale * sampling::normal(random)) as f32));
            initial.extend(std::iter::repeat_n(0.0, pair[1]));
        }
        let worker = |number: usize| {
            (
                StudyOptimizerState::new(settings.optimizer, initial.len()),
                sampling::generator(settings.seed, 200 + number as u64),
            )
        };
        let workers = (0..settings.workers).map(worker).collect();
        Self { widths, training, test, initial, workers, learning_rate: settings.learning_rate }
    }

    /// Returns the activations of all layers, the input first.
    fn forward(&self, copy: &[f32], input: &[f32; INPUTS]) -> Vec<Vec<f32>> {
        let mut layers = vec![input.to_vec()];
        let mut at = 0;
        for (layer, pair) in self.widths.windows(2).enumerate() {
            let (inputs, outputs) = (pair[0], pair[1]);
            let (weights, rest) = copy[at..].split_at(inputs * outputs);
            let mut next = rest[..outputs].to_vec();
            let before = &layers[layer];
            for (output, value) in next.iter_mut().enumerate() {
                let row = &weights[output * inputs..(output + 1) * inputs];
                *value += row.iter().zip(before).map(|(a, b)| a * b).sum::<f32>();
            }
            if layer + 2 < self.widths.len() {
                for value in &mut next {
                    *value = value.max(0.0);
                }
            }
            at += inputs * outputs + outputs;
            layers.push(next);
        }
        layers
    }

    /// Adds the gradient of one example's cross-entropy.
    fn backward(&self, copy: &[f32], (input, class): &Example, gradient: &mut [f32]) {
        let layers = self.forward(copy, input);
        let last = &layers[layers.len() - 1];
        let top = last.iter().copied().fold(f32::MIN, f32::max);
        let powers: Vec<f32> = last.iter().map(|value| libm::expf(value - top)).collect();
        let sum: f32 = powers.iter().sum();
        let mut slope: Vec<f32> = powers.iter().map(|power| power / sum).collect();
        slope[*class] -= 1.0;
        let mut end = copy.len();
        for layer in (0..self.widths.len() - 1).rev() {
            let (inputs, outputs) = (self.widths[layer], self.widths[layer + 1]);
            let start = end - outputs - inputs * outputs;
            let before = &layers[layer];
            let mut below = vec![0.0; inputs];
            for (output, slope) in slope.iter().enumerate() {
                let row = start + output * inputs..start + (output + 1) * inputs;
                for ((g, value), (weight, down)) in
                    gradient[row.clone()].iter_mut().zip(before).zip(copy[row].iter().zip(&mut below))
                {
                    *g += slope * value;
                    *down += slope * weight;
                }
                gradient[end - outputs + output] += slope;
            }
            // Inactive units pass no gradient.
            below.iter_mut().zip(before).for_each(|(slope, value)| *slope = if *value > 0.0 { *slope } else { 0.0 });
            slope = below;
            end = start;
        }
    }
}

impl StudyLearner for MlpLearner {
    fn initial(&self) -> Vec<f32> {
        self.initial.clone()
    }

    fn update(&mut self, worker: usize, copy: &[f32]) -> ModelUpdate {
        let mut gradient = vec![0.0; copy.len()];
        for _ in 0..BATCH {
            let example = self.training[self.workers[worker].1.below(TRAINING)];
            self.backward(copy, &example, &mut gradient);
        }
        for slope in &mut gradient {
            *slope /= BATCH as f32;
        }
        self.workers[worker].0.step(&mut gradient, self.learning_rate);
        ModelUpdate::Dense(gradient)
    }

    fn evaluate(&self, copy: &[f32]) -> f64 {
        let right = |(input, class): &&Example| {
            let layers = self.forward(copy, input);
            let last = &layers[layers.len() - 1];
            let best = (0..CLASSES).max_by(|a, b| last[*a].total_cmp(&last[*b]));
            best == Some(*class) && last.iter().all(|value| value.is_finite())
        };
        self.test.iter().filter(right).count() as f64 / TEST as f64
    }
}

#[cfg(test)]
mod tests {
    use super::super::optimizer::StudyOptimizer;
    use super::*;

    #[test]
    fn gradients_match_finite_differences() {
        for depth in 0..=3 {
            let settings = LearnerSettings { seed: 3, workers: 1, optimizer: StudyOptimizer::Sgd, learning_rate: 0.1 };
            let network = MlpLearner::new(&settings, depth);
            let mut copy = network.initial();
            copy.iter_mut().enumerate().for_each(|(at, value)| *value += 0.01 * (at % 7) as f32);
            let example = network.training[5];
            let loss = |copy: &[f32]| {
                let layers = network.forward(copy, &example.0);
                let last = &layers[layers.len() - 1];
                let sum: f64 = last.iter().map(|value| f64::from(*value).exp()).sum();
                sum.ln() - f64::from(last[example.1])
            };
            let mut gradient = vec![0.0; copy.len()];
            network.backward(&copy, &example, &mut gradient);
            for at in (0..copy.len()).step_by(13) {
                let (mut up, mut down) = (copy.clone(), copy.clone());
                up[at] += 1e-2;
                down[at] -= 1e-2;
                let numeric = (loss(&up) - loss(&down)) / 2e-2;
                assert!(
                    (numeric - f64::from(gradient[at])).abs() < 2e-2,
                    "depth {depth}, {at}: {numeric} {}",
                    gradient[at]
                );
            }
        }
    }
}
