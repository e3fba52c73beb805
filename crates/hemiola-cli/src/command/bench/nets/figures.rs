//! What was measured, as a table and as data.

use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// All-reduce of four variables in a message.
const IN_PIECES: &str = "all-reduce:4";

/// Steps of one net by one strategy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Row {
    pub(super) net: String,
    pub(super) strategy: String,
    /// Of a step, on the peer that took longest.
    pub(super) seconds: f64,
    /// That all peers sent in a step.
    pub(super) bytes: f64,
    /// Of all peers.
    pub(super) examples: usize,
}

impl Row {
    /// Adds it to the others; the faster of two for the same.
    pub(super) fn join(self, rows: &mut Vec<Self>) {
        match rows.iter_mut().find(|row| row.net == self.net && row.strategy == self.strategy) {
            Some(row) if row.seconds <= self.seconds => {}
            Some(row) => *row = self,
            None => rows.push(self),
        }
    }
}

/// The report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Figures {
    peers: usize,
    overlap_ratio: f64,
    poseidon_bytes_ratio: f64,
    poseidon_speedup: f64,
    cheapest_bytes_ratio: f64,
    cheapest_speedup: f64,
    convolutions_ratio: f64,
    parallax_bytes_gain: f64,
    samples_per_second: BTreeMap<String, f64>,
    rows: Vec<Row>,
}

impl Figures {
    pub(super) fn new(peers: usize, rows: Vec<Row>) -> Self {
        let row = |net: &str, strategy: &str| {
            rows.iter().find(|row| row.net == net && row.strategy == strategy).expect("all of them are measured")
        };
        let large = |strategy: &str| row("large linear layers", strategy);
        let (served, poseidon, cheapest) = (large("parameter-server"), large("poseidon"), large("cheapest"));
        let convolutions = |strategy: &str| row("convolutions", strategy).seconds;
        let parts = row("sending alone", IN_PIECES).seconds.max(row("computing alone", IN_PIECES).seconds);
        let speed = |row: &Row| (format!("{}, {}", row.net, row.strategy), row.examples as f64 / row.seconds);
        Self {
            peers,
            overlap_ratio: convolutions(IN_PIECES) / parts,
            poseidon_bytes_ratio: poseidon.bytes / served.bytes,
            poseidon_speedup: served.seconds / poseidon.seconds,
            cheapest_bytes_ratio: cheapest.bytes / served.bytes,
            cheapest_speedup: served.seconds / cheapest.seconds,
            convolutions_ratio: convolutions("cheapest") / convolutions("all-reduce"),
            parallax_bytes_gain: row("embeddings", "all-reduce").bytes / row("embeddings", "parallax").bytes,
            samples_per_second: rows.iter().map(speed).collect(),
            rows,
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{:<22} {:<18} {:>10} {:>14} {:>12}", "net", "strategy", "ms a step", "kB a step", "examples/s")?;
        for Row { net, strategy, seconds, bytes, examples } in &self.rows {
            let (milliseconds, kilobytes, speed) = (seconds * 1e3, bytes / 1e3, *examples as f64 / seconds);
            writeln!(out, "{net:<22} {strategy:<18} {milliseconds:>10.1} {kilobytes:>14.1} {speed:>12.1}")?;
        }
        writeln!(out, "{} peers; a step takes {:.2} times the larger of its parts", self.peers, self.overlap_ratio)?;
        writeln!(
            out,
            "large linear layers, beside a parameter server: poseidon {:.3} of the bytes and {:.2} times as fast, cheapest {:.3} and {:.2}",
            self.poseidon_bytes_ratio, self.poseidon_speedup, self.cheapest_bytes_ratio, self.cheapest_speedup
        )?;
        writeln!(
            out,
            "convolutions: cheapest takes {:.2} times as long as all-reduce; embeddings: parallax sends {:.1} times fewer bytes",
            self.convolutions_ratio, self.parallax_bytes_gain
        )
    }
}
