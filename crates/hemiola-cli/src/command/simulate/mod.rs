//! `hemiola simulate`: clusters in virtual time.

mod replay;

use clap::Subcommand;
use std::process::ExitCode;

/// What to simulate.
#[derive(Debug, Subcommand)]
pub(crate) enum Simulate {
    /// Run a scenario that an exploration has found to fail, once more.
    Replay(replay::Replay),
}

impl Simulate {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Replay(replay) => replay.execute(),
        }
    }
}
