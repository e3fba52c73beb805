//! `hemiola bench`: measurements of this machine, each beside the simplest thing that could do the same.

mod data;
mod net;
mod pair;
mod shuffle;

use clap::Subcommand;
use std::process::ExitCode;

/// What to measure.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Reading files and moving entries between two peers.
    Data(data::Data),
    /// The transport between two processes, beside a raw loop over sockets.
    Net(net::Net),
}

impl Bench {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Data(data) => data.execute(),
            Self::Net(net) => net.execute(),
        }
    }
}
