//! Reading labelled examples from files, and generating synthetic ones.
//!
//! LIBSVM text is read as such. In separated values the first field is the label and the others are
//! features, by position. Zeros are dropped, so that wide and mostly empty tables stay small.
//!
//! Labels of separated values are names if none of them is a number; the label of an example is
//! then the index of its name in sorted order. If some labels are numbers, a non-numeric label is
//! an error that names its line.

use super::shard::MAX_CLASSES;
use crate::Error;
use hemiola_array::Dictionary;
use hemiola_array::dist::{LabelledData, LazyArray, RecordSource};
use hemiola_array::read::{
    ByteRange, Csv, DetectedFormat, Fields, FileFormat, InputFile, Libsvm, ParseError, ReadReport, ReadSummary,
};
use hemiola_array::synthetic::{LogisticGenerator, SyntheticLogistic};
use hemiola_array::{ArrayExt, DistArray, ReadExt};
use hemiola_cluster::{Cluster, Result};
use hemiola_core::Seed;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Synthetic examples generated in one unit of work.
const ROWS_PER_UNIT: usize = 256;
/// Approximate number of features of a synthetic example, and number of columns.
const FEATURES_PER_ROW: usize = 12;
const FEATURES: usize = 500;
/// Minimum size of a unit of work in bytes.
const SMALLEST_UNIT: u64 = 1 << 16;

/// Options for reading examples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinearReadOptions {
    /// LIBSVM: whether columns are counted from 0 instead of 1.
    pub zero_based: bool,
    /// LIBSVM: maximum number of malformed lines to skip.
    pub skip_bad_lines: u64,
    /// Separated values: the separator; `None` detects it from the file.
    pub separator: Option<String>,
    /// Separated values: known class names, such as those of a model. Any other name gets the label
    /// [`UNKNOWN_LABEL`].
    pub names: Vec<String>,
}

/// Label of an example whose class name is unknown.
pub const UNKNOWN_LABEL: f32 = -1.0;

/// Examples read from files.
#[derive(Debug)]
pub struct LinearExamples {
    /// Features and labels of the examples.
    pub labelled: LabelledData,
    /// Class names by label; empty if labels are numbers.
    pub names: Vec<String>,
}

/// *Collective.* Reads examples: LIBSVM text or separated values, detected from the first file.
pub fn read(cluster: &Cluster, options: &LinearReadOptions, pattern: &str) -> Result<LinearExamples> {
    // The root inspects the file and broadcasts the result, so that all peers read alike.
    let detected = if cluster.is_root() { Some(detect(options, pattern)) } else { None };
    match cluster.broadcast(detected)?.transpose()?.flatten() {
        None => {
            let libsvm = Libsvm::new().zero_based(options.zero_based).skip_bad_lines(options.skip_bad_lines);
            Ok(LinearExamples { labelled: cluster.read_libsvm(libsvm, pattern)?, names: Vec::new() })
        }
        Some((separator, sources)) => read_separated(cluster, &separator, sources, &options.names),
    }
}

/// Returns the separator and the files; `None` for LIBSVM text.
fn detect(options: &LinearReadOptions, pattern: &str) -> hemiola_array::Result<Option<(String, Vec<InputFile>)>> {
    let sources = InputFile::find(pattern)?;
    let Some(first) = sources.first() else {
        return Err(hemiola_array::Error::NoFiles { pattern: pattern.to_owned() });
    };
    if let Some(separator) = &options.separator {
        return Ok(Some((separator.clone(), sources)));
    }
    // An unrecognized file is treated as malformed LIBSVM text, so that the LIBSVM reader reports
    // the error.
    Ok(match DetectedFormat::of(first) {
        Ok(DetectedFormat { format: FileFormat::Csv, separator: Some(separator), .. }) => {
            Some((separator.text(), sources))
        }
        _ => None,
    })
}

