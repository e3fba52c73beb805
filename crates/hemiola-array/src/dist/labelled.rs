//! Formats in which a line is a row: LIBSVM with its labels, LDA-C.
//!
//! A byte range does not know how many rows are before it. Each unit counts its rows from zero; when all units are read,
//! everyone knows all counts and shifts its rows into place. The text is read once.

use crate::dist::array::DistArray;
use crate::dist::element::Element;
use crate::dist::lazy::gather_units;
use crate::dist::partition::{Axis, Layout, Partition};
use crate::dist::place::{Pieces, discover, place, place_by};
use crate::dist::readers::{find, units};
use crate::dist::source::deal;
use crate::read::{ByteRange, Example, Ldac, Libsvm, Mistake, Report};
use crate::sparse::{DuplicatePolicy, SparseBuilder};
use crate::{Result, Shape};
use hemiola_cluster::Cluster;

/// Examples with a label each.
#[derive(Clone, Debug)]
pub struct Labelled {
    /// Examples by features.
    pub features: DistArray<f32, 2>,
    /// One label per example, dense, divided like the rows of `features`.
    pub labels: DistArray<f32, 1>,
}

/// What a unit holds.
struct Unit<T> {
    entries: SparseBuilder<T, 2>,
    labels: SparseBuilder<f32, 1>,
}

impl<T> Default for Unit<T> {
    fn default() -> Self {
        Self { entries: SparseBuilder::new(), labels: SparseBuilder::new() }
    }
}

/// *Collective.* See [`ReadArrays::read_libsvm`](crate::dist::ReadArrays::read_libsvm).
pub(crate) fn read_libsvm(cluster: &Cluster, options: &Libsvm, pattern: &str) -> hemiola_cluster::Result<Labelled> {
    let allowed = options.bad_lines_allowed();
    let (units, rows) = rows(cluster, pattern, allowed, |range, unit: &mut Unit<f32>| {
        options.read(range, |Example { row, label, columns, values }| {
            unit.entries.push_row(row, columns, values);
            unit.labels.push([row], label);
            Ok(())
        })
    })?;
    let (entries, labels): (Vec<_>, Vec<_>) = units.into_iter().map(|unit| (unit.entries, unit.labels)).unzip();
    let features = placed(cluster, entries, rows)?;
    // Labels lie where their rows lie.
    let space = Axis { dimension: 0, cut: features.layout().space.cut.clone() };
    let layout = Layout { space, time: None, peers: cluster.size() };
    let labels = place_by(cluster, labels, Shape::new([rows]), layout, DuplicatePolicy::Error)?.to_dense(0.0)?;
    Ok(Labelled { features, labels })
}

/// *Collective.* See [`ReadArrays::read_ldac`](crate::dist::ReadArrays::read_ldac).
pub(crate) fn read_ldac(
    cluster: &Cluster,
    options: &Ldac,
    pattern: &str,
) -> hemiola_cluster::Result<DistArray<u32, 2>> {
    let allowed = options.bad_lines_allowed();
    let (units, rows) = rows(cluster, pattern, allowed, |range, unit: &mut Unit<u32>| {
        options.read(range, |Example { row, columns, values, .. }| {
            for (column, count) in columns.iter().zip(values) {
                // Counts are read as the numbers they are; what is no count is no word that occurred.
                if count.fract() != 0.0 || *count < 0.0 {
                    return Err(Mistake::new("counts that are whole numbers"));
                }
                unit.entries.push([row, u64::from(*column)], *count as u32);
            }
            Ok(())
        })
    })?;
    placed(cluster, units.into_iter().map(|unit| unit.entries).collect(), rows)
}

/// *Collective.* Reads units and shifts their rows into place; this peer's units, and the number of rows of all.
fn rows<T: Element>(
    cluster: &Cluster,
    pattern: &str,
    allowed: u64,
    read: impl Fn(&ByteRange, &mut Unit<T>) -> Result<Report> + Sync,
) -> hemiola_cluster::Result<(Vec<Unit<T>>, u64)> {
    let sources = find(cluster, pattern)?;
    let ranges = units(cluster, &sources)?;
    let dealt = deal(ranges.iter().map(|range| (range.cost(), None)), cluster.size());
    let read = |unit: usize, held: &mut Unit<T>| read(&ranges[unit], held);
    let (held, records) = gather_units(cluster, &dealt, read, |reports| Report::settle(&sources, reports, allowed))?;
    let shift = |(unit, mut held): (usize, Unit<T>)| {
        let before = records[..unit].iter().sum();
        held.entries.shift(0, before);
        held.labels.shift(0, before);
        held
    };
    Ok((held.into_iter().map(shift).collect(), records.iter().sum()))
}

/// *Collective.* Rows without entries count too, so the first extent is given.
fn placed<T: Element>(
    cluster: &Cluster,
    builders: Vec<SparseBuilder<T, 2>>,
    rows: u64,
) -> hemiola_cluster::Result<DistArray<T, 2>> {
    let mut pieces = Pieces::built(builders, None);
    let columns = discover(cluster, &pieces.pieces)?.extent(1);
    pieces.known = Some(Shape::new([rows, columns]));
    place(cluster, pieces, &Partition::default(), DuplicatePolicy::Error)
}
