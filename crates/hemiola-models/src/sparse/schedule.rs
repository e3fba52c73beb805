//! Scheduling of coordinate descent by the user ([`ScheduledDescent`], instead of blocks), and runs
//! in which only the schedule differs ([`study`](SparseRegression::study)).

use super::column_correlations::ColumnCorrelations;
use super::coordinate_program::{CoordinateProgram, CoordinateState};
use super::design::DesignMatrix;
use super::examples::SparseExamples;
use super::kernel::ColumnValue;
use super::problem::SparseProblem;
use super::quadratic::{ElasticNetPenalty, QuadraticProblem};
use super::solver::SparseSolver;
use super::{SparseLoss, SparseRegression};
use crate::Error;
use crate::setters::require;
use hemiola_cluster::WorkerTeam;
use hemiola_cluster::{Cluster, Result};
use hemiola_core::Seed;
use hemiola_schedule::order::{CoordinateOrder, PriorityOrder, RandomOrder, RoundRobinOrder};
use hemiola_schedule::{ConflictPolicy, DynamicScheduler, ObjectiveTrace, ScheduleReport};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::ControlFlow;

/// Order of coordinate updates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UpdateOrder {
    /// Columns that changed much are updated more often.
    #[default]
    Priority,
    /// Cyclic order over all columns.
    RoundRobin,
    /// Uniformly random order of columns.
    Random,
}

/// Schedule of coordinate updates.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoordinateSchedule {
    /// Order of the coordinate updates.
    pub next: UpdateOrder,
    /// Number of concurrent updates, which do not see each other.
    pub concurrent: usize,
    /// Number of rounds in flight; 1 is exact.
    pub depth: usize,
    /// Columns with at least this correlation are not updated concurrently; 1 or more allows all.
    pub correlation: f64,
    /// Maximum sum of correlations of concurrent columns; with 1, a round never increases the
    /// objective.
    pub total: f64,
}

impl Default for CoordinateSchedule {
    fn default() -> Self {
        Self { next: UpdateOrder::Priority, concurrent: 32, depth: 1, correlation: 0.3, total: 1.0 }
    }
}

impl CoordinateSchedule {
    /// Random columns regardless of correlation: Shotgun (Bradley et al. 2011).
    #[must_use]
    pub fn shotgun(concurrent: usize) -> Self {
        Self { next: UpdateOrder::Random, concurrent, depth: 1, correlation: 1.0, total: f64::INFINITY }
    }

    /// Fails if a value is out of range.
    pub(super) fn check(&self) -> Result<(), Error> {
        require("concurrent", &self.concurrent, self.concurrent > 0, "1 or more")?;
        require("depth", &self.depth, self.depth > 0, "1 or more; 1 is exact")?;
        require("correlation", &self.correlation, self.correlation > 0.0, "above 0")?;
        require("total", &self.total, self.total > 0.0, "above 0")
    }

    fn engine<'c>(&self, cluster: &'c Cluster, parts: usize) -> DynamicScheduler<'c> {
        let engine = DynamicScheduler::new(cluster).concurrent(self.concurrent).depth(self.depth);
        engine.conflicts(self.conflicts()).parts(parts)
    }

    /// *Collective.* Computes the column correlations, where the schedule needs them.
    fn correlations<'d, T: ColumnValue>(
        &self,
        cluster: &Cluster,
        design: &'d DesignMatrix<T>,
        columns: &'d [u32],
        intercept: bool,
    ) -> Result<Option<ColumnCorrelations<'d>>> {
        let wanted = self.conflicts() != ConflictPolicy::Ignore && self.concurrent * self.depth > 1;
        wanted.then(|| ColumnCorrelations::new(cluster, design, columns, intercept)).transpose()
    }

    fn conflicts(&self) -> ConflictPolicy {
        if self.correlation >= 1.0 {
            ConflictPolicy::Ignore
        } else {
            ConflictPolicy::Avoid { pair: self.correlation, total: self.total }
        }
    }
}

