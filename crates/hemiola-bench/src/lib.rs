//! Benchmarks of Hemiola on one machine: the library behind `hemiola bench`.
//!
//! Each benchmark measures one layer beside the simplest program that does the same work: a raw
//! socket loop, a hand-written serial loop, a memory copy. Both sides run in turn within one
//! process or one pair of processes, and the best round of each counts, because on a shared machine
//! only the best round shows the cost of the code.
//!
//! A benchmark is a set of command-line arguments that implements the crate's trait `Benchmark`. Several processes
//! of one benchmark meet through `processes.rs`.

mod benchmark;
mod collective;
mod compression;
mod convergence;
mod data;
mod harden;
mod lasso;
mod lda_memory;
mod loops;
mod net;
mod nets;
mod processes;
mod schedule;
mod shuffle;
mod sim;
mod staleness;
mod table_checkpoint;
mod tables;

pub use benchmark::ReportWriter;
pub use collective::CollectiveBench;
pub use compression::CompressionBench;
pub use convergence::ConvergenceBench;
pub use data::DataBench;
pub use harden::HardenBench;
pub use lasso::LassoBench;
pub use lda_memory::LdaMemoryBench;
pub use loops::LoopBench;
pub use net::NetBench;
pub use nets::{NetsTimelineBench, NnBench};
pub use schedule::{ScheduleBench, ScheduleFiguresBench};
pub use sim::SimBench;
pub use staleness::StalenessBench;
pub use tables::TableBench;

use benchmark::execute;
use clap::Subcommand;

/// The layer to measure.
#[derive(Debug, Subcommand)]
#[non_exhaustive]
pub enum Bench {
    /// All-reduce between processes, and its overlap with computation.
    Collective(CollectiveBench),
    /// Bytes and error of gradient compression.
    Compression(CompressionBench),
    /// Learning curves of serial, dependence-aware and data-parallel matrix factorization.
    Convergence(ConvergenceBench),
    /// Throughput of file readers and of shuffles between two peers.
    Data(DataBench),
    /// Figures behind the guarantees: strangers, altered frames, kills, memory.
    Harden(HardenBench),
    /// One lasso problem from a folder, for comparison with other solvers.
    Lasso(LassoBench),
    /// Memory use of topic models.
    LdaMemory(LdaMemoryBench),
    /// Parallel loops beside hand-written serial loops.
    Loops(LoopBench),
    /// The transport between two processes, beside a raw socket loop.
    Net(NetBench),
    /// Neural networks between processes: strategies, and overlap of communication with computation.
    Nets(NnBench),
    /// Timeline of training steps of a neural network, with and without overlap.
    NetsTimeline(NetsTimelineBench),
    /// Lasso solvers, and update schedules beside random updates.
    Schedule(ScheduleBench),
    /// Figures of coordinate descent under several schedules.
    ScheduleFigures(ScheduleFiguresBench),
    /// The simulator: events per second, and a training job on many simulated peers.
    Sim(SimBench),
    /// Matrix factorization on tables: staleness bounds, update rules, bandwidth and stragglers.
    Staleness(StalenessBench),
    /// Parameter-server tables between two processes, beside a raw socket loop, and within one process.
    Tables(TableBench),
}

impl Bench {
    /// Runs the benchmark, prints its table and writes its report through `reports`.
    pub fn execute(self, reports: &dyn ReportWriter) -> anyhow::Result<()> {
        match self {
            Self::Collective(bench) => execute(&bench, reports),
            Self::Compression(bench) => execute(&bench, reports),
            Self::Convergence(bench) => execute(&bench, reports),
            Self::Data(bench) => execute(&bench, reports),
            Self::Harden(bench) => execute(&bench, reports),
            Self::Lasso(bench) => execute(&bench, reports),
            Self::LdaMemory(bench) => execute(&bench, reports),
            Self::Loops(bench) => execute(&bench, reports),
            Self::Net(bench) => execute(&bench, reports),
            Self::Nets(bench) => bench.run(reports),
            Self::NetsTimeline(bench) => bench.run(reports),
            Self::Schedule(bench) => execute(&bench, reports),
            Self::ScheduleFigures(bench) => execute(&bench, reports),
            Self::Sim(bench) => execute(&bench, reports),
            Self::Staleness(bench) => execute(&bench, reports),
            Self::Tables(bench) => execute(&bench, reports),
        }
    }
}
