//! Two classes: the log loss as a sequence of quadratic problems.
//!
//! Around where it is, the loss is a quadratic with a weight for every row. That problem over the chosen columns is solved as that of the squared loss is, and gives a
//! direction; how far to go along it is tried on the loss itself (Newton's method with a penalty, as in glmnet: Friedman, Hastie and Tibshirani 2010).
//!
//! **Invariants:** the objective does not grow. Between rounds `residual` is that of the loss, without weights and shift, and the intercept is the best one for the
//! coefficients, so that the residual adds up to 0 and is a point of the dual problem.

use super::field::Field;
use super::kernel::Value;
use super::loss::{log_loss, sigmoid};
use super::quadratic::Quadratic;
use super::scaling::{Residual, Scaling};
use super::solver::Solver;
use hemiola::Result;

/// Weights of rows are never below this: a row that is as good as certain must not make a column look flat.
const LEAST_WEIGHT: f64 = 1e-5;
/// Quadratic problems in a round at most.
const STEPS: usize = 30;
/// Each is solved until it fails by this share of what it failed by.
const ENOUGH: f64 = 0.1;
/// A step is halved so many times at most.
const HALVINGS: usize = 30;
/// Sums of losses differ by this share for rounding alone.
const ROUNDING: f64 = 4.0 * f64::EPSILON;
/// Steps towards the best intercept at most.
const INTERCEPT_STEPS: usize = 50;

/// What is predicted for this peer's rows, as logarithms of odds.
#[derive(Clone, Debug)]
pub(super) struct Margins {
    /// Without the intercept.
    values: Vec<f64>,
    /// The intercept, for columns that are scaled and not centred.
    pub(super) intercept: f64,
}

impl Margins {
    pub(super) fn new(rows: usize, intercept: f64) -> Self {
        Self { values: vec![0.0; rows], intercept }
    }

    /// Minus the derivative of the loss.
    pub(super) fn residual(&self, target: &[f64]) -> Vec<f64> {
        let rows = target.iter().zip(&self.values);
        rows.map(|(y, value)| y - sigmoid(value + self.intercept)).collect()
    }

    /// The sum of losses of this peer's rows.
    pub(super) fn loss(&self, target: &[f64]) -> f64 {
        let rows = target.iter().zip(&self.values);
        rows.map(|(y, value)| log_loss(*y, value + self.intercept)).sum()
    }

    /// The sum of losses after a step.
    fn loss_at(&self, target: &[f64], (image, shift): (&[f64], f64), length: f64) -> f64 {
        let rows = target.iter().zip(&self.values).zip(image);
        rows.map(|((y, value), image)| log_loss(*y, value + self.intercept + length * (image + shift))).sum()
    }

    /// *Collective.* Finds the best intercept, and the residual there.
    pub(super) fn settle<T: Value>(
        &mut self,
        field: &Field<'_, '_, T>,
        target: &[f64],
        intercept: bool,
        residual: &mut Residual,
    ) -> Result<()> {
        residual.values = self.residual(target);
        residual.weights.clear();
        residual.shift = 0.0;
        for _ in 0..if intercept { INTERCEPT_STEPS } else { 0 } {
            let weights = target.iter().zip(&residual.values).map(|(y, u)| (y - u) * (1.0 - (y - u)));
            let mut sums = [residual.values.iter().sum::<f64>(), weights.sum(), target.len() as f64];
            field.sum(&mut sums)?;
            let [slope, weight, rows] = sums;
            if slope.abs() <= 1e-15 * rows {
                break;
            }
            // Where weights vanish a step of Newton's method would go too far.
            self.intercept += (slope / weight.max(1e-12 * rows)).clamp(-2.0, 2.0);
            residual.values = self.residual(target);
        }
        Ok(())
    }

    /// *Collective.* Coefficients have changed.
    pub(super) fn step<T: Value>(
        &mut self,
        field: &mut Field<'_, '_, T>,
        scaling: &Scaling,
        (columns, by): (&[u32], &[f64]),
        target: &[f64],
        residual: &mut Residual,
    ) -> Result<()> {
        let amounts: Vec<f64> =
            columns.iter().zip(by).map(|(column, by)| by * scaling.scale[*column as usize]).collect();
        field.step((columns, &amounts), &[], &mut self.values, &[], &mut [])?;
        self.settle(field, target, scaling.intercept, residual)
    }
}

