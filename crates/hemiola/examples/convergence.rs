//! What parallel training costs in quality: matrix factorization, serial and on eight workers in three ways.
//!
//! *Serial* is the plain loop over the ratings. *Dependence-aware* is the same loop under `parallel_for!`: it runs in another
//! order, but every step sees every step before it. *Data-parallel* divides the users, lets each worker go through their ratings
//! with a copy of the items' rows, and at the end of the pass adds up what all have changed, or takes the mean: workers do not
//! know of each other's steps while they make their own. All take steps of the same size. The sum is close as long as steps are
//! small, and diverges where serial steps of the same size do not; the mean is safe and slow.
//!
//! `cargo run --release --example convergence -- docs/convergence.svg` draws the picture in the guide to loops; without a path
//! it prints the numbers alone.

use hemiola::array::synthetic::mf::{MEAN, Mf};
use hemiola::prelude::*;
use hemiola_plot::{Axis, Chart, Labels, Line, Panel};

const RANK: usize = 8;
const STEP: f32 = 0.02;
const LAMBDA: f32 = 0.02;
const WORKERS: usize = 8;
const PASSES: usize = 20;

fn main() -> hemiola::Result<()> {
    let ratings = Ratings::made_up();
    let curves = curves(&ratings)?;
    hemiola::run(|cluster| {
        cluster.println(format_args!("training error per pass: {}", NAMES.join("; ")));
        for pass in 0..PASSES {
            let errors: Vec<String> = curves.iter().map(|errors| format!("{:.4}", errors[pass])).collect();
            cluster.println(format_args!("pass {:2}: {}", pass + 1, errors.join(" ")));
        }
        if let Some(path) = std::env::args().nth(1)
            && cluster.is_root()
        {
            std::fs::write(&path, picture(&curves)).map_err(|error| format!("cannot write `{path}`: {error}"))?;
        }
        Ok(())
    })
}

const NAMES: [&str; 4] = ["serial", "dependence-aware", "data-parallel, sum", "data-parallel, mean"];

type Matrix = DistArray<f32, 2>;

struct Ratings {
    shape: [u64; 2],
    entries: Vec<([u64; 2], f32)>,
}

impl Ratings {
    /// One rating in ten of a matrix of low rank, with noise, as deviations from the mean.
    fn made_up() -> Self {
        let shape = [400, 300];
        let ratings = Mf::new(shape[0], shape[1], 12_000, RANK as u64, 1).skew(0.0, 0.0);
        let entries = ratings.entries().map(|(key, rating)| (key, rating - MEAN as f32)).collect();
        Self { shape, entries }
    }

    fn on(&self, cluster: &Cluster) -> hemiola::Result<Matrix> {
        let mut cells = vec![f32::NAN; (self.shape[0] * self.shape[1]) as usize];
        self.entries.iter().for_each(|([u, i], rating)| cells[(u * self.shape[1] + i) as usize] = *rating);
        let all = cluster.from_fn(self.shape, |[u, i]| cells[(u * self.shape[1] + i) as usize])?;
        all.entries().filter(|_, rating| !rating.is_nan()).materialize()
    }

    /// The root of the mean squared error.
    fn error(&self, w: &[f32], h: &[f32]) -> f64 {
        let row = |cells: &[f32], at: u64| cells[at as usize * RANK..][..RANK].to_vec();
        let square = |([u, i], rating): &([u64; 2], f32)| f64::from(rating - dot(&row(w, *u), &row(h, *i))).powi(2);
        (self.entries.iter().map(square).sum::<f64>() / self.entries.len() as f64).sqrt()
    }
}

/// The error after each pass, in the order of [`NAMES`].
fn curves(ratings: &Ratings) -> hemiola::Result<[Vec<f64>; 4]> {
    let on_workers = |pass: &(dyn Fn(&Cluster, &Matrix, &Matrix, &Matrix) -> hemiola::Result<()> + Sync)| {
        let program = |cluster: &Cluster| {
            let entries = ratings.on(cluster)?;
            let [w, h] = start(cluster, ratings)?;
            let mut errors = Vec::new();
            for _ in 0..PASSES {
                pass(cluster, &entries, &w, &h)?;
                errors.push(ratings.error(&values(&w)?, &values(&h)?));
            }
            Ok(errors)
        };
        Ok::<_, hemiola::Error>(hemiola::standalone(1).workers(WORKERS).run(program)?.swap_remove(0))
    };
    let sum = |cluster: &Cluster, ratings: &_, w: &_, h: &_| data_parallel(cluster, ratings, w, h, 1.0);
    let mean =
        |cluster: &Cluster, ratings: &_, w: &_, h: &_| data_parallel(cluster, ratings, w, h, 1.0 / WORKERS as f32);
    Ok([serial(ratings)?, on_workers(&dependence_aware)?, on_workers(&sum)?, on_workers(&mean)?])
}

