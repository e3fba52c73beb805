//! Parquet and Arrow IPC files (feature `arrow`).
//!
//! Both formats store columns in groups of rows: *row groups* in Parquet, *record batches* in Arrow
//! IPC. One worker reads a group on its own, as a byte range of text, and only the requested
//! columns are decoded. The first bytes of a file tell its format.
//!
//! **Invariant:** values arrive unchanged or not at all. A column is converted only to a type that
//! can represent its values (integers to wider or checked narrower ones, numbers to floats). Nulls
//! and overflow are errors that name row and column. So are NaN and infinity, unless they are to be
//! kept.

use super::field::NonFiniteHandling;
use super::input::{InputFile, RawInput};
use crate::{Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType};
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};
use serde::{Deserialize, Serialize};
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum ColumnarFormat {
    Parquet,
    ArrowIpc,
}

/// Columnar file with its footer read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Columnar {
    source: InputFile,
    format: ColumnarFormat,
    groups: usize,
    columns: Vec<String>,
    /// True for each column that holds numbers.
    numeric: Vec<bool>,
    non_finite: NonFiniteHandling,
}

impl Columnar {
    /// Reads the footer of a file.
    pub fn open(source: &InputFile) -> Result<Self> {
        let bad = |problem: String| Error::BadFile { file: source.path().to_owned(), problem };
        let open = || source.raw();
        let mut magic = Vec::new();
        open()?.take(6).read_to_end(&mut magic).map_err(|error| Error::io("read", source.path(), &error))?;
        let (format, groups, schema) = if magic.starts_with(b"PAR1") {
            let builder = ParquetRecordBatchReaderBuilder::try_new(ParquetInput(source.clone()))
                .map_err(|error| bad(format!("its footer is damaged ({error})")))?;
            (ColumnarFormat::Parquet, builder.metadata().num_row_groups(), builder.schema().clone())
        } else if magic.starts_with(b"ARROW1") {
            let reader = arrow_ipc::reader::FileReader::try_new(open()?, None)
                .map_err(|error| bad(format!("its footer is damaged ({error})")))?;
            (ColumnarFormat::ArrowIpc, reader.num_batches(), reader.schema())
        } else {
            return Err(bad("expected a Parquet or Arrow IPC file, found something else".to_owned()));
        };
        let columns = schema.fields().iter().map(|field| field.name().clone()).collect();
        let numeric = schema.fields().iter().map(|field| field.data_type().is_numeric()).collect();
        Ok(Self { source: source.clone(), format, groups, columns, numeric, non_finite: NonFiniteHandling::Reject })
    }

    /// Sets the handling of NaN and infinity. Default: an error that names row and column.
    #[must_use]
    pub fn non_finite(mut self, policy: NonFiniteHandling) -> Self {
        self.non_finite = policy;
        self
    }

    /// Number of row groups or record batches.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// Names of all columns.
    #[must_use]
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// True for each column that holds numbers.
    #[must_use]
    pub fn numeric(&self) -> &[bool] {
        &self.numeric
    }

    /// Batches of rows with the named columns, of all groups in order.
    pub(super) fn batches(&self, columns: &[String]) -> Result<TextBatches> {
        let names: Vec<&str> = columns.iter().map(String::as_str).collect();
        let indices = self.column_indices(&names)?;
        let damaged = |error: &dyn std::fmt::Display| self.bad(format!("it is damaged ({error})"));
        Ok(match self.format {
            ColumnarFormat::Parquet => {
                let builder = ParquetRecordBatchReaderBuilder::try_new(ParquetInput(self.source.clone()))
                    .map_err(|error| damaged(&error))?;
                let mask = ProjectionMask::roots(builder.parquet_schema(), indices);
                Box::new(builder.with_projection(mask).build().map_err(|error| damaged(&error))?)
            }
            ColumnarFormat::ArrowIpc => {
                let file = BufReader::new(self.source.raw()?);
                Box::new(arrow_ipc::reader::FileReader::try_new(file, Some(indices)).map_err(|error| damaged(&error))?)
            }
        })
    }

