//! The binary `hemiola`; see the library `hemiola_cli`.

use hemiola_cli::Invocation;
use std::process::ExitCode;

fn main() -> ExitCode {
    hemiola_cli::main(Invocation::of_binary())
}
