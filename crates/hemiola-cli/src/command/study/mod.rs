//! `hemiola study`: experiments that need no cluster.

mod staleness;

use clap::Subcommand;
use std::process::ExitCode;

/// What to study.
#[derive(Debug, Subcommand)]
pub(crate) enum StudyCommand {
    /// What late updates do to learning, for models, optimizers and numbers of workers.
    Staleness(staleness::StalenessStudyArgs),
}

impl StudyCommand {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Staleness(staleness) => staleness.execute(),
        }
    }
}