    /// Calls `visit` with every row of some groups, built from the named columns. Returns the
    /// number of rows.
    pub fn read<R: FromColumns>(
        &self,
        groups: Range<usize>,
        columns: &[&str],
        mut visit: impl FnMut(R),
    ) -> Result<u64> {
        let indices = self.column_indices(columns)?;
        let file = self.source.raw()?;
        let damaged = |error: &dyn std::fmt::Display| self.bad(format!("it is damaged ({error})"));
        let first = groups.start;
        let mut rows = 0;
        let mut each = |batch: std::result::Result<RecordBatch, ArrowError>| {
            let batch = batch.map_err(|error| damaged(&error))?;
            let before = rows;
            rows += batch.num_rows() as u64;
            let number = |row: usize| Ok(self.rows_before(first)? + before + row as u64);
            self.visit_batch(&batch, columns, number, &mut visit)
        };
        match self.format {
            ColumnarFormat::Parquet => {
                let builder = ParquetRecordBatchReaderBuilder::try_new(ParquetInput(self.source.clone()))
                    .map_err(|error| damaged(&error))?;
                let mask = ProjectionMask::roots(builder.parquet_schema(), indices);
                let reader = builder.with_row_groups(groups.collect()).with_projection(mask).build();
                reader.map_err(|error| damaged(&error))?.try_for_each(&mut each)?;
            }
            ColumnarFormat::ArrowIpc => {
                let mut reader =
                    arrow_ipc::reader::FileReader::try_new(file, Some(indices)).map_err(|error| damaged(&error))?;
                reader.set_index(groups.start).map_err(|error| damaged(&error))?;
                reader.take(groups.len()).try_for_each(&mut each)?;
            }
        }
        Ok(rows)
    }

    /// Number of rows in all groups before `group`. Only for errors: Arrow IPC has no counts and
    /// must be read for them.
    #[cold]
    fn rows_before(&self, group: usize) -> Result<u64> {
        let damaged = |error: &dyn std::fmt::Display| self.bad(format!("it is damaged ({error})"));
        match self.format {
            ColumnarFormat::Parquet => {
                let builder = ParquetRecordBatchReaderBuilder::try_new(ParquetInput(self.source.clone()))
                    .map_err(|error| damaged(&error))?;
                let groups = builder.metadata().row_groups().iter().take(group);
                Ok(groups.map(|group| group.num_rows().cast_unsigned()).sum())
            }
            ColumnarFormat::ArrowIpc => {
                let reader = arrow_ipc::reader::FileReader::try_new(self.source.raw()?, Some(Vec::new()))
                    .map_err(|error| damaged(&error))?;
                reader
                    .take(group)
                    .map(|batch| batch.map(|batch| batch.num_rows() as u64).map_err(|error| damaged(&error)))
                    .sum()
            }
        }
    }

    fn column_indices(&self, columns: &[&str]) -> Result<Vec<usize>> {
        let index = |name: &&str| {
            self.columns.iter().position(|column| column == name).ok_or_else(|| {
                self.bad(format!("it has no column `{name}`; its columns are: {}", self.columns.join(", ")))
            })
        };
        columns.iter().map(index).collect()
    }

    fn visit_batch<R: FromColumns>(
        &self,
        batch: &RecordBatch,
        columns: &[&str],
        number: impl Fn(usize) -> Result<u64>,
        visit: &mut impl FnMut(R),
    ) -> Result<()> {
        let types = R::types();
        assert_eq!(types.len(), columns.len(), "there must be one column name per field of the record");
        let mut arrays = Vec::with_capacity(columns.len());
        for (&name, wanted) in columns.iter().zip(&types) {
            // A file may have its columns in another order than requested.
            let array = batch
                .column_by_name(name)
                .ok_or_else(|| self.bad(format!("a record batch lacks the column `{name}`")))?;
            arrays.push(self.convert(array, name, wanted, &number)?);
        }
        R::visit(&arrays, visit);
        Ok(())
    }

    /// Converts a column to the requested type. `number` maps a row of the batch to its row in the
    /// file.
    fn convert(
        &self,
        array: &ArrayRef,
        name: &str,
        wanted: &DataType,
        number: impl Fn(usize) -> Result<u64>,
    ) -> Result<ArrayRef> {
        let found = array.data_type();
        if wanted.is_integer() && found.is_floating() {
            return Err(self.bad(format!("column `{name}` holds {found}; expected whole numbers ({wanted})")));
        }
        if let Some(row) = (0..array.len()).find(|&row| array.is_null(row)) {
            let row = number(row)?;
            return Err(self.bad(format!("column `{name}` has a null in row {row} (counted from 0); fill or drop it")));
        }
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let converted = cast_with_options(array, wanted, &options)
            .map_err(|error| self.bad(format!("column `{name}` holds {found}; expected {wanted} ({error})")))?;
        if self.non_finite == NonFiniteHandling::Reject
            && let Some((row, found)) = not_finite(&converted)
        {
            let position = format!("row {}, column `{name}`", number(row)?);
            return Err(Error::NotFinite { file: self.source.path().to_owned(), position, found });
        }
        Ok(converted)
    }

    fn bad(&self, problem: String) -> Error {
        Error::BadFile { file: self.source.path().to_owned(), problem }
    }
}

/// Batches of rows of a file.
pub(super) type TextBatches = Box<dyn Iterator<Item = std::result::Result<RecordBatch, ArrowError>>>;

/// Input of the Parquet reader, which reads from many positions at once, each with its own file
/// handle.
struct ParquetInput(InputFile);

