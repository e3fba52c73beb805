//! Reading labelled examples from files, and generating synthetic ones.
//!
//! LIBSVM text is read as such. In separated values one column is the label, the first unless
//! [`label`](LinearReadOptions::label) names another, and the others are features. Zeros are
//! dropped, so that wide and mostly empty tables stay small. Files for a trained model are read by
//! its [`InputSchema`]: columns are matched by name, or by their number without a header.
//!
//! Labels of separated values are names if none of them is a number; the label of an example is
//! then the index of its name in sorted order. If some labels are numbers, a non-numeric label is
//! an error that names its line.

use super::shard::MAX_CLASSES;
use crate::Error;
use crate::input::{ColumnError, ColumnRole, ExampleColumns, FieldUse, FileHead, InputSchema, InspectError, head_of};
use hemiola_array::Dictionary;
use hemiola_array::dist::{LabelledData, LazyArray, RecordSource, find_files};
use hemiola_array::read::{
    ByteRange, Csv, DetectedFormat, Fields, FileFormat, InputFile, Libsvm, ParseError, ReadReport, ReadSummary,
    Separator,
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
    /// Separated values: label column in training, by name or by number counted from 1. Default:
    /// the first.
    pub label: Option<String>,
    /// Separated values: columns to leave out in training, by name or number.
    pub ignore: Vec<String>,
    /// Layout of the training files of a model, by which these files are read.
    pub schema: Option<InputSchema>,
    /// Labels are not read and may be missing: for predictions.
    pub without_labels: bool,
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
    /// Layout of the files.
    pub schema: InputSchema,
    /// Notes for the user, such as columns that were left out.
    pub notes: Vec<String>,
}

/// *Collective.* Reads examples: LIBSVM text or separated values, detected from the first file.
pub fn read(cluster: &Cluster, options: &LinearReadOptions, pattern: &str) -> Result<LinearExamples> {
    // The root inspects the files and broadcasts the result, so that all peers read alike.
    let sources = find_files(cluster, pattern)?;
    let inspected = if cluster.is_root() { Some(inspect(options, sources, pattern)) } else { None };
    let Some(inspected) = cluster.broadcast(inspected)? else { unreachable!("the root has inspected the files") };
    let ExampleFiles { sources, columns, schema, notes } = match inspected {
        Ok(files) => files,
        Err(InspectError::Read(error)) => return Err(error.into()),
        Err(InspectError::Columns(error)) => return Err(Error::from(error).into()),
    };
    let (labelled, names) = if columns.is_empty() {
        let libsvm = Libsvm::new().zero_based(schema.zero_based).skip_bad_lines(options.skip_bad_lines);
        (cluster.read_libsvm(libsvm, pattern)?, Vec::new())
    } else {
        read_separated(cluster, options, sources, columns, &schema)?
    };
    Ok(LinearExamples { labelled, names, schema, notes })
}

/// Files of examples, inspected by the root.
#[derive(Debug, Serialize, Deserialize)]
struct ExampleFiles {
    sources: Vec<InputFile>,
    /// Columns of each file of separated values; empty for LIBSVM text.
    columns: Vec<ExampleColumns>,
    schema: InputSchema,
    notes: Vec<String>,
}