impl fmt::Display for CoordinateSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let next = match self.next {
            UpdateOrder::Priority => "by priority",
            UpdateOrder::RoundRobin => "round robin",
            UpdateOrder::Random => "random",
        };
        write!(f, "{next}, {} concurrent", self.concurrent)?;
        if self.conflicts() != ConflictPolicy::Ignore {
            write!(f, ", no two with a correlation of {} or more", self.correlation)?;
        }
        if self.depth > 1 { write!(f, ", {} rounds in flight", self.depth) } else { Ok(()) }
    }
}

/// Stopping criteria of a schedule study.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StudyLimits {
    /// Target value of the objective.
    pub objective: f64,
    /// Maximum number of updates.
    pub updates: u64,
    /// Number of updates between evaluations of the objective, about.
    pub every: u64,
}

/// Result of a schedule study.
#[derive(Clone, Debug)]
pub struct ScheduleStudy {
    /// Objective after each evaluation.
    pub trace: ObjectiveTrace,
    /// Rounds, conflicts and staleness of the schedule.
    pub report: ScheduleReport,
    /// Number of nonzero coefficients at the end.
    pub support: usize,
    /// For each column, the number of its own updates after which it last changed by more than a
    /// thousandth of the largest coefficient.
    pub last_changes: Vec<u32>,
}

impl SparseRegression {
    /// *Collective.* Runs coordinate descent over all columns from 0 by `schedule` alone: no
    /// screening, no working sets, no acceleration. For comparing schedules.
    pub fn study<T: ColumnValue>(
        &self,
        cluster: &Cluster,
        examples: SparseExamples<T>,
        schedule: &CoordinateSchedule,
        until: StudyLimits,
    ) -> Result<ScheduleStudy> {
        let settings = &self.settings;
        if settings.loss != SparseLoss::Squared {
            return Err(Error::ScheduleUnsupported.into());
        }
        let problem = SparseProblem::new(cluster, examples, settings.loss)?;
        let mut solver = problem.with_reducer(cluster, |reducer| problem.solver(reducer, settings))?;
        let lambda = solver.lambda(settings.lambda, settings.l1_ratio);
        let penalty = ElasticNetPenalty::new(lambda, settings.l1_ratio);
        let SparseSolver { scaling, coefficients, residual, rows, .. } = &mut solver;
        let columns: Vec<u32> =
            (0..coefficients.len() as u32).filter(|column| scaling.curve[*column as usize] > 0.0).collect();
        let correlations = schedule.correlations(cluster, &problem.design, &columns, settings.intercept)?;
        let parts = PARTS.min(columns.len().max(1));
        let order = RecordingOrder::new(order(schedule.next, columns.len(), parts, settings.seed), columns.len());
        let mut program = CoordinateProgram {
            design: &problem.design,
            scaling,
            penalty,
            rows: *rows,
            columns: &columns,
            correlations: correlations.as_ref(),
            order,
            changed: Vec::new(),
            by: Vec::new(),
        };
        let mut state = CoordinateState { coefficients, residual };
        let mut trace = ObjectiveTrace::default();
        let engine = schedule.engine(cluster, parts).callback_every(until.every.max(1));
        let sum = |values: f64| cluster.all_gather(values).map(|all| all.into_iter().sum::<f64>());
        let report = cluster.worker_team(|team: &mut WorkerTeam<'_>| {
            engine.run_with(team, &mut program, &mut state, |progress, program, state| {
                let square = sum(state.residual.square(&state.residual.values, state.residual.shift))?;
                let objective = square / (2.0 * program.rows) + penalty.cost(state.coefficients.iter());
                trace.add(progress, objective);
                let ends = objective <= until.objective || progress.jobs >= until.updates || !objective.is_finite();
                Ok(if ends { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })
        })?;
        let largest = state.coefficients.iter().fold(0.0_f64, |most, b| most.max(b.abs()));
        let last_changes = program.order.last_changes(1e-3 * largest);
        let support = state.coefficients.iter().filter(|b| **b != 0.0).count();
        Ok(ScheduleStudy { trace, report, support, last_changes })
    }
}

/// Coordinate descent over selected columns by a schedule.
pub(super) struct ScheduledDescent<'s> {
    schedule: CoordinateSchedule,
    columns: &'s [u32],
    correlations: Option<ColumnCorrelations<'s>>,
    order: Option<Box<dyn CoordinateOrder + Send + Sync>>,
    parts: usize,
}

