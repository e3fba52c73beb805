//! Matrix factorization by stochastic gradient descent: a serial loop, parallelized.
//!
//! Ratings are explained by the product of a row per user and a row per item. Two ratings can be used at the same time if
//! they are of different users and different items; `parallel_for!` finds that out and rotates items among the workers.
//!
//! `cargo run --release --example mf`, or on several peers: `hemiola run -n 2 -- target/release/examples/mf`

use hemiola::prelude::*;

const RANK: usize = 16;
const STEP: f32 = 0.02;
const LAMBDA: f32 = 0.01;

fn main() -> hemiola::Result<()> {
    hemiola::run(|cluster| {
        let ratings = made_up(cluster)?;
        let [users, items] = ratings.shape().extents();
        let w = cluster.uniform([users, RANK as u64], 0.0..0.5, 1)?;
        let h = cluster.uniform([items, RANK as u64], 0.0..0.5, 2)?;
        let loss = cluster.accumulator::<f64>();
        for epoch in 0..20 {
            parallel_for!(
                cluster,
                for ([u, i], rating) in &ratings {
                    let (wu, hi) = (&mut w[u], &mut h[i]);
                    let error = rating - dot(wu, hi);
                    for k in 0..RANK {
                        let (a, b) = (wu[k], hi[k]);
                        wu[k] += STEP * (error * b - LAMBDA * a);
                        hi[k] += STEP * (error * a - LAMBDA * b);
                    }
                    loss += f64::from(error * error);
                }
            )?;
            let rmse = (loss.take()? / ratings.len() as f64).sqrt();
            cluster.println(format_args!("epoch {epoch}: rmse {rmse:.4}"));
        }
        Ok(())
    })
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Ratings of 2,000 users for 800 items, one in twenty known.
fn made_up(cluster: &Cluster) -> hemiola::Result<DistArray<f32, 2>> {
    let all = cluster.from_fn([2000, 800], |[u, i]| 3.0 + ((u % 7) * (i % 5)) as f32 / 12.0)?;
    all.entries().filter(|[u, i], _| (u * 31 + i * 17) % 20 == 0).materialize()
}
