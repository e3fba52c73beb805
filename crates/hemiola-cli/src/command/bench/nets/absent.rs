//! A build without nets.

use clap::Args;
use std::process::ExitCode;

/// Whatever is asked for.
#[derive(Args, Debug)]
pub(crate) struct Nets {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    anything: Vec<String>,
}

impl Nets {
    pub(in crate::command::bench) fn execute(self) -> anyhow::Result<ExitCode> {
        let _ = self.anything;
        anyhow::bail!(
            "this build has no nets; build one that has them: cargo build --release --features nets --bin hemiola"
        )
    }
}
