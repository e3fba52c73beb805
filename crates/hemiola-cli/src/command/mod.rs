//! The subcommands, one per file. Each turns what was typed into calls of the library, and an outcome into an exit code.

mod bench;
mod data;
mod run;

use clap::Subcommand;
use std::process::ExitCode;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure Hemiola on this machine.
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Look at data files, and make synthetic ones.
    #[command(subcommand)]
    Data(data::Data),
    /// Start a program as the peers of a job, and watch over them.
    Run(run::Run),
}

impl Command {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Bench(bench) => bench.execute(),
            Self::Data(data) => data.execute(),
            Self::Run(run) => run.execute(),
        }
    }
}
