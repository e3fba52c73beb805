//! Clusters of points by the method of k means.
//!
//! A point finds its nearest centre and adds itself to that centre's sum. Centres are read only and sums are written through
//! buffers, so no point depends on another, and workers share out the points. A second loop, over the centres, moves each to
//! the mean of its points.
//!
//! `cargo run --release --example kmeans`, or on several peers: `hemiola run -n 2 -- target/release/examples/kmeans`

use hemiola::array::random::Values;
use hemiola::loops::Run;
use hemiola::prelude::*;

const CENTRES: usize = 8;
const WIDTH: usize = 4;

fn main() -> hemiola::Result<()> {
    hemiola::run(|cluster| {
        let points = made_up(cluster, 50_000)?;
        let means = Means::new(cluster, &points)?;
        for round in 1..=50 {
            let (spread, moved, _) = means.round(cluster, &points)?;
            let spread = (spread / points.shape().extent(0) as f64).sqrt();
            cluster.println(format_args!("round {round}: {spread:.4} from the centre, {moved} points moved"));
            if moved == 0 {
                break;
            }
        }
        for (centre, size) in means.sizes.collect()? {
            cluster.println(format_args!("centre {}: {size} points", centre[0]));
        }
        Ok(())
    })
}

type Matrix = DistArray<f32, 2>;

struct Means {
    centres: Matrix,
    /// By point: its centre.
    nearest: DistArray<u32, 1>,
    sums: Matrix,
    sizes: DistArray<u32, 1>,
}

impl Means {
    /// Starts at some of the points.
    fn new(cluster: &Cluster, points: &Matrix) -> hemiola::Result<Self> {
        let centres = cluster.zeros([CENTRES as u64, WIDTH as u64])?;
        let distance = points.shape().extent(0) as usize / CENTRES;
        parallel_for!(
            cluster,
            for c in 0..CENTRES {
                centres[c].copy_from_slice(&points[c * distance]);
            }
        )?;
        let nearest = cluster.from_fn([points.shape().extent(0)], |_| u32::MAX)?;
        let sums = cluster.zeros([CENTRES as u64, WIDTH as u64])?;
        Ok(Self { centres, nearest, sums, sizes: cluster.zeros([CENTRES as u64])? })
    }

    /// Assigns every point and moves every centre: the sum of squared distances, and how many points changed their centre.
    fn round(&self, cluster: &Cluster, points: &Matrix) -> hemiola::Result<(f64, u64, Run)> {
        let Self { centres, nearest, sums, sizes } = self;
        parallel_for!(
            cluster,
            for c in 0..CENTRES {
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
                for c in 0..CENTRES {
                    let distance = apart(point, &centres[c]);
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
            for c in 0..CENTRES {
                if sizes[c] > 0 {
                    for k in 0..WIDTH {
                        centres[[c, k]] = sums[[c, k]] / sizes[c] as f32;
                    }
                }
            }
        )?;
        Ok((spread.take()?, moved.take()?, assigning))
    }
}

/// The squared distance between two points.
fn apart(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// Points around eight places.
fn made_up(cluster: &Cluster, count: u64) -> hemiola::Result<Matrix> {
    let (places, noise) = (Values::new(1), Values::new(2));
    cluster.from_fn([count, WIDTH as u64], |[p, k]| {
        let place = places.unit(p * 7 % CENTRES as u64, k) * 10.0;
        noise.normal(p, k, place, 1.0) as f32
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola::loops::Plan;

    #[derive(Debug, PartialEq)]
    struct Twin {
        centres: Vec<f32>,
        nearest: Vec<u32>,
        sizes: Vec<u32>,
    }

    fn values<T: hemiola::array::Element, const N: usize>(array: &DistArray<T, N>) -> hemiola::Result<Vec<T>> {
        Ok(array.collect()?.into_iter().map(|(_, value)| value).collect())
    }

    impl Twin {
        fn of(means: &Means) -> hemiola::Result<Self> {
            let Means { centres, nearest, sizes, .. } = means;
            Ok(Self { centres: values(centres)?, nearest: values(nearest)?, sizes: values(sizes)? })
        }

        /// The same in plain Rust: every part adds up its points, and then the sums of the parts are added.
        fn round(&mut self, plan: &Plan, points: &[f32]) {
            let keys = (0..self.nearest.len() as u64).map(|p| ([p], ())).collect();
            let (mut sums, mut sizes) = (vec![0.0; self.centres.len()], vec![0; CENTRES]);
            for part in plan.in_steps(keys).into_iter().flatten() {
                let (mut part_sums, mut part_sizes) = (vec![0.0; self.centres.len()], vec![0; CENTRES]);
                for ([p], ()) in part {
                    let point = &points[p as usize * WIDTH..][..WIDTH];
                    let (mut best, mut least) = (0, f32::INFINITY);
                    for (c, centre) in self.centres.chunks_exact(WIDTH).enumerate() {
                        let distance = apart(point, centre);
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
                self.centres[at] = sum / sizes[at / WIDTH] as f32;
            }
            self.sizes = sizes;
        }
    }

    #[test]
    fn equals_the_serial_rounds_that_add_up_by_parts() {
        for (peers, workers) in (1..=3).flat_map(|peers| (1..=4).map(move |workers| (peers, workers))) {
            let program = |cluster: &Cluster| {
                let points = made_up(cluster, 2000)?;
                let means = Means::new(cluster, &points)?;
                let (mut twin, points_twin) = (Twin::of(&means)?, values(&points)?);
                for _ in 0..3 {
                    let (_, _, run) = means.round(cluster, &points)?;
                    assert_eq!(run.plan().cuts.parts(), peers * workers, "{}", run.plan());
                    if cluster.is_root() {
                        twin.round(run.plan(), &points_twin);
                    }
                }
                Ok(Twin::of(&means)? == twin)
            };
            let equal = hemiola::standalone(peers).workers(workers).run(program).expect("it runs");
            assert!(equal[0], "not the same bits on {peers} peers with {workers} workers");
        }
    }
}
