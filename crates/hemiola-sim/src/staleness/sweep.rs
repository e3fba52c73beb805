//! Grid of trainings: every staleness with every number of workers, for several seeds.

use super::delay::DelayDistribution;
use super::learner::StudyModel;
use super::optimizer::StudyOptimizer;
use super::training::{DelayedTraining, LearningCurve};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Settings of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StalenessSweep {
    /// Model of all trainings.
    pub model: StudyModel,
    /// Optimizer of all trainings.
    pub optimizer: StudyOptimizer,
    /// Distribution of update delays.
    pub delay: DelayDistribution,
    /// Staleness values of the grid, in iterations.
    pub staleness: Vec<u32>,
    /// Numbers of workers of the grid.
    pub workers: Vec<usize>,
    /// Learning rates to try; the fastest on average counts, as in the study. If empty, the default
    /// of the model.
    pub learning_rates: Vec<f32>,
    /// Random seeds, one training each.
    pub seeds: Vec<u64>,
    /// Target of the metric; `None` for the default of the model.
    pub target: Option<f64>,
    /// Number of batches after which a training stops.
    pub max_batches: u64,
    /// Trainings continue after the target, so that their learning curves are complete.
    pub run_to_end: bool,
}

/// Results for one staleness and one number of workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepCell {
    /// Staleness of the cell, in iterations.
    pub staleness: u32,
    /// Number of workers of the cell.
    pub workers: usize,
    /// Learning rate with the fastest convergence.
    pub learning_rate: f32,
    /// Batches to the target by seed; `None` if it was not reached.
    pub reached: Vec<Option<u64>>,
    /// Learning curves by seed.
    pub curves: Vec<LearningCurve>,
}

impl SweepCell {
    /// Mean and standard deviation of the batches to the target; `None` unless all seeds reached
    /// it.
    #[must_use]
    pub fn batches(&self) -> Option<(f64, f64)> {
        let all: Vec<f64> =
            self.reached.iter().map(|reached| reached.map(|batches| batches as f64)).collect::<Option<_>>()?;
        Some(mean_and_deviation(&all))
    }

    /// Mean and standard deviation of the final metric.
    #[must_use]
    pub fn last(&self) -> (f64, f64) {
        mean_and_deviation(&self.curves.iter().map(LearningCurve::last).collect::<Vec<_>>())
    }

    /// Batches, mean and standard deviation of the metric over all seeds that have come so far.
    #[must_use]
    pub fn mean_curve(&self) -> Vec<(u64, f64, f64)> {
        let longest = self.curves.iter().map(|curve| curve.points.len()).max().unwrap_or(0);
        (0..longest)
            .filter_map(|at| {
                let here: Vec<(u64, f64)> =
                    self.curves.iter().filter_map(|curve| curve.points.get(at).copied()).collect();
                let (mean, deviation) =
                    mean_and_deviation(&here.iter().map(|(_, quality)| *quality).collect::<Vec<_>>());
                Some((here.first()?.0, mean, deviation))
            })
            .collect()
    }
}

fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let spread = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (mean, if values.len() > 1 { (spread / (count - 1.0)).sqrt() } else { 0.0 })
}