/// Finds the files, their format and their columns.
fn inspect(options: &LinearReadOptions, sources: Vec<InputFile>, pattern: &str) -> Result<ExampleFiles, InspectError> {
    let Some(first) = sources.first() else {
        return Err(hemiola_array::Error::NoFiles { pattern: pattern.to_owned() }.into());
    };
    // An unrecognized file is treated as malformed LIBSVM text, so that the LIBSVM reader reports
    // the error.
    let detected = match DetectedFormat::of(first) {
        Ok(DetectedFormat { format: FileFormat::Csv, separator: Some(separator), .. }) => Some(separator.text()),
        _ => None,
    };
    let trained = options.schema.as_ref();
    let separator = match (&options.separator, detected) {
        (Some(separator), _) => Some(separator.clone()),
        (None, Some(detected)) => Some(trained_separator(options, first).unwrap_or(detected)),
        (None, None) => None,
    };
    let mut notes = Vec::new();
    let Some(separator) = separator else {
        check_no_columns(options, first)?;
        let zero_based = options.zero_based || trained.is_some_and(|schema| schema.zero_based);
        if options.zero_based && trained.is_some_and(|schema| schema.columns.is_empty() && !schema.zero_based) {
            notes.push("indices count from 0 (`--zero-based`), but the model was trained on indices from 1".to_owned());
        }
        return Ok(ExampleFiles { sources, columns: Vec::new(), schema: InputSchema::libsvm(zero_based), notes });
    };
    for (flag, given) in [("--zero-based", options.zero_based), ("--skip-bad-lines", options.skip_bad_lines > 0)] {
        if given {
            return Err(ColumnError::NotLibsvm { flag: flag.to_owned(), file: first.path().to_owned() }.into());
        }
    }
    if let Some(before) = trained.and_then(|schema| schema.separator.as_ref())
        && *before != separator
    {
        let [before, now] = [before, &separator].map(|text| Separator::new(text));
        notes.push(format!("fields are separated by {now}, and were by {before} in training"));
    }
    let (columns, schema) = file_columns(options, &sources, &separator, &mut notes)?;
    Ok(ExampleFiles { sources, columns, schema, notes })
}

/// Returns the separator of the training files, if the columns of a file fit with it.
fn trained_separator(options: &LinearReadOptions, first: &InputFile) -> Option<String> {
    let schema = options.schema.as_ref()?;
    let separator = schema.separator.clone()?;
    let (header, fields) = head_of(&Csv::new().separator(&separator), first).ok()?;
    let head = FileHead { path: first.path(), header: header.as_deref(), fields };
    ExampleColumns::match_file(head, schema, !options.without_labels).ok().map(|_| separator)
}

/// Returns an error if a flag about columns is given for LIBSVM text.
fn check_no_columns(options: &LinearReadOptions, first: &InputFile) -> Result<(), ColumnError> {
    let flags = [("--label", options.label.is_some()), ("--ignore", !options.ignore.is_empty())];
    match flags.into_iter().find(|(_, given)| *given) {
        Some((flag, _)) => Err(ColumnError::NotSeparated { flag: flag.to_owned(), file: first.path().to_owned() }),
        None => Ok(()),
    }
}

