//! How coordinate descent is scheduled, where a user wants to say so; and runs in which nothing but the schedule differs.

use super::coordinates::{Coordinates, Place};
use super::couplings::Couplings;
use super::examples::Examples;
use super::ground::Ground;
use super::kernel::Value;
use super::quadratic::Penalty;
use super::solver::Solver;
use super::{Loss, SparseRegression};
use crate::Error;
use hemiola::cluster::Crew;
use hemiola::schedule::order::{Order, Priority, Random, RoundRobin};
use hemiola::schedule::{Conflicts, Dynamic, Report, Trace};
use hemiola::{Cluster, Result};
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

/// Which columns are updated next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Next {
    /// Those that changed much, more often.
    #[default]
    Priority,
    /// One after the other.
    RoundRobin,
    /// Any.
    Random,
}

/// How updates are scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// Which columns are updated next.
    pub next: Next,
    /// Updates that do not see each other.
    pub concurrent: usize,
    /// Rounds of them under way: 1 is exact.
    pub depth: usize,
    /// Columns that are correlated by so much are not updated at once; 1 or more lets all be.
    pub correlation: f64,
    /// Nor more of them than whose correlations add up to this: with 1, a round never raises the objective.
    pub total: f64,
}

impl Default for Schedule {
    fn default() -> Self {
        Self { next: Next::Priority, concurrent: 32, depth: 1, correlation: 0.3, total: 1.0 }
    }
}

impl Schedule {
    /// Any columns, whatever they do to each other: Shotgun (Bradley et al. 2011).
    #[must_use]
    pub fn shotgun(concurrent: usize) -> Self {
        Self { next: Next::Random, concurrent, depth: 1, correlation: 1.0, total: f64::INFINITY }
    }

    fn conflicts(&self) -> Conflicts {
        if self.correlation >= 1.0 {
            Conflicts::Ignore
        } else {
            Conflicts::Avoid { pair: self.correlation, total: self.total }
        }
    }
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Until {
    /// The objective is as low as this.
    pub objective: f64,
    /// So many updates are done.
    pub updates: u64,
    /// The objective is looked at each time after about so many updates.
    pub every: u64,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Study {
    /// The objective along the way.
    pub trace: Trace,
    /// Rounds, conflicts, staleness.
    pub report: Report,
    /// How many coefficients are not 0, in the end.
    pub support: usize,
    /// For each column, after how many updates of its own it changed for the last time by more than a thousandth of the largest coefficient.
    pub settled: Vec<u32>,
}

impl SparseRegression {
    /// *Collective.* Coordinate descent over all columns, from 0, as `schedule` says and no more than that: no screening, no working sets, no acceleration. For comparing schedules.
    pub fn study<T: Value>(
        &self,
        cluster: &Cluster,
        examples: Examples<T>,
        schedule: &Schedule,
        until: Until,
    ) -> Result<Study> {
        let settings = &self.settings;
        if settings.loss != Loss::Squared {
            return Err(Error::NotScheduled.into());
        }
        let ground = Ground::new(cluster, examples, settings.loss)?;
        let mut solver = ground.field(cluster, |field| ground.solver(field, settings))?;
        let lambda = solver.lambda(settings.lambda, settings.ratio);
        let penalty = Penalty::new(lambda, settings.ratio);
        let Solver { scaling, coefficients, residual, rows, .. } = &mut solver;
        let columns: Vec<u32> =
            (0..coefficients.len() as u32).filter(|column| scaling.curve[*column as usize] > 0.0).collect();
        let couplings = schedule.conflicts() != Conflicts::Ignore;
        let couplings = couplings.then(|| Couplings::new(cluster, &ground.design, &columns, settings.intercept));
        let couplings = couplings.transpose()?;
        let parts = PARTS.min(columns.len().max(1));
        let order = Watched::new(order(schedule.next, columns.len(), parts, settings.seed), columns.len());
        let mut program = Coordinates {
            design: &ground.design,
            scaling,
            penalty,
            rows: *rows,
            columns: &columns,
            couplings: couplings.as_ref(),
            order,
            changed: Vec::new(),
            by: Vec::new(),
        };
        let mut state = Place { coefficients, residual };
        let mut trace = Trace::default();
        let engine = Dynamic::new(cluster)
            .concurrent(schedule.concurrent)
            .depth(schedule.depth)
            .conflicts(schedule.conflicts())
            .parts(parts)
            .watch_every(until.every.max(1));
        let sum = |values: f64| cluster.all_gather(values).map(|all| all.into_iter().sum::<f64>());
        let report = cluster.crew(|crew: &mut Crew<'_>| {
            engine.run_with(crew, &mut program, &mut state, |progress, program, state| {
                let square = sum(state.residual.square(&state.residual.values, state.residual.shift))?;
                let objective = square / (2.0 * program.rows) + penalty.cost(state.coefficients.iter());
                trace.add(progress, objective);
                let ends = objective <= until.objective || progress.jobs >= until.updates || !objective.is_finite();
                Ok(if ends { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })
        })?;
        let largest = state.coefficients.iter().fold(0.0_f64, |most, b| most.max(b.abs()));
        let settled = program.order.settled(1e-3 * largest);
        let support = state.coefficients.iter().filter(|b| **b != 0.0).count();
        Ok(Study { trace, report, support, settled })
    }
}

/// Parts in which columns are asked for: any number of workers can share them.
const PARTS: usize = 8;

/// An order of columns.
pub(super) fn order(next: Next, length: usize, parts: usize, seed: u64) -> Box<dyn Order + Send + Sync> {
    match next {
        Next::Priority => Box::new(Priority::new(length, parts, seed)),
        Next::RoundRobin => Box::new(RoundRobin::new(length)),
        Next::Random => Box::new(Random::new(length, seed)),
    }
}

/// An order that remembers what changed.
struct Watched {
    order: Box<dyn Order + Send + Sync>,
    /// By column: its updates, and those that changed it by how much.
    updates: Vec<u32>,
    changes: Vec<Vec<(u32, f32)>>,
}

impl Watched {
    fn new(order: Box<dyn Order + Send + Sync>, length: usize) -> Self {
        Self { order, updates: vec![0; length], changes: vec![Vec::new(); length] }
    }

    /// For each column, the number of its last update that changed it by more than that.
    fn settled(&self, least: f64) -> Vec<u32> {
        let of = |changes: &Vec<(u32, f32)>| {
            changes.iter().rev().find(|(_, change)| f64::from(*change) > least).map_or(0, |(update, _)| *update)
        };
        self.changes.iter().map(of).collect()
    }
}

impl Order for Watched {
    fn propose(&self, ask: &hemiola::schedule::Ask, candidates: &mut Vec<hemiola::schedule::Candidate<usize>>) {
        self.order.propose(ask, candidates);
    }

    fn changed(&mut self, coordinate: usize, change: f64) {
        self.updates[coordinate] += 1;
        if change != 0.0 {
            self.changes[coordinate].push((self.updates[coordinate], change.abs() as f32));
        }
        self.order.changed(coordinate, change);
    }
}
