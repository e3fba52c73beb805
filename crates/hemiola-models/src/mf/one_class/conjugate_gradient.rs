//! Least squares for one row at high rank: a few conjugate-gradient steps from the previous row.
//!
//! The equations are those of [`NormalEquations`](crate::mf::normal_equations::NormalEquations),
//! `(start + Σ weight · row rowᵀ) x = Σ weight · row`, but the matrix is never formed: its product
//! with a vector takes two visits to each row. A step costs `rank² + 2 · rank · events`, whereas
//! forming and factoring the matrix costs `rank² · events / 2 + rank³ / 6`. A few steps per epoch
//! suffice: the other side is still moving, and the next epoch continues from here (Takács, Pilászy
//! and Tikk 2011).
//!
//! **Invariants:** no step increases the cost, so neither does an epoch. Every cell sums in the
//! order in which rows were added, four at a time, so results are bit-identical whatever the
//! register width and whichever worker solves.

use crate::mf::sgd::{SimdArch, SimdCompute, dot, product};
use pulp::Simd;

/// Rows visited together: their dot products are independent, and sums are loaded and stored once
/// for all.
const UNROLL: usize = 4;

/// Normal equations represented by their rows.
#[derive(Debug)]
pub(super) struct ConjugateGradient<'a> {
    width: usize,
    /// Matrix shared by all rows of a side: symmetric, `width` × `width`.
    matrix: &'a [f32],
    ridge: f32,
    rows: Vec<&'a [f32]>,
    weights: Vec<f32>,
}

impl<'a> ConjugateGradient<'a> {
    /// Starts from a symmetric matrix plus `ridge` on its diagonal.
    pub(super) fn start(width: usize, matrix: &'a [f32], ridge: f32, events: usize) -> Self {
        Self { width, matrix, ridge, rows: Vec::with_capacity(events), weights: Vec::with_capacity(events) }
    }

    /// Adds a row of `width` numbers.
    #[inline]
    pub(super) fn add(&mut self, row: &'a [f32], weight: f32) {
        self.rows.push(row);
        self.weights.push(weight);
    }

    /// Takes `steps` steps towards the solution; returns the cost of the row afterwards.
    pub(super) fn solve(&self, solution: &mut [f32], steps: usize) -> f64 {
        if self.rows.is_empty() {
            // Without events the solution is 0.
            solution.fill(0.0);
            return 0.0;
        }
        let weights: f64 = self.weights.iter().map(|weight| f64::from(*weight)).sum();
        let mut residual = vec![0.0; self.width];
        let pulled = self.multiply(solution, 1.0, &mut residual);
        for value in &mut residual {
            *value = -*value;
        }
        let mut cost = weights - pulled - f64::from(dot(solution, &residual));
        let mut direction = residual.clone();
        let mut bent = vec![0.0; self.width];
        let mut square = dot(&residual, &residual);
        for _ in 0..steps {
            self.multiply(&direction, 0.0, &mut bent);
            let curvature = dot(&direction, &bent);
            // Converged up to rounding.
            if !(square > 0.0 && curvature > 0.0) {
                break;
            }
            let length = square / curvature;
            solution.iter_mut().zip(&direction).for_each(|(value, direction)| *value += length * direction);
            residual.iter_mut().zip(&bent).for_each(|(value, bent)| *value -= length * bent);
            cost -= f64::from(length) * f64::from(square);
            let left = dot(&residual, &residual);
            let keep = left / square;
            direction.iter_mut().zip(&residual).for_each(|(value, residual)| *value = residual + keep * *value);
            square = left;
        }
        cost
    }

    /// Sets `into` to the product of the matrix and a vector, minus `pull` times the right-hand
    /// side. Returns the dot product of the vector and the right-hand side.
    fn multiply(&self, vector: &[f32], pull: f32, into: &mut [f32]) -> f64 {
        into.iter_mut().zip(vector).for_each(|(into, value)| *into = self.ridge * value);
        SimdArch::this().compute(NormalProduct { equations: self, vector, pull, into })
    }
}

struct NormalProduct<'a> {
    equations: &'a ConjugateGradient<'a>,
    vector: &'a [f32],
    pull: f32,
    into: &'a mut [f32],
}

impl SimdCompute for NormalProduct<'_> {
    type Output = f64;

    #[inline(always)] // so that it is compiled for the registers of the caller
    fn compute<S: Simd, const N: usize>(self, simd: S) -> f64 {
        let Self { equations: ConjugateGradient { width, matrix, rows, weights, .. }, vector, pull, into } = self;
        let (into, _) = S::as_mut_simd_f32s(into);
        // The matrix is symmetric, so its rows serve as columns. `width` is a multiple of all
        // lanes, so of four, too.
        let (factors, _) = vector.as_chunks::<UNROLL>();
        for (rows, factors) in matrix.chunks_exact(UNROLL * width).zip(factors) {
            let rows: [&[f32]; UNROLL] = std::array::from_fn(|at| &rows[at * width..][..*width]);
            add(simd, into, rows, *factors);
        }
        let mut pulled = 0.0;
        let mut scale = |row: &[f32], weight: f32| {
            let score = product::<S, N>(simd, row, vector);
            pulled += f64::from(weight) * f64::from(score);
            weight * (score - pull)
        };
        let ((fours, rest), (weights, rest_weights)) = (rows.as_chunks::<UNROLL>(), weights.as_chunks::<UNROLL>());
        for (rows, weights) in fours.iter().zip(weights) {
            let scales = std::array::from_fn(|at| scale(rows[at], weights[at]));
            add(simd, into, *rows, scales);
        }
        for (row, weight) in rest.iter().zip(rest_weights) {
            let scales = [scale(row, *weight)];
            add(simd, into, [*row], scales);
        }
        pulled
    }
}

