//! Coordinate descent as a scheduled program: schedule, update, aggregate.
//!
//! A job is a column. An update is its product with what is left to explain, on this peer's rows; to aggregate is to add up what peers found, take the coefficient to its minimum
//! along itself, and let what is left to explain follow. Which columns are worth it is a matter of the order, which may be any.

use super::couplings::Couplings;
use super::design::Design;
use super::kernel::Value;
use super::quadratic::Penalty;
use super::scaling::{Residual, Scaling};
use hemiola::Result;
use hemiola::cluster::Crew;
use hemiola::schedule::order::Order;
use hemiola::schedule::{Ask, Candidate, Done, Program};

/// Values that are changed by one thread: more are shared.
const ALONE: usize = 4096;

/// The program. Jobs are places among `columns`.
pub(super) struct Coordinates<'p, T, O> {
    pub(super) design: &'p Design<T>,
    pub(super) scaling: &'p Scaling,
    pub(super) penalty: Penalty,
    /// Of all peers.
    pub(super) rows: f64,
    pub(super) columns: &'p [u32],
    pub(super) couplings: Option<&'p Couplings<'p>>,
    pub(super) order: O,
    /// What a round has changed, by stored column.
    pub(super) changed: Vec<u32>,
    pub(super) by: Vec<f64>,
}

/// The model, and what is left to explain.
pub(super) struct Place<'s> {
    /// Of centred and scaled columns, by column.
    pub(super) coefficients: &'s mut [f64],
    pub(super) residual: &'s mut Residual,
}

impl<T: Value, O: Order> Coordinates<'_, T, O> {
    /// How much the last change of a coefficient was worth, in the unit of the objective's root.
    fn note(&mut self, job: usize, change: f64) {
        self.order.changed(job, change * self.scaling.curve[self.columns[job] as usize].sqrt());
    }
}

impl<'s, T: Value, O: Order> Program for Coordinates<'s, T, O> {
    type Job = usize;
    /// The product with the stored values, and the shift they had.
    type Partial = (f64, f64);
    type State = Place<'s>;

    fn schedule(&self, ask: &Ask, _: &Place<'s>, candidates: &mut Vec<Candidate<usize>>) {
        self.order.propose(ask, candidates);
    }

    fn coupling(&self, a: &usize, b: &usize, _: &Place<'s>) -> f64 {
        self.couplings.map_or(0.0, |couplings| couplings.between(*a, *b))
    }

    fn update(&self, job: &usize, state: &Place<'s>) -> (f64, f64) {
        let mut product = [0.0];
        self.design.dots(&self.columns[*job..=*job], &state.residual.values, &mut product);
        (product[0], state.residual.shift)
    }

    fn aggregate(
        &mut self,
        done: &Done<'_, usize, (f64, f64)>,
        state: &mut Place<'s>,
        crew: &mut Crew<'_>,
    ) -> Result<()> {
        let Place { coefficients, residual } = state;
        let (mut moved, weight) = (0.0, residual.weight);
        self.changed.clear();
        self.by.clear();
        for (place, job) in done.jobs.iter().enumerate() {
            let column = self.columns[*job] as usize;
            let (mean, scale, curve) =
                (self.scaling.mean[column], self.scaling.scale[column], self.scaling.curve[column]);
            let product: f64 = done.partials(place).map(|partial| partial.0).sum();
            let shift = done.partials(place).next().map_or(0.0, |partial| partial.1);
            let slope = (product + shift * weight * mean) * scale / self.rows;
            let found = self.penalty.minimum(slope, coefficients[column], curve);
            let change = found - coefficients[column];
            self.note(*job, change);
            if change != 0.0 {
                coefficients[column] = found;
                moved += change * scale * mean;
                self.changed.push(column as u32);
                self.by.push(-change * scale);
            }
        }
        residual.shift += moved;
        self.follow(residual, crew)
    }

    fn cost(&self, job: &usize, _: &Place<'s>) -> u64 {
        self.design.count(self.columns[*job]) as u64
    }
}

impl<T: Value, O> Coordinates<'_, T, O> {
    /// Coefficients have changed: what is left to explain follows.
    fn follow(&self, residual: &mut Residual, crew: &mut Crew<'_>) -> Result<()> {
        let (design, changes) = (self.design, (&self.changed[..], &self.by[..]));
        let Residual { values, weights, .. } = residual;
        let of_part = |part: usize, values: &mut [f64]| {
            let weights = if weights.is_empty() { &weights[..] } else { &weights[design.part(part)] };
            design.add(changes, part, weights, &mut Vec::new(), values);
        };
        let work: usize = self.changed.iter().map(|column| design.count(*column)).sum();
        let mut parts = design.parts_of(values);
        if work < ALONE {
            for (part, values) in parts.into_iter().enumerate() {
                of_part(part, values);
            }
            return Ok(());
        }
        crew.each_with(&mut parts, |part, values| of_part(part, values))
    }
}
