//! K-means equals serial iterations with one sum per part of the plan.

use super::programs::kmeans::{CLUSTERS, WIDTH, coordinate, iterate};
use super::{equals_on_all_clusters, values};
use hemiola::loops::LoopPlan;
use hemiola::prelude::*;

const POINTS: usize = 2000;

/// Returns the next centroids: points are summed by part, and then the parts.
fn serial(plan: &LoopPlan, points: &[f32], centroids: &[f32]) -> Vec<f32> {
    let keys = (0..POINTS).map(|p| ([p], ())).collect();
    let mut sums = [[0.0; WIDTH + 1]; CLUSTERS];
    for part in plan.in_steps(keys).into_iter().flatten() {
        let mut part_sums = vec![[0.0; WIDTH + 1]; CLUSTERS];
        for ([p], ()) in part {
            let point = &points[p * WIDTH..][..WIDTH];
            let (mut best, mut least) = (0, f32::INFINITY);
            for (c, centroid) in centroids.chunks_exact(WIDTH).enumerate() {
                let distance = point.iter().zip(centroid).map(|(a, b)| (a - b).powi(2)).sum::<f32>();
                if distance < least {
                    (best, least) = (c, distance);
                }
            }
            part_sums[best][WIDTH] += 1.0;
            part_sums[best].iter_mut().zip(point).for_each(|(sum, value)| *sum += value);
        }
        for (sum, part) in sums.iter_mut().flatten().zip(part_sums.into_iter().flatten()) {
            *sum += part;
        }
    }
    sums.iter().flat_map(|sum| sum[..WIDTH].iter().map(|part| part / sum[WIDTH])).collect()
}

#[test]
fn equals_serial_iterations_with_sums_per_part() {
    equals_on_all_clusters(|cluster| {
        let points = cluster.from_fn([POINTS, WIDTH], coordinate)?;
        let mut centroids = cluster.from_fn([CLUSTERS, WIDTH], coordinate)?;
        let (mut expected, all) = (values(&centroids)?, values(&points)?);
        let mut spreads = Vec::new();
        for _ in 0..3 {
            let (spread, next, run) = iterate(cluster, &points, &centroids)?;
            assert_eq!(run.plan().cuts.parts(), cluster.size() * cluster.workers(), "{}", run.plan());
            expected = serial(run.plan(), &all, &expected);
            centroids = next;
            spreads.push(spread);
        }
        assert!(spreads[2] < spreads[0], "clusters become denser: {spreads:?}");
        Ok(values(&centroids)? == expected)
    });
}
