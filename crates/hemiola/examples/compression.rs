//! Gradient compression: bytes sent and error of compressed all-reduces of a 1000 × 1000 matrix.
//!
//! The synthetic gradient resembles that of a dense layer: a few directions hold most of it, the
//! rest is noise, and it differs by peer. The *error* is that of the first sum, relative to the
//! exact sum (Euclidean norms). The *mean of 50* is the same for the mean over fifty updates, where
//! error feedback takes effect.
//!
//! `cargo run --release --example compression -- 4` prints the table of the guide to collectives,
//! for four peers in one process.

use hemiola::collective::{CollectiveExt as _, Communicator, Compression, ReduceOp, SufficientFactors};
use hemiola::core::Purpose;

const SIDE: usize = 1000;
const PAIRS: usize = 32;
const UPDATES: usize = 50;

fn main() -> hemiola::Result<()> {
    let peers =
        std::env::args().nth(1).map_or(Ok(4), |text| text.parse()).map_err(|error| format!("peers: {error}"))?;
    let rows = table(peers, SIDE, UPDATES)?;
    hemiola::run(|cluster| {
        cluster.println(format_args!("{SIDE} × {SIDE} among {peers} peers"));
        for row in &rows {
            cluster.println(format_args!(
                "{:32} {:>10} bytes per update, {:>10} sent per peer, error {:.1e}, {:.1e} in the mean of {UPDATES}, {:.1} ms",
                row.compression.to_string(),
                row.compression.bytes(SIDE, SIDE),
                row.sent,
                row.first,
                row.mean,
                row.milliseconds
            ));
        }
        Ok(())
    })
}

/// Measurements of one compression method.
struct CompressionRow {
    compression: Compression,
    /// Bytes that a peer sends for one update, message headers included.
    sent: u64,
    /// Relative error of the first sum.
    first: f64,
    /// Relative error of the mean over all updates.
    mean: f64,
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

fn table(peers: usize, side: usize, updates: usize) -> hemiola::Result<Vec<CompressionRow>> {
    let rows = hemiola::standalone(peers).run(|cluster| {
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
) -> hemiola::Result<CompressionRow> {
    let sent = || -> u64 {
        let traffic = cluster.traffic();
        traffic.lines.iter().filter(|line| line.purpose == Purpose::Collective).map(|line| line.bytes_sent).sum()
    };
    let mut encoder = match compression {
        Compression::SufficientFactors { .. } => None,
        _ => Some(collectives.matrix_compressor(compression, factors.rows, factors.columns)?),
    };
    let (before, start) = (sent(), cluster.env().now());
    let mut total = vec![0.0; gradient.len()];
    let mut first = 0.0;
    for update in 0..updates {
        let mut sum = gradient.to_vec();
        match &mut encoder {
            Some(encoder) => collectives.all_reduce_compressed(&mut sum, ReduceOp::Sum, encoder)?,
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
        compression,
        sent,
        first,
        mean: relative_error(&total, exact),
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
        assert!(rows[0].first < 1e-6 && rows[0].mean < 1e-6);
        for row in &rows[1..] {
            let factors = matches!(row.compression, Compression::SufficientFactors { .. });
            assert!(factors || row.sent < rows[0].sent, "{}", row.compression);
            assert!(
                row.mean <= 1.001 * row.first && row.mean < 0.6,
                "{}: {}, then {}",
                row.compression,
                row.first,
                row.mean
            );
        }
    }
}
