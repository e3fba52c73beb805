//! How coordinate descent is scheduled, where a user wants to say so ([`Scheduled`], in place of blocks); and runs in which nothing but the schedule differs ([`study`](SparseRegression::study)).

use super::coordinates::{Coordinates, Place};
use super::couplings::Couplings;
use super::design::Design;
use super::examples::Examples;
use super::ground::Ground;
use super::kernel::Value;
use super::quadratic::{Penalty, Quadratic};
use super::solver::Solver;
use super::{Loss, SparseRegression};
use crate::Error;
use hemiola::cluster::Crew;
use hemiola::schedule::order::{Order, Priority, Random, RoundRobin};
use hemiola::schedule::{Conflicts, Dynamic, Report, Trace};
use hemiola::{Cluster, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
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

    /// Refuses what cannot be.
    pub(super) fn check(&self) -> Result<(), Error> {
        let refuse = |setting, found: String, expected| Err(Error::Setting { setting, found, expected });
        if self.concurrent == 0 {
            return refuse("concurrent", "0".to_owned(), "1 or more");
        }
        if self.depth == 0 {
            return refuse("depth", "0".to_owned(), "1 or more; 1 is exact");
        }
        if self.correlation.is_nan() || self.correlation <= 0.0 {
            return refuse("correlation", self.correlation.to_string(), "above 0");
        }
        if self.total.is_nan() || self.total <= 0.0 {
            return refuse("total", self.total.to_string(), "above 0");
        }
        Ok(())
    }

    fn engine<'c>(&self, cluster: &'c Cluster, parts: usize) -> Dynamic<'c> {
        let engine = Dynamic::new(cluster).concurrent(self.concurrent).depth(self.depth);
        engine.conflicts(self.conflicts()).parts(parts)
    }

    /// *Collective.* What it has to know of columns.
    fn couplings<'d, T: Value>(
        &self,
        cluster: &Cluster,
        design: &'d Design<T>,
        columns: &'d [u32],
        intercept: bool,
    ) -> Result<Option<Couplings<'d>>> {
        let wanted = self.conflicts() != Conflicts::Ignore && self.concurrent * self.depth > 1;
        wanted.then(|| Couplings::new(cluster, design, columns, intercept)).transpose()
    }

    fn conflicts(&self) -> Conflicts {
        if self.correlation >= 1.0 {
            Conflicts::Ignore
        } else {
            Conflicts::Avoid { pair: self.correlation, total: self.total }
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let next = match self.next {
            Next::Priority => "those that changed much more often",
            Next::RoundRobin => "one after the other",
            Next::Random => "any",
        };
        write!(f, "{next}, {} at once", self.concurrent)?;
        if self.conflicts() != Conflicts::Ignore {
            write!(f, " of which no two are correlated by {} or more", self.correlation)?;
        }
        if self.depth > 1 { write!(f, ", {} rounds under way", self.depth) } else { Ok(()) }
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
        let couplings = schedule.couplings(cluster, &ground.design, &columns, settings.intercept)?;
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
        let engine = schedule.engine(cluster, parts).watch_every(until.every.max(1));
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

/// Coordinate descent over some columns, as a schedule says.
pub(super) struct Scheduled<'s> {
    schedule: Schedule,
    columns: &'s [u32],
    couplings: Option<Couplings<'s>>,
    order: Option<Box<dyn Order + Send + Sync>>,
    parts: usize,
}

impl<'s> Scheduled<'s> {
    /// *Collective.* Over these columns.
    pub(super) fn new<'f: 's, T: Value>(
        problem: &mut Quadratic<'_, 'f, '_, T>,
        columns: &'s [u32],
        schedule: Schedule,
        seed: u64,
    ) -> Result<Self> {
        let design = problem.field.design();
        let couplings = schedule.couplings(problem.field.hands().0, design, columns, problem.scaling.intercept)?;
        let parts = PARTS.min(columns.len().max(1));
        let order = Some(order(schedule.next, columns.len(), parts, seed));
        Ok(Self { schedule, columns, couplings, order, parts })
    }

    /// *Collective.* As many updates as `passes` over all columns would take. How many were made.
    pub(super) fn descend<T: Value>(
        &mut self,
        problem: &mut Quadratic<'_, '_, '_, T>,
        coefficients: &mut [f64],
        passes: usize,
    ) -> Result<u64> {
        if self.columns.is_empty() {
            return Ok(0);
        }
        let mut program = Coordinates {
            design: problem.field.design(),
            scaling: problem.scaling,
            penalty: problem.penalty,
            rows: problem.rows,
            columns: self.columns,
            couplings: self.couplings.as_ref(),
            order: self.order.take().expect("it is put back"),
            changed: Vec::new(),
            by: Vec::new(),
        };
        let mut state = Place { coefficients, residual: problem.residual };
        let (cluster, crew) = problem.field.hands();
        let updates = (passes * self.columns.len()) as u64;
        let engine = self.schedule.engine(cluster, self.parts).watch_every(updates);
        let report = engine.run_with(crew, &mut program, &mut state, |_, _, _| Ok(ControlFlow::Break(())));
        self.order = Some(program.order);
        Ok(report?.progress.jobs)
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