impl Length for ParquetInput {
    fn len(&self) -> u64 {
        self.0.bytes()
    }
}

impl ChunkReader for ParquetInput {
    type T = BufReader<RawInput>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        let mut raw = self.0.raw().map_err(|error| ParquetError::External(Box::new(error)))?;
        raw.seek(SeekFrom::Start(start))?;
        Ok(BufReader::new(raw))
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let mut bytes = vec![0; length];
        self.get_read(start)?.read_exact(&mut bytes)?;
        Ok(bytes.into())
    }
}

/// First non-finite value of a column, and its row in the batch.
fn not_finite(array: &ArrayRef) -> Option<(usize, String)> {
    fn first<F: Copy + std::fmt::Display>(values: &[F], is_finite: impl Fn(F) -> bool) -> Option<(usize, String)> {
        let row = values.iter().position(|value| !is_finite(*value))?;
        Some((row, values[row].to_string()))
    }
    match array.data_type() {
        DataType::Float32 => first(array.as_primitive::<Float32Type>().values(), f32::is_finite),
        DataType::Float64 => first(array.as_primitive::<Float64Type>().values(), f64::is_finite),
        _ => None,
    }
}

/// Type that a value of a column can become.
pub trait ColumnScalar: Sized {
    /// Arrow type that the column is converted to.
    const TYPE: DataType;

    /// Iterates over all values of a column of that type.
    fn values(array: &ArrayRef) -> impl Iterator<Item = Self>;
}

macro_rules! cell {
    ($($type:ty, $arrow:ty, $variant:ident;)*) => {$(
        impl ColumnScalar for $type {
            const TYPE: DataType = DataType::$variant;
            fn values(array: &ArrayRef) -> impl Iterator<Item = Self> {
                array.as_primitive::<$arrow>().values().iter().copied()
            }
        }
    )*};
}
cell! {
    f32, Float32Type, Float32;
    f64, Float64Type, Float64;
    i32, Int32Type, Int32;
    i64, Int64Type, Int64;
    u32, UInt32Type, UInt32;
    u64, UInt64Type, UInt64;
}

impl ColumnScalar for usize {
    const TYPE: DataType = DataType::UInt64;
    fn values(array: &ArrayRef) -> impl Iterator<Item = Self> {
        array.as_primitive::<UInt64Type>().values().iter().map(|&value| value as Self)
    }
}

impl ColumnScalar for String {
    const TYPE: DataType = DataType::Utf8;
    fn values(array: &ArrayRef) -> impl Iterator<Item = Self> {
        array.as_string::<i32>().iter().map(|text| text.unwrap_or_default().to_owned())
    }
}

/// Record built from one value of each of several columns.
pub trait FromColumns: Sized {
    /// Arrow types of the columns.
    fn types() -> Vec<DataType>;

    /// Calls `visit` with the records of columns of those types.
    fn visit(columns: &[ArrayRef], visit: &mut impl FnMut(Self));
}