/// *Collective.* Works on the chosen columns until the condition for a minimum fails by at most `target` along each.
pub(super) fn newton<T: Value>(solver: &mut Solver, field: &mut Field<'_, '_, T>, target: f64) -> Result<()> {
    let columns = solver.working().columns();
    let mut slopes = vec![0.0; columns.len()];
    for _ in 0..STEPS {
        let violation = violation(solver, field, &columns, &mut slopes)?;
        if violation <= target || !advance(solver, field, &columns, (ENOUGH * violation).max(0.5 * target))? {
            break;
        }
    }
    Ok(())
}

/// By how much the condition for a minimum fails along one of the columns at most.
fn violation<T: Value>(
    solver: &mut Solver,
    field: &mut Field<'_, '_, T>,
    columns: &[u32],
    slopes: &mut [f64],
) -> Result<f64> {
    let Solver { penalty, scaling, coefficients, residual, rows, visited, .. } = solver;
    Quadratic::new(field, scaling, residual, *penalty, *rows).slopes(columns, slopes)?;
    *visited += columns.len() as u64;
    let of = |(column, slope): (&u32, &f64)| penalty.violation(*slope, coefficients[*column as usize]);
    Ok(columns.iter().zip(slopes.iter()).map(of).fold(0.0, f64::max))
}

/// One quadratic problem and a step towards its solution. Whether the objective has fallen.
fn advance<T: Value>(solver: &mut Solver, field: &mut Field<'_, '_, T>, columns: &[u32], enough: f64) -> Result<bool> {
    weigh(solver, field, columns)?;
    let old: Vec<f64> = columns.iter().map(|column| solver.coefficients[*column as usize]).collect();
    solver.improve(field, enough)?;
    let Solver { penalty, scaling, coefficients, residual, target, margins, rows, .. } = solver;
    let margins = margins.as_mut().expect("the logistic loss has margins");
    let steps: Vec<f64> = columns.iter().zip(&old).map(|(column, old)| coefficients[*column as usize] - old).collect();
    let amounts: Vec<f64> =
        columns.iter().zip(&steps).map(|(column, by)| by * scaling.scale[*column as usize]).collect();
    let mut image = vec![0.0; margins.values.len()];
    field.step((columns, &amounts), &[], &mut image, &[], &mut [])?;
    let shift = -residual.shift;
    let mut length = 1.0;
    let mut before = [margins.loss(target)];
    field.sum(&mut before)?;
    let before = before[0] / *rows + penalty.cost(old.iter());
    let mut fallen = false;
    for _ in 0..HALVINGS {
        let mut loss = [margins.loss_at(target, (&image, shift), length)];
        field.sum(&mut loss)?;
        let at: Vec<f64> = old.iter().zip(&steps).map(|(old, by)| old + length * by).collect();
        // Near the minimum what falls is less than rounding.
        if loss[0] / *rows + penalty.cost(at.iter()) <= before * (1.0 + ROUNDING) {
            fallen = true;
            break;
        }
        length *= 0.5;
    }
    if !fallen {
        length = 0.0;
    }
    for ((column, old), by) in columns.iter().zip(&old).zip(&steps) {
        // A whole step goes exactly there: zeros are zeros.
        if length < 1.0 {
            coefficients[*column as usize] = old + length * by;
        }
    }
    for (value, image) in margins.values.iter_mut().zip(&image) {
        *value += length * image;
    }
    margins.intercept += length * shift;
    margins.settle(field, target, scaling.intercept, residual)?;
    residual.weight = *rows;
    Ok(fallen)
}

/// Weights of rows, and what follows for columns.
fn weigh<T: Value>(solver: &mut Solver, field: &mut Field<'_, '_, T>, columns: &[u32]) -> Result<()> {
    let Solver { scaling, residual, target, rows, .. } = &mut *solver;
    let chances = target.iter().zip(&residual.values).map(|(y, u)| y - u);
    residual.weights = chances.map(|chance| (chance * (1.0 - chance)).max(LEAST_WEIGHT)).collect();
    let mut sums = [residual.weights.iter().sum::<f64>(), residual.values.iter().sum()];
    field.sum(&mut sums)?;
    residual.weight = sums[0];
    residual.shift = if scaling.intercept { -sums[1] / sums[0] } else { 0.0 };
    let mut moments = vec![[0.0; 3]; columns.len()];
    field.look(columns, &residual.weights, true, &mut moments)?;
    scaling.weigh(columns, &moments, sums[0], *rows);
    solver.working().forget_products();
    Ok(())
}
