//! One training under delays.

use super::delay::Delay;
use super::learner::{Change, Learner, Model, Settings};
use super::optimizer::Optimizer;
use crate::chance;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::rc::Rc;

/// What is trained, and how late its updates are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Training {
    /// What is learned.
    pub model: Model,
    /// What gradients become.
    pub optimizer: Optimizer,
    /// How far they go.
    pub rate: f32,
    /// The longest delay of an update, in iterations.
    pub staleness: u32,
    /// How delays are distributed.
    pub delay: Delay,
    /// How many workers share the work.
    pub workers: usize,
    /// Of data, batches and delays.
    pub seed: u64,
    /// The quality at which it ends; it goes on to the last batch if there is none.
    pub target: Option<f64>,
    /// Batches of all workers after which it is given up.
    pub most_batches: u64,
}

/// How a training went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Course {
    /// Batches of all workers and the quality then, again and again.
    pub points: Vec<(u64, f64)>,
    /// Batches until the target, if it was reached.
    pub reached: Option<u64>,
}

/// Quality is looked at this often in a training, at least.
const LOOKS: u64 = 200;

impl Training {
    /// A training with the usual step and target of its model.
    #[must_use]
    pub fn new(model: Model, optimizer: Optimizer, staleness: u32, workers: usize, seed: u64) -> Self {
        Self {
            model,
            optimizer,
            rate: model.rate(optimizer),
            staleness,
            delay: Delay::Uniform,
            workers,
            seed,
            target: Some(model.target()),
            most_batches: 8000,
        }
    }

    /// Trains.
    ///
    /// # Panics
    /// If there is nobody to work.
    #[must_use]
    pub fn run(&self) -> Course {
        assert!(self.workers > 0, "somebody has to work");
        let settings = Settings { seed: self.seed, workers: self.workers, optimizer: self.optimizer, rate: self.rate };
        let mut learner = self.model.learner(&settings);
        self.follow(&mut *learner)
    }

    fn follow(&self, learner: &mut dyn Learner) -> Course {
        let mut copies = vec![learner.initial(); self.workers];
        let mut random = chance::generator(self.seed, 0x5eed);
        // By iterations from now: what arrives then, and at whom.
        let ahead = self.delay.longest(self.staleness) as usize + 1;
        let mut arriving: VecDeque<Vec<(usize, Rc<Change>)>> = (0..=ahead).map(|_| Vec::new()).collect();
        let workers = self.workers as u64;
        let every = (self.most_batches / workers / LOOKS).clamp(1, 4);
        let mut points = vec![(0, learner.quality(&copies[0]))];
        for iteration in 1..=self.most_batches / workers {
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
                let quality = learner.quality(&copies[0]);
                points.push((iteration * workers, quality));
                if self.is_reached(quality) {
                    return Course { points, reached: Some(iteration * workers) };
                }
                if !quality.is_finite() {
                    break;
                }
            }
        }
        Course { points, reached: None }
    }

    fn is_reached(&self, quality: f64) -> bool {
        self.target.is_some_and(|target| if self.model.falls() { quality <= target } else { quality >= target })
    }
}

impl Course {
    /// The last quality.
    #[must_use]
    pub fn last(&self) -> f64 {
        self.points.last().map_or(f64::NAN, |(_, quality)| *quality)
    }
}
