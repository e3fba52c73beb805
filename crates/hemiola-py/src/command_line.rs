//! The command `hemiola` of the package: the command line of the binary in this process.

use hemiola_cli::Invocation;
use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;

/// Runs the command line `hemiola ARGUMENTS` and returns its exit code. Peers are started as
/// `PYTHON -m hemiola ARGUMENTS`. Signal handlers are those of the command line from then on: for
/// processes that run nothing else.
#[pyfunction]
pub(crate) fn run_command_line(py: Python<'_>, python: PathBuf, arguments: Vec<OsString>) -> u8 {
    let invocation = Invocation::through(python, vec!["-m".into(), "hemiola".into()], arguments);
    py.detach(|| hemiola_cli::exit_status(invocation))
}
