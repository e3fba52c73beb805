//! Laplace equation on a square by Gauss-Seidel iteration with a nine-point stencil.
//!
//! A sweep replaces every inner point by a weighted mean of its eight neighbours, four of which the
//! same sweep has already replaced. The order is part of the method, so the loop is `ordered` and
//! the result equals the serial loop bit for bit. A point depends on the point to its left and on
//! the three points above it. Because of the point above *and to the right*, the loop cannot be cut
//! along rows and columns. The plan skews the loop: it cuts along the row and along the sum of both
//! indices, and runs a wavefront. Each peer owns some rows. After every block it sends the cells
//! that changed at its edge to the next peer (halo exchange).
//!
//! `cargo run --release --example gauss_seidel`

use hemiola::loops::LoopReport;
use hemiola::prelude::*;

fn main() -> hemiola::Result<()> {
    hemiola::run(|cluster| {
        let side = 256;
        let plate = cluster.from_fn([side, side], |key| boundary_value(side, key))?;
        for sweep in 1..=400 {
            let (change, run) = sweep_once(cluster, &plate)?;
            if sweep == 1 {
                cluster.println(format_args!("{}\n", run.plan()));
            }
            if sweep % 50 == 0 {
                cluster.println(format_args!("sweep {sweep}: mean change of a point {change:.2e}"));
            }
        }
        Ok(())
    })
}

/// Initial value: one edge of the plate is hot (100), everything else is cold (0).
fn boundary_value(side: u64, [i, j]: [u64; 2]) -> f64 {
    if i == 0 && j > 0 && j < side - 1 { 100.0 } else { 0.0 }
}

/// Runs one sweep. Returns the mean absolute change of the inner points.
fn sweep_once(cluster: &Cluster, plate: &DistArray<f64, 2>) -> hemiola::Result<(f64, LoopReport)> {
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
    use hemiola::loops::plan::LoopSchedule;

    /// Serial reference implementation in plain Rust.
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
        let mut expected: Vec<Vec<f64>> =
            (0..side).map(|i| (0..side).map(|j| boundary_value(side, [i, j])).collect()).collect();
        (0..3).for_each(|_| serial(&mut expected));
        for (peers, workers) in (1..=3).flat_map(|peers| (1..=4).map(move |workers| (peers, workers))) {
            let program = |cluster: &Cluster| {
                let plate = cluster.from_fn([side, side], |key| boundary_value(side, key))?;
                for _ in 0..3 {
                    let (_, run) = sweep_once(cluster, &plate)?;
                    let skewed = run.plan().cuts.skew.is_some() && run.plan().cuts.schedule == LoopSchedule::Wavefront;
                    assert!(skewed || peers * workers == 1, "{}", run.plan());
                    assert_eq!(run.plan().cuts.peers_used, peers, "{}", run.plan());
                }
                Ok(plate.collect()?.iter().map(|(_, value)| value).eq(expected.iter().flatten()))
            };
            let equal = hemiola::standalone(peers).workers(workers).run(program).expect("it runs");
            assert!(equal[0], "not the same bits on {peers} peers with {workers} workers");
        }
    }
}
