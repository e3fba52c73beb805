//! Matrix factorization by mini-batch gradient descent.

use super::learner::{LearnerSettings, ModelUpdate, StudyLearner};
use super::optimizer::StudyOptimizerState;
use crate::sampling;
use hemiola_core::rng::SplitMix64;

const USERS: usize = 200;
const ITEMS: usize = 150;
const RANK: usize = 5;
/// Share of rated pairs, in percent.
const RATED: usize = 20;
/// Number of batches per epoch.
const BATCHES: usize = 40;
const LAMBDA: f32 = 1e-4;

pub(super) struct MfLearner {
    ratings: Vec<(u32, u32, f32)>,
    initial: Vec<f32>,
    workers: Vec<(StudyOptimizerState, SplitMix64)>,
    learning_rate: f32,
    share: usize,
}

impl MfLearner {
    pub(super) fn new(settings: &LearnerSettings) -> Self {
        let random = &mut sampling::generator(settings.seed, 1);
        let mut truth = |rows: usize| -> Vec<Vec<f64>> {
            (0..rows).map(|_| (0..RANK).map(|_| 0.7 * sampling::normal(random)).collect()).collect()
        };
        let (users, items) = (truth(USERS), truth(ITEMS));
        let random = &mut sampling::generator(settings.seed, 2);
        let mut ratings = Vec::new();
        for (user, left) in users.iter().enumerate() {
            for (item, right) in items.iter().enumerate() {
                if random.below(100) < RATED {
                    let product: f64 = left.iter().zip(right).map(|(a, b)| a * b).sum();
                    ratings.push((user as u32, item as u32, (product + 0.1 * sampling::normal(random)) as f32));
                }
            }
        }
        random.shuffle(&mut ratings);
        // Near zero, which is a saddle point: the time to leave it shows the cost of delays.
        let size = (USERS + ITEMS) * RANK;
        let initial: Vec<f32> = (0..size).map(|_| 0.1 * sampling::normal(random) as f32).collect();
        let worker = |number: usize| {
            (
                StudyOptimizerState::new(settings.optimizer, size),
                sampling::generator(settings.seed, 100 + number as u64),
            )
        };
        let workers = (0..settings.workers).map(worker).collect();
        Self { ratings, initial, workers, learning_rate: settings.learning_rate, share: settings.workers }
    }
}

fn row(copy: &[f32], row: usize) -> &[f32] {
    &copy[row * RANK..(row + 1) * RANK]
}

impl StudyLearner for MfLearner {
    fn initial(&self) -> Vec<f32> {
        self.initial.clone()
    }

    fn update(&mut self, worker: usize, copy: &[f32]) -> ModelUpdate {
        let (state, random) = &mut self.workers[worker];
        // Worker `i` of `n` has the ratings `i`, `i + n`, `i + 2n` and so on.
        let own = self.ratings.len() / self.share;
        let mut gradient = vec![0.0; copy.len()];
        for _ in 0..self.ratings.len() / BATCHES {
            let (user, item, rating) = self.ratings[random.below(own.max(1)) * self.share + worker];
            let (left, right) = (user as usize, USERS + item as usize);
            let (a, b) = (row(copy, left), row(copy, right));
            let error = rating - a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
            for k in 0..RANK {
                gradient[left * RANK + k] -= error * b[k] - LAMBDA * a[k];
                gradient[right * RANK + k] -= error * a[k] - LAMBDA * b[k];
            }
        }
        state.step(&mut gradient, self.learning_rate);
        ModelUpdate::Dense(gradient)
    }

    fn evaluate(&self, copy: &[f32]) -> f64 {
        let error = |&(user, item, rating): &(u32, u32, f32)| {
            let (a, b) = (row(copy, user as usize), row(copy, USERS + item as usize));
            f64::from(rating - a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>()).powi(2)
        };
        let squares = copy.iter().map(|value| f64::from(value * value)).sum::<f64>();
        (self.ratings.iter().map(error).sum::<f64>() + f64::from(LAMBDA) * squares) / self.ratings.len() as f64
    }
}