/// Statistics of the labels in a part of the data, from a first scan.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct LabelScan {
    records: u64,
    /// True if any label is a number.
    numbers: bool,
    /// Non-numeric labels, up to one more than the maximum number of classes.
    names: BTreeSet<String>,
}

impl LabelScan {
    fn observe(&mut self, label: &[u8]) {
        self.records += 1;
        let label = String::from_utf8_lossy(label);
        if label.trim().parse::<f32>().is_ok() {
            self.numbers = true;
        } else if self.names.len() <= MAX_CLASSES && !self.names.contains(&*label) {
            self.names.insert(label.into_owned());
        }
    }
}

/// *Collective.* Rows are numbered over all files, so they are counted first and then read.
fn read_separated(
    cluster: &Cluster,
    separator: &str,
    sources: Vec<InputFile>,
    known: &[String],
) -> Result<LinearExamples> {
    let csv = Csv::new().separator(separator);
    let bytes: u64 = sources.iter().map(InputFile::bytes).sum();
    let units = (cluster.size() * cluster.workers() * 4) as u64;
    let ranges = cluster.broadcast(ByteRange::split(&sources, (bytes / units.max(1)).max(SMALLEST_UNIT)))?;
    let mine = |unit: &usize| unit % cluster.size() == cluster.rank().index();
    let count = |unit: usize| {
        let mut scan = LabelScan::default();
        // Errors in a file are found again and reported by the reading pass.
        let _ = csv.read_fields(&ranges[unit], |fields| {
            scan.observe(&fields.text()?);
            fields.skip_rest();
            Ok(())
        });
        (unit, scan)
    };
    let counted: Vec<(usize, LabelScan)> = (0..ranges.len()).filter(mine).map(count).collect();
    let mut counted: Vec<_> = cluster.all_gather(counted)?.into_iter().flatten().collect();
    counted.sort_unstable_by_key(|(unit, _)| *unit);
    let firsts = counted.iter().scan(0, |next, (_, scan)| {
        let first = *next;
        *next += scan.records as usize;
        Some(first)
    });
    let firsts: Vec<usize> = firsts.collect();
    let names = if known.is_empty() { names(&counted)? } else { known.to_vec() };
    let separated = CsvExamples { csv, sources, ranges, firsts, names };
    let entries: DistArray<f32, 2> = LazyArray::from_source(cluster, &separated).materialize()?;
    let labels = entries.entries().filter(|[_, column], _| column == 0).map_keys(|[row, _]| [row]).materialize()?;
    let features = entries.entries().filter(|[_, column], _| column > 0).map_keys(|[row, column]| [row, column - 1]);
    let features = features.materialize()?.with_names([None, feature_names(cluster, &separated)?]);
    Ok(LinearExamples { labelled: LabelledData { features, labels }, names: separated.names })
}

/// *Collective.* Returns the feature names, if the first file has a header. A feature without a
/// name, or with a duplicate one, gets its number appended.
fn feature_names(cluster: &Cluster, separated: &CsvExamples) -> Result<Option<Arc<Dictionary>>> {
    let first = separated.sources.first().filter(|_| cluster.is_root());
    // Errors in the file were reported when it was read.
    let header = first.and_then(|first| separated.csv.column_names(first).ok().flatten());
    let Some(header) = cluster.broadcast(header)? else { return Ok(None) };
    let mut names = Dictionary::new();
    for (column, name) in header.iter().enumerate().skip(1) {
        let own = name.trim();
        let taken = own.is_empty() || names.index_of(own.as_bytes()).is_some();
        let mut name = if taken { format!("{own} ({column})").trim_start().to_owned() } else { own.to_owned() };
        while names.index_of(name.as_bytes()).is_some() {
            name.push('\'');
        }
        names.intern(name.as_bytes());
    }
    Ok(Some(Arc::new(names)))
}

