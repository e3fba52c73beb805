//! `hemiola bench collective`: all-reduce over TCP between processes of one machine, and its overlap
//! with computation.
//!
//! A result is the mean over consecutive calls, from the moment all peers have begun until the root
//! has ended. The best of several rounds counts. All algorithms run in turn.
//!
//! - *Size*: 1 KB to 64 MB of `f32`. "gbps" is the size of the vector over seconds (algorithm
//!   bandwidth), in 10⁹ bytes.
//! - *Compression*, on request: the same all-reduce with gradient compression. `wire_bytes` is the
//!   number of bytes that a peer sends per call, headers included, averaged over peers.
//! - *Overlap*: 50 ms of computation on the calling thread, alone and with an all-reduce of 16 MB in
//!   flight. The extra time is given as a fraction of 50 ms, for a computation that keeps a core
//!   busy and for one that waits, as for a device.

use crate::benchmark::Benchmark;
use crate::processes;
use clap::Args;
use hemiola::collective::{Algorithm, CollectiveExt as _, Communicator, Compression, ReduceOp};
use hemiola_cluster::{Cluster, Result};
use hemiola_core::Purpose;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

const AFTER_HELP: &str = "\
Examples:
  hemiola bench collective
  hemiola bench collective --peers 2 --bytes 1048576 --report -
  hemiola bench collective --compression --bytes 16777216

The report has \"results\", one per number of peers, size and algorithm: \"op\", \"algorithm\", \"peers\", \"bytes\", \"gbps\" (10^9 bytes \
of the vector per second), \"latency_us\" (of a call), \"wire_bytes\" (bytes that a peer sends per call with headers, mean over \
peers), \"compression\" and \"chosen\" (true for the algorithm that Hemiola selects). \"overlap_extra\" is the time that a 16 MB \
all-reduce adds to 50 ms of computation on another device, as a fraction; \"overlap_extra_busy\" is that for 50 ms of computation \
on the core that the all-reduce needs.";

const SIZES: [usize; 9] = [1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26];
/// Approximate bytes per round.
const ROUND_BYTES: usize = 1 << 26;
/// Smallest and largest number of calls per round.
const CALLS: (usize, usize) = (3, 200);
/// Size of the all-reduce that overlaps a computation.
const OVERLAP_BYTES: usize = 16_000_000;
const COMPUTING: Duration = Duration::from_millis(50);

/// Arguments of `hemiola bench collective`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct CollectiveBench {
    /// Number of rounds. The best round of each measurement counts.
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Numbers of processes, measured in turn.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [2, 4], value_parser = clap::value_parser!(u64).range(1..=64))]
    peers: Vec<u64>,

    /// Sizes in bytes [default: 1 KiB to 64 MiB]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(4..=1 << 30))]
    bytes: Vec<u64>,

    /// Measure gradient compression, too: bf16, f16, one bit in blocks of 1024, top-k with 1 %, low rank 4.
    #[arg(long)]
    compression: bool,

    /// Write the results as JSON to FILE (`-`: standard output).
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Rendezvous folder of the processes. Makes this process one of the others.
    #[arg(long, hide = true)]
    second: Option<PathBuf>,

    /// Rank of this process.
    #[arg(long, hide = true, requires = "second")]
    rank: Option<usize>,
}

/// Results in the units of the report.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct CollectiveMeasurement {
    results: Vec<CollectiveResult>,
    #[serde(skip_serializing_if = "Option::is_none")]
    overlap_extra: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    overlap_extra_busy: Option<f64>,
}

/// One size, algorithm and compression.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct CollectiveResult {
    op: String,
    algorithm: String,
    compression: String,
    peers: usize,
    bytes: usize,
    gbps: f64,
    latency_us: f64,
    wire_bytes: f64,
    chosen: bool,
}

impl Benchmark for CollectiveBench {
    type Measurement = CollectiveMeasurement;

    fn report(&self) -> Option<&Path> {
        self.report.as_deref()
    }

