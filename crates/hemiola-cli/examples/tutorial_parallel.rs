//! Tutorial, pages 2 to 4: the loop of `tutorial_serial` on all workers of all peers.
//!
//! `HEMIOLA_WORKERS=4 cargo run --release --example tutorial_parallel`:
//! ```text
//! epoch 1: rmse 0.6439
//! epoch 2: rmse 0.0314
//! epoch 3: rmse 0.0199
//! epoch 4: rmse 0.0134
//! epoch 5: rmse 0.0095
//! ```

use hemiola::prelude::*;

const USERS: usize = 1000;
const ITEMS: usize = 400;
const RANK: usize = 8;
const LEARNING_RATE: f32 = 0.02;

fn main() -> hemiola::Result<()> {
    hemiola::run(|cluster| {
        let ratings = cluster.from_fn([USERS, ITEMS], rating_of)?;
        let ratings = ratings.entries().filter(|key, _| is_known(key)).materialize()?;
        let mut w = cluster.from_fn([USERS, RANK], start)?;
        let mut h = cluster.from_fn([ITEMS, RANK], start)?;
        let loss = cluster.accumulator::<f64>();
        for epoch in 1..=5 {
            parallel_for!(
                cluster,
                for ([u, i], rating) in &ratings {
                    let (wu, hi) = (&mut w[u], &mut h[i]);
                    let error = rating - wu.iter().zip(&*hi).map(|(a, b)| a * b).sum::<f32>();
                    for k in 0..RANK {
                        (wu[k], hi[k]) = (wu[k] + LEARNING_RATE * error * hi[k], hi[k] + LEARNING_RATE * error * wu[k]);
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

/// One rating in five is known.
fn is_known([u, i]: [usize; 2]) -> bool {
    (u * 31 + i * 17).is_multiple_of(5)
}

/// Synthetic rating of a user for an item.
fn rating_of([u, i]: [usize; 2]) -> f32 {
    3.0 + ((u % 7) * (i % 5)) as f32 / 12.0
}

/// Initial value of factor `k` of a row.
fn start([row, k]: [usize; 2]) -> f32 {
    0.1 + ((row * 7 + k * 3) % 10) as f32 / 20.0
}
