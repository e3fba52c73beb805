//! Solver choice for the equations of a row: exact, or a few conjugate-gradient steps.
//!
//! At low rank, forming and factoring the matrix is cheap, and exact solves need fewer epochs. The
//! work grows with the square and the cube of the rank. From [`CONJUGATE_GRADIENT_RANK`] factors
//! on, a few conjugate-gradient steps take less than half the time of an epoch and rank equally
//! well after a few epochs (benchmarks/results has both). The choice depends on the rank alone,
//! never on a row, a worker or a peer, so that all use the same solver.

use super::conjugate_gradient::ConjugateGradient;
use crate::mf::normal_equations::{NormalEquations, gain};

/// Rank from which rows are solved by conjugate gradients.
const CONJUGATE_GRADIENT_RANK: usize = 64;

/// Conjugate-gradient steps per row and epoch.
const CONJUGATE_GRADIENT_STEPS: usize = 3;

/// Equations of a row under construction.
#[derive(Debug)]
pub(super) enum RowEquations<'a> {
    Exact { system: NormalEquations, weights: f64 },
    ConjugateGradient(ConjugateGradient<'a>),
}

impl<'a> RowEquations<'a> {
    /// Starts the equations of a row with `events` events from the shared matrix plus `ridge` on
    /// the diagonal.
    pub(super) fn start(width: usize, matrix: &'a [f32], ridge: f32, events: usize) -> Self {
        if width < CONJUGATE_GRADIENT_RANK {
            Self::Exact { system: NormalEquations::start(width, matrix, ridge), weights: 0.0 }
        } else {
            Self::ConjugateGradient(ConjugateGradient::start(width, matrix, ridge, events))
        }
    }

    /// Adds an event: a row of the other side and its weight.
    #[inline]
    pub(super) fn add(&mut self, row: &'a [f32], weight: f32) {
        match self {
            Self::Exact { system, weights } => {
                system.add(row, weight, weight);
                *weights += f64::from(weight);
            }
            Self::ConjugateGradient(conjugate) => conjugate.add(row, weight),
        }
    }

    /// Improves or solves the row; returns its cost afterwards.
    pub(super) fn solve(self, solution: &mut [f32]) -> f64 {
        match self {
            Self::Exact { mut system, weights } => {
                system.solve(solution);
                // At the least-squares solution, the cost is that of 0 minus the dot product of
                // solution and right-hand side.
                weights - gain(solution, system.right())
            }
            Self::ConjugateGradient(conjugate) => conjugate.solve(solution, CONJUGATE_GRADIENT_STEPS),
        }
    }

    /// Returns the fixed work per row, expressed in events.
    pub(super) fn fixed(width: usize) -> usize {
        // Factoring takes a third as many operations as `rank² / 2 · rank`, the work of `rank`
        // events. A conjugate-gradient step takes one matrix product plus two dot products per
        // event.
        if width < CONJUGATE_GRADIENT_RANK { width.div_ceil(3) } else { width / 2 }
    }
}
