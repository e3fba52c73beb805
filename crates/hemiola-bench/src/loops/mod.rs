//! `hemiola bench loops`: parallel loops beside hand-written serial loops.
//!
//! - *Matrix factorization*, rank 32: the hand-written serial loop, the parallel loop on one worker,
//!   on two workers, and on two processes of one worker each, over the same ratings in the same order.
//! - *LDA* (collapsed Gibbs sampling, 100 topics): the serial loop and two workers.
//! - *Sparse logistic regression* between two processes: rows of weights prefetched in bulk before
//!   each block, beside one request per read.
//!
//! Rounds take turns, so that all variants see the same machine. The best round of each counts.

mod lda;
mod logistic;
mod mf;

use crate::benchmark::Benchmark;
use crate::processes;
use clap::Args;
use hemiola_cluster::environment::{self, ProcessEnvironment, VariableSource};
use hemiola_cluster::{Cluster, Result};
use serde::Serialize;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

const AFTER_HELP: &str = "\
Example:
  HEMIOLA_DATA=~/data hemiola bench loops --report loops.json

The report holds, for matrix factorization on synthetic ratings, \"overhead\" (one worker over the serial loop), \"speedup_workers2\" and \
\"speedup_peers2\" (serial loop over two workers, and over two processes), \"plan_fraction\" (of a pass); the same under \"movielens\" where \
HEMIOLA_DATA is set; \"topics_speedup_workers2\"; and \"prefetch_speedup\" (one request per read over bulk).";

/// The arguments of `hemiola bench loops`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct LoopBench {
    /// Number of rounds. The best round of each measurement counts.
    #[arg(long, value_name = "N", default_value = "7", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Number of synthetic ratings of the matrix factorization.
    #[arg(long, value_name = "N", default_value = "5000000", value_parser = clap::value_parser!(u64).range(1000..))]
    ratings: u64,

    /// Write the results as JSON to FILE (`-`: standard output).
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Rendezvous folder of the two processes. Makes this process the second one.
    #[arg(long, hide = true)]
    second: Option<PathBuf>,
}

/// Results in the units of the report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LoopMeasurement {
    #[serde(flatten)]
    synthetic: mf::MfMeasurement,
    #[serde(skip_serializing_if = "Option::is_none")]
    movielens: Option<mf::MfMeasurement>,
    topics_speedup_workers2: f64,
    prefetch_speedup: f64,
}

/// Results of two processes together.
struct TwoPeerMeasurement {
    synthetic: mf::TwoProcessTimes,
    movielens: Option<mf::TwoProcessTimes>,
    prefetch_speedup: f64,
}

impl Benchmark for LoopBench {
    type Measurement = LoopMeasurement;

    fn report(&self) -> Option<&Path> {
        self.report.as_deref()
    }

    fn measure(&self) -> anyhow::Result<Option<Self::Measurement>> {
        let arguments = ["bench", "loops"].map(str::to_owned).to_vec();
        let (rounds, ratings) = (self.rounds.to_string(), self.ratings.to_string());
        let arguments = [arguments, ["--rounds", &rounds, "--ratings", &ratings].map(str::to_owned).to_vec()].concat();
        let data = mf::movielens(ProcessEnvironment.get_set(environment::DATA.name).map(PathBuf::from));
        let sources = (mf::RatingSource::Synthetic { ratings: self.ratings }, data.map(mf::RatingSource::File));
        let paired = |cluster: &Cluster| {
            Ok(TwoPeerMeasurement {
                synthetic: mf::paired(cluster, &sources.0, self.rounds)?,
                movielens: sources.1.as_ref().map(|source| mf::paired(cluster, source, self.rounds)).transpose()?,
                prefetch_speedup: logistic::prefetch_speedup(cluster, self.rounds)?,
            })
        };
        if self.second.is_some() {
            processes::run(self.second.as_deref(), &arguments, paired)?;
            return Ok(None);
        }
        let local = |source: &mf::RatingSource| mf::local(source, self.rounds);
        let (synthetic, movielens) = (local(&sources.0)?, sources.1.as_ref().map(local).transpose()?);
        let topics_speedup_workers2 = lda::speedup(self.rounds)?;
        let paired = processes::run(None, &arguments, paired)?.expect("this is peer 0");
        let measured = LoopMeasurement {
            synthetic: synthetic.with(&paired.synthetic),
            movielens: movielens.zip(paired.movielens).map(|(local, paired)| local.with(&paired)),
            topics_speedup_workers2,
            prefetch_speedup: paired.prefetch_speedup,
        };
        Ok(Some(measured))
    }

    fn print(measured: &Self::Measurement, out: &mut dyn Write) -> io::Result<()> {
        let columns = [Some(&measured.synthetic), measured.movielens.as_ref()];
        writeln!(out, "{:<44} {:>12} {:>12}", "matrix factorization, rank 32", "synthetic", "MovieLens")?;
        let mut line = |name: &str, value: &dyn Fn(&mf::MfMeasurement) -> String| {
            let cell = |figures: Option<&mf::MfMeasurement>| figures.map_or_else(|| "skipped".to_owned(), value);
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
}

/// Returns the result of `work` and its duration.
fn timed<T>(cluster: &Cluster, work: impl FnOnce() -> Result<T>) -> Result<(T, Duration)> {
    let start = cluster.env().now();
    let value = work()?;
    Ok((value, cluster.env().now() - start))
}
