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
use crate::dist::trace::{Ask, traced};
use crate::read::{ByteRange, Example, Ldac, Libsvm, Mistake, Report, Source, Summary};
use crate::sparse::{DuplicatePolicy, SparseBuilder};
use crate::{BadLine, Result, Shape};
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
    let (text, units) = Text::read(cluster, options, pattern, |unit: &mut Unit<f32>, example| {
        unit.entries.push_row(example.row, example.columns, example.values);
        unit.labels.push([example.row], example.label);
    })?;
    let (entries, labels): (Vec<_>, Vec<_>) = units.into_iter().map(|unit| (unit.entries, unit.labels)).unzip();
    let features = text.placed(cluster, entries)?;
    // Labels lie where their rows lie.
    let space = Axis { dimension: 0, cut: features.layout().space.cut.clone() };
    let layout = Layout { space, time: None, peers: cluster.size() };
    let labels = place_by(cluster, labels, Shape::new([text.rows()]), layout, DuplicatePolicy::Error)?.to_dense(0.0)?;
    Ok(Labelled { features, labels })
}

/// *Collective.* See [`ReadArrays::read_ldac`](crate::dist::ReadArrays::read_ldac).
pub(crate) fn read_ldac(
    cluster: &Cluster,
    options: &Ldac,
    pattern: &str,
) -> hemiola_cluster::Result<DistArray<u32, 2>> {
    let (text, units) = Text::read(cluster, options, pattern, |unit: &mut Unit<u32>, example| {
        for (column, count) in example.columns.iter().zip(example.values) {
            unit.entries.push([example.row, u64::from(*column)], *count as u32);
        }
    })?;
    text.placed(cluster, units.into_iter().map(|unit| unit.entries).collect())
}

/// A format in which a line is a row.
trait ByLine: Sync {
    /// Hands every row of a range to `visit`, numbered from 0.
    fn read(&self, range: &ByteRange, visit: impl FnMut(Example<'_>) -> Result<(), Box<Mistake>>) -> Result<Report>;

    /// How many bad lines are tolerated.
    fn allowed(&self) -> u64;
}

impl ByLine for Libsvm {
    fn read(&self, range: &ByteRange, visit: impl FnMut(Example<'_>) -> Result<(), Box<Mistake>>) -> Result<Report> {
        Self::read(self, range, visit)
    }

    fn allowed(&self) -> u64 {
        self.bad_lines_allowed()
    }
}

impl ByLine for Ldac {
    fn read(
        &self,
        range: &ByteRange,
        mut visit: impl FnMut(Example<'_>) -> Result<(), Box<Mistake>>,
    ) -> Result<Report> {
        Self::read(self, range, |example| {
            // Counts are read as the numbers they are; what is no count is no word that occurred. All are looked at before
            // one is handed on: a bad line leaves nothing behind.
            // From 2²⁴ on numbers of 32 bits skip some: the count would be another one, and nobody would know.
            if example.values.iter().any(|count| count.fract() != 0.0 || !(0.0..16_777_216.0).contains(count)) {
                return Err(Mistake::new("counts that are whole numbers from 0 to 16777215"));
            }
            visit(example)
        })
    }

    fn allowed(&self) -> u64 {
        self.bad_lines_allowed()
    }
}

/// Text that was read, so that its units and their rows are known.
struct Text<'a, F> {
    format: &'a F,
    sources: Vec<Source>,
    ranges: Vec<ByteRange>,
    dealt: Vec<usize>,
    /// The rows of every unit of the job.
    records: Vec<u64>,
    /// The lines that were left out.
    skipped: Vec<BadLine>,
}

impl<'a, F: ByLine> Text<'a, F> {
    /// *Collective.* Reads units and shifts their rows into place; this peer's units.
    fn read<T: Element>(
        cluster: &Cluster,
        format: &'a F,
        pattern: &str,
        add: impl Fn(&mut Unit<T>, Example<'_>) + Sync,
    ) -> hemiola_cluster::Result<(Self, Vec<Unit<T>>)> {
        let sources = find(cluster, pattern)?;
        let ranges = units(cluster, &sources)?;
        let dealt = deal(ranges.iter().map(|range| (range.cost(), None)), cluster.size());
        let mut text = Self { format, sources, ranges, dealt, records: Vec::new(), skipped: Vec::new() };
        let read = |unit: usize, held: &mut Unit<T>| {
            format.read(&text.ranges[unit], |example| {
                add(held, example);
                Ok(())
            })
        };
        let gathered = gather_units(cluster, &text.dealt, read, |reports| text.settle(reports))?;
        (text.records, text.skipped) = (gathered.records, gathered.skipped);
        let shift = |(unit, mut held): (usize, Unit<T>)| {
            held.entries.shift(0, text.rows_before(unit));
            held.labels.shift(0, text.rows_before(unit));
            held
        };
        let held = gathered.held.into_iter().map(shift).collect();
        Ok((text, held))
    }

    fn settle(&self, reports: Vec<Report>) -> Result<Summary> {
        Report::settle(&self.sources, reports, self.format.allowed())
    }

    fn rows_before(&self, unit: usize) -> u64 {
        self.records[..unit].iter().sum()
    }

    fn rows(&self) -> u64 {
        self.records.iter().sum()
    }

    /// *Collective.* Rows without entries count too, so the first extent is given.
    fn placed<T: Element>(
        &self,
        cluster: &Cluster,
        builders: Vec<SparseBuilder<T, 2>>,
    ) -> hemiola_cluster::Result<DistArray<T, 2>> {
        let mut pieces = Pieces::built(builders, None);
        let columns = discover(cluster, &pieces.pieces)?.extent(1);
        pieces.known = Some(Shape::new([self.rows(), columns]));
        let placed = place(cluster, pieces, &Partition::default(), DuplicatePolicy::Error);
        let array = placed.map_err(|error| {
            let visit = |unit: usize, key: &[u64], ask: &mut Ask<'_>| {
                let before = self.rows_before(unit);
                self.format.read(&self.ranges[unit], |example| {
                    // A row is a line, so the column is twice in one.
                    let its = |column: &&u32| key == [before + example.row, u64::from(**column)];
                    ask(example.columns.iter().filter(its).count())
                })
            };
            traced(cluster, error, &self.dealt, visit, |reports| self.settle(reports))
        })?;
        Ok(array.with_skipped(self.skipped.clone()))
    }
}
