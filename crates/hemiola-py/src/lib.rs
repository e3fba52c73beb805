//! The extension module `hemiola._hemiola` of the Python package `hemiola`.
//!
//! Python code (`python/hemiola`) validates parameters and data as scikit-learn does and calls one
//! function per model family, which fits the model on a cluster of threads in this process. The
//! interpreter lock is released meanwhile. Data come in as buffers without a copy; fitted parameters
//! go back as byte arrays, from which Python makes NumPy arrays.
//!
//! **Invariants:** the only crate that imports `PyO3`. All unsafe code is in `buffers`. Nothing
//! here is global: threads live as long as the call that started them, so a process may fork
//! between calls. Python is not entered from a thread that nobody in Python waits for.
//!
//! | file | concept |
//! |---|---|
//! | `buffers` | slices of Python buffers: the only unsafe code |
//! | `lines` | rows or columns of a feature matrix, dense or compressed |
//! | `job` | run of a job without the interpreter lock: signals and progress |
//! | `fitted` | results on their way to Python |
//! | `error` | errors as Python exceptions |
//! | `command_line` | the command `hemiola` |
//! | `estimators` | one function per model family |

mod buffers;
mod command_line;
mod error;
mod estimators;
mod fitted;
mod job;
mod lines;

use pyo3::prelude::*;

/// Native part of the package `hemiola`.
#[pymodule]
fn _hemiola(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(command_line::run_command_line, module)?)?;
    estimators::register(module)
}
