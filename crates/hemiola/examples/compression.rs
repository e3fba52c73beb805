//! Compressed all-reduce with error feedback.
//!
//! Every step, peers sum their gradients. A compressor sends only part of a gradient and keeps the
//! rest, the residual, for the next step. So one sum is inexact, but the mean over many steps comes
//! close to the exact mean. `hemiola bench compression` compares all methods on a larger matrix.
//!
//! `cargo run --release --example compression`:
//! ```text
//! f32: 40000 bytes, error 0.000, of the mean 0.000
//! bf16: 20000 bytes, error 0.002, of the mean 0.002
//! one bit, blocks of 100: 2100 bytes, error 0.917, of the mean 0.326
//! top-k, 500 kept: 3004 bytes, error 0.278, of the mean 0.067
//! ```

use hemiola::Result;
use hemiola::collective::{Compression, ReduceOp};
use hemiola::prelude::*;

const LENGTH: usize = 10_000;
pub(crate) const STEPS: usize = 50;

fn main() -> Result<()> {
    let (one_bit, top_k) = (Compression::OneBit { block: 100 }, Compression::TopK { keep: LENGTH / 20 });
    // Four peers as threads of this process.
    hemiola::standalone(4).run(|cluster| {
        for method in [Compression::Plain, Compression::Bf16, one_bit, top_k] {
            let (bytes, errors) = (method.bytes(1, LENGTH), measure(cluster, method)?);
            let [first, mean] = [errors[0], errors[STEPS - 1]];
            cluster.println(format_args!("{method}: {bytes} bytes, error {first:.3}, of the mean {mean:.3}"));
        }
        Ok(())
    })?;
    Ok(())
}

/// Returns the error of the mean of all sums so far after each step, relative to the exact sum.
pub(crate) fn measure(cluster: &Cluster, method: Compression) -> Result<Vec<f64>> {
    let (communicator, rank) = (cluster.communicator()?, cluster.rank().index());
    let mut compressor = communicator.compressor(method, LENGTH)?;
    let gradient: Vec<f32> = (0..LENGTH).map(|at| ((at * 37 + rank) as f32).sin() / (1 + at % 100) as f32).collect();
    let mut exact: Vec<f64> = gradient.iter().map(|value| f64::from(*value)).collect();
    communicator.all_reduce(&mut exact, ReduceOp::Sum)?;
    let (mut total, mut errors) = (vec![0.0; LENGTH], Vec::new());
    for step in 1..=STEPS {
        let mut sum = gradient.clone();
        communicator.all_reduce_compressed(&mut sum, ReduceOp::Sum, &mut compressor)?;
        total.iter_mut().zip(&sum).for_each(|(total, sum)| *total += f64::from(*sum));
        let missing = total.iter().zip(&exact).map(|(total, exact)| (total / step as f64 - exact).powi(2)).sum::<f64>();
        errors.push((missing / exact.iter().map(|value| value * value).sum::<f64>()).sqrt());
    }
    Ok(errors)
}
