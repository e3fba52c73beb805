//! Description of a data set, in the form of the JSON report. Field names are stable; new ones may
//! be added.

use super::tally::{ColumnStatistics, ValueTally};
use hemiola_array::sparse::SparseBlock;
use hemiola_array::{BadLine, DenseArray, Histogram, Shape};
use serde::Serialize;

/// Report with one description per argument of the command.
#[derive(Debug, Serialize)]
pub(super) struct DescribeReport {
    pub(super) sets: Vec<DataSetDescription>,
}

/// One data set: a file, or the files of a folder or a pattern.
#[derive(Debug, Serialize)]
pub(super) struct DataSetDescription {
    /// Argument of the command: a file, folder or pattern.
    pub(super) path: String,
    pub(super) files: usize,
    /// Size on disk in bytes.
    pub(super) bytes: u64,
    /// `plain`, `gzip`, `zstd`, `bzip2` or `mixed`.
    pub(super) compression: String,
    /// `csv`, `libsvm`, `docword`, `ldac`, `matrix-market`, `npy`, `parquet` or `arrow`.
    pub(super) format: &'static str,
    /// Evidence by which the format was detected.
    pub(super) recognized_by: String,
    /// Field separator, for separated values only.
    pub(super) separator: Option<String>,
    /// True if the first line has column names, for separated values only.
    pub(super) header: Option<bool>,
    #[serde(flatten)]
    pub(super) contents: DataSetContents,
}

/// Contents of a data set.
#[derive(Debug, Serialize)]
pub(super) struct DataSetContents {
    /// `entries` (row, column, value), `table` (rows of fields) or `dense` (every cell a number).
    pub(super) view: &'static str,
    /// Extent of each dimension.
    pub(super) shape: Vec<usize>,
    /// Entries view: first index of rows and columns in the file.
    pub(super) counted_from: Option<[usize; 2]>,
    /// Entries view: number of rows and columns with entries; `null` if there are too many to
    /// count.
    pub(super) occupied: Option<[Option<u64>; 2]>,
    /// Number of entries, non-empty fields, or cells.
    pub(super) entries: u64,
    /// Entries as a fraction of all cells; in the dense view, nonzero cells.
    pub(super) density: f64,
    /// Number of entries with a repeated key; `null` if there are too many entries to check.
    pub(super) duplicates: Option<u64>,
    /// Statistics of all values; `null` if none is a number.
    pub(super) values: Option<ColumnStatistics>,
    /// Statistics of the labels, for LIBSVM only.
    pub(super) labels: Option<ColumnStatistics>,
    pub(super) columns: Vec<ColumnDescription>,
    pub(super) memory: MemoryEstimate,
    /// Skew of rows and columns, for the entries view only.
    pub(super) skew: Option<SkewEstimate>,
    /// Invalid lines skipped by `--skip-bad-lines`.
    pub(super) skipped: Vec<BadLine>,
    pub(super) first_rows: FirstRows,
}

/// Column of separated values or of a columnar file.
#[derive(Debug, Serialize)]
pub(super) struct ColumnDescription {
    pub(super) name: String,
    /// Type as in `values`, or `text`; `not read` for columns after the value of an entry.
    pub(super) r#type: &'static str,
    /// Number of empty fields.
    pub(super) missing: u64,
    /// Number of numeric fields of a text column that looked numeric at first.
    pub(super) numbers: Option<u64>,
    /// Minimum; `null` for text.
    pub(super) min: Option<f64>,
    pub(super) mean: Option<f64>,
    pub(super) max: Option<f64>,
}

impl ColumnDescription {
    pub(super) fn new(name: String, text: bool, tally: &ValueTally) -> Self {
        let stats = if text { None } else { tally.stats() };
        let kind = if text { "text" } else { stats.as_ref().map_or("f32", |stats| stats.r#type) };
        let number = |take: fn(&ColumnStatistics) -> f64| stats.as_ref().map(take);
        let (min, mean, max) = (number(|stats| stats.min), number(|stats| stats.mean), number(|stats| stats.max));
        let numbers = Some(tally.numbers()).filter(|numbers| text && *numbers > 0);
        Self { name, r#type: kind, missing: tally.missing(), numbers, min, mean, max }
    }

    /// Creates the description of a column that is not read.
    pub(super) fn not_read(name: String) -> Self {
        Self { name, r#type: "not read", missing: 0, numbers: None, min: None, mean: None, max: None }
    }
}

/// Memory of the data as an array.
#[derive(Debug, Serialize)]
pub(super) struct MemoryEstimate {
    /// Element type of the estimate.
    pub(super) element: String,
    /// Bytes as sorted entries; `null` for tables and dense arrays.
    pub(super) sparse_bytes: Option<u64>,
    /// Bytes with every cell; `null` if it exceeds the address space.
    pub(super) dense_bytes: Option<u64>,
}

impl MemoryEstimate {
    pub(super) fn of_entries(shape: [usize; 2], entries: u64) -> Self {
        let sparse_bytes = Some(SparseBlock::<f32, 2>::memory_for(Shape::new(shape), entries));
        Self { sparse_bytes, ..Self::of_rows(shape) }
    }

    pub(super) fn of_rows(shape: [usize; 2]) -> Self {
        let dense_bytes = DenseArray::<f32, 2>::memory_for(Shape::new(shape));
        Self { element: "f32".to_owned(), sparse_bytes: None, dense_bytes }
    }
}

/// Fraction of entries in the most frequent 1 % of rows and of columns.
#[derive(Debug, Serialize)]
pub(super) struct SkewEstimate {
    pub(super) busiest_rows: f64,
    pub(super) busiest_columns: f64,
    /// Number of neighbouring rows per bin; 1 means that the fraction is exact.
    pub(super) row_bin: usize,
    pub(super) column_bin: usize,
}

impl SkewEstimate {
    pub(super) fn of(rows: &Histogram, columns: &Histogram) -> Self {
        Self {
            busiest_rows: rows.share_of_busiest(0.01),
            busiest_columns: columns.share_of_busiest(0.01),
            row_bin: rows.width(),
            column_bin: columns.width(),
        }
    }
}

/// Number of first rows in a description.
pub(super) const FIRST_ROWS: usize = 5;

/// First rows of the file, unparsed.
#[derive(Debug, Default, Serialize)]
pub(super) struct FirstRows {
    pub(super) names: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

/// Returns `part` as a fraction of the cells of a shape; 0 for an empty shape.
pub(super) fn density(part: u64, shape: &[usize]) -> f64 {
    let cells: f64 = shape.iter().map(|&extent| extent as f64).product();
    if cells > 0.0 { part as f64 / cells } else { 0.0 }
}