    fn measure(&self) -> anyhow::Result<Option<Self::Measurement>> {
        let other = self.second.as_deref().zip(self.rank);
        let sizes: Vec<usize> = if self.bytes.is_empty() {
            SIZES.to_vec()
        } else {
            self.bytes.iter().map(|&bytes| bytes as usize).collect()
        };
        let listed = |numbers: &[usize]| numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let mut measured = CollectiveMeasurement::default();
        for &peers in &self.peers {
            let peers = peers as usize;
            let options =
                [("--rounds", self.rounds.to_string()), ("--peers", peers.to_string()), ("--bytes", listed(&sizes))];
            let arguments: Vec<String> = ["bench".to_owned(), "collective".to_owned()]
                .into_iter()
                .chain(options.into_iter().flat_map(|(name, value)| [name.to_owned(), value]))
                .chain(self.compression.then(|| "--compression".to_owned()))
                .collect();
            let program = |cluster: &Cluster| measure(cluster, &sizes, self.compression, self.rounds);
            let found = processes::run_several(peers, other, &arguments, program)?;
            let Some((results, overlap)) = found else { return Ok(None) };
            measured.results.extend(results);
            if peers == 2 {
                (measured.overlap_extra, measured.overlap_extra_busy) = (Some(overlap[0]), Some(overlap[1]));
            }
        }
        Ok(Some(measured))
    }

    fn print(measured: &Self::Measurement, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "{:<12} {:>6} {:>12} {:<18} {:<26} {:>12} {:>12} {:>14}",
            "", "peers", "bytes", "algorithm", "compression", "us", "GB/s", "bytes sent"
        )?;
        for CollectiveResult { op, algorithm, compression, peers, bytes, gbps, latency_us, wire_bytes, chosen } in
            &measured.results
        {
            let mark = if *chosen { "*" } else { "" };
            writeln!(
                out,
                "{op:<12} {peers:>6} {bytes:>12} {:<18} {compression:<26} {latency_us:>12.1} {gbps:>12.3} {wire_bytes:>14.0}",
                format!("{algorithm}{mark}")
            )?;
        }
        writeln!(out, "* selected by Hemiola; GB/s of the vector; bytes that a peer sends per call, with headers")?;
        if let (Some(device), Some(busy)) = (measured.overlap_extra, measured.overlap_extra_busy) {
            writeln!(
                out,
                "16 MB overlapped with 50 ms on a device add {:.1} %, with 50 ms on the same core {:.1} %",
                device * 100.0,
                busy * 100.0
            )?;
        }
        Ok(())
    }
}

/// *Collective.* Measures all sizes. Returns the results, and the overlap with a computation on a device and
/// on the same core.
fn measure(
    cluster: &Cluster,
    sizes: &[usize],
    with_compression: bool,
    rounds: u32,
) -> Result<(Vec<CollectiveResult>, [f64; 2])> {
    let collectives = cluster.communicator()?;
    let mut results = Vec::new();
    for &bytes in sizes {
        let chosen = collectives.algorithm(bytes)?;
        let result = |algorithm: String, compression: Compression, cost: CallCost, chosen: bool| CollectiveResult {
            op: "all-reduce".to_owned(),
            algorithm,
            compression: compression.to_string(),
            peers: cluster.size(),
            bytes,
            gbps: bytes as f64 / cost.seconds / 1e9,
            latency_us: cost.seconds * 1e6,
            wire_bytes: cost.wire_bytes,
            chosen,
        };
        for algorithm in [Algorithm::Ring, Algorithm::HalvingDoubling, Algorithm::Doubling, Algorithm::Tree] {
            // Zeros do not change when they are summed repeatedly.
            let mut vector = vec![0.0_f32; bytes / size_of::<f32>()];
            let by = collectives.with_algorithm(algorithm);
            let cost = cost(cluster, &collectives, bytes, rounds, || by.all_reduce(&mut vector, ReduceOp::Sum))?;
            results.push(result(algorithm.to_string(), Compression::Plain, cost, algorithm == chosen));
        }
        for compression in with_compression.then(|| compressions_of(bytes)).into_iter().flatten() {
            let (rows, columns) = shape(bytes / size_of::<f32>());
            let mut compressor = collectives.matrix_compressor(compression, rows, columns)?;
            let given = synthetic(cluster, rows * columns);
            let mut vector = given.clone();
            let cost = cost(cluster, &collectives, bytes, rounds, || {
                vector.copy_from_slice(&given);
                collectives.all_reduce_compressed(&mut vector, ReduceOp::Sum, &mut compressor)
            })?;
            results.push(result(String::new(), compression, cost, false));
        }
    }
    let overlap = if cluster.size() == 2 { overlap(cluster, &collectives, rounds)? } else { [0.0; 2] };
    Ok((results, overlap))
}

