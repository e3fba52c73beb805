//! What workers of a table see while they learn, clock by clock; and how much they may send ahead of need at once.

use crate::actors::tables::{Program, Tables};
use crate::units::{Rate, Span};
use hemiola_core::Moment;
use hemiola_tables_proto::number::Cell;

/// A worker's losses, by clock: their sum, and how many there are.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen(Vec<(f64, u64)>);

impl Seen {
    pub(super) fn add(&mut self, clock: u64, loss: f64) {
        let clock = clock as usize;
        if self.0.len() <= clock {
            self.0.resize(clock + 1, (0.0, 0));
        }
        self.0[clock].0 += loss;
        self.0[clock].1 += 1;
    }
}

/// By clock: when the last worker ended it, and the mean of what all have seen.
pub(super) fn course<'a, C: Cell + 'a, P: Program<C> + 'a>(
    actors: &(impl Iterator<Item = &'a Tables<C, P>> + Clone),
    seen: impl Fn(&P) -> &Seen,
) -> Vec<(Span, f64)> {
    let ends: Vec<&[Moment]> = actors.clone().flat_map(Tables::ends).collect();
    let clocks = ends.iter().map(|ends| ends.len()).min().unwrap_or(0);
    let mut course = Vec::new();
    for clock in 0..clocks {
        let last = ends.iter().map(|ends| ends[clock].as_nanos()).max().unwrap_or(0);
        let of = actors.clone().flat_map(Tables::programs).filter_map(|program| seen(program).0.get(clock));
        let (sum, count) = of.fold((0.0, 0), |(sum, count), one| (sum + one.0, count + one.1));
        course.push((Span::from_nanos(last), sum / count.max(1) as f64));
    }
    course
}

/// What a budget lets go at once: that of five milliseconds, and no less than a few rows.
pub(super) fn burst(rate: Rate) -> usize {
    ((rate.bytes_per_second() as f64 * 0.005) as usize).max(2000)
}
