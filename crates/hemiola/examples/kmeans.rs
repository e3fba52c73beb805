//! K-means clustering (Lloyd's algorithm).
//!
//! A point finds its nearest centroid and adds itself to that centroid's sum. Centroids are
//! read-only and sums are written through a buffer, so no point depends on another and the points
//! are divided among the workers. The sums are few: every peer collects them all.
//!
//! `cargo run --release --example kmeans`:
//! ```text
//! iteration 1: rms distance 0.8451
//! iteration 2: rms distance 0.5746
//! iteration 3: rms distance 0.5746
//! ```

use hemiola::Result;
use hemiola::core::rng::PhiloxRng;
use hemiola::loops::LoopReport;
use hemiola::prelude::*;

pub(crate) const CLUSTERS: usize = 8;
pub(crate) const WIDTH: usize = 4;

type Matrix = DistArray<f32, 2>;

fn main() -> Result<()> {
    hemiola::run(|cluster| {
        let points = cluster.from_fn([10_000, WIDTH], coordinate)?;
        let mut centroids = cluster.from_fn([CLUSTERS, WIDTH], coordinate)?; // the first points
        for iteration in 1..=3 {
            let (spread, next, _) = iterate(cluster, &points, &centroids)?;
            cluster.println(format_args!("iteration {iteration}: rms distance {:.4}", (spread / 10_000.0).sqrt()));
            centroids = next;
        }
        Ok(())
    })
}

/// One coordinate of a synthetic point: uniform noise around one of [`CLUSTERS`] centers.
pub(crate) fn coordinate([p, k]: [usize; 2]) -> f32 {
    let center = PhiloxRng::new(1).random_f64((p % CLUSTERS) as u64, k as u64);
    (10.0 * center + PhiloxRng::new(2).random_f64(p as u64, k as u64)) as f32
}

/// Assigns every point. Returns the sum of squared distances and the means of the clusters.
pub(crate) fn iterate(cluster: &Cluster, points: &Matrix, centroids: &Matrix) -> Result<(f64, Matrix, LoopReport)> {
    let (spread, sums) = (cluster.accumulator::<f64>(), cluster.zeros([CLUSTERS, WIDTH + 1])?);
    let to_sums = sums.buffered(|sum, part: f32| *sum += part); // the last column counts points
    let run = parallel_for!(
        cluster,
        for p in 0..points.shape().extent(0) {
            let distance = |c: usize| (0..WIDTH).map(|k| (points[[p, k]] - centroids[[c, k]]).powi(2)).sum::<f32>();
            let best = (0..CLUSTERS).min_by(|a, b| distance(*a).total_cmp(&distance(*b))).unwrap_or(0);
            spread += f64::from(distance(best));
            to_sums[[best, WIDTH]] += 1.0;
            (0..WIDTH).for_each(|k| to_sums[[best, k]] += points[[p, k]]);
        }
    )?;
    let sums: Vec<f32> = sums.collect()?.into_iter().map(|(_, sum)| sum).collect();
    let mean = |[c, k]: [usize; 2]| sums[c * (WIDTH + 1) + k] / sums[c * (WIDTH + 1) + WIDTH];
    Ok((spread.take()?, cluster.from_fn([CLUSTERS, WIDTH], mean)?, run))
}