/// Returns the measured compressions of a vector with this number of bytes.
fn compressions_of(bytes: usize) -> [Compression; 5] {
    let keep = (bytes / size_of::<f32>()).div_ceil(100);
    let low_rank = Compression::LowRank { rank: 4 };
    [Compression::Bf16, Compression::F16, Compression::OneBit { block: 1024 }, Compression::TopK { keep }, low_rank]
}

/// Returns the shape of the most nearly square matrix with this number of elements.
fn shape(length: usize) -> (usize, usize) {
    let rows = (1..=length.isqrt()).rev().find(|&rows| length.is_multiple_of(rows)).unwrap_or(1);
    (rows, length / rows)
}

/// Generates numbers of many magnitudes and both signs, different on each peer.
fn synthetic(cluster: &Cluster, length: usize) -> Vec<f32> {
    let mut state = 1 + cluster.rank().index() as u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.cast_signed() as f32 / 2.0_f32.powi(31)
    };
    (0..length).map(|_| next() * next() * next()).collect()
}

/// Time and traffic of one call.
struct CallCost {
    seconds: f64,
    /// Bytes sent by a peer, averaged over peers.
    wire_bytes: f64,
}

/// Returns the best mean over the calls of a round.
fn cost(
    cluster: &Cluster,
    collectives: &Communicator,
    bytes: usize,
    rounds: u32,
    mut call: impl FnMut() -> Result<()>,
) -> Result<CallCost> {
    let calls = (ROUND_BYTES / bytes).clamp(CALLS.0, CALLS.1);
    let mut seconds = f64::INFINITY;
    let before = sent(cluster);
    call()?;
    // All peers have ended this call, and none has begun another.
    let sent = collectives.all_gather(&[(sent(cluster) - before).cast_signed()])?;
    let wire_bytes = sent.iter().sum::<i64>() as f64 / sent.len() as f64;
    for _ in 0..rounds {
        collectives.barrier()?;
        let start = cluster.env().now();
        for _ in 0..calls {
            call()?;
        }
        seconds = seconds.min((cluster.env().now() - start).as_secs_f64() / calls as f64);
    }
    Ok(CallCost { seconds, wire_bytes })
}

/// Bytes that this peer has sent in collectives.
fn sent(cluster: &Cluster) -> u64 {
    let traffic = cluster.traffic();
    traffic.lines.iter().filter(|line| line.purpose == Purpose::Collective).map(|line| line.bytes_sent).sum()
}

/// Extra time of an all-reduce beside a computation that waits and one that is busy, as a fraction.
fn overlap(cluster: &Cluster, collectives: &Communicator, rounds: u32) -> Result<[f64; 2]> {
    // About 50 ms of work, the same amount in every round and on both peers.
    let mut units = 1_u64 << 16;
    while seconds(cluster, || busy(units)) < COMPUTING.as_secs_f64() / 10.0 {
        units *= 2;
    }
    let rate = units as f64 / seconds(cluster, || busy(units));
    let units = collectives.all_gather(&[(rate * COMPUTING.as_secs_f64()) as i64])?[0] as u64;
    let mut vector = vec![0.0_f32; OVERLAP_BYTES / size_of::<f32>()];
    let (mut alone, mut behind) = ([f64::INFINITY; 2], [f64::INFINITY; 2]);
    for _ in 0..rounds.max(3) {
        for kind in 0..2 {
            let compute = || if kind == 0 { cluster.env().sleep(COMPUTING) } else { busy(units) };
            collectives.barrier()?;
            alone[kind] = alone[kind].min(seconds(cluster, compute));
            collectives.barrier()?;
            let start = cluster.env().now();
            let begun = collectives.begin_all_reduce(vector, ReduceOp::Sum)?;
            compute();
            vector = begun.wait()?;
            behind[kind] = behind[kind].min((cluster.env().now() - start).as_secs_f64());
        }
    }
    Ok([0, 1].map(|kind| behind[kind] / alone[kind] - 1.0))
}

fn seconds(cluster: &Cluster, body: impl Fn()) -> f64 {
    let start = cluster.env().now();
    body();
    (cluster.env().now() - start).as_secs_f64()
}

/// Does floating-point arithmetic in registers.
fn busy(units: u64) {
    let mut value = 1.000_000_1_f64;
    for _ in 0..units {
        value = value * 1.000_000_1 + 1e-9;
        if value > 2.0 {
            value -= 1.0;
        }
    }
    std::hint::black_box(value);
}
