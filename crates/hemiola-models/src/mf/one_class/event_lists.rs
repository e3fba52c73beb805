//! Event lists by user or by item: the input of the equations of each row.
//!
//! `parallel_for!` partitions a loop over an array into equal numbers of *entries*, but a row with
//! ten thousand events is more work than one with ten. So a heavy row gets several entries: the
//! first holds all its events, the others are empty and only balance the load. A row without events
//! has one entry, too, so that the loop visits every row.
//!
//! **Invariant:** the events of a row are sorted by the index of the other side, however they were
//! distributed, so sums over them are bit-identical everywhere.

use hemiola_array::DistArray;
use hemiola_array::dist::{LazyArray, RecordSource};
use hemiola_array::read::{ParseError, ReadReport};
use hemiola_cluster::{Cluster, Result};

/// By row and share of its work: index of the other side and weight of each event.
pub(super) type EventLists = DistArray<Vec<(u32, f32)>, 2>;

/// Average number of entries per row.
const ENTRIES_PER_ROW: usize = 4;

/// *Collective.* Returns the events of each index of a dimension (0: users, 1: items), for rows
/// `0..rows`. `fixed` is the fixed work per row, in events.
pub(super) fn lists(
    cluster: &Cluster,
    events: &DistArray<f32, 2>,
    dimension: usize,
    rows: usize,
    fixed: usize,
) -> Result<EventLists> {
    let group = |key: [usize; 2], weight| (key[dimension], (key[1 - dimension] as u32, weight));
    let grouped = events.entries().group_by(group)?.to_dense(Vec::new())?;
    let unit = ((events.len() + rows * fixed) / (rows * ENTRIES_PER_ROW).max(1)).max(1);
    LazyArray::from_source(cluster, EventListSource { grouped: &grouped, rows, fixed, unit, cluster }).materialize()
}

struct EventListSource<'a> {
    grouped: &'a DistArray<Vec<(u32, f32)>, 1>,
    rows: usize,
    fixed: usize,
    /// Number of events that one entry represents.
    unit: usize,
    cluster: &'a Cluster,
}

impl RecordSource for EventListSource<'_> {
    type Record = ([usize; 2], Vec<(u32, f32)>);

    /// One unit per peer: its local rows.
    fn units(&self) -> usize {
        self.cluster.size()
    }

    fn cost(&self, _unit: usize) -> u64 {
        1
    }

    fn pinned_peer(&self, unit: usize) -> Option<usize> {
        Some(unit)
    }

    fn visit(
        &self,
        unit: usize,
        mut visit: impl FnMut(Self::Record) -> hemiola_array::Result<(), Box<ParseError>>,
    ) -> hemiola_array::Result<ReadReport> {
        let mut report = ReadReport::default();
        let mut row = |row: usize, events: Vec<(u32, f32)>| {
            let shares = (events.len() + self.fixed).div_ceil(self.unit).max(1);
            report.records += shares as u64;
            // Lists are never rejected.
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
        // Rows after the last one with an event belong to no peer; the first unit adds them.
        if unit == 0 {
            (self.grouped.shape().extent(0)..self.rows).for_each(|number| row(number, Vec::new()));
        }
        Ok(report)
    }
}
