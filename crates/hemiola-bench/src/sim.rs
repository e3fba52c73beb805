//! `hemiola bench sim`: speed of the simulator.
//!
//! - *Events*: deliveries, ends of computations and timers per second of one core, for each protocol.
//! - *Training*: matrix factorization with real arithmetic on simulated peers, by default 256 peers
//!   and 100 clocks.

use crate::benchmark::Benchmark;
use clap::Args;
use hemiola_sim::ClusterSpec;
use hemiola_sim::workload::mf;
use hemiola_sim::workload::protocol_speed::ProtocolBenchmark;
use serde::Serialize;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
Example:
  hemiola bench sim --report sim.json

The report holds \"events\", one for each protocol: \"protocol\", \"peers\", \"events\", \"seconds\" and \"events_per_second\", on one core; and \"training\": \"peers\", \"clocks\", \"ratings\", \
\"events\", \"seconds\" (real ones), \"virtual_seconds\", and \"rmse_before\" and \"rmse_after\".";

/// The arguments of `hemiola bench sim`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct SimBench {
    /// Number of rounds. The best round of each measurement counts.
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Size of the protocol runs in percent of the full benchmark.
    #[arg(long, value_name = "PERCENT", default_value = "100", value_parser = clap::value_parser!(u32).range(1..=100))]
    size: u32,

    /// Peers of the training.
    #[arg(long, value_name = "N", default_value = "256", value_parser = clap::value_parser!(u32).range(1..=4096))]
    peers: u32,

    /// Clocks of the training.
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..))]
    clocks: u32,

    /// Write the results as JSON to FILE (`-`: standard output).
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct SimMeasurement {
    events: Vec<ProtocolSpeed>,
    training: SimTraining,
}

#[derive(Clone, Debug, Serialize)]
struct ProtocolSpeed {
    protocol: &'static str,
    peers: usize,
    events: u64,
    seconds: f64,
    events_per_second: f64,
}

#[derive(Clone, Debug, Serialize)]
struct SimTraining {
    peers: usize,
    clocks: u64,
    ratings: usize,
    events: u64,
    seconds: f64,
    virtual_seconds: f64,
    rmse_before: f64,
    rmse_after: f64,
}

impl Benchmark for SimBench {
    type Measurement = SimMeasurement;

    fn report(&self) -> Option<&Path> {
        self.report.as_deref()
    }

    fn measure(&self) -> anyhow::Result<Option<Self::Measurement>> {
        let mut events = Vec::new();
        for (talk, peers, times) in TALKS {
            let times = (times * self.size as usize / 100).max(1);
            let run = || talk.run(peers, times).map_err(anyhow::Error::msg);
            let best = (0..self.rounds).map(|_| timed(run)).collect::<anyhow::Result<Vec<_>>>()?;
            let Some((seconds, ended)) = best.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)) else { continue };
            let events_per_second = ended.events as f64 / seconds;
            events.push(ProtocolSpeed {
                protocol: talk.name(),
                peers,
                events: ended.events,
                seconds,
                events_per_second,
            });
        }
        let measured = SimMeasurement { events, training: self.train()? };
        Ok(Some(measured))
    }

    fn print(measured: &Self::Measurement, out: &mut dyn Write) -> io::Result<()> {
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
}

impl SimBench {
    fn train(&self) -> anyhow::Result<SimTraining> {
        let peers = self.peers as usize;
        let job = mf::MfWorkload {
            users: 8 * peers,
            items: 2000,
            per_user: 100,
            clocks: u64::from(self.clocks),
            shards: peers.div_ceil(8),
            ..mf::MfWorkload::default()
        };
        let (seconds, outcome) = timed(|| job.run(&ClusterSpec::new(peers), 1, false).map_err(anyhow::Error::msg))?;
        Ok(SimTraining {
            peers,
            clocks: job.clocks,
            ratings: job.ratings(),
            events: outcome.ended.events,
            seconds,
            virtual_seconds: outcome.ended.end_time.secs(),
            rmse_before: outcome.rmse.0,
            rmse_after: outcome.rmse.1,
        })
    }
}

/// Protocol, number of peers and repetitions: about a million events each.
const TALKS: [(ProtocolBenchmark, usize, usize); 4] = [
    (ProtocolBenchmark::AllReduce, 256, 10),
    (ProtocolBenchmark::Barrier, 1024, 100),
    (ProtocolBenchmark::Gossip, 1024, 30),
    (ProtocolBenchmark::Tables, 64, 150),
];

/// Returns the duration of `run` in seconds, and its result.
#[expect(clippy::disallowed_methods, reason = "a measurement of this machine")]
fn timed<T>(run: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(f64, T)> {
    let start = std::time::Instant::now();
    let done = run()?;
    Ok((start.elapsed().as_secs_f64(), done))
}