macro_rules! columns {
    ($($cell:ident $value:ident $index:literal)*) => {
        impl<$($cell: ColumnScalar),*> FromColumns for ($($cell,)*) {
            fn types() -> Vec<DataType> {
                vec![$($cell::TYPE),*]
            }
            fn visit(columns: &[ArrayRef], visit: &mut impl FnMut(Self)) {
                $(let mut $value = $cell::values(&columns[$index]);)*
                while let ($(Some($value),)*) = ($($value.next(),)*) {
                    visit(($($value,)*));
                }
            }
        }
    };
}
columns!(A a 0);
columns!(A a 0 B b 1);
columns!(A a 0 B b 1 C c 2);
columns!(A a 0 B b 1 C c 2 D d 3);

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Float64Array, Int64Array, StringArray};
    use std::fs::File;
    use std::sync::Arc;

    fn batch(users: &[i64], ratings: Vec<Option<f64>>) -> RecordBatch {
        let names: StringArray = users.iter().map(|user| Some(format!("u{user}"))).collect();
        RecordBatch::try_from_iter([
            ("name", Arc::new(names) as ArrayRef),
            ("rating", Arc::new(Float64Array::from(ratings)) as ArrayRef),
            ("user", Arc::new(Int64Array::from(users.to_vec())) as ArrayRef),
        ])
        .unwrap()
    }

    fn written(batches: &[RecordBatch], format: ColumnarFormat) -> (tempfile::TempDir, InputFile) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ratings");
        let file = File::create(&path).unwrap();
        match format {
            ColumnarFormat::Parquet => {
                let mut writer = parquet::arrow::ArrowWriter::try_new(file, batches[0].schema(), None).unwrap();
                for batch in batches {
                    writer.write(batch).unwrap();
                    writer.flush().unwrap();
                }
                writer.close().unwrap();
            }
            ColumnarFormat::ArrowIpc => {
                let mut writer = arrow_ipc::writer::FileWriter::try_new(file, &batches[0].schema()).unwrap();
                for batch in batches {
                    writer.write(batch).unwrap();
                }
                writer.finish().unwrap();
            }
        }
        let source = InputFile::open(&path).unwrap();
        (folder, source)
    }

    const COLUMNAR_FORMATS: [ColumnarFormat; 2] = [ColumnarFormat::Parquet, ColumnarFormat::ArrowIpc];

    #[test]
    fn groups_are_read_alone_and_columns_by_name() {
        for format in COLUMNAR_FORMATS {
            let batches = [batch(&[1, 2], vec![Some(3.5), Some(4.0)]), batch(&[3], vec![Some(5.0)])];
            let (_folder, source) = written(&batches, format);
            let file = Columnar::open(&source).unwrap();
            assert_eq!((file.groups(), file.columns().len()), (2, 3));
            assert_eq!(file.numeric(), [false, true, true]);
            let mut rows = Vec::new();
            for group in 0..2 {
                file.read(group..group + 1, &["user", "rating"], |row: (u32, f32)| rows.push(row)).unwrap();
            }
            assert_eq!(rows, [(1, 3.5), (2, 4.0), (3, 5.0)]);
            let mut names = Vec::new();
            let count = file.read(0..2, &["name"], |(name,): (String,)| names.push(name)).unwrap();
            assert_eq!((count, names), (3, vec!["u1".to_owned(), "u2".to_owned(), "u3".to_owned()]));
        }
    }

    #[test]
    fn conversion_errors_name_the_column() {
        for format in COLUMNAR_FORMATS {
            let problem = |batch: RecordBatch, columns: &[&str]| {
                let (_folder, source) = written(&[batch], format);
                let error = Columnar::open(&source).unwrap().read(0..1, columns, |_: (u32, f64)| ()).unwrap_err();
                error.to_string().replace(&format!("`{}`: ", source.path().display()), "")
            };
            let good = || batch(&[1], vec![Some(1.0)]);
            assert_eq!(
                problem(good(), &["item", "rating"]),
                "it has no column `item`; its columns are: name, rating, user"
            );
            assert_eq!(
                problem(good(), &["rating", "rating"]),
                "column `rating` holds Float64; expected whole numbers (UInt32)"
            );
            assert_eq!(
                problem(batch(&[1, 2], vec![Some(1.0), None]), &["user", "rating"]),
                "column `rating` has a null in row 1 (counted from 0); fill or drop it"
            );
            assert_eq!(
                problem(batch(&[1], vec![Some(f64::NAN)]), &["user", "rating"]),
                "expected a finite number at row 0, column `rating`, found NaN; clean the data or keep non-finite values"
            );
            assert!(
                problem(batch(&[-1], vec![Some(1.0)]), &["user", "rating"])
                    .starts_with("column `user` holds Int64; expected UInt32 (")
            );
        }
    }

    #[test]
    fn non_finite_values_are_reported_by_row_or_kept() {
        for format in COLUMNAR_FORMATS {
            let second = batch(&[3, 4], vec![Some(5.0), Some(f64::NEG_INFINITY)]);
            let (_folder, source) = written(&[batch(&[1, 2], vec![Some(3.5), Some(4.0)]), second], format);
            let file = Columnar::open(&source).unwrap();
            let error = file.read(1..2, &["user", "rating"], |_: (u32, f32)| ()).unwrap_err();
            let Error::NotFinite { position, found, .. } = error else { panic!("{error}") };
            assert_eq!((position.as_str(), found.as_str()), ("row 3, column `rating`", "-inf"));
            let mut kept = Vec::new();
            let file = file.non_finite(NonFiniteHandling::Keep);
            file.read(1..2, &["rating"], |(rating,): (f32,)| kept.push(rating)).unwrap();
            assert_eq!(kept, [5.0, f32::NEG_INFINITY]);
        }
    }

    #[test]
    fn other_and_truncated_files_are_errors() {
        for format in COLUMNAR_FORMATS {
            let (_folder, source) = written(&[batch(&[1], vec![Some(1.0)])], format);
            let bytes = std::fs::read(source.path()).unwrap();
            std::fs::write(source.path(), &bytes[..bytes.len() / 2]).unwrap();
            let error = Columnar::open(&InputFile::open(source.path()).unwrap()).unwrap_err();
            assert!(error.to_string().contains("its footer is damaged ("), "{error}");
            std::fs::write(source.path(), "1,2,3\n").unwrap();
            let error = Columnar::open(&InputFile::open(source.path()).unwrap()).unwrap_err();
            assert!(error.to_string().ends_with("expected a Parquet or Arrow IPC file, found something else"));
        }
    }
}
