//! `hemiola bench`: measurements of this machine, each beside the simplest thing that could do the same.

mod net;

use clap::Subcommand;
use std::process::ExitCode;

/// What to measure.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// The transport between two processes, beside a raw loop over sockets.
    Net(net::Net),
}

impl Bench {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Net(net) => net.execute(),
        }
    }
}
