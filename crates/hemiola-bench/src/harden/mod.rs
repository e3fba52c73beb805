//! `hemiola bench harden`: figures behind the guarantees. Altered frames, strangers, kills, memory.
//!
//! | file | figure |
//! |---|---|
//! | `kills.rs` | kill-and-resume rounds on a disk with injected faults |
//! | `memory.rs` | peak memory of the peers of a large job |
//! | `strangers.rs` | attempts to join a job without its secret, and floods of connections |

mod kills;
mod memory;
mod strangers;

use crate::benchmark::Benchmark;
use crate::net::NetBench;
use clap::Args;
use serde::Serialize;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
Example:
  hemiola bench harden --report harden.json

The report holds \"joined_without_secret\" (strangers that got in), \"altered_frames_noticed\" (a share), \"kills\" and \
\"bits_equal\" (kill-and-resume rounds, and those with the bits of an undisturbed run), \"peak_mb_100_peers\" (largest \
memory of a peer of matrix factorization), \"bulk_ratio\" and \"round_trip_ratio\" (throughput and round trip with \
authentication beside raw sockets), and \"flooded_join_seconds\" (time until a peer has joined a job that 3,000 other \
connections occupy).";

/// Frames to alter.
const FRAMES: usize = 10_000;
/// Strangers that try to join.
const STRANGERS: usize = 100;
/// Connections that occupy a job while its last peer joins.
const FLOOD: usize = 3000;

/// The arguments of `hemiola bench harden`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct HardenBench {
    /// Number of kill-and-resume rounds.
    #[arg(long, value_name = "N", default_value = "500")]
    kills: usize,

    /// Number of peers of the job whose memory is measured.
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(2..=1000))]
    peers: u32,

    /// Random seed.
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,

    /// Write the results as JSON to FILE (`-`: standard output).
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Rendezvous folder of the processes. Makes this process one of the others.
    #[arg(long, hide = true)]
    second: Option<PathBuf>,

    /// Rank of this process among the others.
    #[arg(long, hide = true, default_value = "1")]
    rank: usize,
}

/// Results in the units of the report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct HardenMeasurement {
    joined_without_secret: usize,
    altered_frames_noticed: f64,
    kills: usize,
    bits_equal: usize,
    #[serde(rename = "peak_mb_100_peers")]
    peak_megabytes: f64,
    peers: u32,
    bulk_ratio: f64,
    round_trip_ratio: f64,
    flooded_join_seconds: f64,
}

impl Benchmark for HardenBench {
    type Measurement = HardenMeasurement;

    fn report(&self) -> Option<&Path> {
        self.report.as_deref()
    }

    fn measure(&self) -> anyhow::Result<Option<Self::Measurement>> {
        let other = self.second.as_deref().map(|folder| (folder, self.rank));
        let Some(peak_megabytes) = memory::measure(self.peers as usize, other)? else { return Ok(None) };
        let altered = hemiola_net::testing::alter_frames(FRAMES, self.seed);
        let kills = kills::measure(self.kills, self.seed)?;
        for difference in &kills.differences {
            writeln!(io::stderr().lock(), "{difference}")?;
        }
        let (bulk_ratio, round_trip_ratio) = NetBench::ratios()?;
        Ok(Some(HardenMeasurement {
            joined_without_secret: strangers::measure(STRANGERS, self.seed)?,
            altered_frames_noticed: altered.noticed as f64 / altered.altered as f64,
            kills: kills.kills,
            bits_equal: kills.bits_equal,
            peak_megabytes,
            peers: self.peers,
            bulk_ratio,
            round_trip_ratio,
            flooded_join_seconds: strangers::flooded_join(FLOOD)?,
        }))
    }

    fn print(measured: &Self::Measurement, out: &mut dyn Write) -> io::Result<()> {
        let HardenMeasurement { joined_without_secret, altered_frames_noticed, kills, bits_equal, .. } = measured;
        writeln!(out, "strangers that joined                   {joined_without_secret:>8} of {STRANGERS}")?;
        writeln!(out, "altered frames noticed                  {:>8.2} %", 100.0 * altered_frames_noticed)?;
        writeln!(out, "kills followed by the same bits         {bits_equal:>8} of {kills}")?;
        let HardenMeasurement { peak_megabytes, peers, bulk_ratio, round_trip_ratio, flooded_join_seconds, .. } =
            measured;
        writeln!(out, "memory of a peer of {peers:>4}                {peak_megabytes:>8.1} MB")?;
        writeln!(out, "bulk throughput beside raw sockets      {bulk_ratio:>8.2}")?;
        writeln!(out, "round trip beside raw sockets           {round_trip_ratio:>8.2}")?;
        writeln!(out, "join behind {FLOOD:>5} connections          {flooded_join_seconds:>8.2} s")
    }
}
