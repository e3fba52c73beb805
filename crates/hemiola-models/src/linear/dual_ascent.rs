//! Dual coordinate ascent of a worker on its own copy of the model.
//!
//! When `workers` workers change the model concurrently and are averaged afterwards, each scales
//! its updates by `workers` and accounts for that in the curvature of its steps: its problem is the
//! whole one with every example in `workers` copies. The average of the copies is then the model
//! plus all updates (`γ = 1, σ' = K` of Ma et al. 2015).
//!
//! The first round of an epoch visits all examples. Examples whose dual variable is at a bound and
//! would leave it are *inactive* and skipped until the epoch ends, which saves most of the work for
//! hinge losses (shrinking as in liblinear, but without state between epochs).
//!
//! **Invariant:** `model` changes by `workers · Σ Δα y x`, and the order of visits depends on the
//! seed, the epoch, the round, the worker and the problem alone.

use super::loss::LinearLoss;
use super::shard::ExampleShard;
use hemiola_cluster::StopRequest;
use hemiola_core::rng::SplitMix64;

/// Shard of the dual problem owned by one worker.
#[derive(Debug)]
pub(super) struct WorkerProblem {
    pub(super) shard: ExampleShard,
    /// Index of the worker among those of all peers.
    number: u64,
    /// Squared norms of the examples, with the bias.
    squares: Vec<f64>,
    /// Weights of the examples.
    pub(super) weights: Vec<f64>,
    /// Dual variables by problem.
    pub(super) duals: Vec<Vec<f64>>,
    /// Indices of active examples in this epoch, by problem.
    active: Vec<Vec<u32>>,
    /// Copy of the model, problem after problem.
    pub(super) model: Vec<f64>,
}

/// Parameters of the dual problem, shared by all workers.
#[derive(Clone, Copy, Debug)]
pub(super) struct DualProblem {
    pub(super) loss: LinearLoss,
    pub(super) c: f64,
    /// Value of the constant bias feature.
    pub(super) bias: f64,
    /// Weights per problem, including the bias, which is last.
    pub(super) width: usize,
    /// Total number of workers.
    pub(super) workers: usize,
    pub(super) seed: u64,
}

impl WorkerProblem {
    /// Creates the problem of a worker. `weights` are those of all examples, by row.
    pub(super) fn new(
        shard: ExampleShard,
        number: usize,
        problems: usize,
        rules: &DualProblem,
        weights: Option<&[f64]>,
    ) -> Self {
        let squares = (0..shard.len()).map(|index| shard.row(index).square() + rules.bias * rules.bias).collect();
        let weights = shard.rows.iter().map(|row| weights.map_or(1.0, |weights| weights[*row])).collect();
        let duals = vec![vec![0.0; shard.len()]; problems];
        let model = vec![0.0; problems * rules.width];
        Self { shard, number: number as u64, squares, weights, duals, active: vec![Vec::new(); problems], model }
    }

    /// Runs a round of dual ascent from the averaged model. After a request to stop it leaves out the
    /// rest of the examples.
    pub(super) fn round(
        &mut self,
        rules: &DualProblem,
        (epoch, round): (u32, u32),
        averaged: &[f64],
        stop: &StopRequest,
    ) {
        self.model.copy_from_slice(averaged);
        let (two_classes, width) = (self.duals.len() == 1, rules.width);
        let factor = rules.workers as f64;
        for (problem, model) in self.model.chunks_exact_mut(width).enumerate() {
            let (duals, active) = (&mut self.duals[problem], &mut self.active[problem]);
            if round == 0 {
                active.clear();
                active.extend(0..self.shard.len() as u32);
            }
            shuffle_rng([rules.seed, self.number, problem as u64, u64::from(epoch), u64::from(round)]).shuffle(active);
            let positive = if two_classes { 1 } else { problem as u32 };
            active.retain(|index| {
                if stop.is_accepted() {
                    return true;
                }
                let index = *index as usize;
                let c = rules.c * self.weights[index];
                // An example of weight 0 has no part in the objective.
                if c <= 0.0 {
                    return false;
                }
                let (row, dual) = (self.shard.row(index), &mut duals[index]);
                let sign = if self.shard.classes[index] == positive { 1.0 } else { -1.0 };
                let margin = sign * (row.dot(model) + rules.bias * model[width - 1]);
                let step = rules.loss.step(margin, *dual, factor * self.squares[index], c);
                let change = step.alpha - *dual;
                // An unchanged example needs no write.
                if change.abs() > 0.0 {
                    *dual = step.alpha;
                    row.add_to(model, factor * change * sign);
                    model[width - 1] += factor * change * sign * rules.bias;
                }
                !step.inactive
            });
        }
    }

    /// Returns the contribution of this worker to the dual objective.
    pub(super) fn gain(&self, rules: &DualProblem) -> f64 {
        let gain = |(alpha, weight): (&f64, &f64)| {
            if *weight > 0.0 { rules.loss.gain(*alpha, rules.c * weight) } else { 0.0 }
        };
        self.duals.iter().flat_map(|duals| duals.iter().zip(&self.weights)).map(gain).sum()
    }
}

/// Random number generator of a shuffle, keyed by these numbers in this order.
fn shuffle_rng(numbers: [u64; 5]) -> SplitMix64 {
    SplitMix64::new(numbers.into_iter().fold(0, |state, number| SplitMix64::new(state ^ number).next_u64()))
}
