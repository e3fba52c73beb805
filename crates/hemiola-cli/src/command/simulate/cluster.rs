//! The flags that say which cluster is simulated, and where results go: the same for all that is predicted.

use crate::failure::Failure;
use crate::output::{self, Compress, Staged};
use crate::report;
use clap::Args;
use hemiola::loops::Profile;
use hemiola_sim::trace::Trace;
use hemiola_sim::workload::what_if::Prediction;
use hemiola_sim::{Description, Rate, Span};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A cluster, and where results go.
#[derive(Args, Debug)]
pub(super) struct Cluster {
    /// Number of peers.
    #[arg(long, value_name = "N", default_value = "8", conflicts_with = "cluster", value_parser = clap::value_parser!(u64).range(1..=4096))]
    peers: u64,

    /// Bandwidth of each peer's link, such as 1gbit.
    #[arg(long, value_name = "RATE", default_value = "10gbit", conflicts_with = "cluster")]
    link: Rate,

    /// From one peer to another, such as 200us.
    #[arg(long, value_name = "SPAN", default_value = "50us", conflicts_with = "cluster")]
    latency: Span,

    /// Description of the cluster, as TOML or JSON.
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

impl Cluster {
    /// The cluster, after a look at whether results can be written.
    pub(super) fn describe(&self) -> anyhow::Result<Description> {
        for target in self.report.iter().chain(&self.trace) {
            report::check(target)?;
        }
        let Some(path) = &self.described else {
            let mut cluster = Description::new(self.peers as usize);
            (cluster.link.bandwidth, cluster.link.latency) = (self.link, self.latency);
            cluster.check().map_err(|error| Failure::usage(error.to_string()))?;
            return Ok(cluster);
        };
        let text = std::fs::read_to_string(path).map_err(|error| Failure::io("read", path, &error))?;
        let json = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
        let read = if json { Description::from_json(&text) } else { Description::from_toml(&text) };
        Ok(read.map_err(|error| Failure::usage(format!("`{}`: {error}", path.display())))?)
    }

    /// Writes what happened when, if that was asked for.
    pub(super) fn write_trace(&self, trace: Option<&Trace>) -> anyhow::Result<()> {
        let (Some(trace), Some(path)) = (trace, &self.trace) else { return Ok(()) };
        let mut file = Staged::create(path, Compress::None)?;
        file.write(trace.to_chrome().as_bytes())?;
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
pub(super) fn read_profile(path: &Path) -> anyhow::Result<Profile> {
    let text = std::fs::read_to_string(path).map_err(|error| Failure::io("read", path, &error))?;
    Ok(Profile::from_json(&text).map_err(|error| Failure::usage(format!("`{}`: {error}", path.display())))?)
}

/// Predictions as a table.
pub(super) fn table(cluster: &Description, predictions: &[Prediction]) -> String {
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
