//! Fold-in: factors and a bias for a user who was not in the training data.
//!
//! The items stay fixed. The problem solved is that of one user in training, whose regularization
//! counts once per rating. Squared loss: one least-squares solve. Logistic loss: Newton's method.
//! One-class loss: the update of a user in one epoch. Bayesian personalized ranking: Newton's method
//! for pairs with random items. The bias is the factor of one more column
//! that is constant over items. Its value is the square root of the deviation, so that one ridge
//! term fits both (the ridge of a factor is the deviation times that of a bias, see `sgd`).

use super::loss::{MfLoss, sigmoid};
use super::model::{FetchedRows, MfModel, UserFactors};
use super::normal_equations::NormalEquations;
use super::one_class::{item_gram, penalty};
use super::sgd::LANES;
use hemiola_cluster::{Cluster, Result};
use hemiola_core::rng::{SplitMix64, mix64};

/// Maximum number of Newton steps; the method converges after a few or not at all.
const NEWTON_STEPS: usize = 25;

/// Random items that each item of a new user is paired with.
const PAIRS: usize = 16;

/// Newton's method stops at a step below this, relative to 1.
const STEP_TOLERANCE: f32 = 1e-4;

impl MfModel {
    /// *Collective.* Returns the factors and bias of a user with these ratings. With the one-class
    /// loss, ratings are event weights.
    pub fn fold_in(&self, cluster: &Cluster, ratings: &[(usize, f32)]) -> Result<UserFactors> {
        for (item, _) in ratings {
            self.check_item(*item)?;
        }
        let items =
            FetchedRows::fetch(cluster, &self.item_factors, &self.item_state, ratings.iter().map(|(item, _)| *item))?;
        if self.loss() == MfLoss::Bpr {
            return self.fold_pairs(cluster, ratings);
        }
        if self.loss() == MfLoss::OneClass {
            return self.fold_events(cluster, &items, ratings);
        }
        let width = self.item_factors.shape().extent(1);
        let unit = self.deviation.sqrt();
        let rated: Vec<RatedItem> = ratings
            .iter()
            .map(|(item, rating)| {
                let (factors, bias) = items.get(*item);
                RatedItem { row: [factors, &[unit]].concat(), base: self.mean + bias, rating: *rating }
            })
            .collect();
        let ridge = self.settings.l2 * self.deviation * ratings.len() as f32;
        let solved = match self.loss() {
            MfLoss::Logistic => newton(&rated, width + LANES, ridge),
            _ => least_squares(&rated, width + LANES, ridge),
        };
        Ok(UserFactors { factors: solved[..width].to_vec(), bias: solved[width] * unit })
    }

    /// Bayesian personalized ranking: each item is paired with [`PAIRS`] random items without a
    /// rating, and the logistic loss of the differences is minimized.
    fn fold_pairs(&self, cluster: &Cluster, ratings: &[(usize, f32)]) -> Result<UserFactors> {
        let [count, width] = self.item_factors.shape().extents();
        let mut seen: Vec<usize> = ratings.iter().map(|(item, _)| *item).collect();
        seen.sort_unstable();
        seen.dedup();
        let mut pairs = Vec::new();
        for item in &seen {
            let mut random = SplitMix64::new(mix64(self.settings.seed.wrapping_add(*item as u64 + 1)));
            let others = (0..PAIRS).map(|_| random.below(count)).filter(|other| seen.binary_search(other).is_err());
            pairs.extend(others.map(|other| (*item, other)));
        }
        let fetched = pairs.iter().flat_map(|(item, other)| [*item, *other]);
        let items = FetchedRows::fetch(cluster, &self.item_factors, &self.item_state, fetched)?;
        let difference = |(item, other): &(usize, usize)| {
            let ((item, item_bias), (other, other_bias)) = (items.get(*item), items.get(*other));
            let row = item.iter().zip(other).map(|(item, other)| item - other).collect();
            RatedItem { row, base: item_bias - other_bias, rating: 1.0 }
        };
        let rated: Vec<RatedItem> = pairs.iter().map(difference).collect();
        let factors = newton(&rated, width, self.settings.l2 * rated.len().max(1) as f32);
        Ok(UserFactors { factors, bias: 0.0 })
    }

    fn fold_events(&self, cluster: &Cluster, items: &FetchedRows, events: &[(usize, f32)]) -> Result<UserFactors> {
        let [count, width] = self.item_factors.shape().extents();
        let ridge = penalty(&self.settings, events.len(), count);
        let mut system = NormalEquations::start(width, &item_gram(cluster, self)?, ridge);
        for (item, weight) in events {
            system.add(items.get(*item).0, *weight, *weight);
        }
        let mut factors = vec![0.0; width];
        system.solve(&mut factors);
        Ok(UserFactors { factors, bias: 0.0 })
    }
}

/// Item rated by the new user.
struct RatedItem {
    /// Factors of the item, and the constant column of the bias.
    row: Vec<f32>,
    /// Score for a user without factors and bias.
    base: f32,
    rating: f32,
}

impl RatedItem {
    fn score(&self, solution: &[f32]) -> f32 {
        self.base + self.row.iter().zip(solution).map(|(a, b)| a * b).sum::<f32>()
    }
}

fn least_squares(rated: &[RatedItem], width: usize, ridge: f32) -> Vec<f32> {
    let mut system = NormalEquations::ridge(width, ridge);
    for rated in rated {
        system.add(&rated.row, 1.0, rated.rating - rated.base);
    }
    let mut solution = vec![0.0; width];
    system.solve(&mut solution);
    solution
}

/// Newton's method with step halving for the regularized logistic loss.
fn newton(rated: &[RatedItem], width: usize, ridge: f32) -> Vec<f32> {
    let cost = |solution: &[f32]| {
        let losses = rated.iter().map(|rated| MfLoss::Logistic.slope_and_cost(rated.rating, rated.score(solution)).1);
        losses.sum::<f32>() + ridge / 2.0 * solution.iter().map(|value| value * value).sum::<f32>()
    };
    let mut solution = vec![0.0; width];
    let mut before = cost(&solution);
    for _ in 0..NEWTON_STEPS {
        let mut system = NormalEquations::ridge(width, ridge);
        for rated in rated {
            let score = rated.score(&solution);
            let chance = sigmoid(score);
            system.add(&rated.row, chance * (1.0 - chance), MfLoss::Logistic.slope_and_cost(rated.rating, score).0);
        }
        system.subtract_right(ridge, &solution);
        let mut step = vec![0.0; width];
        system.solve(&mut step);
        let mut length = 1.0;
        let moved = loop {
            let moved: Vec<f32> = solution.iter().zip(&step).map(|(value, step)| value + length * step).collect();
            let after = cost(&moved);
            if after <= before || length < STEP_TOLERANCE {
                before = before.min(after);
                break moved;
            }
            length /= 2.0;
        };
        solution = moved;
        if step.iter().all(|step| step.abs() < STEP_TOLERANCE) || length < STEP_TOLERANCE {
            break;
        }
    }
    solution
}