fn serial(ratings: &Ratings) -> hemiola::Result<Vec<f64>> {
    let program = |cluster: &Cluster| {
        let [w, h] = start(cluster, ratings)?;
        Ok((values(&w)?, values(&h)?))
    };
    let (mut w, mut h) = hemiola::standalone(1).run(program)?.swap_remove(0);
    let mut errors = Vec::new();
    for _ in 0..PASSES {
        for ([u, i], rating) in &ratings.entries {
            let (wu, hi) = (&mut w[*u as usize * RANK..][..RANK], &mut h[*i as usize * RANK..][..RANK]);
            let error = rating - dot(wu, hi);
            for k in 0..RANK {
                let (a, b) = (wu[k], hi[k]);
                wu[k] += STEP * (error * b - LAMBDA * a);
                hi[k] += STEP * (error * a - LAMBDA * b);
            }
        }
        errors.push(ratings.error(&w, &h));
    }
    Ok(errors)
}

fn dependence_aware(cluster: &Cluster, ratings: &Matrix, w: &Matrix, h: &Matrix) -> hemiola::Result<()> {
    let run = parallel_for!(
        cluster,
        for ([u, i], rating) in ratings {
            let (wu, hi) = (&mut w[u], &mut h[i]);
            let error = rating - dot(wu, hi);
            for k in 0..RANK {
                let (a, b) = (wu[k], hi[k]);
                wu[k] += STEP * (error * b - LAMBDA * a);
                hi[k] += STEP * (error * a - LAMBDA * b);
            }
        }
    )?;
    assert_eq!(run.plan().cuts.parts(), WORKERS, "all workers take part");
    Ok(())
}

/// What a worker changes in the rows of items counts by `share`.
fn data_parallel(cluster: &Cluster, ratings: &Matrix, w: &Matrix, h: &Matrix, share: f32) -> hemiola::Result<()> {
    let w_changes = w.buffered(|cell, change: f32| *cell += change);
    let h_changes = h.buffered(|cell, change: f32| *cell += share * change);
    let run = parallel_for!(
        cluster,
        for ([u, i], rating) in ratings {
            // A worker sees its own changes.
            let wu: [f32; RANK] = std::array::from_fn(|k| w[u][k] + w_changes[u][k]);
            let hi: [f32; RANK] = std::array::from_fn(|k| h[i][k] + h_changes[i][k]);
            let error = rating - dot(&wu, &hi);
            for k in 0..RANK {
                w_changes[u][k] += STEP * (error * hi[k] - LAMBDA * wu[k]);
                h_changes[i][k] += STEP * (error * wu[k] - LAMBDA * hi[k]);
            }
        }
    )?;
    let by_users = run.plan().dimensions == (0, None) && run.plan().cuts.parts() == WORKERS;
    assert!(by_users, "all workers take part, each with users of its own");
    Ok(())
}

fn start(cluster: &Cluster, ratings: &Ratings) -> hemiola::Result<[Matrix; 2]> {
    let matrix = |rows, seed| cluster.uniform([rows, RANK as u64], -0.6..0.6, seed);
    Ok([matrix(ratings.shape[0], 1)?, matrix(ratings.shape[1], 2)?])
}

fn values(array: &Matrix) -> hemiola::Result<Vec<f32>> {
    Ok(array.collect()?.into_iter().map(|(_, value)| value).collect())
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The curves as an SVG.
fn picture(curves: &[Vec<f64>; 4]) -> String {
    let mut panel =
        Panel::new(Axis::new("pass").whole(), Axis::new("error on the training ratings (rmse)").from_zero());
    for (name, errors) in NAMES.iter().zip(curves) {
        panel = panel.line(Line::new(name, (1..).map(f64::from).zip(errors).map(|(pass, error)| [pass, *error])));
    }
    Chart::new().panel(panel).labels(Labels::Ends).picture().svg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependence_aware_training_keeps_up_with_serial_and_data_parallel_does_not() {
        let [serial, aware, sum, mean] = curves(&Ratings::made_up()).expect("it runs");
        for pass in 0..PASSES {
            let ratio = aware[pass] / serial[pass];
            assert!((ratio - 1.0).abs() < 0.01, "after pass {}: {ratio} of the serial error", pass + 1);
        }
        let last = serial[PASSES - 1];
        assert!(last < 0.7 * serial[0], "serial training learns");
        assert!(sum[PASSES - 1] > 1.01 * last && mean[PASSES - 1] > 1.3 * last, "{sum:?} {mean:?} {serial:?}");
    }
}
