//! A path: solutions for one penalty after the other, from none to many coefficients.
//!
//! Penalties go down in equal ratios from the smallest for which all coefficients are 0. Each solution starts from the one before, so all of them take little more than the
//! last alone. The path ends early when there is nothing left to explain, or nothing more is explained.

use super::SparseRegression;
use super::examples::{Examples, deal};
use super::field::Field;
use super::ground::Ground;
use super::kernel::Value;
use super::quadratic::Penalty;
use super::settings::Settings;
use super::solver::Solver;
use hemiola::array::dist::Labelled;
use hemiola::{Cluster, Result};
use serde::{Deserialize, Serialize};

/// A path ends when so much is explained, or when a penalty explains less than this share more than the one before.
const ALL: f64 = 0.999;
const NO_MORE: f64 = 1e-5;
/// It has so many penalties at least.
const LEAST: usize = 5;

/// Penalties of a path.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grid {
    /// How many.
    pub count: usize,
    /// The last, in shares of the first.
    pub least: f64,
}

impl Default for Grid {
    /// A hundred, down to a thousandth.
    fn default() -> Self {
        Self { count: 100, least: 1e-3 }
    }
}

impl Grid {
    /// From `largest` on.
    #[must_use]
    pub fn lambdas(self, largest: f64) -> Vec<f64> {
        let steps = self.count.saturating_sub(1).max(1) as f64;
        (0..self.count).map(|step| largest * self.least.powf(step as f64 / steps)).collect()
    }
}

/// The solution for one penalty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// How much coefficients cost.
    pub lambda: f64,
    /// Loss and penalty.
    pub objective: f64,
    /// The duality gap, in shares of the objective without coefficients.
    pub gap: f64,
    /// The share of the loss without coefficients that is explained.
    pub explained: f64,
    /// What is predicted where all features are 0.
    pub intercept: f64,
    /// Column and value of each coefficient that is not 0.
    pub coefficients: Vec<(u32, f64)>,
}

impl SparseRegression {
    /// *Collective.* The path of examples, the same on every peer.
    pub fn path(&self, cluster: &Cluster, examples: &Labelled, grid: Grid) -> Result<Vec<Point>> {
        let (dealt, _) = deal(cluster, examples, examples.features.shape().extent(1))?;
        self.path_of_rows(cluster, dealt, grid)
    }

    /// *Collective.* The same for rows that this peer has by columns already.
    pub fn path_of_rows<T: Value>(&self, cluster: &Cluster, examples: Examples<T>, grid: Grid) -> Result<Vec<Point>> {
        let ground = Ground::new(cluster, examples, self.settings.loss)?;
        ground.field(cluster, |field| {
            let mut solver = ground.solver(field, &self.settings)?;
            let lambdas = grid.lambdas(solver.largest() / self.settings.ratio);
            walk(field, &mut solver, &self.settings, &lambdas, true)
        })
    }
}

/// *Collective.* Goes from one penalty to the next. All of them if it is not to `stop` early.
pub(super) fn walk<T: Value>(
    field: &mut Field<'_, '_, T>,
    solver: &mut Solver,
    settings: &Settings,
    lambdas: &[f64],
    stop: bool,
) -> Result<Vec<Point>> {
    let mut points: Vec<Point> = Vec::new();
    for lambda in lambdas {
        solver.aim(field, Penalty::new(*lambda, settings.ratio))?;
        for _ in 0..settings.limits.epochs {
            if solver.survey().gap <= settings.tolerance || solver.is_exhausted() {
                break;
            }
            solver.round(field)?;
        }
        let survey = solver.survey();
        let (intercept, coefficients) = solver.solution();
        let explained = 1.0 - survey.unexplained;
        let before = points.last().map_or(0.0, |point| point.explained);
        points.push(Point {
            lambda: *lambda,
            objective: survey.objective,
            gap: survey.gap,
            explained,
            intercept,
            coefficients,
        });
        if stop && points.len() >= LEAST && (explained >= ALL || explained - before < NO_MORE * explained) {
            break;
        }
    }
    Ok(points)
}
