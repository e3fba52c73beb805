//! Learning curves of simulated trainings on a table.

use crate::actors::tables::{TableActor, TableProgram};
use crate::units::SimDuration;
use hemiola_core::Moment;
use hemiola_tables_proto::dtype::StorageType;

/// Losses of a worker: sum and count, by clock.
#[derive(Clone, Debug, Default)]
pub(super) struct ClockLosses(Vec<(f64, u64)>);

impl ClockLosses {
    pub(super) fn add(&mut self, clock: u64, loss: f64) {
        let clock = clock as usize;
        if self.0.len() <= clock {
            self.0.resize(clock + 1, (0.0, 0));
        }
        self.0[clock].0 += loss;
        self.0[clock].1 += 1;
    }
}

/// Returns the end time of the last worker and the mean loss of all workers, by clock.
pub(super) fn learning_curve<'a, C: StorageType + 'a, P: TableProgram<C> + 'a>(
    actors: &(impl Iterator<Item = &'a TableActor<C, P>> + Clone),
    losses: impl Fn(&P) -> &ClockLosses,
) -> Vec<(SimDuration, f64)> {
    let ends: Vec<&[Moment]> = actors.clone().flat_map(TableActor::clock_ends).collect();
    let clocks = ends.iter().map(|ends| ends.len()).min().unwrap_or(0);
    let mut curve = Vec::new();
    for clock in 0..clocks {
        let last = ends.iter().map(|ends| ends[clock].as_nanos()).max().unwrap_or(0);
        let of = actors.clone().flat_map(TableActor::programs).filter_map(|program| losses(program).0.get(clock));
        let (sum, count) = of.fold((0.0, 0), |(sum, count), one| (sum + one.0, count + one.1));
        curve.push((SimDuration::from_nanos(last), sum / count.max(1) as f64));
    }
    curve
}
