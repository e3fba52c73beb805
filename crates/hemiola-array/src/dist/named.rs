//! Keys that are names: numbered in the order in which they first occur, whoever reads what.
//!
//! Each unit is read with dictionaries of its own; when all units are read, the dictionaries are merged in unit order on
//! every peer, and each peer renumbers its entries. **Invariant:** the numbering depends on the files alone.

use crate::dist::array::DistArray;
use crate::dist::element::Element;
use crate::dist::lazy::{Gathered, gather_units};
use crate::dist::partition::Partition;
use crate::dist::place::{Pieces, place};
use crate::dist::readers::{find, units};
use crate::dist::source::deal;
use crate::dist::trace::{Ask, traced};
use crate::read::lines::{must_name, read_names};
use crate::read::{Csv, Fields, Mistake, Report, Source};
use crate::sparse::{DuplicatePolicy, SparseBuilder};
use crate::{Dictionary, Result};
use hemiola_cluster::Cluster;
use std::borrow::Cow;
use std::sync::Arc;

/// A name as it stands in a line.
pub type Name<'f> = Cow<'f, [u8]>;

/// What a unit holds.
struct Unit<T, const N: usize> {
    builder: SparseBuilder<T, N>,
    names: [Dictionary; N],
}

impl<T, const N: usize> Default for Unit<T, N> {
    fn default() -> Self {
        Self { builder: SparseBuilder::new(), names: std::array::from_fn(|_| Dictionary::new()) }
    }
}

/// *Collective.* See [`ReadArrays::read_named_as`](crate::dist::ReadArrays::read_named_as).
pub(crate) fn read<T: Element, const N: usize>(
    cluster: &Cluster,
    options: &Csv,
    pattern: &str,
    duplicates: DuplicatePolicy<T>,
    entry: impl for<'f> Fn(&mut Fields<'f>) -> Result<([Name<'f>; N], T), Box<Mistake>> + Sync,
) -> hemiola_cluster::Result<DistArray<T, N>> {
    let sources = find(cluster, pattern)?;
    let ranges = units(cluster, &sources)?;
    let dealt = deal(ranges.iter().map(|range| (range.cost(), None)), cluster.size());
    let read = |unit: usize, held: &mut Unit<T, N>| {
        options.read_fields(&ranges[unit], |fields| {
            let (names, value) = entry(fields)?;
            let mut key = [0; N];
            for ((index, name), dictionary) in key.iter_mut().zip(&names).zip(&mut held.names) {
                *index = u64::from(dictionary.intern(name));
            }
            held.builder.push(key, value);
            Ok(())
        })
    };
    let allowed = options.bad_lines_allowed();
    let settle = |reports| Report::settle(&sources, reports, allowed);
    let Gathered { mut held, skipped, .. } = gather_units(cluster, &dealt, read, settle)?;

    let names: Vec<(usize, Vec<Vec<Vec<u8>>>)> = held
        .iter()
        .map(|(unit, held)| {
            (*unit, held.names.iter().map(|names| names.names().map(<[u8]>::to_vec).collect()).collect())
        })
        .collect();
    let mut all: Vec<(usize, Vec<Vec<Vec<u8>>>)> = cluster.all_gather(names)?.into_iter().flatten().collect();
    all.sort_by_key(|(unit, _)| *unit);
    let mut merged: [Dictionary; N] = std::array::from_fn(|_| Dictionary::new());
    let mut mine = held.iter_mut().peekable();
    for (unit, names) in all {
        let numbers: Vec<Vec<u64>> = merged
            .iter_mut()
            .zip(names)
            .map(|(merged, names)| names.iter().map(|name| u64::from(merged.intern(name))).collect())
            .collect();
        if let Some((_, held)) = mine.next_if(|(own, _)| *own == unit) {
            for (dimension, numbers) in numbers.iter().enumerate() {
                held.builder.renumber(dimension, |local| numbers[local as usize]);
            }
        }
    }
    let builders = held.into_iter().map(|(_, held)| held.builder).collect();
    let placed = place(cluster, Pieces::built(builders, None), &Partition::default(), duplicates);
    let array = placed.map_err(|error| {
        let visit = |unit: usize, key: &[u64], ask: &mut Ask<'_>| {
            options.read_fields(&ranges[unit], |fields| {
                let (names, _) = entry(fields)?;
                let mut parts = merged.iter().zip(key).zip(&names);
                ask(usize::from(
                    parts.all(|((merged, number), name)| merged.number(name).map(u64::from) == Some(*number)),
                ))
            })
        };
        traced(cluster, error, &dealt, visit, settle)
    })?;
    Ok(array.with_skipped(skipped).with_names(merged.map(|names| Some(Arc::new(names)))))
}

/// *Collective.* A vocabulary that must name `needed` words.
pub(crate) fn read_vocabulary(cluster: &Cluster, path: &str, needed: u64) -> hemiola_cluster::Result<Arc<Dictionary>> {
    let read = || {
        let source = Source::open(path)?;
        let names = read_names(&source)?;
        must_name(&source, &names, needed)?;
        Ok(names)
    };
    let names = if cluster.is_root() { read() } else { Ok(Vec::new()) };
    let names = cluster.broadcast(crate::dist::agree::agree(cluster, names)?)?;
    Ok(Arc::new(names.iter().map(String::as_bytes).collect()))
}
