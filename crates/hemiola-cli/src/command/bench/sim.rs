//! `hemiola bench sim`: how fast clusters in virtual time run.
//!
//! - *Events*: messages that come, computations and waits that end, per second of one core, for each protocol.
//! - *Training*: a matrix factorization with real mathematics on simulated peers; 256 of them and 100 clocks, unless told otherwise.

use crate::report;
use clap::Args;
use hemiola_sim::Description;
use hemiola_sim::workload::mf;
use hemiola_sim::workload::speed::Talk;
use serde::Serialize;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Example:
  hemiola bench sim --report sim.json

The report holds \"events\", one for each protocol: \"protocol\", \"peers\", \"events\", \"seconds\" and \"events_per_second\", on one core; and \"training\": \"peers\", \"clocks\", \"ratings\", \
\"events\", \"seconds\" (real ones), \"virtual_seconds\", and \"rmse_before\" and \"rmse_after\".";

/// The arguments of `hemiola bench sim`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Sim {
    /// Rounds; the best of each counts.
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// How much each protocol says, in percent: to try it out.
    #[arg(long, value_name = "PERCENT", default_value = "100", value_parser = clap::value_parser!(u32).range(1..=100))]
    size: u32,

    /// Peers of the training.
    #[arg(long, value_name = "N", default_value = "256", value_parser = clap::value_parser!(u32).range(1..=4096))]
    peers: u32,

    /// Clocks of the training.
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..))]
    clocks: u32,

    /// File for the results as JSON, or `-` for standard output.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

#[derive(Clone, Debug, Serialize)]
struct Measurement {
    events: Vec<Speed>,
    training: Training,
}

#[derive(Clone, Debug, Serialize)]
struct Speed {
    protocol: &'static str,
    peers: usize,
    events: u64,
    seconds: f64,
    events_per_second: f64,
}

#[derive(Clone, Debug, Serialize)]
struct Training {
    peers: usize,
    clocks: u64,
    ratings: usize,
    events: u64,
    seconds: f64,
    virtual_seconds: f64,
    rmse_before: f64,
    rmse_after: f64,
}

impl Sim {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        if let Some(target) = &self.report {
            report::check(target)?;
        }
        let mut events = Vec::new();
        for (talk, peers, times) in TALKS {
            let times = (times * self.size as usize / 100).max(1);
            let run = || talk.run(peers, times).map_err(anyhow::Error::msg);
            let best = (0..self.rounds).map(|_| timed(run)).collect::<anyhow::Result<Vec<_>>>()?;
            let Some((seconds, ended)) = best.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)) else { continue };
            let events_per_second = ended.events as f64 / seconds;
            events.push(Speed { protocol: talk.name(), peers, events: ended.events, seconds, events_per_second });
        }
        let measured = Measurement { events, training: self.train()? };
        if self.report.as_deref() != Some(Path::new("-")) {
            print_table(&measured)?;
        }
        if let Some(target) = &self.report {
            report::write(target, &measured)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn train(&self) -> anyhow::Result<Training> {
        let peers = self.peers as usize;
        let job = mf::Job {
            users: 8 * peers,
            items: 2000,
            per_user: 100,
            clocks: u64::from(self.clocks),
            shards: peers.div_ceil(8),
            ..mf::Job::default()
        };
        let (seconds, outcome) = timed(|| job.run(&Description::new(peers), 1, false).map_err(anyhow::Error::msg))?;
        Ok(Training {
            peers,
            clocks: job.clocks,
            ratings: job.ratings(),
            events: outcome.ended.events,
            seconds,
            virtual_seconds: outcome.ended.at.secs(),
            rmse_before: outcome.rmse.0,
            rmse_after: outcome.rmse.1,
        })
    }
}

/// Protocols with peers, and how often each is run: about a million events.
const TALKS: [(Talk, usize, usize); 4] =
    [(Talk::AllReduce, 256, 10), (Talk::Barrier, 1024, 100), (Talk::Mixing, 1024, 30), (Talk::Tables, 64, 150)];

/// How long something takes, in seconds.
#[expect(clippy::disallowed_methods, reason = "a measurement of this machine")]
fn timed<T>(run: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(f64, T)> {
    let start = std::time::Instant::now();
    let done = run()?;
    Ok((start.elapsed().as_secs_f64(), done))
}

fn print_table(measured: &Measurement) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for one in &measured.events {
        let (name, peers) = (one.protocol, one.peers);
        let rate = one.events_per_second / 1e6;
        writeln!(
            out,
            "{name:<12} {peers:>5} peers  {:>9} events in {:>6.3} s: {rate:.2} million per second",
            one.events, one.seconds
        )?;
    }
    let one = &measured.training;
    writeln!(
        out,
        "training     {:>5} peers  {} clocks over {} ratings: {} events, {:.1} s for {:.3} s of virtual time, error {:.3} -> {:.3}",
        one.peers,
        one.clocks,
        one.ratings,
        one.events,
        one.seconds,
        one.virtual_seconds,
        one.rmse_before,
        one.rmse_after
    )?;
    Ok(())
}
