//! Events by user, or by item: what the equations of one row are made of.
//!
//! `parallel_for!` cuts a loop over an array so that all workers get as many *entries*, and a row with ten thousand events is
//! more work than one with ten. So a row that is much work has several entries: its events are all in the first, the others
//! are empty and only there to be counted. A row without events has one entry, too, so that a loop over the lists visits all.
//!
//! **Invariant:** the events of a row are in the order of the other side's numbers, however they were divided among peers:
//! sums over them have the same bits everywhere.

use hemiola::array::dist::{Lazy, RecordSource};
use hemiola::array::read::{Mistake, Report};
use hemiola::prelude::*;
use hemiola::{Cluster, Result};

/// By row and share of its work: the number of the other side and the weight of each event.
pub(super) type Lists = DistArray<Vec<(u32, f32)>, 2>;

/// Entries for each row, on average.
const ENTRIES_PER_ROW: u64 = 4;

/// *Collective.* The events of each index of a dimension (0: users, 1: items), for rows `0..rows`. `fixed` is how many events
/// the work that every row takes is worth.
pub(super) fn lists(
    cluster: &Cluster,
    events: &DistArray<f32, 2>,
    dimension: usize,
    rows: u64,
    fixed: u64,
) -> Result<Lists> {
    let group = |key: [u64; 2], weight| (key[dimension], (key[1 - dimension] as u32, weight));
    let grouped = events.entries().group_by(group)?.to_dense(Vec::new())?;
    let unit = ((events.len() + rows * fixed) / (rows * ENTRIES_PER_ROW).max(1)).max(1);
    Lazy::over(cluster, Shares { grouped: &grouped, rows, fixed, unit, cluster }).materialize()
}

struct Shares<'a> {
    grouped: &'a DistArray<Vec<(u32, f32)>, 1>,
    rows: u64,
    fixed: u64,
    /// How many events an entry stands for.
    unit: u64,
    cluster: &'a Cluster,
}

impl RecordSource for Shares<'_> {
    type Record = ([u64; 2], Vec<(u32, f32)>);

    /// One for each peer: what it holds.
    fn units(&self) -> usize {
        self.cluster.size()
    }

    fn cost(&self, _unit: usize) -> u64 {
        1
    }

    fn home(&self, unit: usize) -> Option<usize> {
        Some(unit)
    }

    fn visit(
        &self,
        unit: usize,
        mut visit: impl FnMut(Self::Record) -> hemiola::array::Result<(), Box<Mistake>>,
    ) -> hemiola::array::Result<Report> {
        let mut report = Report::default();
        let mut row = |row: u64, events: Vec<(u32, f32)>| {
            let shares = (events.len() as u64 + self.fixed).div_ceil(self.unit).max(1);
            report.records += shares;
            // Lists are never refused.
            let _ = visit(([row, 0], events));
            (1..shares).for_each(|share| {
                let _ = visit(([row, share], Vec::new()));
            });
        };
        self.grouped.for_each(|[number], events| {
            let mut events = events.clone();
            events.sort_unstable_by_key(|(other, _)| *other);
            row(number, events);
        });
        // Rows after the last that has an event are nobody's.
        if unit == 0 {
            (self.grouped.shape().extent(0)..self.rows).for_each(|number| row(number, Vec::new()));
        }
        Ok(report)
    }
}
