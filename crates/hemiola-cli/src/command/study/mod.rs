//! `hemiola study`: experiments that need no cluster.

mod staleness;

use clap::Subcommand;
use std::process::ExitCode;

/// Subcommands of `hemiola study`.
#[derive(Debug, Subcommand)]
pub(crate) enum StudyCommand {
    /// Measure the effect of stale updates on convergence, by model, optimizer and number of
    /// workers.
    Staleness(staleness::StalenessStudyArgs),
}

impl StudyCommand {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Staleness(staleness) => staleness.execute(),
        }
    }
}
