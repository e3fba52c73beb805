//! Result table as a Parquet file (feature `arrow`).
//!
//! **Invariant:** as every result, the file appears complete or not at all.

use super::table_output::{ColumnKind, TableColumn};
use crate::error::CommandError;
use hemiola_array::files::AtomicFile;
use hemiola_array::files::parquet_table::{ParquetTable, TableCell, TableColumnType};
use serde_json::Value;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

/// Parquet file in progress.
pub(super) struct ParquetFile {
    target: PathBuf,
    kinds: Vec<ColumnKind>,
    table: ParquetTable<BufWriter<AtomicFile>>,
}

impl ParquetFile {
    /// Begins the file, under a temporary name.
    pub(super) fn create(target: &Path, columns: &[TableColumn]) -> anyhow::Result<Self> {
        let stored = |kind| match kind {
            ColumnKind::Text => TableColumnType::Text,
            ColumnKind::Integer => TableColumnType::Integer,
            ColumnKind::Number => TableColumnType::Number,
        };
        let typed: Vec<_> = columns.iter().map(|column| (column.name.as_str(), stored(column.kind))).collect();
        let create = || ParquetTable::new(BufWriter::new(AtomicFile::create(target)?), &typed);
        let table = create().map_err(|error| failed(target, &error))?;
        Ok(Self { target: target.to_owned(), kinds: columns.iter().map(|column| column.kind).collect(), table })
    }

    /// Writes a row, with a value for each column.
    pub(super) fn row(&mut self, values: &[Value]) -> anyhow::Result<()> {
        let cells: Vec<TableCell<'_>> =
            values.iter().zip(&self.kinds).map(|(value, kind)| cell(value, *kind)).collect();
        self.table.row(&cells).map_err(|error| failed(&self.target, &error))
    }

    /// Completes the file, which appears now.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        let Self { target, table, .. } = self;
        let complete = || table.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?.publish();
        complete().map_err(|error| failed(&target, &error))
    }
}

fn failed(target: &Path, error: &io::Error) -> anyhow::Error {
    CommandError::io("write", target, error).into()
}

/// Returns the cell of a value: a name that is a number, in a column of such names, as a number. What
/// does not fit stays as it is, and the table refuses it.
fn cell(value: &Value, kind: ColumnKind) -> TableCell<'_> {
    match value {
        Value::String(text) => match (kind, text.parse(), text.parse()) {
            (ColumnKind::Integer, Ok(integer), _) => TableCell::Integer(integer),
            (ColumnKind::Number, _, Ok(number)) => TableCell::Number(number),
            _ => TableCell::Text(text),
        },
        Value::Number(number) => match (kind, number.as_i64(), number.as_f64()) {
            (ColumnKind::Integer, Some(integer), _) => TableCell::Integer(integer),
            (_, _, Some(number)) => TableCell::Number(number),
            _ => TableCell::Null,
        },
        _ => TableCell::Null,
    }
}
