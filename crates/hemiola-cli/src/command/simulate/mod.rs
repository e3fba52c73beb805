//! `hemiola simulate`: clusters in virtual time.

mod cluster;
mod figure;
mod plan;
mod replay;
mod train;

use clap::Subcommand;
use std::process::ExitCode;

/// What to simulate.
#[derive(Debug, Subcommand)]
pub(crate) enum SimulateCommand {
    /// Draw a figure of a paper, with the protocols of this system on a cluster of its size.
    Figure(figure::SimulateFigureArgs),
    /// Run a scenario that an exploration has found to fail, once more.
    Replay(replay::ReplayArgs),
    /// Predict what a loop of your own would take on a cluster, from a profile of it.
    Loop(plan::SimulateLoopArgs),
    /// Predict what a training would take on a cluster, by several strategies.
    #[command(subcommand)]
    Train(train::SimulateTrainCommand),
}

impl SimulateCommand {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Figure(figure) => figure.execute(),
            Self::Replay(replay) => replay.execute(),
            Self::Loop(of_loop) => of_loop.execute(),
            Self::Train(train) => train.execute(),
        }
    }
}
