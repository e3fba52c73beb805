//! Programs of the user on a cluster: peers of a job, collectives and tables.
//!
//! Python runs the program; the [driver](driver) thread of its peer makes the collective calls. The
//! thread that waits for a result in Python releases the interpreter lock and runs signal handlers,
//! so Ctrl-C ends a wait for other peers.
//!
//! | file | concept |
//! |---|---|
//! | `driver` | thread that makes the calls of a peer |
//! | `peer` | handle of Python to a peer: joining a job, collectives, the end |
//! | `arrays` | NumPy arrays as vectors of one of the element types |
//! | `table` | rows of the parameter server |

mod arrays;
mod driver;
mod peer;
mod table;

use pyo3::prelude::*;

/// Adds the classes and functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<peer::Peer>()?;
    module.add_class::<table::Table>()?;
    module.add_function(wrap_pyfunction!(peer::is_launched, module)?)?;
    module.add_function(wrap_pyfunction!(peer::join, module)?)?;
    module.add_function(wrap_pyfunction!(peer::standalone_peers, module)?)
}
