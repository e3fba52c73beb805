//! Keys that are strings, indexed by first appearance.
//!
//! Each unit is read with its own dictionaries. After all units are read, every peer merges the
//! dictionaries in unit order and renumbers its entries. **Invariant:** the indices depend only on
//! the files.

use crate::dist::array::DistArray;
use crate::dist::build::{LocalEntries, build_array, by_number};
use crate::dist::duplicate_lines::{MatchVisitor, locate_duplicate};
use crate::dist::element::Element;
use crate::dist::lazy::{UnitCollection, read_units};
use crate::dist::partition::PartitionSpec;
use crate::dist::readers::{find_files, plan_units};
use crate::dist::source::assign_units;
use crate::read::lines::{check_vocabulary, read_names};
use crate::read::{Csv, Fields, InputFile, InputPaths, ParseError, ReadReport};
use crate::sparse::{DuplicatePolicy, SparseBuilder};
use crate::{Dictionary, Result};
use hemiola_cluster::Cluster;
use std::borrow::Cow;
use std::sync::Arc;

/// String key as it stands in a line.
pub type Name<'f> = Cow<'f, [u8]>;

/// Entries and dictionaries of one unit.
struct StringKeyUnit<T, const N: usize> {
    builder: SparseBuilder<T, N>,
    names: [Dictionary; N],
}

impl<T, const N: usize> Default for StringKeyUnit<T, N> {
    fn default() -> Self {
        Self { builder: SparseBuilder::new(), names: std::array::from_fn(|_| Dictionary::new()) }
    }
}

/// *Collective.* See [`ReadExt::read_named_as`](crate::dist::ReadExt::read_named_as).
pub(crate) fn read<T: Element, const N: usize>(
    cluster: &Cluster,
    options: &Csv,
    paths: InputPaths,
    duplicates: DuplicatePolicy<T>,
    entry: impl for<'f> Fn(&mut Fields<'f>) -> Result<([Name<'f>; N], T), Box<ParseError>> + Sync,
) -> hemiola_cluster::Result<DistArray<T, N>> {
    let sources = find_files(cluster, paths)?;
    let ranges = plan_units(cluster, &sources)?;
    let unit_peers = assign_units(ranges.iter().map(|range| (range.cost(), None)), cluster.size());
    let read = |unit: usize, data: &mut StringKeyUnit<T, N>| {
        options.read_fields(&ranges[unit], |fields| {
            let (names, value) = entry(fields)?;
            let mut key = [0; N];
            for ((index, name), dictionary) in key.iter_mut().zip(&names).zip(&mut data.names) {
                *index = dictionary.intern(name) as usize;
            }
            data.builder.push(key, value);
            Ok(())
        })
    };
    let allowed = options.bad_lines_allowed();
    let merge_reports = |reports| ReadReport::merge(&sources, reports, allowed);
    let UnitCollection { mut collected, skipped, .. } = read_units(cluster, &unit_peers, read, merge_reports)?;

    let names: Vec<(usize, Vec<Vec<Vec<u8>>>)> = collected
        .iter()
        .map(|(unit, data)| {
            (*unit, data.names.iter().map(|names| names.names().map(<[u8]>::to_vec).collect()).collect())
        })
        .collect();
    let all: Vec<(usize, Vec<Vec<Vec<u8>>>)> = cluster.all_gather(names)?.into_iter().flatten().collect();
    let mut merged: [Dictionary; N] = std::array::from_fn(|_| Dictionary::new());
    let mut mine = collected.iter_mut().peekable();
    for (unit, names) in by_number(all) {
        let numbers: Vec<Vec<usize>> = merged
            .iter_mut()
            .zip(names)
            .map(|(merged, names)| names.iter().map(|name| merged.intern(name) as usize).collect())
            .collect();
        if let Some((_, data)) = mine.next_if(|(own, _)| *own == unit) {
            for (dimension, numbers) in numbers.iter().enumerate() {
                data.builder.renumber(dimension, |local| numbers[local]);
            }
        }
    }
    let builders = collected.into_iter().map(|(_, data)| data.builder).collect();
    let built =
        build_array(cluster, LocalEntries::from_builders(builders, None), &PartitionSpec::default(), duplicates);
    let array = built.map_err(|error| {
        let visit = |unit: usize, key: &[usize], report_matches: &mut MatchVisitor<'_>| {
            options.read_fields(&ranges[unit], |fields| {
                let (names, _) = entry(fields)?;
                let mut parts = merged.iter().zip(key).zip(&names);
                report_matches(usize::from(
                    parts.all(|((merged, number), name)| merged.index_of(name).map(|at| at as usize) == Some(*number)),
                ))
            })
        };
        locate_duplicate(cluster, error, &unit_peers, visit, merge_reports)
    })?;
    Ok(array.with_skipped_lines(skipped).with_names(merged.map(|names| Some(Arc::new(names)))))
}

/// *Collective.* Reads a vocabulary that must name `needed` words.
pub(crate) fn read_vocabulary(
    cluster: &Cluster,
    path: &str,
    needed: usize,
) -> hemiola_cluster::Result<Arc<Dictionary>> {
    let read = || {
        let source = InputFile::open(path)?;
        let names = read_names(&source)?;
        check_vocabulary(&source, &names, needed)?;
        Ok(names)
    };
    let names = if cluster.is_root() { read() } else { Ok(Vec::new()) };
    let names = cluster.broadcast(crate::dist::agree::agree(cluster, names)?)?;
    Ok(Arc::new(names.iter().map(String::as_bytes).collect()))
}
