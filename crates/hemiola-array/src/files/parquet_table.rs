//! Parquet file of a result table, written row by row (feature `arrow`).
//!
//! The types of the columns are given before the first row, as the format asks for; every column may
//! have nulls. **Invariant:** memory is bounded by a row group, and the file is complete only after
//! [`finish`](ParquetTable::finish): a reader of a shorter file finds no footer, and refuses it.

use arrow_array::builder::{ArrayBuilder as _, Float64Builder, Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use parking_lot::Mutex;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

/// Number of rows that are converted together.
const BATCH_ROWS: usize = 1 << 14;
/// Number of rows of a row group, which is in memory until it is complete.
const GROUP_ROWS: usize = 1 << 18;

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableColumnType {
    /// UTF-8 text.
    Text,
    /// 64-bit signed integers.
    Integer,
    /// Double-precision numbers.
    Number,
}

/// Cell of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TableCell<'a> {
    /// No value.
    Null,
    /// Text, in a column of text.
    Text(&'a str),
    /// Integer, in a column of integers or of numbers.
    Integer(i64),
    /// Number, in a column of numbers.
    Number(f64),
}

/// Parquet file in progress.
///
/// ```
/// use hemiola_array::files::parquet_table::{ParquetTable, TableCell, TableColumnType};
///
/// let columns = [("user", TableColumnType::Text), ("score", TableColumnType::Number)];
/// let mut table = ParquetTable::new(Vec::new(), &columns)?;
/// table.row(&[TableCell::Text("anna"), TableCell::Number(0.5)])?;
/// let bytes = table.finish()?;
/// assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct ParquetTable<W: Write + Send> {
    schema: Arc<Schema>,
    columns: Vec<ColumnBuilder>,
    writer: ArrowWriter<ParquetSink<W>>,
    failure: SinkFailure,
}

/// First error of a sink. The writer may turn it into a text, which has no kind.
type SinkFailure = Arc<Mutex<Option<io::Error>>>;

/// Sink that keeps its first error.
struct ParquetSink<W> {
    inner: W,
    failure: SinkFailure,
}

impl<W: Write> ParquetSink<W> {
    /// Keeps the error, and returns another one of its kind.
    fn kept<T>(&self, outcome: io::Result<T>) -> io::Result<T> {
        outcome.map_err(|error| {
            let again = io::Error::from(error.kind());
            self.failure.lock().get_or_insert(error);
            again
        })
    }
}

impl<W: Write> Write for ParquetSink<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let outcome = self.inner.write(bytes);
        self.kept(outcome)
    }

    fn flush(&mut self) -> io::Result<()> {
        let outcome = self.inner.flush();
        self.kept(outcome)
    }
}

/// Values of a column that are not written yet.
enum ColumnBuilder {
    Text(StringBuilder),
    Integer(Int64Builder),
    Number(Float64Builder),
}

impl<W: Write + Send> ParquetTable<W> {
    /// Begins a file with these columns, compressed with zstd.
    pub fn new(sink: W, columns: &[(&str, TableColumnType)]) -> io::Result<Self> {
        let field = |(name, kind): &(&str, TableColumnType)| {
            let stored = match kind {
                TableColumnType::Text => DataType::Utf8,
                TableColumnType::Integer => DataType::Int64,
                TableColumnType::Number => DataType::Float64,
            };
            Field::new(*name, stored, true)
        };
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_max_row_group_row_count(Some(GROUP_ROWS))
            .build();
        let failure = SinkFailure::default();
        let sink = ParquetSink { inner: sink, failure: failure.clone() };
        let writer = ArrowWriter::try_new(sink, schema.clone(), Some(properties));
        let writer = writer.map_err(|error| io_error(&failure, error))?;
        let columns = columns.iter().map(|(_, kind)| ColumnBuilder::new(*kind)).collect();
        Ok(Self { schema, columns, writer, failure })
    }

