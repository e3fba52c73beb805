//! Conjugate gradients over the coefficients that are not 0.
//!
//! Where signs do not change, the objective is a quadratic, and its minimum the solution of linear equations. Coordinate descent finds out which
//! coefficients are not 0, but creeps where columns are much alike; conjugate gradients take all of them there together. Coefficients that would
//! change their sign on the way become 0 instead.
//!
//! **Invariant:** the objective does not grow. A step that would make it grow is halved, and at last cut back to where the first sign changes; up to there it is the
//! quadratic that falls.

use super::kernel::Value;
use super::quadratic::Quadratic;
use hemiola::Result;

/// Steps of conjugate gradients at most.
const STEPS: usize = 100;
/// The equations are solved to this share of what they were off by: signs change on the way, and then others are to be solved.
const ACCURACY: f64 = 0.1;
/// Steps that are tried before it goes to the first change of a sign only.
const TRIES: usize = 4;

/// Moves the coefficients of `support`, none of which is 0; `slopes` are theirs. `target`: equations that fail by less than this are solved. How many columns were
/// visited.
pub(super) fn polish<T: Value>(
    problem: &mut Quadratic<'_, '_, '_, T>,
    coefficients: &mut [f64],
    (support, slopes): (&[u32], &[f64]),
    target: f64,
) -> Result<u64> {
    let old: Vec<f64> = support.iter().map(|column| coefficients[*column as usize]).collect();
    let mut image = vec![0.0; problem.residual.values.len()];
    let way = solve(problem, support, (&old, slopes), target, &mut image)?;
    let mut visited = way.visited;
    let crosses = |(b, step): &(&f64, &f64)| **b * (**b + **step) <= 0.0;
    let mut new: Vec<f64> = old.iter().zip(&way.step).map(|(b, step)| b + step).collect();
    if old.iter().zip(&way.step).any(|pair| crosses(&pair)) {
        let before = problem.loss(&problem.residual.values, problem.residual.shift)? + problem.penalty.cost(old.iter());
        let crossings = old.iter().zip(&way.step).filter(crosses);
        let first = crossings.map(|(b, step)| -b / step).fold(1.0, f64::min);
        let mut length = 1.0;
        for attempt in 0..=TRIES {
            let towards = |(b, step): (&f64, &f64)| {
                let new = b + length * step;
                if b * new <= 0.0 || (attempt == TRIES && -b / step <= first) { 0.0 } else { new }
            };
            new = old.iter().zip(&way.step).map(towards).collect();
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
            length = if attempt + 1 == TRIES { first } else { 0.5 * length };
        }
    } else {
        problem.residual.take(&way.total, way.shift);
    }
    for (column, new) in support.iter().zip(&new) {
        coefficients[*column as usize] = *new;
    }
    Ok(visited)
}

/// A step, and what it does to the residual.
struct Way {
    step: Vec<f64>,
    /// What is taken from `values`, and from the shift.
    total: Vec<f64>,
    shift: f64,
    visited: u64,
}

/// The step to the minimum as long as no sign changes, about.
fn solve<T: Value>(
    problem: &mut Quadratic<'_, '_, '_, T>,
    support: &[u32],
    (old, slopes): (&[f64], &[f64]),
    target: f64,
    image: &mut [f64],
) -> Result<Way> {
    let (count, penalty) = (support.len(), problem.penalty);
    let short = |(slope, b): (&f64, &f64)| slope - penalty.l2 * b - penalty.l1 * b.signum();
    let mut left: Vec<f64> = slopes.iter().zip(old).map(short).collect();
    let ease: Vec<f64> =
        support.iter().map(|column| 1.0 / (problem.scaling.curve[*column as usize] + penalty.l2)).collect();
    let eased = |left: &[f64]| left.iter().zip(&ease).map(|(left, ease)| left * ease).collect::<Vec<f64>>();
    let product = |left: &[f64], right: &[f64]| left.iter().zip(right).map(|(left, right)| left * right).sum::<f64>();
    let mut direction = eased(&left);
    let mut square = product(&left, &direction);
    let enough = square * ACCURACY * ACCURACY;
    let (mut bent, mut step, mut total) = (vec![0.0; count], vec![0.0; count], vec![0.0; image.len()]);
    let (mut shift, mut visited) = (0.0, 0);
    for _ in 0..STEPS {
        let shift_here = problem.bend(support, &direction, image, &mut bent)?;
        visited += count as u64;
        for (bent, direction) in bent.iter_mut().zip(&direction) {
            *bent += penalty.l2 * direction;
        }
        let curvature = product(&bent, &direction);
        if curvature <= 0.0 || curvature.is_nan() {
            break;
        }
        let length = square / curvature;
        for (place, direction) in direction.iter().enumerate() {
            step[place] += length * direction;
            left[place] -= length * bent[place];
        }
        for (total, image) in total.iter_mut().zip(&*image) {
            *total += length * image;
        }
        shift += length * shift_here;
        let next = eased(&left);
        let before = std::mem::replace(&mut square, product(&left, &next));
        let most = left.iter().fold(0.0_f64, |most, left| most.max(left.abs()));
        if square <= enough || most <= 0.3 * target {
            break;
        }
        for (direction, next) in direction.iter_mut().zip(next) {
            *direction = next + square / before * *direction;
        }
    }
    Ok(Way { step, total, shift, visited })
}
