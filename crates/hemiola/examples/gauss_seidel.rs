//! Laplace equation on a square by Gauss-Seidel iteration with a nine-point stencil.
//!
//! A sweep replaces every inner point by a weighted mean of its eight neighbours, four of which the
//! same sweep has already replaced. The order is part of the method, so the loop is `ordered` and
//! its result equals the serial loop bit for bit. A point depends on the point to its left and on
//! the three points above it. Because of the one above *and to the right*, the loop cannot be cut
//! along rows and columns: the plan skews it, along the sum of both indices, and runs a wavefront.
//! Each peer owns some rows and sends cells at its edge to the next peer (halo exchange).
//!
//! `cargo run --release --example gauss_seidel`:
//! ```text
//! sweep 20: mean change of a point 7.4e-2
//! sweep 40: mean change of a point 5.1e-2
//! sweep 60: mean change of a point 4.0e-2
//! ```

use hemiola::Result;
use hemiola::loops::LoopReport;
use hemiola::prelude::*;

fn main() -> Result<()> {
    hemiola::run(|cluster| {
        let mut plate = cluster.from_fn([128, 128], |key| initial_value(128, key))?;
        for sweep in 1..=60 {
            let (change, _) = sweep_once(cluster, &mut plate)?;
            if sweep % 20 == 0 {
                cluster.println(format_args!("sweep {sweep}: mean change of a point {change:.1e}"));
            }
        }
        Ok(())
    })
}

/// Initial value: one edge of the plate is hot (100), everything else is cold (0).
pub(crate) fn initial_value(side: usize, [i, j]: [usize; 2]) -> f64 {
    if i == 0 && j > 0 && j < side - 1 { 100.0 } else { 0.0 }
}

/// Runs one sweep. Returns the mean absolute change of the inner points.
pub(crate) fn sweep_once(cluster: &Cluster, plate: &mut DistArray<f64, 2>) -> Result<(f64, LoopReport)> {
    let side = plate.shape().extent(0);
    let change = cluster.accumulator::<f64>();
    let run = parallel_for!(
        cluster,
        ordered,
        for [i, j] in [1..side - 1, 1..side - 1] {
            let straight = plate[[i - 1, j]] + plate[[i + 1, j]] + plate[[i, j - 1]] + plate[[i, j + 1]];
            let above = plate[[i - 1, j - 1]] + plate[[i - 1, j + 1]];
            let below = plate[[i + 1, j - 1]] + plate[[i + 1, j + 1]];
            let new = (4.0 * straight + (above + below)) / 20.0;
            change += (new - plate[[i, j]]).abs();
            plate[[i, j]] = new;
        }
    )?;
    Ok((change.take()? / ((side - 2) * (side - 2)) as f64, run))
}
