//! The extension module `hemiola._hemiola` of the Python package `hemiola`.
//!
//! Python code (`python/hemiola`) validates parameters and data as scikit-learn does and calls one
//! function per model family, which fits the model on a cluster of threads in this process. The
//! interpreter lock is released meanwhile. Data come in as buffers without a copy; fitted parameters
//! go back as byte arrays, from which Python makes NumPy arrays.
//!
//! **Invariants:** the only crate that imports `PyO3`. All unsafe code is in `buffers`. Nothing
//! here is global: threads live as long as the call that started them, so a process may fork
//! between calls; those of a cluster live until Python ends it. Python is not entered from a thread
//! that nobody in Python waits for.
//!
//! | file | concept |
//! |---|---|
//! | `buffers` | slices of Python buffers, and Arrow streams: the only unsafe code |
//! | `arrow` | Arrow tables as feature matrices |
//! | `read` | examples and ratings from files and URLs |
//! | `lines` | rows or columns of a feature matrix, dense or compressed |
//! | `job` | run of a job without the interpreter lock: signals and progress |
//! | `fitted` | results on their way to Python |
//! | `error` | errors as Python exceptions |
//! | `command_line` | the command `hemiola` |
//! | `estimators` | one function per model family |
//! | `programs` | programs of the user on a cluster: peers, collectives, tables |
//! | `checker` | dependence analysis of a loop that Python describes |
//! | `plot` | pictures for notebooks |

mod arrow;
mod buffers;
mod checker;
mod command_line;
mod error;
mod estimators;
mod fitted;
mod job;
mod lines;
mod plot;
mod programs;
mod read;

use pyo3::prelude::*;

/// Native part of the package `hemiola`.
#[pymodule]
fn _hemiola(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(command_line::run_command_line, module)?)?;
    module.add_function(wrap_pyfunction!(checker::analyze_loop, module)?)?;
    module.add_function(wrap_pyfunction!(plot::draw_chart, module)?)?;
    module.add_function(wrap_pyfunction!(arrow::arrow_matrix, module)?)?;
    module.add_function(wrap_pyfunction!(read::read_examples, module)?)?;
    module.add_function(wrap_pyfunction!(read::read_ratings, module)?)?;
    programs::register(module)?;
    estimators::register(module)
}
