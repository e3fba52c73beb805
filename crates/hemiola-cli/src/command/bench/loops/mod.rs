//! `hemiola bench loops`: what a parallel loop costs and gains beside the same loop written by hand.
//!
//! - *Matrix factorization*, rank 32: the hand-written serial loop, the parallel loop on one worker, on two workers, and on two
//!   processes of one worker each, over the same ratings in the same order.
//! - *Topics* (collapsed Gibbs sampling, 100 topics): the serial loop and two workers.
//! - *Sparse logistic regression* between two processes: rows of weights fetched in bulk before each block, beside one
//!   request for every read.
//!
//! Rounds take turns, so that all see the same machine; the best of each counts.

mod logistic;
mod mf;
mod topics;

use crate::command::bench::pair;
use crate::report;
use clap::Args;
use hemiola_cluster::variables::{self, ProcessVariables, Variables};
use hemiola_cluster::{Cluster, Result};
use serde::Serialize;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

const AFTER_HELP: &str = "\
Example:
  HEMIOLA_DATA=~/data hemiola bench loops --report loops.json

The report holds, for matrix factorization on made-up ratings, \"overhead\" (one worker over the serial loop), \"speedup_workers2\" and \
\"speedup_peers2\" (serial loop over two workers, and over two processes), \"plan_fraction\" (of a pass); the same under \"movielens\" where \
HEMIOLA_DATA is set; \"topics_speedup_workers2\"; and \"prefetch_speedup\" (one request per read over bulk).";

/// The arguments of `hemiola bench loops`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Loops {
    /// Rounds; the best of each counts.
    #[arg(long, value_name = "N", default_value = "7", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Made-up ratings of the matrix factorization.
    #[arg(long, value_name = "N", default_value = "5000000", value_parser = clap::value_parser!(u64).range(1000..))]
    ratings: u64,

    /// File for the results as JSON, or `-` for standard output.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// The folder where the two processes meet: makes this process the second one.
    #[arg(long, hide = true)]
    second: Option<PathBuf>,
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
struct Measurement {
    #[serde(flatten)]
    made_up: mf::Figures,
    #[serde(skip_serializing_if = "Option::is_none")]
    movielens: Option<mf::Figures>,
    topics_speedup_workers2: f64,
    prefetch_speedup: f64,
}

/// What two processes measure together.
struct Paired {
    made_up: mf::Paired,
    movielens: Option<mf::Paired>,
    prefetch_speedup: f64,
}

impl Loops {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        self.report.as_deref().map_or(Ok(()), report::check)?;
        let arguments = ["bench", "loops"].map(str::to_owned).to_vec();
        let (rounds, ratings) = (self.rounds.to_string(), self.ratings.to_string());
        let arguments = [arguments, ["--rounds", &rounds, "--ratings", &ratings].map(str::to_owned).to_vec()].concat();
        let data = mf::movielens(ProcessVariables.get_set(variables::DATA.name).map(PathBuf::from));
        let sources = (mf::Source::MadeUp { ratings: self.ratings }, data.map(mf::Source::File));
        let paired = |cluster: &Cluster| {
            Ok(Paired {
                made_up: mf::paired(cluster, &sources.0, self.rounds)?,
                movielens: sources.1.as_ref().map(|source| mf::paired(cluster, source, self.rounds)).transpose()?,
                prefetch_speedup: logistic::prefetch_speedup(cluster, self.rounds)?,
            })
        };
        if self.second.is_some() {
            pair::run(self.second.as_deref(), &arguments, paired)?;
            return Ok(ExitCode::SUCCESS);
        }
        let local = |source: &mf::Source| mf::local(source, self.rounds);
        let (made_up, movielens) = (local(&sources.0)?, sources.1.as_ref().map(local).transpose()?);
        let topics_speedup_workers2 = topics::speedup(self.rounds)?;
        let paired = pair::run(None, &arguments, paired)?.expect("this is peer 0");
        let measured = Measurement {
            made_up: made_up.with(&paired.made_up),
            movielens: movielens.zip(paired.movielens).map(|(local, paired)| local.with(&paired)),
            topics_speedup_workers2,
            prefetch_speedup: paired.prefetch_speedup,
        };
        if self.report.as_deref() != Some(Path::new("-")) {
            print_table(&measured)?;
        }
        if let Some(target) = &self.report {
            report::write(target, &measured)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn print_table(measured: &Measurement) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let columns = [Some(&measured.made_up), measured.movielens.as_ref()];
    writeln!(out, "{:<44} {:>12} {:>12}", "matrix factorization, rank 32", "made up", "MovieLens")?;
    let mut line = |name: &str, value: &dyn Fn(&mf::Figures) -> String| {
        let cell = |figures: Option<&mf::Figures>| figures.map_or_else(|| "skipped".to_owned(), value);
        writeln!(out, "  {name:<42} {:>12} {:>12}", cell(columns[0]), cell(columns[1]))
    };
    line("serial loop, million entries per second", &|figures| {
        format!("{:.1}", figures.serial_entries_per_second / 1e6)
    })?;
    line("one worker, time over the serial loop", &|figures| format!("{:.3}", figures.overhead))?;
    line("two workers, speed over the serial loop", &|figures| format!("{:.2}", figures.speedup_workers2))?;
    line("two peers, speed over the serial loop", &|figures| format!("{:.2}", figures.speedup_peers2))?;
    line("planning, share of a pass", &|figures| format!("{:.2} %", figures.plan_fraction * 100.0))?;
    writeln!(out, "topics, two workers, speed over the serial loop {:>10.2}", measured.topics_speedup_workers2)?;
    writeln!(out, "sparse logistic, bulk over one request per read {:>10.0}", measured.prefetch_speedup)?;
    Ok(())
}

/// How long `work` takes.
fn timed<T>(cluster: &Cluster, work: impl FnOnce() -> Result<T>) -> Result<(T, Duration)> {
    let start = cluster.env().now();
    let value = work()?;
    Ok((value, cluster.env().now() - start))
}
