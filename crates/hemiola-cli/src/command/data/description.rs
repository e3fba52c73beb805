//! What was found out about a data set, as programs read it. The field names are stable: new ones may be added.

use super::tally::{ColumnStatistics, ValueTally};
use hemiola_array::sparse::SparseBlock;
use hemiola_array::{BadLine, DenseArray, Histogram, Shape};
use serde::Serialize;

/// The report: one description for each argument of the command.
#[derive(Debug, Serialize)]
pub(super) struct DescribeReport {
    pub(super) sets: Vec<DataSetDescription>,
}

/// One data set: a file, or the files of a folder or a pattern.
#[derive(Debug, Serialize)]
pub(super) struct DataSetDescription {
    /// What was asked for.
    pub(super) path: String,
    pub(super) files: usize,
    /// Bytes on disk.
    pub(super) bytes: u64,
    /// `plain`, `gzip`, `zstd`, `bzip2` or `mixed`.
    pub(super) compression: String,
    /// `csv`, `libsvm`, `docword`, `ldac`, `matrix-market`, `npy`, `parquet` or `arrow`.
    pub(super) format: &'static str,
    /// What the format was told by.
    pub(super) recognized_by: String,
    /// Separated values only: what stands between fields.
    pub(super) separator: Option<String>,
    /// Separated values only: whether the first line names the columns.
    pub(super) header: Option<bool>,
    #[serde(flatten)]
    pub(super) contents: DataSetContents,
}

/// What is in it.
#[derive(Debug, Serialize)]
pub(super) struct DataSetContents {
    /// `entries` (row, column, value), `table` (rows of fields) or `dense` (every cell a number).
    pub(super) view: &'static str,
    /// The extents.
    pub(super) shape: Vec<u64>,
    /// Entries view: the index that the file counts rows and columns from.
    pub(super) counted_from: Option<[u64; 2]>,
    /// Entries view: how many rows and columns have entries; `null` where there are too many to tell.
    pub(super) occupied: Option<[Option<u64>; 2]>,
    /// Entries, fields that are not empty, or cells.
    pub(super) entries: u64,
    /// Entries as a share of all cells; in the dense view, cells other than zero.
    pub(super) density: f64,
    /// Entries whose row and column came before; `null` if there are too many entries to tell cheaply.
    pub(super) duplicates: Option<u64>,
    /// Of all values; `null` if none is a number.
    pub(super) values: Option<ColumnStatistics>,
    /// LIBSVM only: of the labels.
    pub(super) labels: Option<ColumnStatistics>,
    pub(super) columns: Vec<ColumnDescription>,
    pub(super) memory: MemoryEstimate,
    /// Entries view only.
    pub(super) skew: Option<SkewEstimate>,
    /// Lines left out as `--skip-bad-lines` allows.
    pub(super) skipped: Vec<BadLine>,
    pub(super) first_rows: FirstRows,
}

/// A column of separated values or of a columnar file.
#[derive(Debug, Serialize)]
pub(super) struct ColumnDescription {
    pub(super) name: String,
    /// As in `values`, or `text`; `not read` after the value of an entry.
    pub(super) r#type: &'static str,
    /// Empty fields.
    pub(super) missing: u64,
    /// Text that begins like numbers: how many fields are.
    pub(super) numbers: Option<u64>,
    /// `null` for text.
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

    /// A column that was only counted.
    pub(super) fn not_read(name: String) -> Self {
        Self { name, r#type: "not read", missing: 0, numbers: None, min: None, mean: None, max: None }
    }
}

/// What the data takes as an array.
#[derive(Debug, Serialize)]
pub(super) struct MemoryEstimate {
    /// The type of the elements this is computed for.
    pub(super) element: String,
    /// As sorted entries; `null` for tables and dense arrays.
    pub(super) sparse_bytes: Option<u64>,
    /// With every cell; `null` if no machine can hold it.
    pub(super) dense_bytes: Option<u64>,
}

impl MemoryEstimate {
    pub(super) fn of_entries(shape: [u64; 2], entries: u64) -> Self {
        let sparse_bytes = Some(SparseBlock::<f32, 2>::memory_for(Shape::new(shape), entries));
        Self { sparse_bytes, ..Self::of_rows(shape) }
    }

    pub(super) fn of_rows(shape: [u64; 2]) -> Self {
        let dense_bytes = DenseArray::<f32, 2>::memory_for(Shape::new(shape));
        Self { element: "f32".to_owned(), sparse_bytes: None, dense_bytes }
    }
}

/// The share of entries in the busiest 1 % of rows and of columns.
#[derive(Debug, Serialize)]
pub(super) struct SkewEstimate {
    pub(super) busiest_rows: f64,
    pub(super) busiest_columns: f64,
    /// Neighbouring rows that were counted together; 1 means that the share is exact.
    pub(super) row_bin: u64,
    pub(super) column_bin: u64,
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

/// How many first rows are shown.
pub(super) const FIRST_ROWS: usize = 5;

/// The first rows as they stand in the file.
#[derive(Debug, Default, Serialize)]
pub(super) struct FirstRows {
    pub(super) names: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

/// The share that `part` is of the cells of a shape; 0 of nothing.
pub(super) fn density(part: u64, shape: &[u64]) -> f64 {
    let cells: f64 = shape.iter().map(|&extent| extent as f64).product();
    if cells > 0.0 { part as f64 / cells } else { 0.0 }
}
