//! Matrix factorization: the parallel loop beside the loop written by hand.

use super::timed;
use hemiola::parallel_for;
use hemiola_array::read::Csv;
use hemiola_array::sparse::DuplicatePolicy;
use hemiola_array::{AccumulatorExt, ArrayExt, DistArray, PartitionSpec, ReadExt};
use hemiola_cluster::{Cluster, Result};
use hemiola_core::Seed;
use hemiola_core::rng::PhiloxRng;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

const RANK: usize = 32;
const STEP: f32 = 0.01;
const LAMBDA: f32 = 0.02;

/// Source of the ratings.
pub(super) enum RatingSource {
    /// 50,000 users and 10,000 items.
    Synthetic { ratings: u64 },
    /// Tab-separated user, item, rating.
    File(PathBuf),
}

/// Ratings of MovieLens-1M, if the data folder has them.
pub(super) fn movielens(data: Option<PathBuf>) -> Option<PathBuf> {
    data.map(|data| data.join("movielens-1m/ratings.tsv.zst")).filter(|file| file.exists())
}

/// Results in the units of the report.
#[derive(Clone, Debug, Serialize)]
pub(super) struct MfMeasurement {
    pub(super) serial_entries_per_second: f64,
    pub(super) overhead: f64,
    pub(super) speedup_workers2: f64,
    pub(super) speedup_peers2: f64,
    pub(super) plan_fraction: f64,
}

/// Best times in one process.
pub(super) struct OneProcessTimes {
    entries: u64,
    serial: Duration,
    one_worker: Duration,
    two_workers: Duration,
    planning: Duration,
}

/// Best times in two processes.
pub(super) struct TwoProcessTimes {
    serial: Duration,
    two_peers: Duration,
}

impl OneProcessTimes {
    pub(super) fn with(&self, paired: &TwoProcessTimes) -> MfMeasurement {
        let ratio = |a: Duration, b: Duration| a.as_secs_f64() / b.as_secs_f64();
        MfMeasurement {
            serial_entries_per_second: self.entries as f64 / self.serial.as_secs_f64(),
            overhead: ratio(self.one_worker, self.serial),
            speedup_workers2: ratio(self.serial, self.two_workers),
            speedup_peers2: ratio(paired.serial, paired.two_peers),
            plan_fraction: ratio(self.planning, self.one_worker),
        }
    }
}

fn load(cluster: &Cluster, source: &RatingSource) -> Result<DistArray<f32, 2>> {
    match source {
        RatingSource::Synthetic { ratings } => {
            let values = PhiloxRng::new(1);
            let line = cluster.from_fn([*ratings as usize], |[at]| values.uniform_f32(at as u64, 3, 1.0..5.0))?;
            let key = |at: usize, draw, bound| values.random_below(at as u64, draw, bound) as usize;
            let keys = line.entries().map_keys(|[at]| [key(at, 1, 50_000), key(at, 2, 10_000)]);
            keys.materialize_as(&PartitionSpec::default(), DuplicatePolicy::Last)
        }
        RatingSource::File(file) => {
            let name = file.to_str().ok_or("the path is not UTF-8")?;
            let csv = Csv::new().separator("\t");
            let lazy =
                cluster.read_csv_with(csv, name, |(user, item, rating): (usize, usize, f32)| ([user, item], rating))?;
            lazy.materialize()
        }
    }
}

/// One step of stochastic gradient descent, shared by all loops.
#[inline]
fn step(wu: &mut [f32], hi: &mut [f32], rating: f32) -> f32 {
    // Eight partial sums: a single one would serialize the additions.
    let mut sums = [0.0_f32; 8];
    for (a, b) in wu.as_chunks::<8>().0.iter().zip(hi.as_chunks::<8>().0) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    let error = rating - sums.iter().sum::<f32>();
    for (a, b) in wu.iter_mut().zip(hi) {
        (*a, *b) = (*a + STEP * (error * *b - LAMBDA * *a), *b + STEP * (error * *a - LAMBDA * *b));
    }
    error
}

/// Model and loop of the parallel program.
struct ParallelMf {
    ratings: DistArray<f32, 2>,
    w: DistArray<f32, 2>,
    h: DistArray<f32, 2>,
}

impl ParallelMf {
    fn new(cluster: &Cluster, source: &RatingSource) -> Result<Self> {
        let ratings = load(cluster, source)?;
        let [users, items] = ratings.shape().extents();
        let w = cluster.uniform([users, RANK], 0.0..0.1, Seed(1))?;
        let h = cluster.uniform([items, RANK], 0.0..0.1, Seed(2))?;
        Ok(Self { ratings, w, h })
    }

