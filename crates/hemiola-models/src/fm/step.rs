//! A step: gradients of a mini-batch, summed by feature, and AdaGrad.
//!
//! Each worker has a range of features, and goes over all examples of the batch for them.
//! **Invariant:** gradients of a feature are added in the order of the batch and the feature is then
//! updated once, so the result does not depend on the number of workers.
//!
//! **Learning rates.** Every feature has two sums of squared gradients, one for its weight and one
//! for its factors (their mean), as AdaGrad has one per coordinate (Duchi, Hazan, Singer 2011). The
//! learning rate is divided by the square root of the sum.

use super::batch::{ScoredExample, ScoredExamples};
use super::parameters::{FeatureState, FmParameters, LANES, add_squares, total};
use super::settings::FmSettings;
use pulp::{Simd, WithSimd};

/// No slot: the feature does not occur in the batch.
const NO_SLOT: u32 = u32::MAX;

/// Learning rate and regularization of a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepRule {
    learning_rate: f32,
    l2_linear: f32,
    l2_factors: f32,
    /// Reciprocal of the rank.
    mean: f32,
}

impl StepRule {
    pub(super) fn new(settings: &FmSettings, learning_rate: f32) -> Self {
        let mean = 1.0 / settings.rank.max(1) as f32;
        Self { learning_rate, l2_linear: settings.l2_linear, l2_factors: settings.l2_factors, mean }
    }
}

/// Summed gradients of a feature, besides the sum over `Σ x v`.
#[derive(Clone, Copy, Debug, Default)]
struct FeatureGradient {
    /// Feature, counted from the first of the worker.
    feature: u32,
    /// Number of examples with the feature.
    count: f32,
    /// `Σ slope · x`.
    linear: f32,
    /// `Σ slope · x²`.
    square: f32,
}

/// Summed gradients of the features that occur in a batch.
#[derive(Debug)]
pub(super) struct BatchGradients {
    /// Slot of each feature of the worker.
    slots: Vec<u32>,
    features: Vec<FeatureGradient>,
    /// `Σ slope · x · (Σ x v)` by slot.
    sums: Vec<f32>,
}

impl BatchGradients {
    pub(super) fn new(features: usize) -> Self {
        Self { slots: vec![NO_SLOT; features], features: Vec::new(), sums: Vec::new() }
    }

    #[inline(always)]
    fn add(&mut self, feature: usize, value: f32, example: &ScoredExample<'_>) {
        let width = example.sums.len();
        let mut slot = self.slots[feature] as usize;
        if slot == NO_SLOT as usize {
            slot = self.features.len();
            self.slots[feature] = slot as u32;
            self.features.push(FeatureGradient { feature: feature as u32, ..FeatureGradient::default() });
            self.sums.extend(example.sums.iter().map(|_| 0.0));
        }
        let scaled = example.slope * value;
        let gradient = &mut self.features[slot];
        gradient.count += 1.0;
        gradient.linear += scaled;
        gradient.square += scaled * value;
        let sums = self.sums[slot * width..][..width].as_chunks_mut::<LANES>().0;
        let (pairs, last) = sums.as_chunks_mut::<2>();
        let (of_pairs, of_last) = example.sums.as_chunks::<LANES>().0.as_chunks::<2>();
        for (sums, of_example) in pairs.iter_mut().zip(of_pairs) {
            add_scaled(sums, of_example, scaled);
        }
        if let ([sums], [of_example]) = (last, of_last) {
            add_scaled(std::array::from_mut(sums), std::array::from_ref(of_example), scaled);
        }
    }
}

/// Adds a multiple of some chunks.
#[inline(always)]
fn add_scaled<const N: usize>(sums: &mut [[f32; LANES]; N], chunks: &[[f32; LANES]; N], factor: f32) {
    // Copies, which overlap with nothing, are computed in registers.
    let (mut found, chunks) = (*sums, *chunks);
    for (sums, chunk) in found.iter_mut().zip(&chunks) {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum += factor * value;
        }
    }
    *sums = found;
}

