//! Matrix factorization equals the serial loop over the ratings in the order of the plan.

use super::programs::mf::{L2, LEARNING_RATE, RANK, run_epoch, synthetic_ratings};
use super::{equals_on_all_clusters, values};
use hemiola::loops::plan::LoopSchedule;
use hemiola::prelude::*;

fn serial(ratings: &[([usize; 2], f32)], w: &mut [f32], h: &mut [f32]) {
    for ([u, i], rating) in ratings {
        let (wu, hi) = (&mut w[u * RANK..][..RANK], &mut h[i * RANK..][..RANK]);
        let error = rating - wu.iter().zip(&*hi).map(|(a, b)| a * b).sum::<f32>();
        for k in 0..RANK {
            let (a, b) = (wu[k], hi[k]);
            wu[k] += LEARNING_RATE * (error * b - L2 * a);
            hi[k] += LEARNING_RATE * (error * a - L2 * b);
        }
    }
}

#[test]
fn equals_the_serial_loop_over_the_ratings_in_the_plans_order() {
    equals_on_all_clusters(|cluster| {
        let ratings = synthetic_ratings(cluster, [100, 120])?;
        let mut w = cluster.uniform([100, RANK], 0.0..0.5, Seed(1))?;
        let mut h = cluster.uniform([120, RANK], 0.0..0.5, Seed(2))?;
        let (mut expected_w, mut expected_h) = (values(&w)?, values(&h)?);
        let mut losses = Vec::new();
        for _ in 0..2 {
            let (loss, run) = run_epoch(cluster, &ratings, [&mut w, &mut h])?;
            let rotates = matches!(run.plan().cuts.schedule, LoopSchedule::Rotation { .. });
            assert!(rotates || cluster.size() * cluster.workers() == 1, "{}", run.plan());
            serial(&run.plan().in_order(ratings.collect()?), &mut expected_w, &mut expected_h);
            losses.push(loss);
        }
        assert!(losses[1] < losses[0], "it learns: {losses:?}");
        Ok((values(&w)?, values(&h)?) == (expected_w, expected_h))
    });
}