    /// Appends a row, with a cell for each column.
    ///
    /// # Errors
    /// If the number of cells differs from that of the columns, if a cell is of another type than its
    /// column, or if the file cannot be written.
    pub fn row(&mut self, cells: &[TableCell<'_>]) -> io::Result<()> {
        if cells.len() != self.columns.len() {
            let message = format!("a row of {} cells in a table of {} columns", cells.len(), self.columns.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        for ((column, cell), field) in self.columns.iter_mut().zip(cells).zip(self.schema.fields()) {
            if !column.append(*cell) {
                let message = format!("the column `{}` of type {} got {cell:?}", field.name(), field.data_type());
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
        }
        if self.columns.first().is_some_and(|first| first.rows() >= BATCH_ROWS) { self.write_batch() } else { Ok(()) }
    }

    fn write_batch(&mut self) -> io::Result<()> {
        let arrays = self.columns.iter_mut().map(ColumnBuilder::take).collect();
        let batch = RecordBatch::try_new(self.schema.clone(), arrays).map_err(io::Error::other)?;
        self.writer.write(&batch).map_err(|error| io_error(&self.failure, error))
    }

    /// Writes the rest and the footer; returns the sink.
    pub fn finish(mut self) -> io::Result<W> {
        self.write_batch()?;
        let Self { writer, failure, .. } = self;
        writer.into_inner().map(|sink| sink.inner).map_err(|error| io_error(&failure, error))
    }
}

impl<W: Write + Send> fmt::Debug for ParquetTable<W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ParquetTable").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl ColumnBuilder {
    fn new(kind: TableColumnType) -> Self {
        match kind {
            TableColumnType::Text => Self::Text(StringBuilder::new()),
            TableColumnType::Integer => Self::Integer(Int64Builder::new()),
            TableColumnType::Number => Self::Number(Float64Builder::new()),
        }
    }

    fn rows(&self) -> usize {
        match self {
            Self::Text(values) => values.len(),
            Self::Integer(values) => values.len(),
            Self::Number(values) => values.len(),
        }
    }

    /// Appends a cell. Returns false if it is of another type.
    fn append(&mut self, cell: TableCell<'_>) -> bool {
        match (self, cell) {
            (Self::Text(values), TableCell::Null) => values.append_null(),
            (Self::Integer(values), TableCell::Null) => values.append_null(),
            (Self::Number(values), TableCell::Null) => values.append_null(),
            (Self::Text(values), TableCell::Text(text)) => values.append_value(text),
            (Self::Integer(values), TableCell::Integer(number)) => values.append_value(number),
            (Self::Number(values), TableCell::Integer(number)) => values.append_value(number as f64),
            (Self::Number(values), TableCell::Number(number)) => values.append_value(number),
            _ => return false,
        }
        true
    }

    /// Returns the values, and begins anew.
    fn take(&mut self) -> ArrayRef {
        match self {
            Self::Text(values) => Arc::new(values.finish()),
            Self::Integer(values) => Arc::new(values.finish()),
            Self::Number(values) => Arc::new(values.finish()),
        }
    }
}

/// Returns the error of the sink behind an error of the writer, if there is one.
fn io_error(failure: &SinkFailure, error: ParquetError) -> io::Error {
    failure.lock().take().unwrap_or_else(|| io::Error::other(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Array as _;
    use arrow_array::cast::AsArray as _;
    use arrow_array::types::{Float64Type, Int64Type};
    use bytes::Bytes;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    #[test]
    fn rows_of_several_groups_are_read_back_in_order() {
        let columns =
            [("id", TableColumnType::Text), ("rank", TableColumnType::Integer), ("score", TableColumnType::Number)];
        let mut table = ParquetTable::new(Vec::new(), &columns).unwrap();
        let rows = GROUP_ROWS + 3;
        for row in 0..rows {
            let id = format!("é{row}");
            let score = if row == 1 { TableCell::Null } else { TableCell::Number(row as f64 / 8.0) };
            table.row(&[TableCell::Text(&id), TableCell::Integer(row.cast_signed() as i64), score]).unwrap();
        }
        let builder = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(table.finish().unwrap())).unwrap();
        assert_eq!(builder.metadata().num_row_groups(), 2);
        let mut expected = 0_usize;
        for batch in builder.build().unwrap() {
            let batch = batch.unwrap();
            let (ids, ranks) = (batch.column(0).as_string::<i32>(), batch.column(1).as_primitive::<Int64Type>());
            let scores = batch.column(2).as_primitive::<Float64Type>();
            for row in 0..batch.num_rows() {
                assert_eq!(
                    (ids.value(row), ranks.value(row)),
                    (&*format!("é{expected}"), expected.cast_signed() as i64)
                );
                assert_eq!(scores.is_null(row), expected == 1);
                assert!(expected == 1 || (scores.value(row) - expected as f64 / 8.0).abs() < 1e-12);
                expected += 1;
            }
        }
        assert_eq!(expected, rows);
    }

    #[test]
    fn cells_of_another_type_are_refused() {
        let mut table = ParquetTable::new(Vec::new(), &[("rank", TableColumnType::Integer)]).unwrap();
        for cell in [TableCell::Text("1"), TableCell::Number(0.5)] {
            let message = table.row(&[cell]).unwrap_err().to_string();
            assert!(message.contains("`rank`"), "{message}");
        }
        assert!(table.row(&[]).is_err());
        table.row(&[TableCell::Null]).unwrap();
        table.row(&[TableCell::Integer(1)]).unwrap();
        table.finish().unwrap();
    }

    #[test]
    fn a_full_disk_keeps_its_kind() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Err(io::ErrorKind::StorageFull.into())
            }
        }
        let mut table = ParquetTable::new(Full, &[("rank", TableColumnType::Integer)]).unwrap();
        let failed = table.row(&[TableCell::Integer(1)]).and_then(|()| table.finish().map(|_| ()));
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
