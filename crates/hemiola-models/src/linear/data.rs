//! Reading labelled examples from files, and generating synthetic ones.
//!
//! LIBSVM text is read as such. In separated values one column is the label, the first unless
//! [`label`](LinearReadOptions::label) names another, and the others are features. Zeros are
//! dropped, so that wide and mostly empty tables stay small. Files for a trained model are read by
//! its [`InputSchema`]: columns are matched by name, or by their number without a header.
//!
//! With [`preparation`](LinearReadOptions::preparation), features are made of columns of categories, of
//! text, and of numbers with missing values, see [`Preparation`](crate::input::Preparation). It is fitted
//! in passes over the files before they are read.
//!
//! Labels of separated values are names if none of them is a number; the label of an example is
//! then the index of its name in sorted order. If some labels are numbers, a non-numeric label is
//! an error that names its line.

use super::separated_examples::SeparatedFiles;
use crate::Error;
use crate::input::preparation::{FeatureKind, INSPECTED_RECORDS, apply_sparse, feature_kinds, fit_sparse};
use crate::input::{
    CategoricalColumns, ColumnError, DuplicateHandling, ExampleColumns, FeatureScaling, FileHead, HeldOutRows,
    InputSchema, InspectError, MissingHandling, PreparationOptions, head_of,
};
use hemiola_array::dist::{LabelledData, LazyArray, RecordSource, find_files};
use hemiola_array::read::{
    Csv, DetectedFormat, FileFormat, InputFile, InputPaths, Libsvm, ParseError, ReadReport, Separator,
};
use hemiola_array::synthetic::{LogisticGenerator, SyntheticLogistic};
use hemiola_array::{ArrayExt, ReadExt};
use hemiola_cluster::{Cluster, Result};
use hemiola_core::Seed;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Synthetic examples generated in one unit of work.
const ROWS_PER_UNIT: usize = 256;
/// Approximate number of features of a synthetic example, and number of columns.
const FEATURES_PER_ROW: usize = 12;
const FEATURES: usize = 500;

/// Options for reading examples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinearReadOptions {
    /// LIBSVM: whether columns are counted from 0 instead of 1.
    pub zero_based: bool,
    /// LIBSVM: whether columns are counted from 0 if the index 0 occurs, as libFM writes files.
    pub detect_zero_based: bool,
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
    /// Labels are not read and may be missing: for predictions, and for models without labels. In
    /// training no column is the label then unless [`label`](Self::label) names one.
    pub without_labels: bool,
    /// LIBSVM: treatment of an index that occurs twice on a line; `None` is an error.
    pub duplicates: Option<DuplicateHandling>,
    /// Preparation of the features in training. With a schema, that of the schema is applied.
    pub preparation: PreparationOptions,
    /// Rows that are held out for validation, to which the preparation is not fitted.
    pub held_out: HeldOutRows,
    /// Separated values: column of the weight of each example in training, by name or number.
    pub weight: Option<String>,
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
    /// Weight of each example, if a column of weights is read.
    pub weights: Option<Vec<f32>>,
}

