//! K-means clustering (Lloyd's algorithm).
//!
//! A point finds its nearest centroid and adds itself to that centroid's sum. Centroids are
//! read-only and sums are written through buffers, so no point depends on another and the points
//! are divided among the workers. A second loop, over the centroids, moves each to the mean of its
//! points.
//!
//! `cargo run --release --example kmeans`, or on several peers:
//! `hemiola run -n 2 -- target/release/examples/kmeans`

use hemiola::core::rng::PhiloxRng;
use hemiola::loops::LoopReport;
use hemiola::prelude::*;

const CLUSTERS: usize = 8;
const WIDTH: usize = 4;

fn main() -> hemiola::Result<()> {
    hemiola::run(|cluster| {
        let points = synthetic_points(cluster, 50_000)?;
        let means = KMeans::new(cluster, &points)?;
        for round in 1..=50 {
            let (spread, moved, _) = means.round(cluster, &points)?;
            let spread = (spread / points.shape().extent(0) as f64).sqrt();
            cluster.println(format_args!("iteration {round}: rms distance {spread:.4}, {moved} points reassigned"));
            if moved == 0 {
                break;
            }
        }
        for (centroid, size) in means.sizes.collect()? {
            cluster.println(format_args!("centroid {}: {size} points", centroid[0]));
        }
        Ok(())
    })
}

type Matrix = DistArray<f32, 2>;

struct KMeans {
    centroids: Matrix,
    /// Index of the nearest centroid, by point.
    nearest: DistArray<u32, 1>,
    sums: Matrix,
    sizes: DistArray<u32, 1>,
}

impl KMeans {
    /// Initializes the centroids to evenly spaced points.
    fn new(cluster: &Cluster, points: &Matrix) -> hemiola::Result<Self> {
        let centroids = cluster.zeros([CLUSTERS as u64, WIDTH as u64])?;
        let distance = points.shape().extent(0) as usize / CLUSTERS;
        parallel_for!(
            cluster,
            for c in 0..CLUSTERS {
                centroids[c].copy_from_slice(&points[c * distance]);
            }
        )?;
        let nearest = cluster.from_fn([points.shape().extent(0)], |_| u32::MAX)?;
        let sums = cluster.zeros([CLUSTERS as u64, WIDTH as u64])?;
        Ok(Self { centroids, nearest, sums, sizes: cluster.zeros([CLUSTERS as u64])? })
    }

    /// One iteration: assigns every point and moves every centroid. Returns the sum of squared
    /// distances and the number of points that changed their cluster.
    fn round(&self, cluster: &Cluster, points: &Matrix) -> hemiola::Result<(f64, u64, LoopReport)> {
        let Self { centroids, nearest, sums, sizes } = self;
        parallel_for!(
            cluster,
            for c in 0..CLUSTERS {
                sums[c].fill(0.0);
                sizes[c] = 0;
            }
        )?;
        let (spread, moved) = (cluster.accumulator::<f64>(), cluster.accumulator::<u64>());
        let to_sums = sums.buffered(|sum, part: f32| *sum += part);
        let to_sizes = sizes.buffered(|size, part: u32| *size += part);
        let count = points.shape().extent(0) as usize;
        let assigning = parallel_for!(
            cluster,
            for p in 0..count {
                let point = &points[p];
                let (mut best, mut least) = (0, f32::INFINITY);
                for c in 0..CLUSTERS {
                    let distance = squared_distance(point, &centroids[c]);
                    if distance < least {
                        (best, least) = (c, distance);
                    }
                }
                moved += u64::from(nearest[p] != best as u32);
                nearest[p] = best as u32;
                spread += f64::from(least);
                to_sizes[best] += 1;
                for (k, coordinate) in point.iter().enumerate() {
                    to_sums[[best, k]] += coordinate;
                }
            }
        )?;
        parallel_for!(
            cluster,
            for c in 0..CLUSTERS {
                if sizes[c] > 0 {
                    for k in 0..WIDTH {
                        centroids[[c, k]] = sums[[c, k]] / sizes[c] as f32;
                    }
                }
            }
        )?;
        Ok((spread.take()?, moved.take()?, assigning))
    }
}

