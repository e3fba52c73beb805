//! The flags that say which cluster is simulated, and where results go: the same for all that is predicted.

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

/// A cluster, and where results go.
#[derive(Args, Debug)]
pub(super) struct SimulatedClusterArgs {
    /// Number of peers.
    #[arg(long, value_name = "N", default_value = "8", conflicts_with = "cluster", value_parser = clap::value_parser!(u64).range(1..=4096))]
    peers: u64,

    /// Bandwidth of each peer's link, such as 1gbit.
    #[arg(long, value_name = "RATE", default_value = "10gbit", conflicts_with = "cluster")]
    link: DataRate,

    /// From one peer to another, such as 200us.
    #[arg(long, value_name = "SPAN", default_value = "50us", conflicts_with = "cluster")]
    latency: SimDuration,

    /// ClusterSpec of the cluster, as TOML or JSON.
    #[arg(long = "cluster", id = "cluster", value_name = "FILE")]
    described: Option<PathBuf>,

    /// Of jitter and chance, and of ratings that are made up.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(super) seed: u64,

    /// File for what happens when, for Perfetto.
    #[arg(long, value_name = "FILE")]
    pub(super) trace: Option<PathBuf>,

    /// File for the figures as JSON, or `-` for standard output.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

impl SimulatedClusterArgs {
    /// The cluster, after a look at whether results can be written.
    pub(super) fn describe(&self) -> anyhow::Result<ClusterSpec> {
        for target in self.report.iter().chain(&self.trace) {
            report::check(target)?;
        }
        let Some(path) = &self.described else {
            let mut cluster = ClusterSpec::new(self.peers as usize);
            (cluster.link.bandwidth, cluster.link.latency) = (self.link, self.latency);
            cluster.validate().map_err(|error| CommandError::usage(error.to_string()))?;
            return Ok(cluster);
        };
        let text = std::fs::read_to_string(path).map_err(|error| CommandError::io("read", path, &error))?;
        let json = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
        let read = if json { ClusterSpec::from_json(&text) } else { ClusterSpec::from_toml(&text) };
        Ok(read.map_err(|error| CommandError::usage(format!("`{}`: {error}", path.display())))?)
    }

    /// Writes what happened when, if that was asked for.
    pub(super) fn write_trace(&self, trace: Option<&SimTrace>) -> anyhow::Result<()> {
        let (Some(trace), Some(path)) = (trace, &self.trace) else { return Ok(()) };
        let mut file = StagedFile::create(path, OutputCompression::None)?;
        file.write(trace.to_chrome_json().as_bytes())?;
        file.finish()?.publish()
    }

    /// Prints a text and writes a report, as asked for.
    pub(super) fn tell(&self, text: &str, figures: &impl Serialize) -> anyhow::Result<()> {
        if self.report.as_deref() != Some(Path::new("-")) {
            output::print(text)?;
        }
        self.report.as_deref().map_or(Ok(()), |target| report::write(target, figures))
    }
}

/// Reads a profile.
pub(super) fn read_profile(path: &Path) -> anyhow::Result<LoopProfile> {
    let text = std::fs::read_to_string(path).map_err(|error| CommandError::io("read", path, &error))?;
    Ok(LoopProfile::from_json(&text).map_err(|error| CommandError::usage(format!("`{}`: {error}", path.display())))?)
}

/// Predictions as a table.
pub(super) fn table(cluster: &ClusterSpec, predictions: &[TrainingPrediction]) -> String {
    let link = cluster.link;
    let mut text = format!("{} peers, {} and {} each\n", cluster.peers, link.bandwidth, link.latency);
    let _ = writeln!(
        text,
        "{:<12} {:>14} {:>15} {:>10} {:>10} {:>9} {:>7}",
        "strategy", "ms for a pass", "MB from a peer", "messages", "computing", "waiting", "error"
    );
    for one in predictions {
        let error = one.rmse.map_or("-".to_owned(), |rmse| format!("{rmse:.3}"));
        let (computing, waiting) = (100.0 * one.computing, 100.0 * one.waiting);
        let _ = writeln!(
            text,
            "{:<12} {:>14.3} {:>15.3} {:>10.0} {computing:>8.1} % {waiting:>7.1} % {error:>7}",
            one.strategy,
            1e3 * one.pass_seconds,
            1e-6 * one.pass_bytes,
            one.pass_messages
        );
    }
    text
}
