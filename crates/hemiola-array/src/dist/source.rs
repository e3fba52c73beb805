//! Record sources: units of work that any worker of any peer can read independently.

use crate::Result;
use crate::read::{InputFile, ParseError, ReadReport, ReadSummary};

/// Key and value of one entry.
pub type Entry<T, const N: usize> = ([usize; N], T);

/// Records in units, in a fixed order. Identical on every peer: the root plans the units and
/// broadcasts them.
pub trait RecordSource: Sync {
    /// Type of the records of a unit.
    type Record;

    /// Returns the number of units.
    fn units(&self) -> usize;

    /// Relative cost of reading a unit, in any measure.
    fn cost(&self, unit: usize) -> u64;

    /// Peer that must read a unit, for units in a peer's memory. `None` allows any peer.
    fn pinned_peer(&self, unit: usize) -> Option<usize> {
        let _ = unit;
        None
    }

    /// Calls `visit` with every record of a unit, in order.
    fn visit(&self, unit: usize, visit: impl FnMut(Self::Record) -> Result<(), Box<ParseError>>) -> Result<ReadReport>;

    /// Merges the reports of all units. By default no bad line is tolerated, and a source without
    /// records is fine.
    fn merge_reports(&self, reports: Vec<ReadReport>) -> Result<ReadSummary> {
        let mut reports = reports;
        reports.push(ReadReport { records: 1, bad: Vec::new() });
        let mut summary = ReadReport::merge(&[] as &[InputFile], reports, 0)?;
        summary.records -= 1;
        Ok(summary)
    }

    /// Extents of the array, if the source knows them, as from a file header.
    fn extents(&self) -> Option<Vec<usize>> {
        None
    }
}

/// Assigns units to peers: consecutive shares of nearly equal cost, in rank order, so that the
/// order of records is kept. Each unit comes with its cost and the peer it is pinned to, if any.
pub(crate) fn assign_units(units: impl Iterator<Item = (u64, Option<usize>)>, peers: usize) -> Vec<usize> {
    let units: Vec<(u128, Option<usize>)> = units.map(|(cost, pinned)| (u128::from(cost.max(1)), pinned)).collect();
    let total: u128 = units.iter().map(|(cost, _)| cost).sum();
    let mut before = 0;
    let assign = |(cost, pinned): (u128, Option<usize>)| {
        let twice_the_middle = 2 * before + cost;
        before += cost;
        pinned.unwrap_or((twice_the_middle * peers as u128 / (2 * total)) as usize)
    };
    units.into_iter().map(assign).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assigned(costs: &[u64], peers: usize) -> Vec<usize> {
        assign_units(costs.iter().map(|cost| (*cost, None)), peers)
    }

    #[test]
    fn shares_are_consecutive_and_near_equal() {
        assert_eq!(assigned(&[5; 12], 3), [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
        let uneven = assigned(&[100, 1, 1, 1, 0], 2);
        assert!(uneven.is_sorted() && uneven.iter().all(|peer| *peer < 2));
        assert!(assigned(&[], 4).is_empty());
        assert_eq!(assign_units([(1, Some(2)), (1, None)].into_iter(), 3), [2, 2]);
    }
}
