//! Matrix factorization by stochastic gradient descent (SGD): a serial loop, parallelized.
//!
//! A rating is approximated by the dot product of the user's row and the item's row. Two ratings
//! can be processed at the same time if they have different users and different items.
//! `parallel_for!` derives this from the subscripts: it keeps user rows with their workers and
//! rotates item rows among the workers.
//!
//! `cargo run --release --example mf`, or on several peers:
//! `hemiola run -n 2 -- target/release/examples/mf`

use hemiola::loops::LoopReport;
use hemiola::prelude::*;

const RANK: usize = 16;
const LEARNING_RATE: f32 = 0.02;
const LAMBDA: f32 = 0.01;

fn main() -> hemiola::Result<()> {
    hemiola::run(|cluster| {
        let ratings = synthetic_ratings(cluster, [1000, 400])?;
        let [users, items] = ratings.shape().extents();
        let w = cluster.uniform([users, RANK as u64], 0.0..0.5, 1)?;
        let h = cluster.uniform([items, RANK as u64], 0.0..0.5, 2)?;
        for epoch in 0..20 {
            let (loss, _) = run_epoch(cluster, &ratings, &w, &h)?;
            cluster.println(format_args!("epoch {epoch}: rmse {:.4}", (loss / ratings.len() as f64).sqrt()));
        }
        Ok(())
    })
}

type Matrix = DistArray<f32, 2>;

/// Runs one epoch. Returns the sum of squared errors, each taken before its own SGD step.
fn run_epoch(cluster: &Cluster, ratings: &Matrix, w: &Matrix, h: &Matrix) -> hemiola::Result<(f64, LoopReport)> {
    let loss = cluster.accumulator::<f64>();
    let run = parallel_for!(
        cluster,
        for ([u, i], rating) in ratings {
            let (wu, hi) = (&mut w[u], &mut h[i]);
            let error = rating - dot(wu, hi);
            for k in 0..RANK {
                let (a, b) = (wu[k], hi[k]);
                wu[k] += LEARNING_RATE * (error * b - LAMBDA * a);
                hi[k] += LEARNING_RATE * (error * a - LAMBDA * b);
            }
            loss += f64::from(error * error);
        }
    )?;
    Ok((loss.take()?, run))
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Synthetic ratings of users for items; one rating in five is known.
fn synthetic_ratings(cluster: &Cluster, shape: [u64; 2]) -> hemiola::Result<Matrix> {
    let all = cluster.from_fn(shape, |[u, i]| 3.0 + ((u % 7) * (i % 5)) as f32 / 12.0)?;
    all.entries().filter(|[u, i], _| (u * 31 + i * 17) % 5 == 0).materialize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola::loops::plan::LoopSchedule;

    type Rows = Vec<Vec<f32>>;

    /// Serial reference implementation in plain Rust.
    fn serial<'r>(ratings: impl Iterator<Item = &'r ([u64; 2], f32)>, w: &mut Rows, h: &mut Rows) {
        for ([u, i], rating) in ratings {
            let (wu, hi) = (&mut w[*u as usize], &mut h[*i as usize]);
            let error = rating - dot(wu, hi);
            for k in 0..RANK {
                let (a, b) = (wu[k], hi[k]);
                wu[k] += LEARNING_RATE * (error * b - LAMBDA * a);
                hi[k] += LEARNING_RATE * (error * a - LAMBDA * b);
            }
        }
    }

    fn rows(array: &Matrix) -> hemiola::Result<Rows> {
        let cells: Vec<f32> = array.collect()?.into_iter().map(|(_, value)| value).collect();
        Ok(cells.chunks_exact(RANK).map(<[f32]>::to_vec).collect())
    }

    #[test]
    fn equals_the_serial_loop_over_the_ratings_in_the_plans_order() {
        for (peers, workers) in (1..=3).flat_map(|peers| (1..=4).map(move |workers| (peers, workers))) {
            let program = |cluster: &Cluster| {
                let ratings = synthetic_ratings(cluster, [100, 120])?;
                let w = cluster.uniform([100, RANK as u64], 0.0..0.5, 1)?;
                let h = cluster.uniform([120, RANK as u64], 0.0..0.5, 2)?;
                let (mut expected_w, mut expected_h) = (rows(&w)?, rows(&h)?);
                let mut losses = Vec::new();
                for _ in 0..2 {
                    let (loss, run) = run_epoch(cluster, &ratings, &w, &h)?;
                    let rotates = matches!(run.plan().cuts.schedule, LoopSchedule::Rotation { .. });
                    assert!(rotates || peers * workers == 1, "{}", run.plan());
                    let ratings = ratings.collect()?;
                    if cluster.is_root() {
                        serial(run.plan().in_order(ratings).iter(), &mut expected_w, &mut expected_h);
                    }
                    losses.push(loss);
                }
                assert!(losses[1] < losses[0], "it learns: {losses:?}");
                Ok((rows(&w)?, rows(&h)?) == (expected_w, expected_h))
            };
            let equal = hemiola::standalone(peers).workers(workers).run(program).expect("it runs");
            assert!(equal[0], "not the same bits on {peers} peers with {workers} workers");
        }
    }
}
