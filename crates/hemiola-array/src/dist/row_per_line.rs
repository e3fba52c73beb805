//! Text formats with one row per line: LIBSVM with its labels, LDA-C.
//!
//! A byte range does not know the number of rows before it. Each unit counts its rows from zero.
//! After all units are read, every peer knows all counts and shifts its rows. The text is read
//! once.

use crate::dist::array::DistArray;
use crate::dist::build::{LocalEntries, build_array, build_array_in_layout, discover_shape};
use crate::dist::duplicate_lines::{MatchVisitor, locate_duplicate};
use crate::dist::element::Element;
use crate::dist::lazy::read_units;
use crate::dist::partition::{ArrayLayout, PartitionSpec, PartitionedDimension};
use crate::dist::readers::{find_files, plan_units};
use crate::dist::source::assign_units;
use crate::read::{ByteRange, Example, InputFile, InputPaths, Ldac, Libsvm, ParseError, ReadReport, ReadSummary};
use crate::sparse::{DuplicatePolicy, SparseBuilder};
use crate::{BadLine, Result, Shape};
use hemiola_cluster::Cluster;

/// Examples with one label each.
#[derive(Clone, Debug)]
pub struct LabelledData {
    /// Feature matrix, examples by features, sparse.
    pub features: DistArray<f32, 2>,
    /// One label per example, dense, with the row layout of `features`.
    pub labels: DistArray<f32, 1>,
}

/// Entries and labels of one unit.
struct RowUnit<T> {
    entries: SparseBuilder<T, 2>,
    labels: SparseBuilder<f32, 1>,
}

impl<T> Default for RowUnit<T> {
    fn default() -> Self {
        Self { entries: SparseBuilder::new(), labels: SparseBuilder::new() }
    }
}

/// *Collective.* See [`ReadExt::read_libsvm`](crate::dist::ReadExt::read_libsvm).
pub(crate) fn read_libsvm(
    cluster: &Cluster,
    options: &Libsvm,
    paths: InputPaths,
) -> hemiola_cluster::Result<LabelledData> {
    let (text, units) = RowText::read(cluster, options, paths, |unit: &mut RowUnit<f32>, example| {
        unit.entries.push_row(example.row, example.columns, example.values);
        unit.labels.push([example.row], example.label);
    })?;
    let (entries, labels): (Vec<_>, Vec<_>) = units.into_iter().map(|unit| (unit.entries, unit.labels)).unzip();
    let features = text.build(cluster, entries, options.duplicates_policy())?;
    // Labels are partitioned like their rows.
    let space = PartitionedDimension { dimension: 0, partitioner: features.layout().space.partitioner.clone() };
    let layout = ArrayLayout { space, time: None, peers: cluster.size() };
    let labels = build_array_in_layout(cluster, labels, Shape::new([text.rows()]), layout, DuplicatePolicy::Error)?
        .to_dense(0.0)?;
    Ok(LabelledData { features, labels })
}

/// *Collective.* See [`ReadExt::read_ldac`](crate::dist::ReadExt::read_ldac).
pub(crate) fn read_ldac(
    cluster: &Cluster,
    options: &Ldac,
    paths: InputPaths,
) -> hemiola_cluster::Result<DistArray<u32, 2>> {
    let (text, units) = RowText::read(cluster, options, paths, |unit: &mut RowUnit<u32>, example| {
        for (column, count) in example.columns.iter().zip(example.values) {
            unit.entries.push([example.row, *column as usize], *count as u32);
        }
    })?;
    text.build(cluster, units.into_iter().map(|unit| unit.entries).collect(), DuplicatePolicy::Error)
}

