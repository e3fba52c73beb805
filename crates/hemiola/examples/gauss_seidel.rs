//! The Poisson equation on a square, by Gauss and Seidel's method with a nine-point stencil.
//!
//! A sweep replaces every point by what its eight neighbours say it should be, four of which the same sweep has already
//! replaced. The order is part of the method, so the loop is `ordered`: it gives the bits of the serial loop. A point needs
//! the one to the left, and the three above it; the one above *and to the right* means that neither rows nor columns can be
//! cut as they are. The plan cuts along a row number and a sum of indices instead (it skews the loop), and runs waves. Peers
//! have some rows each, and send the next peer what has changed at the edge, block by block.
//!
//! `cargo run --release --example gauss_seidel`

use hemiola::loops::Run;
use hemiola::prelude::*;

fn main() -> hemiola::Result<()> {
    hemiola::run(|cluster| {
        let side = 256;
        let plate = cluster.from_fn([side, side], |key| at_the_edge(side, key))?;
        for sweep in 1..=400 {
            let (change, run) = sweep_once(cluster, &plate)?;
            if sweep == 1 {
                cluster.println(format_args!("{}\n", run.plan()));
            }
            if sweep % 50 == 0 {
                cluster.println(format_args!("sweep {sweep}: points changed by {change:.2e} in the mean"));
            }
        }
        Ok(())
    })
}

/// One edge is hot, the others are cold.
fn at_the_edge(side: u64, [i, j]: [u64; 2]) -> f64 {
    if i == 0 && j > 0 && j < side - 1 { 100.0 } else { 0.0 }
}

/// Replaces every inner point: how much they changed, in the mean.
fn sweep_once(cluster: &Cluster, plate: &DistArray<f64, 2>) -> hemiola::Result<(f64, Run)> {
    let side = plate.shape().extent(0) as usize;
    let change = cluster.accumulator::<f64>();
    let run = parallel_for!(
        cluster,
        ordered,
        for [i, j] in [1..side - 1, 1..side - 1] {
            let straight = plate[[i - 1, j]] + plate[[i + 1, j]] + plate[[i, j - 1]] + plate[[i, j + 1]];
            let diagonal =
                plate[[i - 1, j - 1]] + plate[[i - 1, j + 1]] + plate[[i + 1, j - 1]] + plate[[i + 1, j + 1]];
            let new = (4.0 * straight + diagonal) / 20.0;
            change += (new - plate[[i, j]]).abs();
            plate[[i, j]] = new;
        }
    )?;
    Ok((change.take()? / ((side - 2) * (side - 2)) as f64, run))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola::loops::plan::Schedule;

    /// The same loop, in plain Rust.
    fn serial(plate: &mut [Vec<f64>]) {
        for i in 1..plate.len() - 1 {
            for j in 1..plate.len() - 1 {
                let straight = plate[i - 1][j] + plate[i + 1][j] + plate[i][j - 1] + plate[i][j + 1];
                let diagonal = plate[i - 1][j - 1] + plate[i - 1][j + 1] + plate[i + 1][j - 1] + plate[i + 1][j + 1];
                plate[i][j] = (4.0 * straight + diagonal) / 20.0;
            }
        }
    }

    #[test]
    fn equals_the_serial_loop() {
        let side = 80;
        let mut twin: Vec<Vec<f64>> =
            (0..side).map(|i| (0..side).map(|j| at_the_edge(side, [i, j])).collect()).collect();
        (0..3).for_each(|_| serial(&mut twin));
        for (peers, workers) in (1..=3).flat_map(|peers| (1..=4).map(move |workers| (peers, workers))) {
            let program = |cluster: &Cluster| {
                let plate = cluster.from_fn([side, side], |key| at_the_edge(side, key))?;
                for _ in 0..3 {
                    let (_, run) = sweep_once(cluster, &plate)?;
                    let skewed = run.plan().cuts.skew.is_some() && run.plan().cuts.schedule == Schedule::Wavefront;
                    assert!(skewed || peers * workers == 1, "{}", run.plan());
                    assert_eq!(run.plan().cuts.peers_used, peers, "{}", run.plan());
                }
                Ok(plate.collect()?.iter().map(|(_, value)| value).eq(twin.iter().flatten()))
            };
            let equal = hemiola::standalone(peers).workers(workers).run(program).expect("it runs");
            assert!(equal[0], "not the same bits on {peers} peers with {workers} workers");
        }
    }
}
