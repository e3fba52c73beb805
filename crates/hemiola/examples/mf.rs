//! Matrix factorization by stochastic gradient descent (SGD): a serial loop, parallelized.
//!
//! A rating is approximated by the dot product of the user's row and the item's row. Two ratings
//! can be processed concurrently if they have different users and different items. `parallel_for!`
//! derives this from the subscripts: it keeps user rows with their workers and rotates item rows.
//!
//! `cargo run --release --example mf`, or `hemiola run -n 2 -- target/release/examples/mf`:
//! ```text
//! epoch 1: rmse 0.5622
//! epoch 2: rmse 0.0785
//! epoch 3: rmse 0.0574
//! epoch 4: rmse 0.0499
//! ```

use hemiola::Result;
use hemiola::loops::LoopReport;
use hemiola::prelude::*;

pub(crate) const RANK: usize = 16;
pub(crate) const LEARNING_RATE: f32 = 0.02;
pub(crate) const L2: f32 = 0.01;

type Matrix = DistArray<f32, 2>;

fn main() -> Result<()> {
    hemiola::run(|cluster| {
        let ratings = synthetic_ratings(cluster, [1000, 400])?;
        let mut w = cluster.uniform([1000, RANK], 0.0..0.5, Seed(1))?;
        let mut h = cluster.uniform([400, RANK], 0.0..0.5, Seed(2))?;
        for epoch in 1..=4 {
            let (loss, _) = run_epoch(cluster, &ratings, [&mut w, &mut h])?;
            cluster.println(format_args!("epoch {epoch}: rmse {:.4}", (loss / ratings.len() as f64).sqrt()));
        }
        Ok(())
    })
}

/// Runs one epoch. Returns the sum of squared errors, each taken before its own SGD step.
pub(crate) fn run_epoch(cluster: &Cluster, ratings: &Matrix, [w, h]: [&mut Matrix; 2]) -> Result<(f64, LoopReport)> {
    let loss = cluster.accumulator::<f64>();
    let run = parallel_for!(
        cluster,
        for ([u, i], rating) in ratings {
            let (wu, hi) = (&mut w[u], &mut h[i]);
            let error = rating - wu.iter().zip(&*hi).map(|(a, b)| a * b).sum::<f32>();
            for (a, b) in wu.iter_mut().zip(hi) {
                (*a, *b) = (*a + LEARNING_RATE * (error * *b - L2 * *a), *b + LEARNING_RATE * (error * *a - L2 * *b));
            }
            loss += f64::from(error * error);
        }
    )?;
    Ok((loss.take()?, run))
}

/// Synthetic ratings of users for items; one rating in five is known.
pub(crate) fn synthetic_ratings(cluster: &Cluster, shape: [usize; 2]) -> Result<Matrix> {
    let all = cluster.from_fn(shape, |[u, i]| 3.0 + ((u % 7) * (i % 5)) as f32 / 12.0)?;
    Ok(all.entries().filter(|[u, i], _| (u * 31 + i * 17) % 5 == 0).materialize()?)
}