    /// Runs one epoch and returns the time of planning.
    fn pass(&mut self, cluster: &Cluster) -> Result<Duration> {
        let loss = cluster.accumulator::<f64>();
        let Self { ratings, w, h } = self;
        let run = parallel_for!(
            cluster,
            for ([u, i], rating) in ratings {
                let error = step(&mut w[u], &mut h[i], *rating);
                loss += f64::from(error * error);
            }
        )?;
        std::hint::black_box(loss.take()?);
        Ok(run.times().planning)
    }
}

/// Hand-written program: ratings in columns, factors in flat vectors.
struct SerialMf {
    users: Vec<u32>,
    items: Vec<u32>,
    ratings: Vec<f32>,
    w: Vec<f32>,
    h: Vec<f32>,
}

impl SerialMf {
    fn new(cluster: &Cluster, ratings: &DistArray<f32, 2>) -> Result<Self> {
        let [users, items] = ratings.shape().extents();
        let entries = ratings.collect()?;
        let values = PhiloxRng::new(7);
        let factor =
            |rows: usize, draw| (0..(rows * RANK) as u64).map(|at| values.uniform_f32(at, draw, 0.0..0.1)).collect();
        let _ = cluster;
        Ok(Self {
            users: entries.iter().map(|([user, _], _)| *user as u32).collect(),
            items: entries.iter().map(|([_, item], _)| *item as u32).collect(),
            ratings: entries.iter().map(|(_, rating)| *rating).collect(),
            w: factor(users, 0),
            h: factor(items, 1),
        })
    }

    fn pass(&mut self) {
        let mut loss = 0.0;
        for ((&user, &item), &rating) in self.users.iter().zip(&self.items).zip(&self.ratings) {
            let wu = &mut self.w[user as usize * RANK..][..RANK];
            let hi = &mut self.h[item as usize * RANK..][..RANK];
            let error = step(wu, hi, rating);
            loss += f64::from(error * error);
        }
        std::hint::black_box(loss);
    }
}

/// Times of the serial loop, one worker and two workers in this process.
pub(super) fn local(source: &RatingSource, rounds: u32) -> Result<OneProcessTimes> {
    Cluster::builder().workers(1).run(|one| {
        Cluster::builder().workers(2).run(|two| {
            let (mut first, mut second) = (ParallelMf::new(one, source)?, ParallelMf::new(two, source)?);
            let mut by_hand = SerialMf::new(one, &first.ratings)?;
            let longest = Duration::MAX;
            let entries = first.ratings.len() as u64;
            let mut best = OneProcessTimes {
                entries,
                serial: longest,
                one_worker: longest,
                two_workers: longest,
                planning: longest,
            };
            // The first round arranges entries and arrays, and does not count.
            for round in 0..=rounds {
                let ((), serial) = timed(one, || {
                    by_hand.pass();
                    Ok(())
                })?;
                let (planning, one_worker) = timed(one, || first.pass(one))?;
                let (_, two_workers) = timed(two, || second.pass(two))?;
                if round > 0 {
                    best.serial = best.serial.min(serial);
                    best.one_worker = best.one_worker.min(one_worker);
                    best.two_workers = best.two_workers.min(two_workers);
                    best.planning = best.planning.min(planning);
                }
            }
            Ok::<_, hemiola_cluster::Error>(best)
        })
    })
}

/// Times of the serial loop on peer 0 while the other idles, and of both peers together.
pub(super) fn paired(cluster: &Cluster, source: &RatingSource, rounds: u32) -> Result<TwoProcessTimes> {
    let mut model = ParallelMf::new(cluster, source)?;
    let mut by_hand = SerialMf::new(cluster, &model.ratings)?;
    let mut best = TwoProcessTimes { serial: Duration::MAX, two_peers: Duration::MAX };
    for round in 0..=rounds {
        cluster.barrier()?;
        let serial = if cluster.is_root() {
            timed(cluster, || {
                by_hand.pass();
                Ok(())
            })?
            .1
        } else {
            Duration::MAX
        };
        cluster.barrier()?;
        let (_, together) = timed(cluster, || model.pass(cluster))?;
        if round > 0 {
            best.serial = best.serial.min(serial);
            best.two_peers = best.two_peers.min(together);
        }
    }
    Ok(best)
}