impl StalenessSweep {
    /// Runs all trainings on all cores. `progress` is called with the number of finished trainings
    /// and their total. Cells are ordered by workers, then by staleness.
    ///
    /// # Panics
    /// If a training panics.
    #[must_use]
    pub fn run(&self, progress: impl Fn(usize, usize) + Sync) -> Vec<SweepCell> {
        let usual = [self.model.learning_rate(self.optimizer)];
        let rates = if self.learning_rates.is_empty() { &usual[..] } else { &self.learning_rates };
        let mut trainings = Vec::new();
        for &workers in &self.workers {
            for &staleness in &self.staleness {
                for &rate in rates {
                    for &seed in &self.seeds {
                        let training = DelayedTraining::new(self.model, self.optimizer, staleness, workers, seed);
                        let target = self.target.or(training.target).filter(|_| !self.run_to_end);
                        let (delay, max_batches) = (self.delay, self.max_batches);
                        trainings.push(DelayedTraining { learning_rate: rate, delay, target, max_batches, ..training });
                    }
                }
            }
        }
        let next = AtomicUsize::new(0);
        let over = AtomicUsize::new(0);
        let curves: Mutex<Vec<Option<LearningCurve>>> = Mutex::new(vec![None; trainings.len()]);
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some((number, training)) = {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        trainings.get(number).map(|training| (number, training))
                    } {
                        let curve = training.run();
                        curves.lock().expect("no thread panics while it holds this")[number] = Some(curve);
                        progress(over.fetch_add(1, Ordering::Relaxed) + 1, trainings.len());
                    }
                });
            }
        });
        let curves: Vec<LearningCurve> =
            curves.into_inner().expect("no thread panics while it holds this").into_iter().flatten().collect();
        self.gather(rates, &trainings, &curves)
    }

    /// Groups trainings by staleness and workers, and selects the fastest learning rate.
    fn gather(&self, rates: &[f32], trainings: &[DelayedTraining], curves: &[LearningCurve]) -> Vec<SweepCell> {
        let target = self.target.unwrap_or_else(|| self.model.target());
        let reached = |curve: &LearningCurve| {
            let good = |quality: f64| if self.model.lower_is_better() { quality <= target } else { quality >= target };
            curve.points.iter().find(|(_, quality)| good(*quality)).map(|(batches, _)| *batches)
        };
        let group = rates.len() * self.seeds.len();
        let cell = |(of, curves): (&[DelayedTraining], &[LearningCurve])| {
            let of_rate = of.chunks(self.seeds.len()).zip(curves.chunks(self.seeds.len()));
            let cells = of_rate.map(|(of, curves)| SweepCell {
                staleness: of[0].staleness,
                workers: of[0].workers,
                learning_rate: of[0].learning_rate,
                reached: curves.iter().map(reached).collect(),
                curves: curves.to_vec(),
            });
            // A training that does not reach the target counts as slower than any that does.
            let takes = |cell: &SweepCell| {
                let late = 10 * self.max_batches;
                cell.reached.iter().map(|reached| reached.unwrap_or(late)).sum::<u64>()
            };
            cells.min_by_key(takes)
        };
        trainings.chunks(group).zip(curves.chunks(group)).filter_map(cell).collect()
    }
}

/// Formats one line per cell: batches to the target with standard deviation, slowdown, and the
/// final metric.
#[must_use]
pub fn to_csv(sweep: &StalenessSweep, cells: &[SweepCell]) -> String {
    let mut text = String::from(
        "model,optimizer,delay,workers,staleness,learning_rate,seeds,reached,batches,batches_deviation,slowdown,quality,quality_deviation\n",
    );
    for cell in cells {
        let (quality, deviation) = cell.last();
        let reached = cell.reached.iter().flatten().count();
        let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value}"));
        let delay = match sweep.delay {
            DelayDistribution::Uniform => "uniform",
            DelayDistribution::Geometric => "geometric",
        };
        let optimizer = if sweep.model.has_gradients() { sweep.optimizer.name() } else { "gibbs" };
        let _ = writeln!(
            text,
            "{},{optimizer},{delay},{},{},{},{},{reached},{},{},{},{quality},{deviation}",
            sweep.model.name(),
            cell.workers,
            cell.staleness,
            cell.learning_rate,
            cell.reached.len(),
            number(cell.batches().map(|(mean, _)| mean)),
            number(cell.batches().map(|(_, deviation)| deviation)),
            number(slowdown(cells, cell)),
        );
    }
    text
}

/// Ratio of the batches to the target to those with the least staleness and the same workers, if
/// both reach it.
#[must_use]
pub fn slowdown(cells: &[SweepCell], cell: &SweepCell) -> Option<f64> {
    let same = cells.iter().filter(|other| other.workers == cell.workers);
    let least = same.min_by_key(|other| other.staleness)?;
    Some(cell.batches()?.0 / least.batches()?.0)
}
