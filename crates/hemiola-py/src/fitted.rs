//! Results of a job on their way to Python.
//!
//! Numbers go as a byte array with a type and a shape, from which NumPy makes an array without a
//! copy. The report of a training run goes as JSON.

use hemiola_training::TrainingReport;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyDict};

/// Arrays and report of a fitted model.
pub(crate) struct Fitted<'py> {
    values: Bound<'py, PyDict>,
}

impl<'py> Fitted<'py> {
    pub(crate) fn new(py: Python<'py>) -> Self {
        Self { values: PyDict::new(py) }
    }

    /// Adds an array of doubles.
    pub(crate) fn doubles(self, name: &str, values: &[f64], shape: &[usize]) -> PyResult<Self> {
        self.array(name, "<f8", bytemuck::cast_slice(values), shape)
    }

    /// Adds an array of singles.
    pub(crate) fn singles(self, name: &str, values: &[f32], shape: &[usize]) -> PyResult<Self> {
        self.array(name, "<f4", bytemuck::cast_slice(values), shape)
    }

    /// Adds an array of indices.
    pub(crate) fn indices(self, name: &str, values: &[u32]) -> PyResult<Self> {
        self.array(name, "<u4", bytemuck::cast_slice(values), &[values.len()])
    }

    fn array(self, name: &str, kind: &str, bytes: &[u8], shape: &[usize]) -> PyResult<Self> {
        let py = self.values.py();
        self.values.set_item(name, (PyByteArray::new(py, bytes), kind, shape.to_vec()))?;
        Ok(self)
    }

    /// Adds a number.
    pub(crate) fn number(self, name: &str, value: f64) -> PyResult<Self> {
        self.values.set_item(name, value)?;
        Ok(self)
    }

    /// Adds the report of the training run.
    pub(crate) fn report(self, report: &TrainingReport) -> PyResult<Self> {
        let text = serde_json::to_string(report).expect("a report serializes to JSON");
        self.values.set_item("report", text)?;
        Ok(self)
    }

    /// Returns the results as a dictionary.
    pub(crate) fn into_dict(self) -> Bound<'py, PyDict> {
        self.values
    }
}
