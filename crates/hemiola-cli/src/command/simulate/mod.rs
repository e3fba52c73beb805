//! `hemiola simulate`: clusters simulated in virtual time.

mod cluster;
mod figure;
mod plan;
mod replay;
mod train;

use clap::Subcommand;
use std::process::ExitCode;

/// Subcommands of `hemiola simulate`.
#[derive(Debug, Subcommand)]
pub(crate) enum SimulateCommand {
    /// Reproduce a figure of a paper on a simulated cluster.
    Figure(figure::SimulateFigureArgs),
    /// Replay a failing scenario that an exploration has printed.
    Replay(replay::ReplayArgs),
    /// Predict time and traffic of your own parallel loop on a cluster, from a profile.
    Loop(plan::SimulateLoopArgs),
    /// Predict time and traffic of a training run on a cluster, by several strategies.
    #[command(subcommand)]
    Train(train::SimulateTrainCommand),
}

impl SimulateCommand {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Figure(figure) => figure.execute(),
            Self::Replay(replay) => replay.execute(),
            Self::Loop(args) => args.execute(),
            Self::Train(train) => train.execute(),
        }
    }
}
