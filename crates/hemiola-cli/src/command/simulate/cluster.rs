//! Flags shared by all predictions: the simulated cluster, and where results go.

use crate::error::CommandError;
use crate::output::{self, OutputCompression, StagedFile};
use crate::report;
use clap::Args;
use hemiola::loops::LoopProfile;
use hemiola_sim::trace::SimTrace;
use hemiola_sim::workload::what_if::TrainingPrediction;
use hemiola_sim::{ClusterSpec, DataRate, SimDuration};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Simulated cluster, trace and report.
#[derive(Args, Debug)]
pub(super) struct SimulatedClusterArgs {
    /// Number of peers.
    #[arg(long, value_name = "N", default_value = "8", conflicts_with = "cluster", value_parser = clap::value_parser!(u64).range(1..=4096))]
    peers: u64,

    /// Bandwidth of each peer's link, such as `1gbit`.
    #[arg(long, value_name = "RATE", default_value = "10gbit", conflicts_with = "cluster")]
    bandwidth: DataRate,

    /// One-way latency between two peers, such as `200us`.
    #[arg(long, value_name = "SPAN", default_value = "50us", conflicts_with = "cluster")]
    latency: SimDuration,

    /// Cluster specification in TOML or JSON.
    #[arg(long = "cluster", id = "cluster", value_name = "FILE")]
    spec_file: Option<PathBuf>,

    /// Random seed of jitter, faults and synthetic ratings.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(super) seed: u64,

    /// File for a trace of the simulation, to be opened in Perfetto.
    #[arg(long, value_name = "FILE")]
    pub(super) trace: Option<PathBuf>,

    /// File for the report as JSON, or `-` for standard output.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

impl SimulatedClusterArgs {
    /// Returns the cluster, after checking that trace and report can be written.
    pub(super) fn cluster_spec(&self) -> anyhow::Result<ClusterSpec> {
        for target in self.report.iter().chain(&self.trace) {
            report::check(target)?;
        }
        let Some(path) = &self.spec_file else {
            let mut cluster = ClusterSpec::new(self.peers as usize);
            (cluster.link.bandwidth, cluster.link.latency) = (self.bandwidth, self.latency);
            cluster.validate().map_err(|error| CommandError::usage(error.to_string()))?;
            return Ok(cluster);
        };
        let text = std::fs::read_to_string(path).map_err(|error| CommandError::io("read", path, &error))?;
        let json = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
        let read = if json { ClusterSpec::from_json(&text) } else { ClusterSpec::from_toml(&text) };
        Ok(read.map_err(|error| CommandError::usage(format!("`{}`: {error}", path.display())))?)
    }

    /// Writes the trace, if requested.
    pub(super) fn write_trace(&self, trace: Option<&SimTrace>) -> anyhow::Result<()> {
        let (Some(trace), Some(path)) = (trace, &self.trace) else { return Ok(()) };
        let mut file = StagedFile::create(path, OutputCompression::None)?;
        file.write(trace.to_chrome_json().as_bytes())?;
        file.finish()?.publish()
    }

    /// Prints the text and writes the report. A report on standard output suppresses the text.
    pub(super) fn print_and_report(&self, text: &str, report: &impl Serialize) -> anyhow::Result<()> {
        if self.report.as_deref() != Some(Path::new("-")) {
            output::print(text)?;
        }
        self.report.as_deref().map_or(Ok(()), |target| report::write(target, report))
    }
}

/// Reads the profile of a loop.
pub(super) fn read_profile(path: &Path) -> anyhow::Result<LoopProfile> {
    let text = std::fs::read_to_string(path).map_err(|error| CommandError::io("read", path, &error))?;
    Ok(LoopProfile::from_json(&text).map_err(|error| CommandError::usage(format!("`{}`: {error}", path.display())))?)
}

/// Formats predictions as a table.
pub(super) fn table(cluster: &ClusterSpec, predictions: &[TrainingPrediction]) -> String {
    let link = cluster.link;
    let mut text = format!("{} peers, links of {} and {}\n", cluster.peers, link.bandwidth, link.latency);
    let _ = writeln!(
        text,
        "{:<12} {:>14} {:>15} {:>10} {:>10} {:>9} {:>7}",
        "strategy", "ms per epoch", "MB per peer", "messages", "computing", "waiting", "rmse"
    );
    for one in predictions {
        let rmse = one.rmse.map_or("-".to_owned(), |rmse| format!("{rmse:.3}"));
        let (computing, waiting) = (100.0 * one.computing, 100.0 * one.waiting);
        let _ = writeln!(
            text,
            "{:<12} {:>14.3} {:>15.3} {:>10.0} {computing:>8.1} % {waiting:>7.1} % {rmse:>7}",
            one.strategy,
            1e3 * one.epoch_seconds,
            1e-6 * one.epoch_bytes,
            one.epoch_messages
        );
    }
    text
}
