//! Coordinate descent as a scheduled program: schedule, update, aggregate.
//!
//! A job is a column. An update computes its dot product with the residual on this peer's rows.
//! Aggregation sums the results of peers, moves the coefficient to its minimum along the
//! coordinate, and updates the residual. The choice of columns is left to the order, which may be
//! any.

use super::column_correlations::ColumnCorrelations;
use super::design::DesignMatrix;
use super::kernel::ColumnValue;
use super::quadratic::ElasticNetPenalty;
use super::scaling::{ColumnScaling, RowResidual};
use hemiola_cluster::Result;
use hemiola_cluster::WorkerTeam;
use hemiola_schedule::order::CoordinateOrder;
use hemiola_schedule::{DynamicProgram, JobCandidate, RoundResults, ScheduleRequest};

/// Number of stored values up to which one thread applies the changes.
const SERIAL_WORK_LIMIT: usize = 4096;

/// Coordinate-descent program. Jobs are indices into `columns`.
pub(super) struct CoordinateProgram<'p, T, O> {
    pub(super) design: &'p DesignMatrix<T>,
    pub(super) scaling: &'p ColumnScaling,
    pub(super) penalty: ElasticNetPenalty,
    /// Number of rows of all peers.
    pub(super) rows: f64,
    pub(super) columns: &'p [u32],
    pub(super) correlations: Option<&'p ColumnCorrelations<'p>>,
    pub(super) order: O,
    /// Columns changed in this round, and the amounts.
    pub(super) changed: Vec<u32>,
    pub(super) by: Vec<f64>,
}

/// State of the program: coefficients and residual.
pub(super) struct CoordinateState<'s> {
    /// Coefficients of centred and scaled columns.
    pub(super) coefficients: &'s mut [f64],
    pub(super) residual: &'s mut RowResidual,
}

impl<T: ColumnValue, O: CoordinateOrder> CoordinateProgram<'_, T, O> {
    /// Reports the last change of a coefficient to the order, in units of the square root of the
    /// objective.
    fn record_change(&mut self, job: usize, change: f64) {
        self.order.record_change(job, change * self.scaling.curve[self.columns[job] as usize].sqrt());
    }
}

impl<'s, T: ColumnValue, O: CoordinateOrder> DynamicProgram for CoordinateProgram<'s, T, O> {
    type Job = usize;
    /// Dot product with the stored values, and the shift of the residual at that time.
    type Partial = (f64, f64);
    type State = CoordinateState<'s>;

    fn schedule(&self, ask: &ScheduleRequest, _: &CoordinateState<'s>, candidates: &mut Vec<JobCandidate<usize>>) {
        self.order.propose(ask, candidates);
    }

    fn coupling(&self, a: &usize, b: &usize, _: &CoordinateState<'s>) -> f64 {
        self.correlations.map_or(0.0, |correlations| correlations.between(*a, *b))
    }

    fn update(&self, job: &usize, state: &CoordinateState<'s>) -> (f64, f64) {
        let mut product = [0.0];
        self.design.dots(&self.columns[*job..=*job], &state.residual.values, &mut product);
        (product[0], state.residual.shift)
    }

    fn aggregate(
        &mut self,
        done: &RoundResults<'_, usize, (f64, f64)>,
        state: &mut CoordinateState<'s>,
        team: &mut WorkerTeam<'_>,
    ) -> Result<()> {
        let CoordinateState { coefficients, residual } = state;
        let (mut moved, weight) = (0.0, residual.weight);
        self.changed.clear();
        self.by.clear();
        for (index, job) in done.jobs.iter().enumerate() {
            let column = self.columns[*job] as usize;
            let (mean, scale, curve) =
                (self.scaling.mean[column], self.scaling.scale[column], self.scaling.curve[column]);
            let product: f64 = done.partials(index).map(|partial| partial.0).sum();
            let shift = done.partials(index).next().map_or(0.0, |partial| partial.1);
            let slope = (product + shift * weight * mean) * scale / self.rows;
            let found = self.penalty.minimum(slope, coefficients[column], curve);
            let change = found - coefficients[column];
            self.record_change(*job, change);
            if change != 0.0 {
                coefficients[column] = found;
                moved += change * scale * mean;
                self.changed.push(column as u32);
                self.by.push(-change * scale);
            }
        }
        residual.shift += moved;
        self.update_residual(residual, team)
    }

    fn cost(&self, job: &usize, _: &CoordinateState<'s>) -> u64 {
        self.design.count(self.columns[*job]) as u64
    }
}

impl<T: ColumnValue, O> CoordinateProgram<'_, T, O> {
    /// Updates the residual after coefficients have changed.
    fn update_residual(&self, residual: &mut RowResidual, team: &mut WorkerTeam<'_>) -> Result<()> {
        let (design, changes) = (self.design, (&self.changed[..], &self.by[..]));
        let RowResidual { values, weights, .. } = residual;
        let of_part = |part: usize, values: &mut [f64]| {
            let weights = if weights.is_empty() { &weights[..] } else { &weights[design.part(part)] };
            design.add(changes, part, weights, &mut Vec::new(), values);
        };
        let work: usize = self.changed.iter().map(|column| design.count(*column)).sum();
        let mut parts = design.parts_of(values);
        if work < SERIAL_WORK_LIMIT {
            for (part, values) in parts.into_iter().enumerate() {
                of_part(part, values);
            }
            return Ok(());
        }
        team.each_with(&mut parts, |part, values| of_part(part, values))
    }
}
