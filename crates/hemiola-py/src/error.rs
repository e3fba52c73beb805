//! Errors of Hemiola as Python exceptions.
//!
//! A mistake of the caller is a `ValueError`, as in scikit-learn. The loss of a peer is a
//! `ConnectionError`. Everything else is a `RuntimeError`: another failure outside of Hemiola, or a
//! bug.

use hemiola_cluster::Error;
use hemiola_core::ErrorKind;
use pyo3::PyErr;
use pyo3::exceptions::{PyConnectionError, PyRuntimeError, PyValueError};

/// Converts an error of a job.
pub(crate) fn exception(error: &Error) -> PyErr {
    if error.lost_peer().is_some() {
        return PyConnectionError::new_err(error.to_string());
    }
    match error.kind() {
        ErrorKind::Usage => PyValueError::new_err(error.to_string()),
        ErrorKind::Bug => PyRuntimeError::new_err(format!("{error} (this is a bug in hemiola: please report it)")),
        _ => PyRuntimeError::new_err(error.to_string()),
    }
}

/// Converts an error of the settings of an estimator.
pub(crate) fn setting(error: &hemiola_models::Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}
