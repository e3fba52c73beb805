//! `hemiola simulate train`: what a training would take on a cluster one does not have.

use crate::failure::Failure;
use crate::output::{self, Compress, Staged};
use crate::report;
use clap::{Args, Subcommand};
use hemiola_sim::workload::mf::Job;
use hemiola_sim::workload::what_if::{Prediction, Strategy, predict};
use hemiola_sim::{Description, Rate, Span};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Examples:
  hemiola simulate train mf --peers 64 --link 1gbit --latency 200us --trace run.json
  hemiola simulate train mf --peers 16 --rating 40ns --strategy ssp:3,rotation
  hemiola simulate train mf --cluster cluster.toml

A cluster file says more than flags can: jitter, lost packets, stragglers, racks with narrow uplinks, faults; docs/simulation.md has all of it. Ratings are made up. How long one takes on one core is the profile that everything rests on: divide the seconds of an epoch of \
`hemiola train mf --workers 1` by its ratings. Tables compute for real, so they have an error; of rotation and all-reduce only times and bytes are simulated.

The report holds \"cluster\", \"job\" and \"predictions\", one for each strategy: \"strategy\", \"pass_seconds\", \"pass_bytes\" and \"pass_messages\" (of a peer, on average), \"computing\" and \"waiting\" (shares of workers' time) and \"rmse\". The trace opens in Perfetto or chrome://tracing; it is of the first strategy.";

/// What to train.
#[derive(Debug, Subcommand)]
pub(crate) enum Train {
    /// Matrix factorization.
    Mf(Mf),
}

impl Train {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Mf(mf) => mf.execute(),
        }
    }
}

/// The arguments of `hemiola simulate train mf`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Mf {
    /// Number of peers.
    #[arg(long, value_name = "N", default_value = "8", conflicts_with = "cluster", value_parser = clap::value_parser!(u64).range(1..=4096))]
    peers: u64,

    /// Workers of each peer.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u64).range(1..=256))]
    workers: u64,

    /// Bandwidth of each peer's link, such as 1gbit.
    #[arg(long, value_name = "RATE", default_value = "10gbit", conflicts_with = "cluster")]
    link: Rate,

    /// From one peer to another, such as 200us.
    #[arg(long, value_name = "SPAN", default_value = "50us", conflicts_with = "cluster")]
    latency: Span,

    /// Description of the cluster, as TOML or JSON.
    #[arg(long, value_name = "FILE")]
    cluster: Option<PathBuf>,

    /// Strategies to compare: bsp, ssp:STALENESS, rotation, all-reduce.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "bsp,ssp:2,rotation,all-reduce")]
    strategy: Vec<Strategy>,

    /// Users.
    #[arg(long, value_name = "N", default_value = "4096", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    users: u64,

    /// Items.
    #[arg(long, value_name = "N", default_value = "2000", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    items: u64,

    /// Ratings of each user.
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    per_user: u64,

    /// Numbers of a factor.
    #[arg(long, value_name = "N", default_value = "16", value_parser = clap::value_parser!(u64).range(1..=4096))]
    rank: u64,

    /// How long one rating takes on one core.
    #[arg(long, value_name = "SPAN", default_value = "100ns")]
    rating: Span,

    /// Clocks in a pass, for tables and all-reduce.
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u64).range(1..))]
    clocks: u64,

    /// Passes.
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u64).range(1..))]
    passes: u64,

    /// Of ratings, jitter and chance.
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,

    /// File for what happens when, for Perfetto.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// File for the figures as JSON, or `-` for standard output.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

#[derive(Serialize)]
struct Report {
    cluster: Description,
    job: Job,
    predictions: Vec<Prediction>,
}

impl Mf {
    fn execute(self) -> anyhow::Result<ExitCode> {
        if let Some(target) = &self.report {
            report::check(target)?;
        }
        let (cluster, job) = (self.description()?, self.job());
        let mut predictions = Vec::new();
        for (number, strategy) in self.strategy.iter().enumerate() {
            let traced = number == 0 && self.trace.is_some();
            let job = Job { shards: cluster.peers, ..job.clone() };
            let found = predict(&job, *strategy, &cluster, self.seed, traced);
            let (prediction, trace) = found.map_err(|problem| Failure::usage(format!("{strategy}: {problem}")))?;
            if let (Some(trace), Some(path)) = (trace, &self.trace) {
                let mut file = Staged::create(path, Compress::None)?;
                file.write(trace.to_chrome().as_bytes())?;
                file.finish()?.publish()?;
            }
            predictions.push(prediction);
        }
        if self.report.as_deref() != Some(Path::new("-")) {
            output::print(&table(&cluster, &predictions))?;
        }
        if let Some(target) = &self.report {
            report::write(target, &Report { cluster, job, predictions })?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn description(&self) -> anyhow::Result<Description> {
        let Some(path) = &self.cluster else {
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

    fn job(&self) -> Job {
        Job {
            seed: self.seed,
            users: self.users as usize,
            items: self.items as usize,
            per_user: self.per_user as usize,
            rank: self.rank as usize,
            clocks: self.passes * self.clocks,
            clocks_per_pass: self.clocks,
            workers: self.workers as usize,
            rating: self.rating,
            ..Job::default()
        }
    }
}

fn table(cluster: &Description, predictions: &[Prediction]) -> String {
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
