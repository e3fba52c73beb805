//! Regularization path: solutions for decreasing penalties, with warm starts.
//!
//! Penalties decrease geometrically from the smallest one for which all coefficients are 0. Each
//! solution starts from the previous one, so the whole path costs little more than its last point.
//! The path ends early when nearly everything is explained, or nothing more is.

use super::SparseRegression;
use super::examples::{SparseExamples, distribute};
use super::kernel::ColumnValue;
use super::problem::SparseProblem;
use super::quadratic::ElasticNetPenalty;
use super::row_reducer::RowReducer;
use super::settings::SparseSettings;
use super::solver::SparseSolver;
use hemiola_array::dist::LabelledData;
use hemiola_cluster::{Cluster, Result};
use serde::{Deserialize, Serialize};

/// A path ends when this fraction is explained, or when a penalty improves the explained fraction
/// by less than this.
const EXPLAINED_ENOUGH: f64 = 0.999;
const MIN_IMPROVEMENT: f64 = 1e-5;
/// Minimum number of penalties of a path.
const MIN_POINTS: usize = 5;

/// Grid of penalties of a path.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LambdaGrid {
    /// Number of penalties in the grid.
    pub count: usize,
    /// Smallest penalty, relative to the largest.
    pub min_ratio: f64,
}

impl Default for LambdaGrid {
    /// A hundred penalties, down to a thousandth.
    fn default() -> Self {
        Self { count: 100, min_ratio: 1e-3 }
    }
}

impl LambdaGrid {
    /// Returns the penalties from `largest` down.
    #[must_use]
    pub fn lambdas(self, largest: f64) -> Vec<f64> {
        let steps = self.count.saturating_sub(1).max(1) as f64;
        (0..self.count).map(|step| largest * self.min_ratio.powf(step as f64 / steps)).collect()
    }
}

/// Solution for one penalty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathPoint {
    /// Penalty strength `lambda` of the solution.
    pub lambda: f64,
    /// Objective: loss plus penalty.
    pub objective: f64,
    /// Duality gap relative to the objective without coefficients.
    pub gap: f64,
    /// Fraction of the loss without coefficients that is explained.
    pub explained: f64,
    /// Prediction where all features are 0.
    pub intercept: f64,
    /// Column and value of each nonzero coefficient.
    pub coefficients: Vec<(u32, f64)>,
}

impl SparseRegression {
    /// *Collective.* Computes the regularization path, equal on every peer. Like training, it leaves
    /// out the rows that the settings hold out for validation.
    pub fn path(&self, cluster: &Cluster, examples: &LabelledData, grid: LambdaGrid) -> Result<Vec<PathPoint>> {
        let (distributed, _) = distribute(cluster, examples, examples.features.shape().extent(1))?;
        self.path_of_rows(cluster, distributed, grid)
    }

    /// *Collective.* Computes the path for rows that this peer already holds by columns.
    pub fn path_of_rows<T: ColumnValue>(
        &self,
        cluster: &Cluster,
        examples: SparseExamples<T>,
        grid: LambdaGrid,
    ) -> Result<Vec<PathPoint>> {
        let (problem, _) = self.settings.held_out(SparseProblem::new(cluster, examples, self.settings.loss)?);
        problem.with_reducer(cluster, |reducer| {
            let mut solver = problem.solver(reducer, &self.settings)?;
            let lambdas = grid.lambdas(solver.max_l1() / self.settings.l1_ratio);
            follow_path(reducer, &mut solver, &self.settings, &lambdas, &stops_early)
        })
    }

    /// *Collective.* Computes the solutions of all rows of this peer for descending `lambdas`. Ends
    /// early when `stop` returns true, on any peer.
    pub fn path_at<T: ColumnValue>(
        &self,
        cluster: &Cluster,
        examples: SparseExamples<T>,
        lambdas: &[f64],
        stop: &dyn Fn() -> bool,
    ) -> Result<Vec<PathPoint>> {
        let problem = SparseProblem::new(cluster, examples, self.settings.loss)?;
        problem.with_reducer(cluster, |reducer| {
            let mut solver = problem.solver(reducer, &self.settings)?;
            let mut points = Vec::with_capacity(lambdas.len());
            for lambda in lambdas {
                if cluster.all_gather(stop())?.contains(&true) {
                    break;
                }
                points.extend(follow_path(reducer, &mut solver, &self.settings, &[*lambda], &|_| false)?);
            }
            Ok(points)
        })
    }
}

/// Returns true if nearly everything is explained, or nothing more is.
fn stops_early(points: &[PathPoint]) -> bool {
    let explained =
        |index: Option<usize>| index.and_then(|index| points.get(index)).map_or(0.0, |point| point.explained);
    let (now, before) = (explained(points.len().checked_sub(1)), explained(points.len().checked_sub(2)));
    points.len() >= MIN_POINTS && (now >= EXPLAINED_ENOUGH || now - before < MIN_IMPROVEMENT * now)
}

/// *Collective.* Solves for one penalty after another, until `stop` returns true for the points.
pub(super) fn follow_path<T: ColumnValue>(
    reducer: &mut RowReducer<'_, '_, T>,
    solver: &mut SparseSolver,
    settings: &SparseSettings,
    lambdas: &[f64],
    stop: &dyn Fn(&[PathPoint]) -> bool,
) -> Result<Vec<PathPoint>> {
    let mut points: Vec<PathPoint> = Vec::new();
    for lambda in lambdas {
        solver.set_penalty(reducer, ElasticNetPenalty::new(*lambda, settings.l1_ratio))?;
        for _ in 0..settings.limits.epochs {
            if solver.survey().gap <= settings.tolerance || solver.is_exhausted() {
                break;
            }
            solver.round(reducer)?;
        }
        let survey = solver.survey();
        let (intercept, coefficients) = solver.solution();
        let explained = 1.0 - survey.unexplained;
        points.push(PathPoint {
            lambda: *lambda,
            objective: survey.objective,
            gap: survey.gap,
            explained,
            intercept,
            coefficients,
        });
        if stop(&points) {
            break;
        }
    }
    Ok(points)
}