/// Features of a worker, to be updated.
pub(super) struct FeatureShare<'a> {
    /// Index of the first feature of the worker.
    first: usize,
    factors: &'a mut [f32],
    states: &'a mut [FeatureState],
    gradients: &'a mut BatchGradients,
}

/// Step of a worker, with the widest registers of the machine. A closure would be compiled without
/// them.
pub(super) struct StepKernel<'a, 'b> {
    pub(super) share: &'a mut FeatureShare<'b>,
    pub(super) parts: &'a [ScoredExamples],
    /// Part and index of each example of the batch.
    pub(super) order: &'a [(u32, u32)],
    pub(super) width: usize,
    pub(super) rule: StepRule,
}

impl WithSimd for StepKernel<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let Self { share, parts, order, width, rule } = self;
        share.step(parts, order, width, rule);
    }
}

impl<'a> FeatureShare<'a> {
    /// Splits the parameters by worker. `bounds` are the first features of workers, and the end.
    pub(super) fn split(
        parameters: &'a mut FmParameters,
        bounds: &[usize],
        gradients: &'a mut [BatchGradients],
    ) -> Vec<Self> {
        let width = parameters.width;
        let (mut factors, mut states) = (&mut parameters.factors[..], &mut parameters.states[..]);
        let mut shares = Vec::with_capacity(gradients.len());
        for (bounds, gradients) in bounds.windows(2).zip(gradients) {
            let length = bounds[1] - bounds[0];
            let (own, rest) = factors.split_at_mut(length * width);
            factors = rest;
            let (own_states, rest) = states.split_at_mut(length);
            states = rest;
            shares.push(Self { first: bounds[0], factors: own, states: own_states, gradients });
        }
        shares
    }

    /// Takes the step of the batch for these features.
    #[inline(always)]
    pub(super) fn step(&mut self, parts: &[ScoredExamples], order: &[(u32, u32)], width: usize, rule: StepRule) {
        for (part, index) in order {
            let example = parts[*part as usize].example(*index as usize, width);
            for (column, value) in example.columns.iter().zip(example.values) {
                let feature = (*column as usize).wrapping_sub(self.first);
                if feature < self.states.len() {
                    self.gradients.add(feature, *value, &example);
                }
            }
        }
        let Self { factors, states, gradients: BatchGradients { slots, features, sums }, .. } = self;
        for (slot, gradient) in features.iter().enumerate() {
            let feature = gradient.feature as usize;
            slots[feature] = NO_SLOT;
            let factors = &mut factors[feature * width..][..width];
            update(&mut states[feature], factors, gradient, &mut sums[slot * width..][..width], rule);
        }
        features.clear();
        sums.clear();
    }
}

/// Updates a feature by its summed gradients. `sums` is overwritten.
#[inline(always)]
fn update(state: &mut FeatureState, factors: &mut [f32], gradient: &FeatureGradient, sums: &mut [f32], rule: StepRule) {
    let step = gradient.linear - gradient.count * rule.l2_linear * state.weight;
    state.weight_sum += step * step;
    state.weight += rule.learning_rate / state.weight_sum.sqrt() * step;
    let own = gradient.square + gradient.count * rule.l2_factors;
    let (sums, factors) = (sums.as_chunks_mut::<LANES>().0, factors.as_chunks_mut::<LANES>().0);
    let mut squares = [0.0; LANES];
    for (sums, factors) in sums.iter_mut().zip(&*factors) {
        add_scaled(std::array::from_mut(sums), std::array::from_ref(factors), -own);
        add_squares(&mut squares, sums);
    }
    state.factor_sum += total(squares) * rule.mean;
    let rate = rule.learning_rate / state.factor_sum.sqrt();
    squares = [0.0; LANES];
    for (factors, sums) in factors.iter_mut().zip(&*sums) {
        add_scaled(std::array::from_mut(factors), std::array::from_ref(sums), rate);
        add_squares(&mut squares, factors);
    }
    state.norm = total(squares);
}
