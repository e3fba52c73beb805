//! Foundation of the integration tests: a watchdog, requirements of tests, peers as processes,
//! comparison of shown and printed output, the third-party crates of the workspace.
//!
//! Not published. Crates depend on it for their tests only.

mod processes;
mod require;
mod similar;
pub mod supply_chain;
mod watchdog;

pub use processes::{PeerProcess, PeerProcesses, entry_arguments, entry_command};
pub use require::{MissingRequirement, condition, data, program, python};
pub use similar::is_similar;
pub use watchdog::with_watchdog;
