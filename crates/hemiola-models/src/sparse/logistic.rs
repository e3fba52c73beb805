//! Logistic loss by a sequence of quadratic subproblems (proximal Newton).
//!
//! Around the current point the loss is approximated by a quadratic with a weight per row. That
//! problem over the working set is solved like the squared loss and gives a direction; a line
//! search on the loss itself gives the step length (Newton's method with a penalty, as in glmnet:
//! Friedman, Hastie and Tibshirani 2010).
//!
//! **Invariants:** the objective does not grow. Between rounds `residual` is that of the loss,
//! without weights and shift, and the intercept is optimal for the coefficients, so that the
//! residual sums to 0 and is a dual point.

use super::kernel::ColumnValue;
use super::loss::{log_loss, sigmoid};
use super::quadratic::QuadraticProblem;
use super::row_reducer::RowReducer;
use super::scaling::{ColumnScaling, RowResidual};
use super::solver::SparseSolver;
use hemiola_cluster::Result;

/// Lower bound of row weights: a row predicted with near certainty must not make a column look
/// flat.
const MIN_ROW_WEIGHT: f64 = 1e-5;
/// Maximum number of quadratic subproblems per round.
const MAX_NEWTON_STEPS: usize = 30;
/// Relative accuracy of each subproblem.
const SUBPROBLEM_TOLERANCE: f64 = 0.1;
/// Maximum number of step halvings in the line search.
const MAX_HALVINGS: usize = 30;
/// Relative rounding error of sums of losses.
const ROUNDING: f64 = 4.0 * f64::EPSILON;
/// Maximum number of Newton steps for the intercept.
const INTERCEPT_STEPS: usize = 50;

/// Predicted log-odds of this peer's rows.
#[derive(Clone, Debug)]
pub(super) struct LogisticMargins {
    /// Log-odds without the intercept.
    values: Vec<f64>,
    /// Intercept for scaled, uncentred columns.
    pub(super) intercept: f64,
}

impl LogisticMargins {
    pub(super) fn new(rows: usize, intercept: f64) -> Self {
        Self { values: vec![0.0; rows], intercept }
    }

    /// Returns the negative derivative of the loss.
    pub(super) fn residual(&self, target: &[f64]) -> Vec<f64> {
        let rows = target.iter().zip(&self.values);
        rows.map(|(y, value)| y - sigmoid(value + self.intercept)).collect()
    }

    /// Returns the sum of losses of this peer's rows.
    pub(super) fn loss(&self, target: &[f64]) -> f64 {
        let rows = target.iter().zip(&self.values);
        rows.map(|(y, value)| log_loss(*y, value + self.intercept)).sum()
    }

    /// Returns the sum of losses after a step of `length` along the direction.
    fn loss_at(&self, target: &[f64], (image, shift): (&[f64], f64), length: f64) -> f64 {
        let rows = target.iter().zip(&self.values).zip(image);
        rows.map(|((y, value), image)| log_loss(*y, value + self.intercept + length * (image + shift))).sum()
    }

    /// *Collective.* Optimizes the intercept and computes the residual there.
    pub(super) fn fit_intercept<T: ColumnValue>(
        &mut self,
        reducer: &RowReducer<'_, '_, T>,
        target: &[f64],
        intercept: bool,
        residual: &mut RowResidual,
    ) -> Result<()> {
        residual.values = self.residual(target);
        residual.weights.clear();
        residual.shift = 0.0;
        for _ in 0..if intercept { INTERCEPT_STEPS } else { 0 } {
            let weights = target.iter().zip(&residual.values).map(|(y, u)| (y - u) * (1.0 - (y - u)));
            let mut sums = [residual.values.iter().sum::<f64>(), weights.sum(), target.len() as f64];
            reducer.sum(&mut sums)?;
            let [slope, weight, rows] = sums;
            if slope.abs() <= 1e-15 * rows {
                break;
            }
            // Where weights vanish, a Newton step would be too long.
            self.intercept += (slope / weight.max(1e-12 * rows)).clamp(-2.0, 2.0);
            residual.values = self.residual(target);
        }
        Ok(())
    }

    /// *Collective.* Updates the log-odds and the residual after coefficients have changed.
    pub(super) fn step<T: ColumnValue>(
        &mut self,
        reducer: &mut RowReducer<'_, '_, T>,
        scaling: &ColumnScaling,
        (columns, by): (&[u32], &[f64]),
        target: &[f64],
        residual: &mut RowResidual,
    ) -> Result<()> {
        let amounts: Vec<f64> =
            columns.iter().zip(by).map(|(column, by)| by * scaling.scale[*column as usize]).collect();
        reducer.step((columns, &amounts), &[], &mut self.values, &[], &mut [])?;
        self.fit_intercept(reducer, target, scaling.intercept, residual)
    }
}

