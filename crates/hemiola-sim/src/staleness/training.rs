//! One training with update delays.

use super::delay::DelayDistribution;
use super::learner::{LearnerSettings, ModelUpdate, StudyLearner, StudyModel};
use super::optimizer::StudyOptimizer;
use crate::sampling;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::rc::Rc;

/// Settings of a training.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DelayedTraining {
    /// Model that is trained.
    pub model: StudyModel,
    /// Optimizer of all workers.
    pub optimizer: StudyOptimizer,
    /// Learning rate of the optimizer.
    pub learning_rate: f32,
    /// Staleness: parameter of the delay distribution, in iterations.
    pub staleness: u32,
    /// Distribution of update delays.
    pub delay: DelayDistribution,
    /// Number of workers, at least one.
    pub workers: usize,
    /// Random seed of data, batches and delays.
    pub seed: u64,
    /// Target of the metric, at which training stops; `None` trains for all batches.
    pub target: Option<f64>,
    /// Number of batches of all workers after which training stops.
    pub max_batches: u64,
}

/// Learning curve of a training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LearningCurve {
    /// Batches of all workers, and the metric at that point.
    pub points: Vec<(u64, f64)>,
    /// Batches to the target, if it was reached.
    pub reached: Option<u64>,
}

/// Minimum number of evaluations of the metric in a training.
const MIN_EVALUATIONS: u64 = 200;

impl DelayedTraining {
    /// Creates a training with the default learning rate and target of its model.
    #[must_use]
    pub fn new(model: StudyModel, optimizer: StudyOptimizer, staleness: u32, workers: usize, seed: u64) -> Self {
        Self {
            model,
            optimizer,
            learning_rate: model.learning_rate(optimizer),
            staleness,
            delay: DelayDistribution::Uniform,
            workers,
            seed,
            target: Some(model.target()),
            max_batches: 8000,
        }
    }

    /// Runs the training.
    ///
    /// # Panics
    /// If there is no worker.
    #[must_use]
    pub fn run(&self) -> LearningCurve {
        assert!(self.workers > 0, "at least one worker");
        let settings = LearnerSettings {
            seed: self.seed,
            workers: self.workers,
            optimizer: self.optimizer,
            learning_rate: self.learning_rate,
        };
        let mut learner = self.model.learner(&settings);
        self.train(&mut *learner)
    }

    fn train(&self, learner: &mut dyn StudyLearner) -> LearningCurve {
        let mut copies = vec![learner.initial(); self.workers];
        let mut random = sampling::generator(self.seed, 0x5eed);
        // Updates in flight by remaining iterations, with their receivers.
        let ahead = self.delay.max_delay(self.staleness) as usize + 1;
        let mut arriving: VecDeque<Vec<(usize, Rc<ModelUpdate>)>> = (0..=ahead).map(|_| Vec::new()).collect();
        let workers = self.workers as u64;
        let every = (self.max_batches / workers / MIN_EVALUATIONS).clamp(1, 4);
        let mut points = vec![(0, learner.evaluate(&copies[0]))];
        for iteration in 1..=self.max_batches / workers {
            for (worker, copy) in copies.iter().enumerate() {
                let change = Rc::new(learner.update(worker, copy));
                for to in 0..self.workers {
                    let late = self.delay.draw(self.staleness, &mut random) as usize;
                    arriving[1 + late].push((to, change.clone()));
                }
            }
            arriving.push_back(Vec::new());
            arriving.pop_front();
            for (to, change) in std::mem::take(&mut arriving[0]) {
                change.add_to(&mut copies[to]);
            }
            if iteration % every == 0 {
                let quality = learner.evaluate(&copies[0]);
                points.push((iteration * workers, quality));
                if self.is_reached(quality) {
                    return LearningCurve { points, reached: Some(iteration * workers) };
                }
                if !quality.is_finite() {
                    break;
                }
            }
        }
        LearningCurve { points, reached: None }
    }

    fn is_reached(&self, quality: f64) -> bool {
        self.target
            .is_some_and(|target| if self.model.lower_is_better() { quality <= target } else { quality >= target })
    }
}

impl LearningCurve {
    /// Returns the final metric.
    #[must_use]
    pub fn last(&self) -> f64 {
        self.points.last().map_or(f64::NAN, |(_, quality)| *quality)
    }
}
