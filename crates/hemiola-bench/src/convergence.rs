//! `hemiola bench convergence`: serial, dependence-aware and data-parallel matrix factorization.
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

use crate::benchmark::Benchmark;
use anyhow::Context as _;
use clap::Args;
use hemiola::array::synthetic::mf::{MEAN_RATING, SyntheticMf};
use hemiola::core::Seed;
use hemiola::prelude::*;
use hemiola_plot::{Chart, ChartAxis, ChartLine, ChartPanel, LegendPlacement};
use serde::Serialize;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const RANK: usize = 8;
const LEARNING_RATE: f32 = 0.02;
const LAMBDA: f32 = 0.02;
const WORKERS: usize = 8;
const EPOCHS: usize = 20;

const AFTER_HELP: &str = "\
Example:
  hemiola bench convergence --plot docs/pictures/convergence.svg

The report holds \"curves\", one for each method: \"name\" and \"rmse\", the training error after each epoch.";

/// Arguments of `hemiola bench convergence`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct ConvergenceBench {
    /// Draw the learning curves as SVG into FILE.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    /// Write the results as JSON to FILE (`-`: standard output).
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// Learning curves of all methods, in the order of [`NAMES`].
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ConvergenceMeasurement {
    curves: Vec<TrainingCurve>,
}

/// Root mean squared error after each epoch of one method.
#[derive(Clone, Debug, Serialize)]
struct TrainingCurve {
    name: &'static str,
    rmse: Vec<f64>,
}

impl Benchmark for ConvergenceBench {
    type Measurement = ConvergenceMeasurement;

    fn report(&self) -> Option<&Path> {
        self.report.as_deref()
    }

    fn measure(&self) -> anyhow::Result<Option<Self::Measurement>> {
        let curves = curves(&Ratings::synthetic())?;
        if let Some(path) = &self.plot {
            std::fs::write(path, picture(&curves)).with_context(|| format!("cannot write `{}`", path.display()))?;
        }
        let curves = NAMES.into_iter().zip(curves).map(|(name, rmse)| TrainingCurve { name, rmse }).collect();
        Ok(Some(ConvergenceMeasurement { curves }))
    }

    fn print(measured: &Self::Measurement, out: &mut dyn Write) -> io::Result<()> {
        let names: Vec<&str> = measured.curves.iter().map(|curve| curve.name).collect();
        writeln!(out, "training error per epoch: {}", names.join("; "))?;
        for epoch in 0..EPOCHS {
            let errors: Vec<String> = measured.curves.iter().map(|curve| format!("{:.4}", curve.rmse[epoch])).collect();
            writeln!(out, "epoch {:2}: {}", epoch + 1, errors.join(" "))?;
        }
        Ok(())
    }
}

const NAMES: [&str; 4] = ["serial", "dependence-aware", "data-parallel, sum", "data-parallel, mean"];

type Matrix = DistArray<f32, 2>;

struct Ratings {
    shape: [usize; 2],
    entries: Vec<([usize; 2], f32)>,
}

impl Ratings {
    /// Synthetic ratings: one entry in ten of a noisy low-rank matrix, minus the mean rating.
    fn synthetic() -> Self {
        let (users, items) = (400, 300);
        let ratings = SyntheticMf {
            users,
            items,
            entries: 12_000,
            rank: RANK,
            user_skew: 0.0,
            item_skew: 0.0,
            seed: 1,
            ..SyntheticMf::default()
        };
        let entries = ratings.generator().entries().map(|(key, rating)| (key, rating - MEAN_RATING as f32)).collect();
        Self { shape: [users, items], entries }
    }

    fn on(&self, cluster: &Cluster) -> hemiola_cluster::Result<Matrix> {
        let mut cells = vec![f32::NAN; self.shape[0] * self.shape[1]];
        self.entries.iter().for_each(|([u, i], rating)| cells[u * self.shape[1] + i] = *rating);
        let all = cluster.from_fn(self.shape, |[u, i]| cells[u * self.shape[1] + i])?;
        all.entries().filter(|_, rating| !rating.is_nan()).materialize()
    }

    /// Root mean squared error (RMSE) of the factors `w` and `h`.
    fn error(&self, w: &[f32], h: &[f32]) -> f64 {
        let row = |cells: &[f32], at: usize| cells[at * RANK..][..RANK].to_vec();
        let square = |([u, i], rating): &([usize; 2], f32)| f64::from(rating - dot(&row(w, *u), &row(h, *i))).powi(2);
        (self.entries.iter().map(square).sum::<f64>() / self.entries.len() as f64).sqrt()
    }
}

/// One epoch over the ratings, which changes both factors.
type EpochFn = dyn Fn(&Cluster, &Matrix, &mut Matrix, &mut Matrix) -> hemiola_cluster::Result<()> + Sync;

/// Learning curves: the RMSE after each epoch, in the order of [`NAMES`].
fn curves(ratings: &Ratings) -> hemiola_cluster::Result<[Vec<f64>; 4]> {
    let on_workers = |run_epoch: &EpochFn| {
        let program = |cluster: &Cluster| {
            let entries = ratings.on(cluster)?;
            let [mut w, mut h] = start(cluster, ratings)?;
            let mut errors = Vec::new();
            for _ in 0..EPOCHS {
                run_epoch(cluster, &entries, &mut w, &mut h)?;
                errors.push(ratings.error(&values(&w)?, &values(&h)?));
            }
            Ok(errors)
        };
        Ok::<_, hemiola_cluster::Error>(hemiola_cluster::standalone(1).workers(WORKERS).run(program)?.swap_remove(0))
    };
    let sum = |cluster: &Cluster, ratings: &Matrix, w: &mut Matrix, h: &mut Matrix| {
        data_parallel(cluster, ratings, w, h, 1.0)
    };
    let mean = |cluster: &Cluster, ratings: &Matrix, w: &mut Matrix, h: &mut Matrix| {
        data_parallel(cluster, ratings, w, h, 1.0 / WORKERS as f32)
    };
    Ok([serial(ratings)?, on_workers(&dependence_aware)?, on_workers(&sum)?, on_workers(&mean)?])
}

fn serial(ratings: &Ratings) -> hemiola_cluster::Result<Vec<f64>> {
    let program = |cluster: &Cluster| {
        let [w, h] = start(cluster, ratings)?;
        Ok((values(&w)?, values(&h)?))
    };
    let (mut w, mut h) = hemiola_cluster::standalone(1).run(program)?.swap_remove(0);
    let mut errors = Vec::new();
    for _ in 0..EPOCHS {
        for ([u, i], rating) in &ratings.entries {
            let (wu, hi) = (&mut w[*u * RANK..][..RANK], &mut h[*i * RANK..][..RANK]);
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

fn dependence_aware(
    cluster: &Cluster,
    ratings: &Matrix,
    w: &mut Matrix,
    h: &mut Matrix,
) -> hemiola_cluster::Result<()> {
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
fn data_parallel(
    cluster: &Cluster,
    ratings: &Matrix,
    w: &Matrix,
    h: &Matrix,
    share: f32,
) -> hemiola_cluster::Result<()> {
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

fn start(cluster: &Cluster, ratings: &Ratings) -> hemiola_cluster::Result<[Matrix; 2]> {
    let matrix = |rows, seed| cluster.uniform([rows, RANK], -0.6..0.6, Seed(seed));
    Ok([matrix(ratings.shape[0], 1)?, matrix(ratings.shape[1], 2)?])
}

fn values(array: &Matrix) -> hemiola_cluster::Result<Vec<f32>> {
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