/// *Collective.* Optimizes the working set until the optimality condition is violated by at most
/// `target` along each coefficient.
pub(super) fn newton<T: ColumnValue>(
    solver: &mut SparseSolver,
    reducer: &mut RowReducer<'_, '_, T>,
    target: f64,
) -> Result<()> {
    let columns = solver.working().columns();
    let mut slopes = vec![0.0; columns.len()];
    for _ in 0..MAX_NEWTON_STEPS {
        let violation = violation(solver, reducer, &columns, &mut slopes)?;
        if violation <= target
            || !advance(solver, reducer, &columns, (SUBPROBLEM_TOLERANCE * violation).max(0.5 * target))?
        {
            break;
        }
    }
    Ok(())
}

/// Returns the largest violation of the optimality condition over columns.
fn violation<T: ColumnValue>(
    solver: &mut SparseSolver,
    reducer: &mut RowReducer<'_, '_, T>,
    columns: &[u32],
    slopes: &mut [f64],
) -> Result<f64> {
    let SparseSolver { penalty, scaling, coefficients, residual, rows, visited, .. } = solver;
    QuadraticProblem::new(reducer, scaling, residual, *penalty, *rows).slopes(columns, slopes)?;
    *visited += columns.len() as u64;
    let of = |(column, slope): (&u32, &f64)| penalty.violation(*slope, coefficients[*column as usize]);
    Ok(columns.iter().zip(slopes.iter()).map(of).fold(0.0, f64::max))
}

/// Solves one quadratic subproblem and takes a step towards its solution. Returns whether the
/// objective has fallen.
fn advance<T: ColumnValue>(
    solver: &mut SparseSolver,
    reducer: &mut RowReducer<'_, '_, T>,
    columns: &[u32],
    enough: f64,
) -> Result<bool> {
    reweight(solver, reducer, columns)?;
    let old: Vec<f64> = columns.iter().map(|column| solver.coefficients[*column as usize]).collect();
    solver.improve(reducer, enough)?;
    let SparseSolver { penalty, scaling, coefficients, residual, target, margins, rows, .. } = solver;
    let margins = margins.as_mut().expect("the logistic loss has margins");
    let steps: Vec<f64> = columns.iter().zip(&old).map(|(column, old)| coefficients[*column as usize] - old).collect();
    let amounts: Vec<f64> =
        columns.iter().zip(&steps).map(|(column, by)| by * scaling.scale[*column as usize]).collect();
    let mut image = vec![0.0; margins.values.len()];
    reducer.step((columns, &amounts), &[], &mut image, &[], &mut [])?;
    let shift = -residual.shift;
    let mut length = 1.0;
    let mut before = [margins.loss(target)];
    reducer.sum(&mut before)?;
    let before = before[0] / *rows + penalty.cost(old.iter());
    let mut fallen = false;
    for _ in 0..MAX_HALVINGS {
        let mut loss = [margins.loss_at(target, (&image, shift), length)];
        reducer.sum(&mut loss)?;
        let at: Vec<f64> = old.iter().zip(&steps).map(|(old, by)| old + length * by).collect();
        // Near the minimum the decrease is below rounding.
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
        // A full step ends exactly at the subproblem's solution, so zeros stay zeros.
        if length < 1.0 {
            coefficients[*column as usize] = old + length * by;
        }
    }
    for (value, image) in margins.values.iter_mut().zip(&image) {
        *value += length * image;
    }
    margins.intercept += length * shift;
    margins.fit_intercept(reducer, target, scaling.intercept, residual)?;
    residual.weight = *rows;
    Ok(fallen)
}

/// Computes the row weights, and the means and curvatures of columns that follow.
fn reweight<T: ColumnValue>(
    solver: &mut SparseSolver,
    reducer: &mut RowReducer<'_, '_, T>,
    columns: &[u32],
) -> Result<()> {
    let SparseSolver { scaling, residual, target, rows, .. } = &mut *solver;
    let probabilities = target.iter().zip(&residual.values).map(|(y, u)| y - u);
    residual.weights =
        probabilities.map(|probability| (probability * (1.0 - probability)).max(MIN_ROW_WEIGHT)).collect();
    let mut sums = [residual.weights.iter().sum::<f64>(), residual.values.iter().sum()];
    reducer.sum(&mut sums)?;
    residual.weight = sums[0];
    residual.shift = if scaling.intercept { -sums[1] / sums[0] } else { 0.0 };
    let mut moments = vec![[0.0; 3]; columns.len()];
    reducer.moments(columns, &residual.weights, true, &mut moments)?;
    scaling.reweight(columns, &moments, sums[0], *rows);
    solver.working().invalidate_products();
    Ok(())
}
