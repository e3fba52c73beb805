//! NumPy arrays as vectors of one of the element types of collectives.
//!
//! An array is copied in, so that a call that was interrupted may finish later, and read-only arrays
//! work as others do. The result goes back as a byte array, from which NumPy makes an array without
//! a copy.

use crate::buffers::slice;
use bytemuck::Pod;
use hemiola_collective::ReduceOp;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;

/// Elements of an array, in the memory of Python.
#[derive(Debug, FromPyObject)]
pub(super) enum ElementBuffer {
    /// `float64`.
    F64(PyBuffer<f64>),
    /// `float32`.
    F32(PyBuffer<f32>),
    /// `int64`.
    I64(PyBuffer<i64>),
    /// `int32`.
    I32(PyBuffer<i32>),
    /// `uint8`.
    U8(PyBuffer<u8>),
}

/// Elements of an array.
#[derive(Debug)]
pub(super) enum Elements {
    /// `float64`.
    F64(Vec<f64>),
    /// `float32`.
    F32(Vec<f32>),
    /// `int64`.
    I64(Vec<i64>),
    /// `int32`.
    I32(Vec<i32>),
    /// `uint8`.
    U8(Vec<u8>),
}

/// Runs an expression for the vector in an [`Elements`], whatever its type.
macro_rules! each_type {
    ($elements:expr, $vector:ident => $body:expr) => {
        match $elements {
            Elements::F64($vector) => $body,
            Elements::F32($vector) => $body,
            Elements::I64($vector) => $body,
            Elements::I32($vector) => $body,
            Elements::U8($vector) => $body,
        }
    };
}
pub(super) use each_type;

impl ElementBuffer {
    /// Copies the elements.
    pub(super) fn elements(&self) -> PyResult<Elements> {
        Ok(match self {
            Self::F64(buffer) => Elements::F64(slice(buffer)?.to_vec()),
            Self::F32(buffer) => Elements::F32(slice(buffer)?.to_vec()),
            Self::I64(buffer) => Elements::I64(slice(buffer)?.to_vec()),
            Self::I32(buffer) => Elements::I32(slice(buffer)?.to_vec()),
            Self::U8(buffer) => Elements::U8(slice(buffer)?.to_vec()),
        })
    }
}

impl Elements {
    /// Returns the elements as a byte array of Python.
    pub(super) fn bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyByteArray> {
        each_type!(self, vector => bytes_of(py, vector))
    }
}

/// Returns numbers as a byte array of Python.
pub(super) fn bytes_of<'py, T: Pod>(py: Python<'py>, numbers: &[T]) -> Bound<'py, PyByteArray> {
    PyByteArray::new(py, bytemuck::cast_slice(numbers))
}

/// Reads the name of a reduction.
pub(super) fn reduction(name: &str) -> PyResult<ReduceOp> {
    match name {
        "sum" => Ok(ReduceOp::Sum),
        "min" => Ok(ReduceOp::Min),
        "max" => Ok(ReduceOp::Max),
        _ => Err(PyValueError::new_err(format!("no reduction `{name}`: use sum, min, max or mean"))),
    }
}
