//! `hemiola bench compression`: bytes and error of compressed all-reduces of a 1000 × 1000 matrix.
//!
//! The synthetic gradient resembles that of a dense layer: a few directions hold most of it, the
//! rest is noise, and it differs by peer. The *error* is that of the first sum, relative to the
//! exact sum (Euclidean norms). The *mean of 50* is the same for the mean over fifty updates, where
//! error feedback takes effect. Peers are threads of one process; `hemiola bench collective
//! --compression` measures the time between processes.

use crate::benchmark::Benchmark;
use clap::Args;
use hemiola::collective::{CollectiveExt as _, Communicator, Compression, ReduceOp, SufficientFactors};
use hemiola_core::Purpose;
use serde::Serialize;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const SIDE: usize = 1000;
const PAIRS: usize = 32;
const UPDATES: usize = 50;

const AFTER_HELP: &str = "\
Example:
  hemiola bench compression --peers 4

The report holds \"peers\" and \"rows\", one for each compression: \"compression\", \"bytes\" (of one compressed update), \
\"sent_bytes\" (by a peer for one update, with headers), \"error\" (of the first sum, relative to the exact one), \"mean_error\" \
(of the mean over 50 updates) and \"milliseconds\" (of one update).";

/// Arguments of `hemiola bench compression`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct CompressionBench {
    /// Number of peers, as threads of this process.
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u32).range(1..=64))]
    peers: u32,

    /// Write the results as JSON to FILE (`-`: standard output).
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// Results in the units of the report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CompressionMeasurement {
    peers: u32,
    rows: Vec<CompressionRow>,
}

impl Benchmark for CompressionBench {
    type Measurement = CompressionMeasurement;

    fn report(&self) -> Option<&Path> {
        self.report.as_deref()
    }

    fn measure(&self) -> anyhow::Result<Option<Self::Measurement>> {
        Ok(Some(CompressionMeasurement { peers: self.peers, rows: table(self.peers as usize, SIDE, UPDATES)? }))
    }

    fn print(measured: &Self::Measurement, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{SIDE} × {SIDE} among {} peers, mean error over {UPDATES} updates", measured.peers)?;
        writeln!(
            out,
            "{:32} {:>10} {:>12} {:>8} {:>11} {:>8}",
            "compression", "bytes", "sent by peer", "error", "mean error", "ms"
        )?;
        for row in &measured.rows {
            let CompressionRow { compression, bytes, sent_bytes, error, mean_error, milliseconds } = row;
            writeln!(
                out,
                "{compression:32} {bytes:>10} {sent_bytes:>12} {error:>8.1e} {mean_error:>11.1e} {milliseconds:>8.1}"
            )?;
        }
        Ok(())
    }
}

/// Measurements of one compression method.
#[derive(Clone, Debug, Serialize)]
struct CompressionRow {
    compression: String,
    /// Bytes of one compressed update.
    bytes: u64,
    /// Bytes that a peer sends for one update, message headers included.
    sent_bytes: u64,
    /// Relative error of the first sum.
    error: f64,
    /// Relative error of the mean over all updates.
    mean_error: f64,
    milliseconds: f64,
}

fn methods(side: usize) -> Vec<Compression> {
    vec![
        Compression::Plain,
        Compression::Bf16,
        Compression::F16,
        Compression::OneBit { block: side },
        Compression::TopK { keep: side * side / 100 },
        Compression::LowRank { rank: 4 },
        Compression::SufficientFactors { pairs: PAIRS },
    ]
}

fn table(peers: usize, side: usize, updates: usize) -> hemiola_cluster::Result<Vec<CompressionRow>> {
    let rows = hemiola_cluster::standalone(peers).run(|cluster| {
        let collectives = cluster.communicator()?;
        let (u, v) = factors(cluster.rank().index(), side);
        let factors = SufficientFactors { u: &u, v: &v, rows: side, columns: side };
        let mut gradient = vec![0.0; side * side];
        for (u, v) in u.chunks(side).zip(v.chunks(side)) {
            for (row, u) in gradient.chunks_mut(side).zip(u) {
                row.iter_mut().zip(v).for_each(|(value, v)| *value += u * v);
            }
        }
        let mut exact: Vec<f64> = gradient.iter().map(|value| f64::from(*value)).collect();
        collectives.all_reduce(&mut exact, ReduceOp::Sum)?;
        methods(side)
            .into_iter()
            .map(|compression| row(&collectives, cluster, compression, factors, &gradient, &exact, updates))
            .collect()
    })?;
    Ok(rows.into_iter().next().unwrap_or_default())
}