/// Returns the columns of each file, and the schema of all.
fn file_columns(
    options: &LinearReadOptions,
    sources: &[InputFile],
    separator: &str,
    notes: &mut Vec<String>,
) -> Result<(Vec<ExampleColumns>, InputSchema), InspectError> {
    let csv = Csv::new().separator(separator);
    let heads = sources.iter().map(|source| head_of(&csv, source)).collect::<hemiola_array::Result<Vec<_>>>()?;
    let heads: Vec<FileHead<'_>> = sources
        .iter()
        .zip(&heads)
        .map(|(source, (header, fields))| FileHead { path: source.path(), header: header.as_deref(), fields: *fields })
        .collect();
    let nothing = || ExampleColumns { fields: Vec::new(), extra: Vec::new() };
    let Some(reference) = heads.iter().find(|head| head.fields > 0) else {
        // The reading pass reports that there are no records.
        return Ok((vec![nothing(); sources.len().max(1)], InputSchema::default()));
    };
    // A model of LIBSVM text has no columns; the first one is the label then.
    let trained = options.schema.as_ref().filter(|schema| !schema.columns.is_empty());
    let schema = match trained {
        Some(schema) => schema.clone(),
        None => ExampleColumns::choose(*reference, separator, options.label.as_deref(), &options.ignore)?,
    };
    let mut columns = Vec::with_capacity(sources.len());
    for head in &heads {
        let found = if head.fields == 0 {
            nothing()
        } else {
            ExampleColumns::match_file(*head, &schema, !options.without_labels)?
        };
        if let Some(extra) = found.extra.first() {
            let more =
                if found.extra.len() > 1 { format!(" and {} more", found.extra.len() - 1) } else { String::new() };
            notes.push(format!("`{}`: ignored column `{extra}`{more}, unknown to the model", head.path.display()));
        }
        columns.push(found);
    }
    Ok((columns, InputSchema { separator: Some(separator.to_owned()), ..schema }))
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
    options: &LinearReadOptions,
    sources: Vec<InputFile>,
    columns: Vec<ExampleColumns>,
    schema: &InputSchema,
) -> Result<(LabelledData, Vec<String>)> {
    let csv = Csv::new().separator(schema.separator.as_deref().unwrap_or(","));
    let bytes: u64 = sources.iter().map(InputFile::bytes).sum();
    let units = (cluster.size() * cluster.workers() * 4) as u64;
    let ranges = cluster.broadcast(ByteRange::split(&sources, (bytes / units.max(1)).max(SMALLEST_UNIT)))?;
    let files = files_of(&ranges, &sources);
    let mine = |unit: &usize| unit % cluster.size() == cluster.rank().index();
    let reads_labels = !options.without_labels;
    let count = |unit: usize| {
        let mut scan = LabelScan::default();
        let label = columns[files[unit]].fields.iter().position(|field| *field == FieldUse::Label);
        // Errors in a file are found again and reported by the reading pass.
        let _ = csv.read_fields(&ranges[unit], |fields| {
            match label.filter(|_| reads_labels) {
                Some(label) => {
                    for _ in 0..label {
                        fields.text()?;
                    }
                    scan.observe(&fields.text()?);
                }
                None => scan.records += 1,
            }
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
    let names = if options.names.is_empty() && reads_labels { names(&counted)? } else { options.names.clone() };
    let separated = CsvExamples { csv, sources, ranges, files, columns, firsts, names, reads_labels };
    let entries: DistArray<f32, 2> = LazyArray::from_source(cluster, &separated).materialize()?;
    let labels = entries.entries().filter(|[_, column], _| column == 0).map_keys(|[row, _]| [row]).materialize()?;
    let features = entries.entries().filter(|[_, column], _| column > 0).map_keys(|[row, column]| [row, column - 1]);
    let features = features.materialize()?.with_names([None, feature_names(schema)]);
    Ok((LabelledData { features, labels }, separated.names))
}

/// Returns the index of the file of each range. Ranges are in the order of files.
fn files_of(ranges: &[ByteRange], sources: &[InputFile]) -> Vec<usize> {
    let mut file = 0;
    let of_range = |range: &ByteRange| {
        while file + 1 < sources.len() && sources[file] != *range.source() {
            file += 1;
        }
        file
    };
    ranges.iter().map(of_range).collect()
}

/// Returns the feature names, if the files have a header.
fn feature_names(schema: &InputSchema) -> Option<Arc<Dictionary>> {
    let features = schema.with_role(ColumnRole::Feature).map(|(_, column)| column.name.as_bytes());
    schema.header.then(|| Arc::new(features.collect()))
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

/// Reader of separated values; the label becomes column 0.
struct CsvExamples {
    csv: Csv,
    sources: Vec<InputFile>,
    ranges: Vec<ByteRange>,
    /// Index of the file of each range.
    files: Vec<usize>,
    /// Columns of each file.
    columns: Vec<ExampleColumns>,
    /// Number of the first row of each range.
    firsts: Vec<usize>,
    /// Class names; empty if labels are numbers.
    names: Vec<String>,
    reads_labels: bool,
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
        let columns = &self.columns[self.files[unit]];
        self.csv.read_fields(&self.ranges[unit], |fields| {
            if !self.reads_labels || !columns.has_label() {
                visit(([row, 0], 0.0))?;
            }
            for field in &columns.fields {
                match field {
                    FieldUse::Label if self.reads_labels => visit(([row, 0], self.label(fields)?))?,
                    FieldUse::Feature(feature) => {
                        let value = fields.next::<f32>()?;
                        if value != 0.0 {
                            visit(([row, feature + 1], value))?;
                        }
                    }
                    FieldUse::Label | FieldUse::Skip => drop(fields.text()?),
                }
            }
            if !fields.is_empty() {
                return Err(ParseError::new(format!("{} fields", columns.fields.len())));
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