/// Adds rows, each times its scale.
#[inline(always)] // as above
fn add<S: Simd, const K: usize>(simd: S, into: &mut [S::f32s], rows: [&[f32]; K], scales: [f32; K]) {
    let rows = rows.map(|row| &S::as_simd_f32s(row).0[..into.len()]);
    let scales = scales.map(|scale| simd.splat_f32s(scale));
    for (at, into) in into.iter_mut().enumerate() {
        for which in 0..K {
            *into = simd.mul_add_e_f32s(scales[which], rows[which][at], *into);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mf::normal_equations::{NormalEquations, gain};
    use hemiola_core::rng::PhiloxRng;

    const WIDTH: usize = 48;

    /// Returns a shared matrix, rows and weights.
    fn equations(events: usize) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
        let values = PhiloxRng::new(11);
        let draw = |count: usize, draw| (0..count as u64).map(|at| values.normal(at, draw, 0.0, 0.3) as f32).collect();
        let half: Vec<f32> = draw(WIDTH * WIDTH, 0);
        let cell = |row: usize, column: usize| dot(&half[row * WIDTH..][..WIDTH], &half[column * WIDTH..][..WIDTH]);
        let matrix = (0..WIDTH * WIDTH).map(|at| cell(at / WIDTH, at % WIDTH)).collect();
        let weights: Vec<f32> = draw(events, 4);
        (matrix, draw(events * WIDTH, 2), weights.into_iter().map(|weight| weight.abs() + 0.1).collect())
    }

    fn conjugate<'a>(matrix: &'a [f32], rows: &'a [f32], weights: &[f32]) -> ConjugateGradient<'a> {
        let mut conjugate = ConjugateGradient::start(WIDTH, matrix, 0.5, weights.len());
        rows.chunks_exact(WIDTH).zip(weights).for_each(|(row, weight)| conjugate.add(row, *weight));
        conjugate
    }

    #[test]
    fn many_steps_converge_to_the_exact_solution_and_its_cost() {
        for events in [1, 3, 4, 29, 300] {
            let (matrix, rows, weights) = equations(events);
            let mut exact = NormalEquations::start(WIDTH, &matrix, 0.5);
            rows.chunks_exact(WIDTH).zip(&weights).for_each(|(row, weight)| exact.add(row, *weight, *weight));
            let mut expected = vec![0.0; WIDTH];
            exact.solve(&mut expected);
            let least = weights.iter().map(|weight| f64::from(*weight)).sum::<f64>() - gain(&expected, exact.right());
            let mut solution: Vec<f32> = (0..WIDTH).map(|at| at as f32 / 40.0 - 0.5).collect();
            let cost = conjugate(&matrix, &rows, &weights).solve(&mut solution, 4 * WIDTH);
            // Single precision, and a condition number of a few hundred.
            assert!((cost - least).abs() < 1e-4 * least.max(1.0), "{events}: {cost} {least}");
            for (value, expected) in solution.iter().zip(&expected) {
                assert!((value - expected).abs() < 1e-4, "{events}: {value} {expected}");
            }
        }
    }

    #[test]
    fn no_step_increases_the_cost_and_reported_costs_are_exact() {
        let (matrix, rows, weights) = equations(61);
        let equations = conjugate(&matrix, &rows, &weights);
        let start: Vec<f32> = (0..WIDTH).map(|at| (at % 7) as f32 / 7.0).collect();
        let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
        let by_hand = |solution: &[f32]| {
            let all = matrix.chunks_exact(WIDTH).zip(solution);
            let all: f64 = all.map(|(row, value)| f64::from(*value) * product(row, solution)).sum();
            let events = rows.chunks_exact(WIDTH).zip(&weights);
            let events: f64 =
                events.map(|(row, weight)| f64::from(*weight) * (1.0 - product(row, solution)).powi(2)).sum();
            all + events + 0.5 * product(solution, solution)
        };
        let mut before = by_hand(&start);
        for steps in 0..6 {
            let mut solution = start.clone();
            let cost = equations.solve(&mut solution, steps);
            let expected = by_hand(&solution);
            assert!((cost / expected - 1.0).abs() < 1e-4, "{steps}: {cost} {expected}");
            assert!(cost <= before * (1.0 + 1e-6), "{steps}: {cost} {before}");
            before = cost;
        }
    }

    #[test]
    fn a_row_without_events_is_zero() {
        let (matrix, ..) = equations(0);
        let mut solution = vec![0.3; WIDTH];
        assert_eq!(conjugate(&matrix, &[], &[]).solve(&mut solution, 3).to_bits(), 0.0_f64.to_bits());
        assert_eq!(solution, vec![0.0; WIDTH]);
    }
}
