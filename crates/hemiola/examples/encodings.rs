//! What each encoding of a gradient sends, and what it gets wrong: all-reduces of a 1000 × 1000 matrix among peers of this process.
//!
//! The gradient is like one of a layer: a few directions hold most of it, the rest is noise, and it differs by peer. *One update* is the error of the first sum,
//! relative to the exact one; *mean of 50* is the same for the mean over fifty updates, where error feedback has had time to work. *Norms* are Euclidean.
//!
//! `cargo run --release --example encodings -- 4` prints the table of the guide to collectives, for four peers.

use hemiola::collective::{Collectives, Encoding, Factors, MakeCollectives as _, Operator};
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
                "{:32} {:>10} bytes in an update, {:>10} sent by a peer, error {:.1e}, {:.1e} in the mean of {UPDATES}, {:.1} ms",
                row.encoding.to_string(),
                row.encoding.bytes(SIDE, SIDE),
                row.sent,
                row.first,
                row.mean,
                row.milliseconds
            ));
        }
        Ok(())
    })
}

/// What was found of an encoding.
struct Row {
    encoding: Encoding,
    /// Bytes, headers of messages included, that a peer sent for one update.
    sent: u64,
    first: f64,
    mean: f64,
    milliseconds: f64,
}

fn encodings(side: usize) -> Vec<Encoding> {
    vec![
        Encoding::Plain,
        Encoding::Bf16,
        Encoding::F16,
        Encoding::OneBit { block: side },
        Encoding::TopK { keep: side * side / 100 },
        Encoding::LowRank { rank: 4 },
        Encoding::SufficientFactors { pairs: PAIRS },
    ]
}

fn table(peers: usize, side: usize, updates: usize) -> hemiola::Result<Vec<Row>> {
    let rows = hemiola::standalone(peers).run(|cluster| {
        let collectives = cluster.collectives()?;
        let (u, v) = factors(cluster.rank().index(), side);
        let factors = Factors { u: &u, v: &v, rows: side, columns: side };
        let mut gradient = vec![0.0; side * side];
        for (u, v) in u.chunks(side).zip(v.chunks(side)) {
            for (row, u) in gradient.chunks_mut(side).zip(u) {
                row.iter_mut().zip(v).for_each(|(value, v)| *value += u * v);
            }
        }
        let mut exact: Vec<f64> = gradient.iter().map(|value| f64::from(*value)).collect();
        collectives.all_reduce(&mut exact, Operator::Sum)?;
        encodings(side)
            .into_iter()
            .map(|encoding| row(&collectives, cluster, encoding, factors, &gradient, &exact, updates))
            .collect()
    })?;
    Ok(rows.into_iter().next().unwrap_or_default())
}

fn row(
    collectives: &Collectives,
    cluster: &hemiola::Cluster,
    encoding: Encoding,
    factors: Factors<'_>,
    gradient: &[f32],
    exact: &[f64],
    updates: usize,
) -> hemiola::Result<Row> {
    let sent = || -> u64 {
        let traffic = cluster.traffic();
        traffic.lines.iter().filter(|line| line.purpose == Purpose::Collective).map(|line| line.bytes_sent).sum()
    };
    let mut encoder = match encoding {
        Encoding::SufficientFactors { .. } => None,
        _ => Some(collectives.matrix_encoder(encoding, factors.rows, factors.columns)?),
    };
    let (before, start) = (sent(), cluster.env().now());
    let mut total = vec![0.0; gradient.len()];
    let mut first = 0.0;
    for update in 0..updates {
        let mut sum = gradient.to_vec();
        match &mut encoder {
            Some(encoder) => collectives.all_reduce_encoded(&mut sum, Operator::Sum, encoder)?,
            None => collectives.all_reduce_factors(factors, &mut sum)?,
        }
        total.iter_mut().zip(&sum).for_each(|(total, value)| *total += f64::from(*value));
        if update == 0 {
            first = distance(&total, exact);
        }
    }
    let seconds = (cluster.env().now() - start).as_secs_f64();
    for total in &mut total {
        *total /= updates as f64;
    }
    let sent = (sent() - before) / updates as u64;
    Ok(Row { encoding, sent, first, mean: distance(&total, exact), milliseconds: seconds * 1e3 / updates as f64 })
}

/// How far from `exact`, relative to its size.
fn distance(found: &[f64], exact: &[f64]) -> f64 {
    let norm = |squares: f64| squares.sqrt();
    let missing = found.iter().zip(exact).map(|(found, exact)| (found - exact) * (found - exact)).sum();
    norm(missing) / norm(exact.iter().map(|exact| exact * exact).sum())
}

/// A peer's pairs, one for each example of its batch: the first are alike on all peers and large, the others its own.
fn factors(peer: usize, side: usize) -> (Vec<f32>, Vec<f32>) {
    let vectors = |salt: usize| {
        let pair = |pair: usize| {
            let (owner, weight) = if pair < 3 { (0, 1.0 / (1 + pair) as f32) } else { (1 + peer, 0.1) };
            (0..side).map(move |place| weight.sqrt() * random(owner, salt + pair, place))
        };
        (0..PAIRS).flat_map(pair).collect::<Vec<f32>>()
    };
    (vectors(0), vectors(PAIRS))
}

/// A number in −1..1 that looks random and is a function of its place.
fn random(owner: usize, vector: usize, place: usize) -> f32 {
    let mut bits = (owner as u64) << 48 ^ (vector as u64) << 32 ^ place as u64;
    for _ in 0..3 {
        bits = (bits ^ bits >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    (bits >> 40) as f32 / (1 << 23) as f32 - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_send_fewer_bytes_and_come_to_the_sum() {
        let rows = table(2, 100, 50).unwrap();
        assert!(rows[0].first < 1e-6 && rows[0].mean < 1e-6);
        for row in &rows[1..] {
            let factors = matches!(row.encoding, Encoding::SufficientFactors { .. });
            assert!(factors || row.sent < rows[0].sent, "{}", row.encoding);
            assert!(
                row.mean <= 1.001 * row.first && row.mean < 0.6,
                "{}: {}, then {}",
                row.encoding,
                row.first,
                row.mean
            );
        }
    }
}
