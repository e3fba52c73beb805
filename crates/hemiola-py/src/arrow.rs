//! Arrow tables as feature matrices, through the `PyCapsule` protocol (`__arrow_c_stream__`).
//!
//! Data frames and query results of other packages offer their columns as a stream of batches in
//! shared memory. The columns are cast and written into one matrix: this is the only copy.

use crate::buffers::arrow_stream;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader};
use arrow_schema::{DataType, Schema};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyCapsule};

/// Names of the columns, type, numbers of rows and columns, and cells of a matrix.
type Matrix<'py> = (Vec<String>, &'static str, usize, usize, Bound<'py, PyByteArray>);

/// Converts an Arrow stream of numbers into a matrix, column by column or row by row. Missing values
/// become NaN. Single precision suffices if no column has more; else the cells are doubles.
#[pyfunction]
pub(crate) fn arrow_matrix<'py>(
    py: Python<'py>,
    stream: &Bound<'py, PyCapsule>,
    by_column: bool,
) -> PyResult<Matrix<'py>> {
    let reader = arrow_stream(stream)?;
    let schema = reader.schema();
    check(&schema)?;
    // A stream may be made by Python code of another package, which takes the lock by itself.
    let batches: Vec<RecordBatch> =
        py.detach(|| reader.collect::<Result<_, _>>()).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    let columns = schema.fields().len();
    let names = schema.fields().iter().map(|field| field.name().clone()).collect();
    let singles =
        schema.fields().iter().all(|field| matches!(field.data_type(), DataType::Float32 | DataType::Float16));
    let (kind, width, target) = if singles { ("<f4", 4, DataType::Float32) } else { ("<f8", 8, DataType::Float64) };
    let cells = PyByteArray::new_with(py, rows * columns * width, |bytes| {
        let mut first = 0;
        for batch in &batches {
            for (column, array) in batch.columns().iter().enumerate() {
                let cells =
                    arrow_cast::cast(array, &target).map_err(|error| PyValueError::new_err(error.to_string()))?;
                let position = |row: usize| {
                    let row = first + row;
                    (if by_column { column * rows + row } else { row * columns + column }) * width
                };
                write_cells(&cells, bytes, position);
            }
            first += batch.num_rows();
        }
        Ok(())
    })?;
    Ok((names, kind, rows, columns, cells))
}

/// Returns an error that names the first column without numbers.
fn check(schema: &Schema) -> PyResult<()> {
    let is_number = |kind: &DataType| kind.is_numeric() || matches!(kind, DataType::Boolean | DataType::Null);
    match schema.fields().iter().find(|field| !is_number(field.data_type())) {
        None => Ok(()),
        Some(field) => Err(PyTypeError::new_err(format!(
            "column `{}` has the type {}, which is no number: encode it or leave it out",
            field.name(),
            field.data_type()
        ))),
    }
}

/// Writes the cells of a column to the positions of their rows.
fn write_cells(cells: &ArrayRef, bytes: &mut [u8], position: impl Fn(usize) -> usize) {
    if let Some(numbers) = cells.as_primitive_opt::<Float32Type>() {
        for row in 0..numbers.len() {
            let value = if numbers.is_null(row) { f32::NAN } else { numbers.value(row) };
            bytes[position(row)..][..4].copy_from_slice(&value.to_le_bytes());
        }
    } else if let Some(numbers) = cells.as_primitive_opt::<Float64Type>() {
        for row in 0..numbers.len() {
            let value = if numbers.is_null(row) { f64::NAN } else { numbers.value(row) };
            bytes[position(row)..][..8].copy_from_slice(&value.to_le_bytes());
        }
    }
}
