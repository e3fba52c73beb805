//! Location of a duplicate key: the two lines it came from.
//!
//! Entries do not carry their origin: eight bytes each for a message that a clean run never prints.
//! After a duplicate key, the units are read once more, on all peers and workers, and every record
//! is compared with the key.
//!
//! **Invariant:** the second reading sees the records of the first in the same order and skips the
//! same bad lines. The origins are therefore those of the first two occurrences in file order,
//! identical on every peer of any cluster.

use crate::dist::build::by_number;
use crate::dist::lazy::read_units;
use crate::error::EntryOrigin;
use crate::read::{ParseError, ReadReport, ReadSummary};
use crate::{Error, Result};
use hemiola_cluster::Cluster;

/// Callback that receives, for each record, the number of occurrences of the key in it. It may
/// reject the record, as a visitor may.
pub(crate) type MatchVisitor<'a> = dyn FnMut(usize) -> Result<(), Box<ParseError>> + 'a;

/// *Collective.* Adds the two lines to a duplicate-key error; returns other errors unchanged.
/// `unit_peers` is the peer of each unit. `visit` reads a unit and reports the occurrences of the key in
/// every record.
pub(crate) fn locate_duplicate(
    cluster: &Cluster,
    error: hemiola_cluster::Error,
    unit_peers: &[usize],
    visit: impl Fn(usize, &[usize], &mut MatchVisitor<'_>) -> Result<ReadReport> + Sync,
    merge_reports: impl Fn(Vec<ReadReport>) -> Result<ReadSummary>,
) -> hemiola_cluster::Error {
    let hemiola_cluster::Error::Layer { source, .. } = &error else { return error };
    let Some(Error::DuplicateKey { key, .. }) = source.downcast_ref::<Error>() else { return error };
    match origins(cluster, unit_peers, |unit, report_matches| visit(unit, key, report_matches), merge_reports) {
        Ok([first, second]) => Error::DuplicateKey { key: key.clone(), first, second }.into(),
        Err(error) => error,
    }
}

/// Number of records of a unit, and the indices of matching records. A record that contains the key
/// twice is listed twice.
type UnitMatches = (u64, Vec<u64>);

/// *Collective.* Origins of the first two occurrences: file and line for text, the number of the
/// record otherwise.
fn origins(
    cluster: &Cluster,
    unit_peers: &[usize],
    visit: impl Fn(usize, &mut MatchVisitor<'_>) -> Result<ReadReport> + Sync,
    merge_reports: impl Fn(Vec<ReadReport>) -> Result<ReadSummary>,
) -> hemiola_cluster::Result<[EntryOrigin; 2]> {
    let read = |unit: usize, (records, found): &mut UnitMatches| {
        visit(unit, &mut |times| {
            found.extend(std::iter::repeat_n(*records, times));
            *records += 1;
            Ok(())
        })
    };
    let found = read_units(cluster, unit_peers, read, merge_reports)?;
    let all: Vec<(usize, UnitMatches)> = cluster.all_gather(found.collected)?.into_iter().flatten().collect();
    let mut before = 0;
    let mut occurrences = Vec::new();
    for (unit, (records, found)) in by_number(all) {
        occurrences.extend(found.into_iter().map(|index| (unit, index, before + index)));
        before += records;
    }
    occurrences.truncate(2);
    let line = |(unit, index, ordinal): (usize, u64, u64)| {
        let mut at = 0;
        let mut reject = |_| {
            at += 1;
            if at == index + 1 { Err(ParseError::new(TRACED_RECORD)) } else { Ok(()) }
        };
        let report = visit(unit, &mut reject).unwrap_or_default();
        let bad = report.bad.into_iter().find(|bad| bad.expected == TRACED_RECORD);
        bad.map_or(EntryOrigin::Entry(ordinal), |bad| EntryOrigin::Line { file: bad.file, line: bad.line })
    };
    let mine = occurrences.iter().filter(|(unit, ..)| unit_peers[*unit] == cluster.rank().index());
    let named: Vec<(u64, EntryOrigin)> = mine.map(|occurrence| (occurrence.2, line(*occurrence))).collect();
    let mut named: Vec<(u64, EntryOrigin)> = cluster.all_gather(named)?.into_iter().flatten().collect();
    named.sort_by_key(|(ordinal, _)| *ordinal);
    let mut named = named.into_iter().map(|(_, origin)| origin);
    let mut next = || named.next().unwrap_or(EntryOrigin::Entry(0));
    Ok([next(), next()])
}

/// Marks the searched record among lines that are bad for other reasons.
const TRACED_RECORD: &str = "\0the searched record";
