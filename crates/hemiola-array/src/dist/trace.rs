//! A key that was given twice, traced to its two lines.
//!
//! Entries do not carry where they came from: eight bytes each for a message that a clean run never prints. Instead the
//! units are read once more, on all peers and workers, and every record is asked whether it is meant.
//!
//! **Invariant:** the second reading sees the records of the first in the same order and leaves out the same bad lines, so
//! the places are those of the first two occurrences in file order, the same on every peer of any cluster.

use crate::dist::lazy::gather_units;
use crate::error::Place;
use crate::read::{Mistake, Report, Summary};
use crate::{Error, Result};
use hemiola_cluster::Cluster;

/// Told of each record how often the key occurs in it; may refuse the record, as a visitor may.
pub(crate) type Ask<'a> = dyn FnMut(usize) -> Result<(), Box<Mistake>> + 'a;

/// *Collective.* If the error is a key that was given twice, names the lines of both, with units dealt to peers as `dealt`
/// says. `visit` reads a unit and asks of every record how often the key occurs in it.
pub(crate) fn traced(
    cluster: &Cluster,
    error: hemiola_cluster::Error,
    dealt: &[usize],
    visit: impl Fn(usize, &[u64], &mut Ask<'_>) -> Result<Report> + Sync,
    settle: impl Fn(Vec<Report>) -> Result<Summary>,
) -> hemiola_cluster::Error {
    let hemiola_cluster::Error::Layer { source, .. } = &error else { return error };
    let Some(Error::DuplicateKey { key, .. }) = source.downcast_ref::<Error>() else { return error };
    match places(cluster, dealt, |unit, ask| visit(unit, key, ask), settle) {
        Ok([first, second]) => Error::DuplicateKey { key: key.clone(), first, second }.into(),
        Err(error) => error,
    }
}

/// How many records a unit has, and which of them are meant; one that holds the key twice is there twice.
type Found = (u64, Vec<u64>);

/// *Collective.* The places of the first two occurrences: file and line where the units are text, the number of the record
/// otherwise.
fn places(
    cluster: &Cluster,
    dealt: &[usize],
    visit: impl Fn(usize, &mut Ask<'_>) -> Result<Report> + Sync,
    settle: impl Fn(Vec<Report>) -> Result<Summary>,
) -> hemiola_cluster::Result<[Place; 2]> {
    let read = |unit: usize, (records, found): &mut Found| {
        visit(unit, &mut |times| {
            found.extend(std::iter::repeat_n(*records, times));
            *records += 1;
            Ok(())
        })
    };
    let found = gather_units(cluster, dealt, read, settle)?;
    let mut all: Vec<(usize, Found)> = cluster.all_gather(found.held)?.into_iter().flatten().collect();
    all.sort_by_key(|(unit, _)| *unit);
    let mut before = 0;
    let mut places = Vec::new();
    for (unit, (records, found)) in all {
        places.extend(found.into_iter().map(|index| (unit, index, before + index)));
        before += records;
    }
    places.truncate(2);
    let line = |(unit, index, ordinal): (usize, u64, u64)| {
        let mut at = 0;
        let mut refuse = |_| {
            at += 1;
            if at == index + 1 { Err(Mistake::new(MEANT)) } else { Ok(()) }
        };
        let report = visit(unit, &mut refuse).unwrap_or_default();
        let bad = report.bad.into_iter().find(|bad| bad.expected == MEANT);
        bad.map_or(Place::Entry(ordinal), |bad| Place::Line { file: bad.file, line: bad.line })
    };
    let mine = places.iter().filter(|(unit, ..)| dealt[*unit] == cluster.rank().index());
    let named: Vec<(u64, Place)> = mine.map(|place| (place.2, line(*place))).collect();
    let mut named: Vec<(u64, Place)> = cluster.all_gather(named)?.into_iter().flatten().collect();
    named.sort_by_key(|(ordinal, _)| *ordinal);
    let mut named = named.into_iter().map(|(_, place)| place);
    let mut next = || named.next().unwrap_or(Place::Entry(0));
    Ok([next(), next()])
}

/// Marks the record that is looked for among lines that are bad for other reasons.
const MEANT: &str = "\0the record that is traced";
