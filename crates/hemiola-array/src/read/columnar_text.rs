//! Rows of Parquet and Arrow IPC files as separated values (feature `arrow`).
//!
//! Numbers are printed with as many digits as distinguish them, so reading them back gives the same
//! value. Nulls are empty fields, `true` and `false` are 1 and 0, and times are in ISO 8601.

use super::columnar::{Columnar, TextBatches};
use super::input::InputFile;
use super::view::push_row;
use crate::{Error, Result};
use arrow_array::{Array, ArrayRef};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType};
use std::fmt::Write as _;

/// Converter of a columnar file.
pub(super) struct ColumnarText {
    columns: Vec<String>,
    quoted: bool,
    /// Batches of the file, from the first call on.
    batches: Option<TextBatches>,
}

impl ColumnarText {
    pub(super) fn new(columns: &[String], quoted: bool) -> Self {
        Self { columns: columns.to_vec(), quoted, batches: None }
    }

    /// Appends the rows of the next batch. Returns false at the end.
    pub(super) fn convert(&mut self, source: &InputFile, text: &mut Vec<u8>) -> Result<bool> {
        let damaged = |error: ArrowError| Error::BadFile {
            file: source.path().to_owned(),
            problem: format!("it is damaged ({error})"),
        };
        let batches = match &mut self.batches {
            Some(batches) => batches,
            None => self.batches.insert(Columnar::open(source)?.batches(&self.columns)?),
        };
        let Some(batch) = batches.next() else { return Ok(false) };
        let batch = batch.map_err(damaged)?;
        let printable = |name: &String| {
            let array = batch.column_by_name(name).cloned();
            let array = array.ok_or_else(|| ArrowError::SchemaError(format!("a batch lacks the column {name}")))?;
            match array.data_type() {
                DataType::Boolean => arrow_cast::cast(&array, &DataType::UInt8),
                _ => Ok(array),
            }
        };
        let arrays = self.columns.iter().map(printable).collect::<Result<Vec<ArrayRef>, _>>().map_err(damaged)?;
        let options = FormatOptions::default().with_null("");
        let formatter = |array| ArrayFormatter::try_new(array, &options);
        let formatters: Vec<_> =
            arrays.iter().map(|array| formatter(array.as_ref())).collect::<Result<_, _>>().map_err(damaged)?;
        let mut fields = vec![String::new(); formatters.len()];
        for row in 0..batch.num_rows() {
            for (field, formatter) in fields.iter_mut().zip(&formatters) {
                field.clear();
                write!(field, "{}", formatter.value(row)).map_err(|_| {
                    damaged(ArrowError::InvalidArgumentError(format!("row {row} of a batch cannot be printed")))
                })?;
            }
            push_row(text, fields.iter().map(String::as_bytes), self.quoted);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ByteRange, Csv};
    use super::*;
    use arrow_array::{BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
    use std::sync::Arc;

    #[test]
    fn rows_of_parquet_and_arrow_files_are_separated_values() {
        let folder = tempfile::tempdir().unwrap();
        let batch = RecordBatch::try_from_iter([
            ("name", Arc::new(StringArray::from(vec!["a,b", "say \"x\""])) as ArrayRef),
            ("id", Arc::new(Int64Array::from(vec![Some(-7), None]))),
            ("x", Arc::new(Float64Array::from(vec![0.1 + 0.2, 1e-300]))),
            ("flag", Arc::new(BooleanArray::from(vec![true, false]))),
        ])
        .unwrap();
        let parquet = folder.path().join("a.parquet");
        let file = std::fs::File::create(&parquet).unwrap();
        let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let arrow = folder.path().join("a.arrow");
        let file = std::fs::File::create(&arrow).unwrap();
        let mut writer = arrow_ipc::writer::FileWriter::try_new(file, &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        for path in [parquet, arrow] {
            let table = InputFile::as_tables(vec![InputFile::open(&path).unwrap()]).unwrap().remove(0);
            assert_eq!(Csv::new().column_names(&table).unwrap().unwrap(), ["name", "id", "x", "flag"]);
            let mut rows = Vec::new();
            let report = Csv::new().read(&ByteRange::whole(table), |row: (String, String, f64, u8)| {
                rows.push(row);
                Ok(())
            });
            assert_eq!(report.unwrap().records, 2);
            assert_eq!(rows[0], ("a,b".to_owned(), "-7".to_owned(), 0.1 + 0.2, 1));
            assert_eq!(rows[1], ("say \"x\"".to_owned(), String::new(), 1e-300, 0));
        }
    }
}