/// Returns the class names in sorted order; none if a label is a number.
fn names(scans: &[(usize, LabelScan)]) -> Result<Vec<String>> {
    if scans.iter().any(|(_, scan)| scan.numbers) {
        return Ok(Vec::new());
    }
    let names: BTreeSet<&String> = scans.iter().flat_map(|(_, scan)| &scan.names).collect();
    if names.len() > MAX_CLASSES {
        return Err(Error::TooManyClasses { most: MAX_CLASSES }.into());
    }
    Ok(names.into_iter().cloned().collect())
}

/// Reader of separated values; the label is column 0.
struct CsvExamples {
    csv: Csv,
    sources: Vec<InputFile>,
    ranges: Vec<ByteRange>,
    /// Number of the first row of each range.
    firsts: Vec<usize>,
    /// Class names; empty if labels are numbers.
    names: Vec<String>,
}

impl CsvExamples {
    fn label(&self, fields: &mut Fields<'_>) -> hemiola_array::Result<f32, Box<ParseError>> {
        if self.names.is_empty() {
            return fields.next::<f32>();
        }
        let name = fields.text()?;
        let Ok(name) = std::str::from_utf8(&name) else { return Err(fields.reject("a label in UTF-8")) };
        if name.is_empty() {
            return Err(fields.reject("a label"));
        }
        Ok(self.names.iter().position(|known| known == name).map_or(UNKNOWN_LABEL, |index| index as f32))
    }
}

impl RecordSource for &CsvExamples {
    type Record = ([usize; 2], f32);

    fn units(&self) -> usize {
        self.ranges.len()
    }

    fn cost(&self, unit: usize) -> u64 {
        self.ranges[unit].cost()
    }

    fn visit(
        &self,
        unit: usize,
        mut visit: impl FnMut(Self::Record) -> hemiola_array::Result<(), Box<ParseError>>,
    ) -> hemiola_array::Result<ReadReport> {
        let mut row = self.firsts[unit];
        self.csv.read_fields(&self.ranges[unit], |fields| {
            visit(([row, 0], self.label(fields)?))?;
            let mut column = 1;
            while !fields.is_empty() {
                let value = fields.next::<f32>()?;
                if value != 0.0 {
                    visit(([row, column], value))?;
                }
                column += 1;
            }
            row += 1;
            Ok(())
        })
    }

    fn merge_reports(&self, reports: Vec<ReadReport>) -> hemiola_array::Result<ReadSummary> {
        ReadReport::merge(&self.sources, reports, 0)
    }
}

/// *Collective.* Generates examples of two classes; the same seed gives the same examples.
pub fn synthetic(cluster: &Cluster, rows: usize, Seed(seed): Seed) -> Result<LabelledData> {
    let set = SyntheticLogistic { rows, columns: FEATURES, features_per_row: FEATURES_PER_ROW, scale: 1.0, seed };
    let made = set.generator();
    let features = LazyArray::from_source(cluster, SyntheticExampleSource(&made)).materialize()?;
    let labels = cluster.from_fn([rows], |[row]| made.row(row).0)?;
    Ok(LabelledData { features, labels })
}

struct SyntheticExampleSource<'a>(&'a LogisticGenerator);

impl RecordSource for SyntheticExampleSource<'_> {
    type Record = ([usize; 2], f32);

    fn units(&self) -> usize {
        self.0.set().rows.div_ceil(ROWS_PER_UNIT)
    }

    fn cost(&self, _unit: usize) -> u64 {
        1
    }

    fn visit(
        &self,
        unit: usize,
        mut visit: impl FnMut(Self::Record) -> hemiola_array::Result<(), Box<ParseError>>,
    ) -> hemiola_array::Result<ReadReport> {
        let first = unit * ROWS_PER_UNIT;
        let mut report = ReadReport::default();
        for row in first..(first + ROWS_PER_UNIT).min(self.0.set().rows) {
            for (column, value) in self.0.row(row).1 {
                report.records += 1;
                // Synthetic entries are never rejected.
                let _ = visit(([row, column], value));
            }
        }
        Ok(report)
    }

    fn extents(&self) -> Option<Vec<usize>> {
        Some(vec![self.0.set().rows, self.0.set().columns])
    }
}
