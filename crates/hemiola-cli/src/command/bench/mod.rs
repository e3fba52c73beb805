//! `hemiola bench`: measurements of this machine, each beside the simplest thing that could do the same.

mod collective;
mod data;
mod loops;
mod net;
mod nets;
mod pair;
mod schedule;
mod shuffle;
mod sim;
mod table_figures;
mod tables;

use clap::Subcommand;
use std::process::ExitCode;

/// What to measure.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// All-reduce between processes, and behind a computation.
    Collective(collective::Collective),
    /// Reading files and moving entries between two peers.
    Data(data::Data),
    /// Parallel loops beside the same loops written by hand.
    Loops(loops::Loops),
    /// The transport between two processes, beside a raw loop over sockets.
    Net(net::Net),
    /// Nets between processes: what strategies are worth, and how much of sending hides behind computing.
    Nets(nets::Nets),
    /// The lasso, and what schedules of updates are worth.
    Schedule(schedule::Schedule),
    /// Clusters in virtual time: events per second, and a training on many simulated peers.
    Sim(sim::Sim),
    /// Tables between two processes, beside a raw loop over sockets, and in one.
    Tables(tables::Tables),
}

impl Bench {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Collective(collective) => collective.execute(),
            Self::Data(data) => data.execute(),
            Self::Loops(loops) => loops.execute(),
            Self::Net(net) => net.execute(),
            Self::Nets(nets) => nets.execute(),
            Self::Schedule(schedule) => schedule.execute(),
            Self::Sim(sim) => sim.execute(),
            Self::Tables(tables) => tables.execute(),
        }
    }
}
