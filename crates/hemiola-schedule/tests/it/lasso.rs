//! A small lasso: dense columns, rows of this peer.

use hemiola_cluster::{Cluster, Result, WorkerTeam};
use hemiola_core::rng::PhiloxRng;
use hemiola_schedule::order::CoordinateOrder;
use hemiola_schedule::{DynamicProgram, JobCandidate, RoundResults, ScheduleRequest};

/// A problem that all peers know completely, so that they can be compared.
pub(crate) struct LassoProblem {
    pub(crate) columns: Vec<Vec<f64>>,
    pub(crate) target: Vec<f64>,
    pub(crate) lambda: f64,
}

impl LassoProblem {
    /// Columns of length 1; neighbours are correlated by about `correlation`.
    pub(crate) fn new(rows: usize, length: usize, correlation: f64, seed: u64) -> Self {
        let values = PhiloxRng::new(seed);
        let normal = |index: usize, draw: u64| values.normal(index as u64, draw, 0.0, 1.0);
        let mut columns: Vec<Vec<f64>> = Vec::new();
        for column in 0..length {
            let fresh = |row| normal(row, column as u64);
            let mut new: Vec<f64> = match columns.last() {
                None => (0..rows).map(fresh).collect(),
                Some(before) => {
                    let scale = (rows as f64).sqrt() * correlation;
                    before
                        .iter()
                        .enumerate()
                        .map(|(row, value)| scale * value + (1.0 - correlation * correlation).sqrt() * fresh(row))
                        .collect()
                }
            };
            let norm = new.iter().map(|value| value * value).sum::<f64>().sqrt();
            for value in &mut new {
                *value /= norm;
            }
            columns.push(new);
        }
        let mut target: Vec<f64> = (0..rows).map(|row| 0.1 * normal(row, u64::MAX)).collect();
        for (column, values) in columns.iter().enumerate().step_by(7) {
            let weight = normal(column, u64::MAX - 1);
            target.iter_mut().zip(values).for_each(|(target, value)| *target += weight * value);
        }
        let largest = columns.iter().map(|column| dot(column, &target).abs()).fold(0.0, f64::max);
        Self { columns, target, lambda: 0.05 * largest }
    }

    pub(crate) fn correlation(&self, a: usize, b: usize) -> f64 {
        dot(&self.columns[a], &self.columns[b]).abs()
    }

    pub(crate) fn objective(&self, model: &[f64]) -> f64 {
        let mut residual = self.target.clone();
        for (column, weight) in self.columns.iter().zip(model) {
            residual.iter_mut().zip(column).for_each(|(residual, value)| *residual -= weight * value);
        }
        0.5 * dot(&residual, &residual) + self.lambda * model.iter().map(|weight| weight.abs()).sum::<f64>()
    }

    /// Solution by plain coordinate descent with many sweeps.
    pub(crate) fn solved(&self) -> Vec<f64> {
        let mut model = vec![0.0; self.columns.len()];
        let mut residual = self.target.clone();
        for _ in 0..2000 {
            for (column, weight) in self.columns.iter().zip(&mut model) {
                let new = shrink(*weight + dot(column, &residual), self.lambda);
                let change = new - *weight;
                *weight = new;
                residual.iter_mut().zip(column).for_each(|(residual, value)| *residual -= change * value);
            }
        }
        model
    }

    /// Rows of one peer.
    pub(crate) fn share(&self, cluster: &Cluster) -> LassoState {
        let (rank, size, rows) = (cluster.rank().index(), cluster.size(), self.target.len());
        let range = rank * rows / size..(rank + 1) * rows / size;
        LassoState {
            columns: self.columns.iter().map(|column| column[range.clone()].to_vec()).collect(),
            residual: self.target[range].to_vec(),
            model: vec![0.0; self.columns.len()],
        }
    }
}

pub(crate) struct LassoState {
    columns: Vec<Vec<f64>>,
    residual: Vec<f64>,
    pub(crate) model: Vec<f64>,
}

/// The lasso as a scheduled program.
pub(crate) struct Lasso<'p, O> {
    pub(crate) problem: &'p LassoProblem,
    pub(crate) order: O,
}

impl<O: CoordinateOrder> DynamicProgram for Lasso<'_, O> {
    type Job = usize;
    type Partial = f64;
    type State = LassoState;

    fn schedule(&self, request: &ScheduleRequest, _: &LassoState, candidates: &mut Vec<JobCandidate<usize>>) {
        self.order.propose(request, candidates);
    }

    fn coupling(&self, a: &usize, b: &usize, _: &LassoState) -> f64 {
        self.problem.correlation(*a, *b)
    }

    fn update(&self, job: &usize, state: &LassoState) -> f64 {
        dot(&state.columns[*job], &state.residual)
    }

    fn aggregate(
        &mut self,
        results: &RoundResults<'_, usize, f64>,
        state: &mut LassoState,
        _: &mut WorkerTeam<'_>,
    ) -> Result<()> {
        for (place, job) in results.jobs.iter().enumerate() {
            let before = state.model[*job];
            let after = shrink(before + results.sum(place), self.problem.lambda);
            state.model[*job] = after;
            self.order.record_change(*job, after - before);
            let column = &state.columns[*job];
            state.residual.iter_mut().zip(column).for_each(|(residual, value)| *residual -= (after - before) * value);
        }
        Ok(())
    }

    fn cost(&self, job: &usize, _: &LassoState) -> u64 {
        self.problem.columns[*job].len() as u64
    }
}

fn shrink(value: f64, by: f64) -> f64 {
    value.signum() * (value.abs() - by).max(0.0)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
