//! Where records come from: units of work that any worker of any peer can read alone.

use crate::Result;
use crate::read::{Mistake, Report, Source, Summary};

/// A key and the value at it.
pub type Entry<T, const N: usize> = ([u64; N], T);

/// Records in units, in a fixed order. The same on every peer: units are planned by the root and told to the others.
pub trait RecordSource: Sync {
    /// What a unit holds many of.
    type Record;

    /// The number of units.
    fn units(&self) -> usize;

    /// The work a unit takes, in any measure.
    fn cost(&self, unit: usize) -> u64;

    /// Which peer must read a unit, for units that lie in a peer's memory. `None`: anyone can.
    fn home(&self, unit: usize) -> Option<usize> {
        let _ = unit;
        None
    }

    /// Hands every record of a unit to `visit`, in order.
    fn visit(&self, unit: usize, visit: impl FnMut(Self::Record) -> Result<(), Box<Mistake>>) -> Result<Report>;

    /// Joins the reports of all units into one verdict. Default: no bad line is tolerated, and having no record is fine.
    fn settle(&self, reports: Vec<Report>) -> Result<Summary> {
        let mut reports = reports;
        reports.push(Report { records: 1, bad: Vec::new() });
        let mut summary = Report::settle(&[] as &[Source], reports, 0)?;
        summary.records -= 1;
        Ok(summary)
    }

    /// The extents of the array where the source knows them, as a file header does.
    fn extents(&self) -> Option<Vec<u64>> {
        None
    }
}

/// Deals units out to peers: consecutive shares of near-equal cost, in rank order, so that the order of records is kept.
/// Each unit comes with its cost and, where it has one, its home.
pub(crate) fn deal(units: impl Iterator<Item = (u64, Option<usize>)>, peers: usize) -> Vec<usize> {
    let units: Vec<(u128, Option<usize>)> = units.map(|(cost, home)| (u128::from(cost.max(1)), home)).collect();
    let total: u128 = units.iter().map(|(cost, _)| cost).sum();
    let mut before = 0;
    let deal_one = |(cost, home): (u128, Option<usize>)| {
        let twice_the_middle = 2 * before + cost;
        before += cost;
        home.unwrap_or((twice_the_middle * peers as u128 / (2 * total)) as usize)
    };
    units.into_iter().map(deal_one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dealt(costs: &[u64], peers: usize) -> Vec<usize> {
        deal(costs.iter().map(|cost| (*cost, None)), peers)
    }

    #[test]
    fn shares_are_consecutive_and_near_equal() {
        assert_eq!(dealt(&[5; 12], 3), [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
        let uneven = dealt(&[100, 1, 1, 1, 0], 2);
        assert!(uneven.is_sorted() && uneven.iter().all(|peer| *peer < 2));
        assert!(dealt(&[], 4).is_empty());
        assert_eq!(deal([(1, Some(2)), (1, None)].into_iter(), 3), [2, 2]);
    }
}