/// Squared Euclidean distance of two points.
fn squared_distance(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// Synthetic points: Gaussian noise around [`CLUSTERS`] random centers.
fn synthetic_points(cluster: &Cluster, count: u64) -> hemiola::Result<Matrix> {
    let (centers, noise) = (PhiloxRng::new(1), PhiloxRng::new(2));
    cluster.from_fn([count, WIDTH as u64], |[p, k]| {
        let center = centers.random_f64(p * 7 % CLUSTERS as u64, k) * 10.0;
        noise.normal(p, k, center, 1.0) as f32
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola::loops::LoopPlan;

    #[derive(Debug, PartialEq)]
    struct SerialKMeans {
        centroids: Vec<f32>,
        nearest: Vec<u32>,
        sizes: Vec<u32>,
    }

    fn values<T: hemiola::array::Element, const N: usize>(array: &DistArray<T, N>) -> hemiola::Result<Vec<T>> {
        Ok(array.collect()?.into_iter().map(|(_, value)| value).collect())
    }

    impl SerialKMeans {
        fn of(means: &KMeans) -> hemiola::Result<Self> {
            let KMeans { centroids, nearest, sizes, .. } = means;
            Ok(Self { centroids: values(centroids)?, nearest: values(nearest)?, sizes: values(sizes)? })
        }

        /// Serial reference in plain Rust: sums per part, then the sum over the parts.
        fn round(&mut self, plan: &LoopPlan, points: &[f32]) {
            let keys = (0..self.nearest.len() as u64).map(|p| ([p], ())).collect();
            let (mut sums, mut sizes) = (vec![0.0; self.centroids.len()], vec![0; CLUSTERS]);
            for part in plan.in_steps(keys).into_iter().flatten() {
                let (mut part_sums, mut part_sizes) = (vec![0.0; self.centroids.len()], vec![0; CLUSTERS]);
                for ([p], ()) in part {
                    let point = &points[p as usize * WIDTH..][..WIDTH];
                    let (mut best, mut least) = (0, f32::INFINITY);
                    for (c, centroid) in self.centroids.chunks_exact(WIDTH).enumerate() {
                        let distance = squared_distance(point, centroid);
                        if distance < least {
                            (best, least) = (c, distance);
                        }
                    }
                    self.nearest[p as usize] = best as u32;
                    part_sizes[best] += 1;
                    for k in 0..WIDTH {
                        part_sums[best * WIDTH + k] += point[k];
                    }
                }
                sums.iter_mut().zip(part_sums).for_each(|(sum, part)| *sum += part);
                sizes.iter_mut().zip(part_sizes).for_each(|(size, part)| *size += part);
            }
            for (at, sum) in sums.into_iter().enumerate().filter(|(at, _)| sizes[at / WIDTH] > 0) {
                self.centroids[at] = sum / sizes[at / WIDTH] as f32;
            }
            self.sizes = sizes;
        }
    }

    #[test]
    fn equals_serial_iterations_with_sums_per_part() {
        for (peers, workers) in (1..=3).flat_map(|peers| (1..=4).map(move |workers| (peers, workers))) {
            let program = |cluster: &Cluster| {
                let points = synthetic_points(cluster, 2000)?;
                let means = KMeans::new(cluster, &points)?;
                let (mut expected, point_values) = (SerialKMeans::of(&means)?, values(&points)?);
                for _ in 0..3 {
                    let (_, _, run) = means.round(cluster, &points)?;
                    assert_eq!(run.plan().cuts.parts(), peers * workers, "{}", run.plan());
                    if cluster.is_root() {
                        expected.round(run.plan(), &point_values);
                    }
                }
                Ok(SerialKMeans::of(&means)? == expected)
            };
            let equal = hemiola::standalone(peers).workers(workers).run(program).expect("it runs");
            assert!(equal[0], "not the same bits on {peers} peers with {workers} workers");
        }
    }
}