/// *Collective.* Reads examples, detected from the first file: LIBSVM text, separated values, JSON
/// lines, or with the feature `arrow` Parquet and Arrow IPC.
pub fn read(cluster: &Cluster, options: &LinearReadOptions, paths: impl Into<InputPaths>) -> Result<LinearExamples> {
    options.preparation.check()?;
    // The root inspects the files and broadcasts the result, so that all peers read alike.
    let sources = find_files(cluster, paths)?;
    let inspected =
        if cluster.is_root() { Some(inspect(options, sources).map(ExampleFiles::unprepared)) } else { None };
    let Some(inspected) = cluster.broadcast(inspected)? else { unreachable!("the root has inspected the files") };
    let ExampleFiles { sources, columns, kinds, mut schema, mut notes } = match inspected {
        Ok(files) => files,
        Err(InspectError::Read(error)) => return Err(error.into()),
        Err(InspectError::Columns(error)) => return Err(Error::from(error).into()),
    };
    // All peers have the preparation of the model.
    schema.preparation = options.schema.as_ref().and_then(|schema| schema.preparation.clone());
    if columns.is_empty() {
        let duplicates = options.duplicates.unwrap_or(DuplicateHandling::Error).policy();
        let libsvm = Libsvm::new().skip_bad_lines(options.skip_bad_lines).duplicates(duplicates);
        let read = |zero_based| cluster.read_libsvm(libsvm.clone().zero_based(zero_based), sources.clone());
        let mut labelled = match read(schema.zero_based) {
            Err(error) if options.detect_zero_based && !schema.zero_based && is_index_zero(&error) => {
                let labelled = read(true)?;
                notes.push("the index 0 occurs, so indices count from 0, as with `--zero-based`".to_owned());
                schema.zero_based = true;
                labelled
            }
            read => read?,
        };
        if let Some(fitted) = &schema.preparation {
            apply_sparse(cluster, fitted, &mut labelled.features)?;
        } else if fits(options) {
            let (rows, is_training) = (labelled.labels.len(), |row: usize| !options.held_out.contains(row));
            let fitted = fit_sparse(cluster, &options.preparation, &mut labelled.features, rows, is_training)?;
            schema.preparation = Some(Arc::new(fitted));
        }
        return Ok(LinearExamples { labelled, names: Vec::new(), schema, notes, weights: None });
    }
    let files = SeparatedFiles::count(cluster, options, sources, columns, &schema)?;
    if schema.preparation.is_none() && fits(options) {
        let (fitted, more) = files.fit(cluster, options, &kinds, &schema)?;
        schema.preparation = Some(Arc::new(fitted));
        notes.extend(more);
    }
    let (labelled, weights) = files.read(cluster, &schema)?;
    Ok(LinearExamples { labelled, names: files.into_names(), schema, notes, weights })
}

/// Returns true if a preparation is fitted to the files.
fn fits(options: &LinearReadOptions) -> bool {
    options.schema.is_none() && !options.preparation.is_identity()
}

/// Returns true for the error about an index 0 where indices count from 1. All peers have the same
/// error.
fn is_index_zero(error: &hemiola_cluster::Error) -> bool {
    let hemiola_cluster::Error::Layer { source, .. } = error else { return false };
    let found = source.downcast_ref::<hemiola_array::Error>();
    matches!(found, Some(hemiola_array::Error::BadLine(line)) if line.is_index_zero())
}

/// Files of examples, inspected by the root.
#[derive(Debug, Serialize, Deserialize)]
struct ExampleFiles {
    sources: Vec<InputFile>,
    /// Columns of each file of separated values; empty for LIBSVM text.
    columns: Vec<ExampleColumns>,
    /// Kinds of the feature columns, if a preparation is fitted.
    kinds: Vec<FeatureKind>,
    schema: InputSchema,
    notes: Vec<String>,
}

impl ExampleFiles {
    /// Leaves out the preparation, which is not broadcast.
    fn unprepared(mut self) -> Self {
        self.schema.preparation = None;
        self
    }
}

