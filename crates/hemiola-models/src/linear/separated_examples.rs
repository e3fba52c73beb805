//! Examples in separated values: passes over their files.
//!
//! Rows are numbered over all files, so a first pass counts them and collects the labels. A
//! [`Preparation`] is fitted in passes of its own, and the last pass reads the rows into arrays.
//! **Invariant:** every pass numbers rows alike, and the result of a pass does not depend on the
//! division of the files into units.

use super::data::{LinearReadOptions, UNKNOWN_LABEL};
use super::shard::MAX_CLASSES;
use crate::Error;
use crate::input::preparation::{FeatureKind, FeatureScan, RowBuffers, RowPreparer, fit, number_of_column};
use crate::input::{ColumnRole, ExampleColumns, FieldUse, InputSchema, Preparation};
use hemiola_array::dist::{LabelledData, LazyArray, RecordSource};
use hemiola_array::read::{ByteRange, Csv, Fields, InputFile, ParseError, ReadReport, ReadSummary};
use hemiola_array::{Dictionary, DistArray};
use hemiola_cluster::{Cluster, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Minimum size of a unit of work in bytes.
const SMALLEST_UNIT: u64 = 1 << 16;
/// Columns of label and weight in the array of all entries; features follow.
const LABEL: usize = 0;
const WEIGHT: usize = 1;
const FIRST_FEATURE: usize = 2;

/// Files of separated values, divided into units.
pub(super) struct SeparatedFiles {
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

impl SeparatedFiles {
    /// *Collective.* Divides the files into units, and counts their rows and labels.
    pub(super) fn count(
        cluster: &Cluster,
        options: &LinearReadOptions,
        sources: Vec<InputFile>,
        columns: Vec<ExampleColumns>,
        schema: &InputSchema,
    ) -> Result<Self> {
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
        Ok(Self { csv, sources, ranges, files, columns, firsts, names, reads_labels })
    }

    /// *Collective.* Fits a preparation to the training rows. Returns it with notes for the user.
    pub(super) fn fit(
        &self,
        cluster: &Cluster,
        options: &LinearReadOptions,
        kinds: &[FeatureKind],
        schema: &InputSchema,
    ) -> Result<(Preparation, Vec<String>)> {
        let names: Vec<String> = schema.with_role(ColumnRole::Feature).map(|(_, column)| column.name.clone()).collect();
        let fitted = fit(&options.preparation, (kinds, &names), &|empty| self.scan(cluster, options, &empty))?;
        Ok(fitted.map_err(Error::from)?)
    }

    /// *Collective.* Adds all training rows to copies of `empty`, and merges them.
    fn scan(&self, cluster: &Cluster, options: &LinearReadOptions, empty: &FeatureScan) -> Result<FeatureScan> {
        let mine: Vec<usize> = (cluster.rank().index()..self.ranges.len()).step_by(cluster.size()).collect();
        let next = AtomicUsize::new(0);
        let scans = cluster.each_worker(|_| {
            let mut scan = empty.clone();
            // Relaxed: the counter only distributes units.
            while let Some(unit) = mine.get(next.fetch_add(1, Ordering::Relaxed)) {
                let (uses, mut row) = (&self.columns[self.files[*unit]].fields, self.firsts[*unit]);
                // Errors in a file are found again and reported by the reading pass.
                let _ = self.csv.read_fields(&self.ranges[*unit], |fields| {
                    row += 1;
                    if options.held_out.contains(row - 1) {
                        return Ok(());
                    }
                    scan.add_row(fields, uses, &options.preparation)
                });
            }
            scan
        })?;
        let merge = |scans: Vec<FeatureScan>| {
            let mut scans = scans.into_iter();
            let mut all = scans.next().unwrap_or_default();
            scans.for_each(|scan| all.merge(&scan));
            all
        };
        Ok(merge(cluster.all_gather(merge(scans))?))
    }

    /// *Collective.* Reads all rows: examples, and their weights if there is a column of weights.
    pub(super) fn read(&self, cluster: &Cluster, schema: &InputSchema) -> Result<(LabelledData, Option<Vec<f32>>)> {
        let preparer = schema.preparation.as_deref().map(|preparation| RowPreparer::new(preparation, schema));
        let feature_columns = schema
            .with_role(ColumnRole::Feature)
            .map(|(_, column)| column.name.clone())
            .filter(|_| schema.header)
            .collect();
        let source = PreparedRows { files: self, preparer, feature_columns };
        let entries: DistArray<f32, 2> = LazyArray::from_source(cluster, &source).materialize()?;
        let of_column = |wanted: usize| {
            entries.entries().filter(move |[_, column], _| column == wanted).map_keys(|[row, _]| [row]).materialize()
        };
        let labels = of_column(LABEL)?;
        let has_weights = self.columns.iter().any(|columns| columns.fields.contains(&FieldUse::Weight));
        let weights = if has_weights {
            Some(of_column(WEIGHT)?.collect()?.into_iter().map(|(_, weight)| weight).collect())
        } else {
            None
        };
        let features = entries.entries().filter(|[_, column], _| column >= FIRST_FEATURE);
        let features = features.map_keys(|[row, column]| [row, column - FIRST_FEATURE]).materialize()?;
        Ok((LabelledData { features: features.with_names([None, feature_names(schema)]), labels }, weights))
    }

    /// Returns the class names.
    pub(super) fn into_names(self) -> Vec<String> {
        self.names
    }

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

/// Returns the feature names: those of prepared features, or of the header if there is one.
fn feature_names(schema: &InputSchema) -> Option<Arc<Dictionary>> {
    if let Some(preparation) = &schema.preparation {
        let names = preparation.feature_names(schema);
        return Some(Arc::new(names.iter().map(String::as_bytes).collect()));
    }
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

/// Source of the entries of all rows: label, weight and features.
struct PreparedRows<'a> {
    files: &'a SeparatedFiles,
    /// Preparation of the features; `None` for numbers as they are.
    preparer: Option<RowPreparer>,
    /// Names of the feature columns for messages, if the files have a header.
    feature_columns: Vec<String>,
}

impl RecordSource for &PreparedRows<'_> {
    type Record = ([usize; 2], f32);

    fn units(&self) -> usize {
        self.files.ranges.len()
    }

    fn cost(&self, unit: usize) -> u64 {
        self.files.ranges[unit].cost()
    }

    fn visit(
        &self,
        unit: usize,
        mut visit: impl FnMut(Self::Record) -> hemiola_array::Result<(), Box<ParseError>>,
    ) -> hemiola_array::Result<ReadReport> {
        let files = self.files;
        let mut row = files.firsts[unit];
        let columns = &files.columns[files.files[unit]];
        let mut buffers = RowBuffers::default();
        files.csv.read_fields(&files.ranges[unit], |fields| {
            if !files.reads_labels || !columns.has_label() {
                visit(([row, LABEL], 0.0))?;
            }
            RowPreparer::begin_row(&mut buffers);
            for field in &columns.fields {
                match (field, &self.preparer) {
                    (FieldUse::Label, _) if files.reads_labels => visit(([row, LABEL], files.label(fields)?))?,
                    (FieldUse::Weight, _) if files.reads_labels => {
                        let weight = fields.next::<f32>()?;
                        if weight < 0.0 {
                            return Err(fields.reject("a weight of 0 or more"));
                        }
                        visit(([row, WEIGHT], weight))?;
                    }
                    (FieldUse::Feature(feature), Some(preparer)) => {
                        preparer.field(*feature, fields, &mut buffers, &mut |feature, value| {
                            visit(([row, FIRST_FEATURE + feature], value))
                        })?;
                    }
                    (FieldUse::Feature(feature), None) => {
                        let column = self.feature_columns.get(*feature).map(String::as_str);
                        let value: f32 = number_of_column(fields, column)?;
                        if value != 0.0 {
                            visit(([row, FIRST_FEATURE + feature], value))?;
                        }
                    }
                    (FieldUse::Label | FieldUse::Weight | FieldUse::Skip, _) => drop(fields.text()?),
                }
            }
            RowPreparer::end_row(&mut buffers, &mut |feature, value| visit(([row, FIRST_FEATURE + feature], value)))?;
            if !fields.is_empty() {
                return Err(ParseError::new(format!("{} fields", columns.fields.len())));
            }
            row += 1;
            Ok(())
        })
    }

    fn merge_reports(&self, reports: Vec<ReadReport>) -> hemiola_array::Result<ReadSummary> {
        ReadReport::merge(&self.files.sources, reports, 0)
    }
}
