//! Results of `hemiola bench nets`, as a table and as data.

use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// Names of nets in the table.
pub(super) const LARGE: &str = "large linear layers";
pub(super) const CONVOLUTIONS: &str = "convolutions";
/// Parts of a step of the residual net.
pub(super) const COMPUTING: &str = "computing alone";
pub(super) const SENDING: &str = "sending alone";
/// Computing alone, each step when all have ended the one before.
pub(super) const IN_STEP: &str = "computing in step";

/// Steps of one net by one strategy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct NnRow {
    pub(super) net: String,
    pub(super) strategy: String,
    /// Seconds per step on the slowest peer, in the best round.
    pub(super) seconds: f64,
    /// Seconds per step on the slowest peer, by round.
    pub(super) rounds: Vec<f64>,
    /// Bytes per step, sent by all peers.
    pub(super) bytes: f64,
    /// Batch size of all peers together.
    pub(super) examples: usize,
}

impl NnRow {
    /// Adds this row to `rows`, as one more round if the net and strategy are there.
    pub(super) fn join(self, rows: &mut Vec<Self>) {
        match rows.iter_mut().find(|row| row.net == self.net && row.strategy == self.strategy) {
            Some(row) => {
                row.seconds = row.seconds.min(self.seconds);
                row.rounds.extend(self.rounds);
            }
            None => rows.push(self),
        }
    }
}

/// Report of the benchmark.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct NnMeasurement {
    peers: usize,
    overlap_ratio: f64,
    overlap_ratio_in_step: f64,
    poseidon_bytes_ratio: f64,
    poseidon_speedup: f64,
    cheapest_bytes_ratio: f64,
    cheapest_speedup: f64,
    convolutions_ratio: f64,
    poseidon_convolutions_ratio: f64,
    parallax_bytes_gain: f64,
    samples_per_second: BTreeMap<String, f64>,
    rows: Vec<NnRow>,
}

impl NnMeasurement {
    pub(super) fn new(peers: usize, rows: Vec<NnRow>) -> Self {
        let row = |net: &str, strategy: &str| {
            rows.iter().find(|row| row.net == net && row.strategy == strategy).expect("all of them are measured")
        };
        let large = |strategy: &str| row(LARGE, strategy);
        let (served, poseidon, cheapest) = (large("parameter-server"), large("poseidon"), large("cheapest"));
        // Compares neighbours in time, since the speed of a machine varies.
        let convolutions = |strategy: &str| &row(CONVOLUTIONS, strategy).rounds[..];
        let larger_part = |computing: &str| -> Vec<f64> {
            let (sending, computing) = (&row(SENDING, "all-reduce").rounds, &row(computing, "all-reduce").rounds);
            sending.iter().zip(computing).map(|(sending, computing)| sending.max(*computing)).collect()
        };
        let speed = |row: &NnRow| (format!("{}, {}", row.net, row.strategy), row.examples as f64 / row.seconds);
        Self {
            peers,
            overlap_ratio: ratio(convolutions("all-reduce"), &larger_part(COMPUTING)),
            overlap_ratio_in_step: ratio(convolutions("all-reduce"), &larger_part(IN_STEP)),
            poseidon_bytes_ratio: poseidon.bytes / served.bytes,
            poseidon_speedup: served.seconds / poseidon.seconds,
            cheapest_bytes_ratio: cheapest.bytes / served.bytes,
            cheapest_speedup: served.seconds / cheapest.seconds,
            convolutions_ratio: ratio(convolutions("cheapest"), convolutions("all-reduce")),
            poseidon_convolutions_ratio: ratio(convolutions("poseidon"), convolutions("all-reduce")),
            parallax_bytes_gain: row("embeddings", "all-reduce").bytes / row("embeddings", "parallax").bytes,
            samples_per_second: rows.iter().map(speed).collect(),
            rows,
        }
    }
}

/// Median of the ratios by round.
fn ratio(ones: &[f64], others: &[f64]) -> f64 {
    let mut ratios: Vec<f64> = ones.iter().zip(others).map(|(one, other)| one / other).collect();
    ratios.sort_by(f64::total_cmp);
    ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN)
}

impl fmt::Display for NnMeasurement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{:<22} {:<18} {:>10} {:>14} {:>12}", "net", "strategy", "ms a step", "kB a step", "examples/s")?;
        for NnRow { net, strategy, seconds, bytes, examples, .. } in &self.rows {
            let (milliseconds, kilobytes, speed) = (seconds * 1e3, bytes / 1e3, *examples as f64 / seconds);
            writeln!(out, "{net:<22} {strategy:<18} {milliseconds:>10.1} {kilobytes:>14.1} {speed:>12.1}")?;
        }
        writeln!(
            out,
            "{} peers; a step takes {:.2} times the larger of its parts, {:.2} times if peers compute in step",
            self.peers, self.overlap_ratio, self.overlap_ratio_in_step
        )?;
        writeln!(
            out,
            "large linear layers, beside a parameter server: poseidon {:.3} of the bytes and {:.2} times as fast, cheapest {:.3} and {:.2}",
            self.poseidon_bytes_ratio, self.poseidon_speedup, self.cheapest_bytes_ratio, self.cheapest_speedup
        )?;
        writeln!(
            out,
            "convolutions: cheapest takes {:.2} times as long as all-reduce, poseidon {:.2}; embeddings: parallax sends {:.1} times fewer bytes",
            self.convolutions_ratio, self.poseidon_convolutions_ratio, self.parallax_bytes_gain
        )
    }
}