/// Finds the files, their format and their columns.
fn inspect(options: &LinearReadOptions, sources: Vec<InputFile>) -> Result<ExampleFiles, InspectError> {
    let sources = InputFile::as_tables(sources)?;
    let Some(first) = sources.iter().find(|source| source.bytes() > 0).or(sources.first()) else {
        return Err(hemiola_array::Error::NoFiles { pattern: String::new() }.into());
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
    if let Some(fitted) = trained.and_then(|schema| schema.preparation.as_ref())
        && fitted.sparse.is_some() == separator.is_some()
    {
        let trained = if fitted.sparse.is_some() { "LIBSVM text" } else { "separated values" }.to_owned();
        return Err(ColumnError::OtherFormat { file: first.path().to_owned(), trained }.into());
    }
    let mut notes = Vec::new();
    let Some(separator) = separator else {
        check_no_columns(options, first)?;
        let zero_based = options.zero_based || trained.is_some_and(|schema| schema.zero_based);
        if options.zero_based && trained.is_some_and(|schema| schema.columns.is_empty() && !schema.zero_based) {
            notes.push("indices count from 0 (`--zero-based`), but the model was trained on indices from 1".to_owned());
        }
        let schema = InputSchema::libsvm(zero_based);
        if fits(options) && options.preparation.scale == FeatureScaling::Standard {
            notes.push(
                "features are divided by their standard deviations and not centred, so zeros stay zeros".to_owned(),
            );
        }
        return Ok(ExampleFiles { sources, columns: Vec::new(), kinds: Vec::new(), schema, notes });
    };
    let of_libsvm = [
        ("--zero-based", options.zero_based),
        ("--skip-bad-lines", options.skip_bad_lines > 0),
        ("--duplicates", options.duplicates.is_some()),
    ];
    for (flag, given) in of_libsvm {
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
    let kinds = if trained.is_none_or(|schema| schema.columns.is_empty()) {
        inspect_kinds(options, &sources, &schema)?
    } else {
        Vec::new()
    };
    Ok(ExampleFiles { sources, columns, kinds, schema, notes })
}

/// Returns the kinds of the feature columns of training files, by the first records. Fails for columns
/// that cannot be read.
fn inspect_kinds(
    options: &LinearReadOptions,
    sources: &[InputFile],
    schema: &InputSchema,
) -> Result<Vec<FeatureKind>, InspectError> {
    let csv = Csv::new().separator(schema.separator.as_deref().unwrap_or(","));
    let Some(first) = sources.iter().find(|source| source.bytes() > 0) else { return Ok(Vec::new()) };
    let weighting = options.preparation.weighting;
    if weighting.is_active() && options.preparation.text.is_empty() {
        let flag = if weighting.tfidf { "--tfidf" } else { "--binary" }.to_owned();
        let problem = "weights counts of terms, and the files have separated values".to_owned();
        return Err(ColumnError::Unsuitable { flag, problem, instead: Some("--text-column COLUMN".to_owned()) }.into());
    }
    let (header, fields) = head_of(&csv, first)?;
    let head = FileHead { path: first.path(), header: header.as_deref(), fields };
    let records = csv.first_records(first, INSPECTED_RECORDS)?;
    Ok(feature_kinds(&options.preparation, schema, head, &records)?)
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
    let PreparationOptions { categorical, hash_bits, missing, missing_indicator, text, scale, .. } =
        &options.preparation;
    if options.schema.is_none() && *scale == FeatureScaling::MinMax {
        let problem = "would shift the zeros that LIBSVM text leaves out".to_owned();
        let (flag, instead) = ("--scale min-max".to_owned(), Some("--scale max-abs".to_owned()));
        return Err(ColumnError::Unsuitable { flag, problem, instead });
    }
    let flags = [
        ("--label", options.label.is_some()),
        ("--ignore", !options.ignore.is_empty()),
        ("--weight-column", options.weight.is_some()),
        ("--categorical", *categorical != CategoricalColumns::None),
        ("--hash-features", hash_bits.is_some()),
        ("--missing", *missing != MissingHandling::Error),
        ("--missing-indicator", *missing_indicator),
        ("--text-column", !text.is_empty()),
    ];
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
    let schema = if let Some(schema) = trained {
        schema.clone()
    } else {
        let label = (options.label.as_deref(), !options.without_labels);
        ExampleColumns::choose(*reference, separator, label, &options.ignore, options.weight.as_deref())?
    };
    let mut columns = Vec::with_capacity(sources.len());
    for head in &heads {
        let found = if head.fields == 0 {
            nothing()
        } else {
            match ExampleColumns::match_file(*head, &schema, !options.without_labels) {
                // Parts of a training set have the same columns; only a model may leave some out.
                Ok(found) if trained.is_some() || found.extra.is_empty() => found,
                Err(error) if trained.is_some() || head.path == reference.path => return Err(error.into()),
                _ => {
                    let (first, other) = (reference.path.to_owned(), head.path.to_owned());
                    return Err(ColumnError::DifferentFiles { first, other }.into());
                }
            }
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
