//! Slices of Python buffers, of NumPy arrays above all, and Arrow streams: the only unsafe code of this
//! crate.
//!
//! Training reads the memory of an array while other Python threads run. As in NumPy and
//! scikit-learn, a program must not change an array that another thread trains on.
//!
//! **Invariant:** a slice lives as long as the [`PyBuffer`] that pins its memory. An Arrow stream is
//! moved out of its capsule.

#![expect(unsafe_code, reason = "memory of Python objects, pinned by the buffer protocol")]

use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// Returns the items of a contiguous buffer in row-major order.
pub(crate) fn slice<T: Element>(buffer: &PyBuffer<T>) -> PyResult<&[T]> {
    let items = buffer.as_slice_ptr().ok_or_else(|| PyValueError::new_err("the array must be contiguous"))?;
    if buffer.item_count() == 0 {
        return Ok(&[]);
    }
    // SAFETY: the exporter of the buffer keeps the memory valid until the buffer is released, which
    // the borrow prevents, and `PyBuffer` has checked type, alignment and contiguity. Changes by
    // other threads meanwhile are excluded by the contract of the module.
    Ok(unsafe { items.as_ref() })
}

/// Moves the Arrow stream out of a capsule, which can be used once.
pub(crate) fn arrow_stream(capsule: &Bound<'_, PyCapsule>) -> PyResult<RecordBatchStreamReader> {
    let pointer = capsule.pointer_checked(Some(c"arrow_array_stream"))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: by the Arrow PyCapsule protocol, a capsule of this name, which `pointer_checked` has
    // compared, holds an initialized stream. The lock of the interpreter is held, so nobody else
    // takes it, and an empty stream is left in its place.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.as_ptr()) };
    RecordBatchStreamReader::try_new(stream).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Numbers of a buffer, of either precision.
#[derive(Debug, FromPyObject)]
pub(crate) enum NumberBuffer {
    /// Double precision.
    F64(PyBuffer<f64>),
    /// Single precision.
    F32(PyBuffer<f32>),
}

/// Indices of a buffer, as `SciPy` chooses their width.
#[derive(Debug, FromPyObject)]
pub(crate) enum IndexBuffer {
    /// 32 bits.
    I32(PyBuffer<i32>),
    /// 64 bits.
    I64(PyBuffer<i64>),
}

impl NumberBuffer {
    /// Returns the numbers.
    pub(crate) fn numbers(&self) -> PyResult<Numbers<'_>> {
        Ok(match self {
            Self::F64(buffer) => Numbers::F64(slice(buffer)?),
            Self::F32(buffer) => Numbers::F32(slice(buffer)?),
        })
    }
}

impl IndexBuffer {
    /// Returns the indices.
    pub(crate) fn indices(&self) -> PyResult<Indices<'_>> {
        Ok(match self {
            Self::I32(buffer) => Indices::I32(slice(buffer)?),
            Self::I64(buffer) => Indices::I64(slice(buffer)?),
        })
    }
}

/// Numbers of either precision.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Numbers<'a> {
    /// Double precision.
    F64(&'a [f64]),
    /// Single precision.
    F32(&'a [f32]),
}

impl Numbers<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::F64(values) => values.len(),
            Self::F32(values) => values.len(),
        }
    }

    /// Returns a number in single precision.
    #[inline]
    pub(crate) fn single(&self, index: usize) -> f32 {
        match self {
            Self::F64(values) => values[index] as f32,
            Self::F32(values) => values[index],
        }
    }
}

/// Indices of either width.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Indices<'a> {
    /// 32 bits.
    I32(&'a [i32]),
    /// 64 bits.
    I64(&'a [i64]),
}

impl Indices<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::I32(values) => values.len(),
            Self::I64(values) => values.len(),
        }
    }

    /// Returns an index; a negative one is beyond any array.
    #[inline]
    pub(crate) fn at(&self, index: usize) -> usize {
        match self {
            Self::I32(values) => usize::try_from(values[index]).unwrap_or(usize::MAX),
            Self::I64(values) => usize::try_from(values[index]).unwrap_or(usize::MAX),
        }
    }
}