impl<'s> ScheduledDescent<'s> {
    /// *Collective.* Creates the descent over `columns`.
    pub(super) fn new<'f: 's, T: ColumnValue>(
        problem: &mut QuadraticProblem<'_, 'f, '_, T>,
        columns: &'s [u32],
        schedule: CoordinateSchedule,
        seed: u64,
    ) -> Result<Self> {
        let design = problem.reducer.design();
        let correlations =
            schedule.correlations(problem.reducer.cluster_and_team().0, design, columns, problem.scaling.intercept)?;
        let parts = PARTS.min(columns.len().max(1));
        let order = Some(order(schedule.next, columns.len(), parts, seed));
        Ok(Self { schedule, columns, correlations, order, parts })
    }

    /// *Collective.* Makes as many updates as `passes` passes over all columns. Returns the number
    /// of updates.
    pub(super) fn descend<T: ColumnValue>(
        &mut self,
        problem: &mut QuadraticProblem<'_, '_, '_, T>,
        coefficients: &mut [f64],
        passes: usize,
    ) -> Result<u64> {
        if self.columns.is_empty() {
            return Ok(0);
        }
        let mut program = CoordinateProgram {
            design: problem.reducer.design(),
            scaling: problem.scaling,
            penalty: problem.penalty,
            rows: problem.rows,
            columns: self.columns,
            correlations: self.correlations.as_ref(),
            order: self.order.take().expect("the order is put back after each run"),
            changed: Vec::new(),
            by: Vec::new(),
        };
        let mut state = CoordinateState { coefficients, residual: problem.residual };
        let (cluster, team) = problem.reducer.cluster_and_team();
        let updates = (passes * self.columns.len()) as u64;
        let engine = self.schedule.engine(cluster, self.parts).callback_every(updates);
        let report = engine.run_with(team, &mut program, &mut state, |_, _, _| Ok(ControlFlow::Break(())));
        self.order = Some(program.order);
        Ok(report?.progress.jobs)
    }
}

/// Number of parts in which columns are requested; any number of workers can share them.
const PARTS: usize = 8;

/// Creates the order of updates.
pub(super) fn order(
    next: UpdateOrder,
    length: usize,
    parts: usize,
    seed: u64,
) -> Box<dyn CoordinateOrder + Send + Sync> {
    match next {
        UpdateOrder::Priority => Box::new(PriorityOrder::new(length, parts, Seed(seed))),
        UpdateOrder::RoundRobin => Box::new(RoundRobinOrder::new(length)),
        UpdateOrder::Random => Box::new(RandomOrder::new(length, Seed(seed))),
    }
}

/// Order that records the changes of each column.
struct RecordingOrder {
    order: Box<dyn CoordinateOrder + Send + Sync>,
    /// Per column: number of updates, and the updates that changed it with their amounts.
    updates: Vec<u32>,
    changes: Vec<Vec<(u32, f32)>>,
}

impl RecordingOrder {
    fn new(order: Box<dyn CoordinateOrder + Send + Sync>, length: usize) -> Self {
        Self { order, updates: vec![0; length], changes: vec![Vec::new(); length] }
    }

    /// Returns for each column the number of its last update that changed it by more than `least`.
    fn last_changes(&self, least: f64) -> Vec<u32> {
        let of = |changes: &Vec<(u32, f32)>| {
            changes.iter().rev().find(|(_, change)| f64::from(*change) > least).map_or(0, |(update, _)| *update)
        };
        self.changes.iter().map(of).collect()
    }
}

impl CoordinateOrder for RecordingOrder {
    fn propose(
        &self,
        ask: &hemiola_schedule::ScheduleRequest,
        candidates: &mut Vec<hemiola_schedule::JobCandidate<usize>>,
    ) {
        self.order.propose(ask, candidates);
    }

    fn record_change(&mut self, coordinate: usize, change: f64) {
        self.updates[coordinate] += 1;
        if change != 0.0 {
            self.changes[coordinate].push((self.updates[coordinate], change.abs() as f32));
        }
        self.order.record_change(coordinate, change);
    }
}
