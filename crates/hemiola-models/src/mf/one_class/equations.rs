//! How the equations of a row are solved: exactly, or by a few steps from where it was.
//!
//! With few factors making the matrix and factoring it is cheap, and every pass goes as far as it can, so that fewer will do. The
//! work grows with the square and the third power of the rank. From [`CONJUGATE_FROM`] factors on a few steps of conjugate
//! gradients take less than half the time of a pass, and after a few passes rank as well (docs/performance.md has both). The
//! choice depends on the rank alone, never on a row, a worker or a peer, so that all do the same.

use super::conjugate::Conjugate;
use crate::mf::normal::{System, gain};

/// From so many factors on rows are not solved exactly.
const CONJUGATE_FROM: usize = 64;

/// Steps of conjugate gradients in a pass.
const STEPS: usize = 3;

/// The equations of a row in the making.
#[derive(Debug)]
pub(super) enum Equations<'a> {
    Exact { system: System, weights: f64 },
    Conjugate(Conjugate<'a>),
}

impl<'a> Equations<'a> {
    /// For a row with so many events: what all rows share, and `ridge` more on the diagonal.
    pub(super) fn start(width: usize, matrix: &'a [f32], ridge: f32, events: usize) -> Self {
        if width < CONJUGATE_FROM {
            Self::Exact { system: System::start(width, matrix, ridge), weights: 0.0 }
        } else {
            Self::Conjugate(Conjugate::start(width, matrix, ridge, events))
        }
    }

    /// Adds an event of the other side's row.
    #[inline]
    pub(super) fn add(&mut self, row: &'a [f32], weight: f32) {
        match self {
            Self::Exact { system, weights } => {
                system.add(row, weight, weight);
                *weights += f64::from(weight);
            }
            Self::Conjugate(conjugate) => conjugate.add(row, weight),
        }
    }

    /// Makes the row better, or the best. What it costs then.
    pub(super) fn solve(self, solution: &mut [f32]) -> f64 {
        match self {
            Self::Exact { mut system, weights } => {
                system.solve(solution);
                // At the solution of least squares the cost is that of 0 less the product of solution and right side.
                weights - gain(solution, system.right())
            }
            Self::Conjugate(conjugate) => conjugate.solve(solution, STEPS),
        }
    }

    /// How many events the work that every row takes is worth.
    pub(super) fn fixed(width: usize) -> u64 {
        // Factoring takes a third as many operations as rank² / 2 times the rank, which is what so many events take; a step the
        // product with one matrix as wide as the rank, and two products for each event.
        (if width < CONJUGATE_FROM { width.div_ceil(3) } else { width / 2 }) as u64
    }
}
