//! Folding in: factors and a bias for somebody who was not there when the model was trained.
//!
//! The items stay as they are; what is solved is the problem that training solves for a user, whose penalty counts once for
//! each rating. Squared loss: least squares in one go. Logistic: Newton's method. One-class: what an epoch does with a user.
//! The bias is the factor of one more column that is the same for every item: the root of the deviation, so that one penalty fits both
//! (a factor's is the deviation times that of a bias, see `step`).

use super::loss::{Loss, sigmoid};
use super::model::{Model, Row, Rows};
use super::normal::System;
use super::one_class::{all_items, penalty};
use super::step::LANES;
use hemiola::{Cluster, Result};

/// Newton's method has arrived after a few steps, or never.
const NEWTON_STEPS: usize = 25;

/// A step below this, compared with 1, is the last.
const ARRIVED: f32 = 1e-4;

impl Model {
    /// *Collective.* The row of a user who rated these items so: with the one-class loss ratings are weights of events.
    pub fn fold_in(&self, cluster: &Cluster, ratings: &[(u64, f32)]) -> Result<Row> {
        for (item, _) in ratings {
            self.must_have_item(*item)?;
        }
        let items = Rows::fetch(cluster, &self.item_factors, &self.item_side, ratings.iter().map(|(item, _)| *item))?;
        if self.loss() == Loss::OneClass {
            return self.fold_events(cluster, &items, ratings);
        }
        let width = self.item_factors.shape().extents()[1] as usize;
        let unit = self.deviation.sqrt();
        let known: Vec<Known> = ratings
            .iter()
            .map(|(item, rating)| {
                let (factors, bias) = items.get(*item);
                Known { row: [factors, &[unit]].concat(), without: self.mean + bias, rating: *rating }
            })
            .collect();
        let ridge = self.settings.l2 * self.deviation * ratings.len() as f32;
        let solved = match self.loss() {
            Loss::Logistic => newton(&known, width + LANES, ridge),
            _ => least_squares(&known, width + LANES, ridge),
        };
        Ok(Row { factors: solved[..width].to_vec(), bias: solved[width] * unit })
    }

    fn fold_events(&self, cluster: &Cluster, items: &Rows, events: &[(u64, f32)]) -> Result<Row> {
        let [count, width] = self.item_factors.shape().extents();
        let ridge = penalty(&self.settings, events.len(), count);
        let mut system = System::start(width as usize, &all_items(cluster, self)?, ridge);
        for (item, weight) in events {
            system.add(items.get(*item).0, *weight, *weight);
        }
        let mut factors = vec![0.0; width as usize];
        system.solve(&mut factors);
        Ok(Row { factors, bias: 0.0 })
    }
}

/// An item that was rated.
struct Known {
    /// Its factors, and 1 for the bias.
    row: Vec<f32>,
    /// Its score for a user without factors and bias.
    without: f32,
    rating: f32,
}

impl Known {
    fn score(&self, solution: &[f32]) -> f32 {
        self.without + self.row.iter().zip(solution).map(|(a, b)| a * b).sum::<f32>()
    }
}

fn least_squares(known: &[Known], width: usize, ridge: f32) -> Vec<f32> {
    let mut system = System::ridge(width, ridge);
    for known in known {
        system.add(&known.row, 1.0, known.rating - known.without);
    }
    let mut solution = vec![0.0; width];
    system.solve(&mut solution);
    solution
}

/// Steps to where the slope of the loss and that of the penalty are in balance. A step that would make it worse is halved.
fn newton(known: &[Known], width: usize, ridge: f32) -> Vec<f32> {
    let cost = |solution: &[f32]| {
        let losses = known.iter().map(|known| Loss::Logistic.slope_and_cost(known.rating, known.score(solution)).1);
        losses.sum::<f32>() + ridge / 2.0 * solution.iter().map(|value| value * value).sum::<f32>()
    };
    let mut solution = vec![0.0; width];
    let mut before = cost(&solution);
    for _ in 0..NEWTON_STEPS {
        let mut system = System::ridge(width, ridge);
        for known in known {
            let score = known.score(&solution);
            let chance = sigmoid(score);
            system.add(&known.row, chance * (1.0 - chance), Loss::Logistic.slope_and_cost(known.rating, score).0);
        }
        system.pull_back(ridge, &solution);
        let mut step = vec![0.0; width];
        system.solve(&mut step);
        let mut length = 1.0;
        let moved = loop {
            let moved: Vec<f32> = solution.iter().zip(&step).map(|(value, step)| value + length * step).collect();
            let after = cost(&moved);
            if after <= before || length < ARRIVED {
                before = before.min(after);
                break moved;
            }
            length /= 2.0;
        };
        solution = moved;
        if step.iter().all(|step| step.abs() < ARRIVED) || length < ARRIVED {
            break;
        }
    }
    solution
}
