//! Tutorial, page 5: the loop of `tutorial_parallel` with item factors on the parameter server.
//!
//! `hemiola run -n 2 --workers 2 -- target/release/examples/tutorial_table`:
//! ```text
//! [0] epoch 1: rmse 0.4207
//! [0] epoch 2: rmse 0.3529
//! [0] epoch 3: rmse 0.0815
//! [0] epoch 4: rmse 0.0595
//! [0] epoch 5: rmse 0.0444
//! ```

use hemiola::prelude::*;
use hemiola::tables::RowInitializer;

const USERS: usize = 1000;
const ITEMS: usize = 400;
const RANK: usize = 8;
const LEARNING_RATE: f32 = 0.02;

fn main() -> hemiola::Result<()> {
    hemiola::run(|cluster| {
        let ratings = cluster.from_fn([USERS, ITEMS], rating_of)?;
        let ratings = ratings.entries().filter(|key, _| is_known(key)).materialize()?;
        let mut w = cluster.uniform([USERS, RANK], 0.1..0.6, Seed(1))?;
        let start = RowInitializer::Uniform { seed: 2, low: 0.1, high: 0.6 };
        let items =
            cluster.table::<f32>("items").rows(ITEMS as u64).width(RANK).initializer(start).staleness(1).build()?;
        let h = items.in_loop().every(100);
        let loss = cluster.accumulator::<f64>();
        for epoch in 1..=5 {
            parallel_for!(
                cluster,
                for ([u, i], rating) in &ratings {
                    let wu = &mut w[u];
                    let error = rating - (0..RANK).map(|k| wu[k] * h[i][k]).sum::<f32>();
                    let mut change = [0.0; RANK];
                    for k in 0..RANK {
                        change[k] = LEARNING_RATE * error * wu[k];
                        wu[k] += LEARNING_RATE * error * h[i][k];
                    }
                    h.add(i, &change);
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
