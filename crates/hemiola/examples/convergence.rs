//! Convergence of serial, dependence-aware and data-parallel matrix factorization on eight workers.
//!
//! - *Serial* is the plain SGD loop over the ratings.
//! - *Dependence-aware* is the same loop under `parallel_for!`. It runs in another order, but every
//!   SGD step sees the result of every step before it.
//! - *Data-parallel* divides the users. Each worker processes their ratings with a private copy of
//!   the item rows. At the end of the epoch the changes of all workers are summed or averaged, so a
//!   worker does not see the steps that the others take in the meantime.
//!
//! All variants use the same learning rate. The sum converges like the serial loop for small
//! learning rates, and diverges at rates where the serial loop does not. The mean is safe and slow.
//!
//! `cargo run --release --example convergence -- docs/convergence.svg` draws the picture in the
//! guide to loops. Without a path the example only prints the training errors.

use hemiola::array::synthetic::mf::{MEAN_RATING, SyntheticMf};
use hemiola::prelude::*;
use hemiola_plot::{Chart, ChartAxis, ChartLine, ChartPanel, LegendPlacement};

const RANK: usize = 8;
const LEARNING_RATE: f32 = 0.02;
const LAMBDA: f32 = 0.02;
const WORKERS: usize = 8;
const EPOCHS: usize = 20;

fn main() -> hemiola::Result<()> {
    let ratings = Ratings::synthetic();
    let curves = curves(&ratings)?;
    hemiola::run(|cluster| {
        cluster.println(format_args!("training error per epoch: {}", NAMES.join("; ")));
        for epoch in 0..EPOCHS {
            let errors: Vec<String> = curves.iter().map(|errors| format!("{:.4}", errors[epoch])).collect();
            cluster.println(format_args!("epoch {:2}: {}", epoch + 1, errors.join(" ")));
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
    /// Synthetic ratings: one entry in ten of a noisy low-rank matrix, minus the mean rating.
    fn synthetic() -> Self {
        let shape = [400, 300];
        let ratings = SyntheticMf::new(shape[0], shape[1], 12_000, RANK as u64, 1).skew(0.0, 0.0);
        let entries = ratings.entries().map(|(key, rating)| (key, rating - MEAN_RATING as f32)).collect();
        Self { shape, entries }
    }

    fn on(&self, cluster: &Cluster) -> hemiola::Result<Matrix> {
        let mut cells = vec![f32::NAN; (self.shape[0] * self.shape[1]) as usize];
        self.entries.iter().for_each(|([u, i], rating)| cells[(u * self.shape[1] + i) as usize] = *rating);
        let all = cluster.from_fn(self.shape, |[u, i]| cells[(u * self.shape[1] + i) as usize])?;
        all.entries().filter(|_, rating| !rating.is_nan()).materialize()
    }

    /// Root mean squared error (RMSE) of the factors `w` and `h`.
    fn error(&self, w: &[f32], h: &[f32]) -> f64 {
        let row = |cells: &[f32], at: u64| cells[at as usize * RANK..][..RANK].to_vec();
        let square = |([u, i], rating): &([u64; 2], f32)| f64::from(rating - dot(&row(w, *u), &row(h, *i))).powi(2);
        (self.entries.iter().map(square).sum::<f64>() / self.entries.len() as f64).sqrt()
    }
}

/// Learning curves: the RMSE after each epoch, in the order of [`NAMES`].
fn curves(ratings: &Ratings) -> hemiola::Result<[Vec<f64>; 4]> {
    let on_workers = |run_epoch: &(dyn Fn(&Cluster, &Matrix, &Matrix, &Matrix) -> hemiola::Result<()> + Sync)| {
        let program = |cluster: &Cluster| {
            let entries = ratings.on(cluster)?;
            let [w, h] = start(cluster, ratings)?;
            let mut errors = Vec::new();
            for _ in 0..EPOCHS {
                run_epoch(cluster, &entries, &w, &h)?;
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
    for _ in 0..EPOCHS {
        for ([u, i], rating) in &ratings.entries {
            let (wu, hi) = (&mut w[*u as usize * RANK..][..RANK], &mut h[*i as usize * RANK..][..RANK]);
            let error = rating - dot(wu, hi);
            for k in 0..RANK {
                let (a, b) = (wu[k], hi[k]);
                wu[k] += LEARNING_RATE * (error * b - LAMBDA * a);
                hi[k] += LEARNING_RATE * (error * a - LAMBDA * b);
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
                wu[k] += LEARNING_RATE * (error * b - LAMBDA * a);
                hi[k] += LEARNING_RATE * (error * a - LAMBDA * b);
            }
        }
    )?;
    assert_eq!(run.plan().cuts.parts(), WORKERS, "all workers take part");
    Ok(())
}

/// One data-parallel epoch. Changes of the item rows are scaled by `share` before they are added.
fn data_parallel(cluster: &Cluster, ratings: &Matrix, w: &Matrix, h: &Matrix, share: f32) -> hemiola::Result<()> {
    let w_changes = w.buffered(|cell, change: f32| *cell += change);
    let h_changes = h.buffered(|cell, change: f32| *cell += share * change);
    let run = parallel_for!(
        cluster,
        for ([u, i], rating) in ratings {
            // Each worker sees its own pending changes.
            let wu: [f32; RANK] = std::array::from_fn(|k| w[u][k] + w_changes[u][k]);
            let hi: [f32; RANK] = std::array::from_fn(|k| h[i][k] + h_changes[i][k]);
            let error = rating - dot(&wu, &hi);
            for k in 0..RANK {
                w_changes[u][k] += LEARNING_RATE * (error * hi[k] - LAMBDA * wu[k]);
                h_changes[i][k] += LEARNING_RATE * (error * wu[k] - LAMBDA * hi[k]);
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

/// Learning curves as an SVG.
fn picture(curves: &[Vec<f64>; 4]) -> String {
    let mut panel =
        ChartPanel::new(ChartAxis::new("epoch").integer_ticks(), ChartAxis::new("training error (RMSE)").from_zero());
    for (name, errors) in NAMES.iter().zip(curves) {
        panel =
            panel.line(ChartLine::new(name, (1..).map(f64::from).zip(errors).map(|(epoch, error)| [epoch, *error])));
    }
    Chart::new().panel(panel).labels(LegendPlacement::LineEnds).picture().svg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependence_aware_training_keeps_up_with_serial_and_data_parallel_does_not() {
        let [serial, aware, sum, mean] = curves(&Ratings::synthetic()).expect("it runs");
        for epoch in 0..EPOCHS {
            let ratio = aware[epoch] / serial[epoch];
            assert!((ratio - 1.0).abs() < 0.01, "after epoch {}: {ratio} of the serial error", epoch + 1);
        }
        let last = serial[EPOCHS - 1];
        assert!(last < 0.7 * serial[0], "serial training learns");
        assert!(sum[EPOCHS - 1] > 1.01 * last && mean[EPOCHS - 1] > 1.3 * last, "{sum:?} {mean:?} {serial:?}");
    }
}