fn row(
    collectives: &Communicator,
    cluster: &hemiola::Cluster,
    compression: Compression,
    factors: SufficientFactors<'_>,
    gradient: &[f32],
    exact: &[f64],
    updates: usize,
) -> hemiola_cluster::Result<CompressionRow> {
    let sent = || -> u64 {
        let traffic = cluster.traffic();
        traffic.lines.iter().filter(|line| line.purpose == Purpose::Collective).map(|line| line.bytes_sent).sum()
    };
    let mut compressor = match compression {
        Compression::SufficientFactors { .. } => None,
        _ => Some(collectives.matrix_compressor(compression, factors.rows, factors.columns)?),
    };
    let (before, start) = (sent(), cluster.env().now());
    let mut total = vec![0.0; gradient.len()];
    let mut first = 0.0;
    for update in 0..updates {
        let mut sum = gradient.to_vec();
        match &mut compressor {
            Some(compressor) => collectives.all_reduce_compressed(&mut sum, ReduceOp::Sum, compressor)?,
            None => collectives.all_reduce_factors(factors, &mut sum)?,
        }
        total.iter_mut().zip(&sum).for_each(|(total, value)| *total += f64::from(*value));
        if update == 0 {
            first = relative_error(&total, exact);
        }
    }
    let seconds = (cluster.env().now() - start).as_secs_f64();
    for total in &mut total {
        *total /= updates as f64;
    }
    let sent = (sent() - before) / updates as u64;
    Ok(CompressionRow {
        compression: compression.to_string(),
        bytes: compression.bytes(factors.rows, factors.columns),
        sent_bytes: sent,
        error: first,
        mean_error: relative_error(&total, exact),
        milliseconds: seconds * 1e3 / updates as f64,
    })
}

/// Relative error: the norm of the difference over the norm of `exact`.
fn relative_error(found: &[f64], exact: &[f64]) -> f64 {
    let norm = |squares: f64| squares.sqrt();
    let missing = found.iter().zip(exact).map(|(found, exact)| (found - exact) * (found - exact)).sum();
    norm(missing) / norm(exact.iter().map(|exact| exact * exact).sum())
}

/// Sufficient factors of a peer, one pair per example of its mini-batch. The first three pairs are
/// large and equal on all peers; the others differ by peer.
fn factors(peer: usize, side: usize) -> (Vec<f32>, Vec<f32>) {
    let vectors = |salt: usize| {
        let pair = |pair: usize| {
            let (owner, weight) = if pair < 3 { (0, 1.0 / (1 + pair) as f32) } else { (1 + peer, 0.1) };
            (0..side).map(move |index| weight.sqrt() * random(owner, salt + pair, index))
        };
        (0..PAIRS).flat_map(pair).collect::<Vec<f32>>()
    };
    (vectors(0), vectors(PAIRS))
}

/// Pseudo-random number in -1..1, a function of its arguments.
fn random(owner: usize, vector: usize, index: usize) -> f32 {
    let mut bits = (owner as u64) << 48 ^ (vector as u64) << 32 ^ index as u64;
    for _ in 0..3 {
        bits = (bits ^ bits >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    (bits >> 40) as f32 / (1 << 23) as f32 - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compression_sends_fewer_bytes_and_converges_to_the_sum() {
        let rows = table(2, 100, 50).unwrap();
        assert!(rows[0].error < 1e-6 && rows[0].mean_error < 1e-6);
        for row in &rows[1..] {
            let CompressionRow { compression, sent_bytes, error, mean_error, .. } = row;
            let exact = compression.starts_with("sufficient factors");
            assert!(exact || *sent_bytes < rows[0].sent_bytes, "{compression}");
            assert!(*mean_error <= 1.001 * error && *mean_error < 0.6, "{compression}: {error}, then {mean_error}");
        }
    }
}
