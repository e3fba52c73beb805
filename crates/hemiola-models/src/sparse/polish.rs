//! Conjugate gradients over the nonzero coefficients.
//!
//! While signs do not change, the objective is quadratic, and its minimum the solution of linear
//! equations. Coordinate descent identifies the nonzero coefficients but converges slowly where
//! columns are correlated; conjugate gradients move all of them together. Coefficients that would
//! change sign become 0 instead.
//!
//! **Invariant:** the objective does not grow. A step that would increase it is halved, and finally
//! cut back to the first sign change; up to there the quadratic falls.

use super::kernel::ColumnValue;
use super::quadratic::QuadraticProblem;
use hemiola_cluster::Result;

/// Maximum number of conjugate-gradient steps.
const MAX_CG_STEPS: usize = 100;
/// Reduction of the residual of the equations: signs change on the way, and then other equations
/// are to be solved.
const RESIDUAL_REDUCTION: f64 = 0.1;
/// Step lengths tried before the step ends at the first sign change.
const MAX_STEP_TRIALS: usize = 4;

/// Optimizes the nonzero coefficients of `support` with the given `slopes`. Equations violated by
/// less than `target` count as solved. Returns the number of columns visited.
pub(super) fn polish<T: ColumnValue>(
    problem: &mut QuadraticProblem<'_, '_, '_, T>,
    coefficients: &mut [f64],
    (support, slopes): (&[u32], &[f64]),
    target: f64,
) -> Result<u64> {
    let old: Vec<f64> = support.iter().map(|column| coefficients[*column as usize]).collect();
    let mut image = vec![0.0; problem.residual.values.len()];
    let step_to_minimum = solve(problem, support, (&old, slopes), target, &mut image)?;
    let mut visited = step_to_minimum.visited;
    let crosses = |(b, step): &(&f64, &f64)| **b * (**b + **step) <= 0.0;
    let mut new: Vec<f64> = old.iter().zip(&step_to_minimum.step).map(|(b, step)| b + step).collect();
    if old.iter().zip(&step_to_minimum.step).any(|pair| crosses(&pair)) {
        let before = problem.loss(&problem.residual.values, problem.residual.shift)? + problem.penalty.cost(old.iter());
        let crossings = old.iter().zip(&step_to_minimum.step).filter(crosses);
        let first = crossings.map(|(b, step)| -b / step).fold(1.0, f64::min);
        let mut length = 1.0;
        for attempt in 0..=MAX_STEP_TRIALS {
            let towards = |(b, step): (&f64, &f64)| {
                let new = b + length * step;
                if b * new <= 0.0 || (attempt == MAX_STEP_TRIALS && -b / step <= first) { 0.0 } else { new }
            };
            new = old.iter().zip(&step_to_minimum.step).map(towards).collect();
            let changes: Vec<f64> = new.iter().zip(&old).map(|(new, old)| new - old).collect();
            visited += support.len() as u64;
            let shift = problem.image(support, &changes, &mut image)?;
            let values: Vec<f64> =
                problem.residual.values.iter().zip(&image).map(|(value, image)| value - image).collect();
            let shift = problem.residual.shift - shift;
            let after = problem.loss(&values, shift)? + problem.penalty.cost(new.iter());
            if after <= before {
                (problem.residual.values, problem.residual.shift) = (values, shift);
                break;
            }
            new.clone_from(&old);
            length = if attempt + 1 == MAX_STEP_TRIALS { first } else { 0.5 * length };
        }
    } else {
        problem.residual.subtract(&step_to_minimum.total, step_to_minimum.shift);
    }
    for (column, new) in support.iter().zip(&new) {
        coefficients[*column as usize] = *new;
    }
    Ok(visited)
}

/// Step of the coefficients and its effect on the residual.
struct SupportStep {
    step: Vec<f64>,
    /// Amounts to subtract from `values` and from the shift.
    total: Vec<f64>,
    shift: f64,
    visited: u64,
}

/// Computes an approximate step to the minimum, as long as no sign changes.
fn solve<T: ColumnValue>(
    problem: &mut QuadraticProblem<'_, '_, '_, T>,
    support: &[u32],
    (old, slopes): (&[f64], &[f64]),
    target: f64,
    image: &mut [f64],
) -> Result<SupportStep> {
    let (count, penalty) = (support.len(), problem.penalty);
    let short = |(slope, b): (&f64, &f64)| slope - penalty.l2 * b - penalty.l1 * b.signum();
    let mut left: Vec<f64> = slopes.iter().zip(old).map(short).collect();
    let preconditioner: Vec<f64> =
        support.iter().map(|column| 1.0 / (problem.scaling.curve[*column as usize] + penalty.l2)).collect();
    let preconditioned = |left: &[f64]| {
        left.iter().zip(&preconditioner).map(|(left, preconditioner)| left * preconditioner).collect::<Vec<f64>>()
    };
    let product = |left: &[f64], right: &[f64]| left.iter().zip(right).map(|(left, right)| left * right).sum::<f64>();
    let mut direction = preconditioned(&left);
    let mut square = product(&left, &direction);
    let enough = square * RESIDUAL_REDUCTION * RESIDUAL_REDUCTION;
    let (mut curved, mut step, mut total) = (vec![0.0; count], vec![0.0; count], vec![0.0; image.len()]);
    let (mut shift, mut visited) = (0.0, 0);
    for _ in 0..MAX_CG_STEPS {
        let shift_here = problem.hessian_product(support, &direction, image, &mut curved)?;
        visited += count as u64;
        for (curved, direction) in curved.iter_mut().zip(&direction) {
            *curved += penalty.l2 * direction;
        }
        let curvature = product(&curved, &direction);
        if curvature <= 0.0 || curvature.is_nan() {
            break;
        }
        let length = square / curvature;
        for (index, direction) in direction.iter().enumerate() {
            step[index] += length * direction;
            left[index] -= length * curved[index];
        }
        for (total, image) in total.iter_mut().zip(&*image) {
            *total += length * image;
        }
        shift += length * shift_here;
        let next = preconditioned(&left);
        let before = std::mem::replace(&mut square, product(&left, &next));
        let most = left.iter().fold(0.0_f64, |most, left| most.max(left.abs()));
        if square <= enough || most <= 0.3 * target {
            break;
        }
        for (direction, next) in direction.iter_mut().zip(next) {
            *direction = next + square / before * *direction;
        }
    }
    Ok(SupportStep { step, total, shift, visited })
}