/// Text format with one row per line.
trait RowPerLineFormat: Sync {
    /// Calls `visit` with every row of a range, numbered from 0.
    fn read(
        &self,
        range: &ByteRange,
        visit: impl FnMut(Example<'_>) -> Result<(), Box<ParseError>>,
    ) -> Result<ReadReport>;

    /// Number of tolerated bad lines.
    fn bad_line_limit(&self) -> u64;
}

impl RowPerLineFormat for Libsvm {
    fn read(
        &self,
        range: &ByteRange,
        visit: impl FnMut(Example<'_>) -> Result<(), Box<ParseError>>,
    ) -> Result<ReadReport> {
        Self::read(self, range, visit)
    }

    fn bad_line_limit(&self) -> u64 {
        self.bad_lines_allowed()
    }
}

impl RowPerLineFormat for Ldac {
    fn read(
        &self,
        range: &ByteRange,
        mut visit: impl FnMut(Example<'_>) -> Result<(), Box<ParseError>>,
    ) -> Result<ReadReport> {
        Self::read(self, range, |example| {
            // Counts must be whole numbers. All are checked before one is passed on, so a bad line
            // leaves no entries behind. From 2²⁴ on, `f32` skips integers: a count would change
            // silently.
            if example.values.iter().any(|count| count.fract() != 0.0 || !(0.0..16_777_216.0).contains(count)) {
                return Err(ParseError::new("counts that are whole numbers from 0 to 16777215"));
            }
            visit(example)
        })
    }

    fn bad_line_limit(&self) -> u64 {
        self.bad_lines_allowed()
    }
}

/// Text that was read, with its units and their numbers of rows.
struct RowText<'a, F> {
    format: &'a F,
    sources: Vec<InputFile>,
    ranges: Vec<ByteRange>,
    unit_peers: Vec<usize>,
    /// Number of rows of every unit of the job.
    records: Vec<u64>,
    /// Bad lines that were skipped.
    skipped: Vec<BadLine>,
}

impl<'a, F: RowPerLineFormat> RowText<'a, F> {
    /// *Collective.* Reads all units and shifts their rows; returns this peer's units.
    fn read<T: Element>(
        cluster: &Cluster,
        format: &'a F,
        paths: InputPaths,
        add: impl Fn(&mut RowUnit<T>, Example<'_>) + Sync,
    ) -> hemiola_cluster::Result<(Self, Vec<RowUnit<T>>)> {
        let sources = find_files(cluster, paths)?;
        let ranges = plan_units(cluster, &sources)?;
        let unit_peers = assign_units(ranges.iter().map(|range| (range.cost(), None)), cluster.size());
        let mut text = Self { format, sources, ranges, unit_peers, records: Vec::new(), skipped: Vec::new() };
        let read = |unit: usize, data: &mut RowUnit<T>| {
            format.read(&text.ranges[unit], |example| {
                add(data, example);
                Ok(())
            })
        };
        let gathered = read_units(cluster, &text.unit_peers, read, |reports| text.merge_reports(reports))?;
        (text.records, text.skipped) = (gathered.records, gathered.skipped);
        let shift = |(unit, mut data): (usize, RowUnit<T>)| {
            data.entries.shift(0, text.rows_before(unit));
            data.labels.shift(0, text.rows_before(unit));
            data
        };
        let units = gathered.collected.into_iter().map(shift).collect();
        Ok((text, units))
    }

    fn merge_reports(&self, reports: Vec<ReadReport>) -> Result<ReadSummary> {
        ReadReport::merge(&self.sources, reports, self.format.bad_line_limit())
    }

    fn rows_before(&self, unit: usize) -> usize {
        self.records[..unit].iter().sum::<u64>() as usize
    }

    fn rows(&self) -> usize {
        self.records.iter().sum::<u64>() as usize
    }

    /// *Collective.* Builds the array. Rows without entries count too, so the first extent is
    /// given.
    fn build<T: Element>(
        &self,
        cluster: &Cluster,
        builders: Vec<SparseBuilder<T, 2>>,
        duplicates: DuplicatePolicy<T>,
    ) -> hemiola_cluster::Result<DistArray<T, 2>> {
        let mut entries = LocalEntries::from_builders(builders, None);
        let columns = discover_shape(cluster, &entries.inputs)?.extent(1);
        entries.shape = Some(Shape::new([self.rows(), columns]));
        let built = build_array(cluster, entries, &PartitionSpec::default(), duplicates);
        let array = built.map_err(|error| {
            let visit = |unit: usize, key: &[usize], report_matches: &mut MatchVisitor<'_>| {
                let before = self.rows_before(unit);
                self.format.read(&self.ranges[unit], |example| {
                    // A row is a line, so both occurrences of the column are on it.
                    let its = |column: &&u32| key == [before + example.row, **column as usize];
                    report_matches(example.columns.iter().filter(its).count())
                })
            };
            locate_duplicate(cluster, error, &self.unit_peers, visit, |reports| self.merge_reports(reports))
        })?;
        Ok(array.with_skipped_lines(self.skipped.clone()))
    }
}
