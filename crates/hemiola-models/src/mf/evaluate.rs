//! Figures of a model on entries.

use super::data::{Numbers, aligned_to};
use super::loss::Loss;
use super::model::Model;
use super::step::Machine;
use crate::Error;
use crate::training::Metrics;
use hemiola::prelude::*;
use hemiola::{Cluster, Result};

/// Sums over entries: what they cost, how far off predictions are, and how many there are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sums {
    cost: f64,
    error: f64,
    count: u64,
}

impl Sums {
    fn figures(self, loss: Loss) -> Metrics {
        let count = self.count.max(1) as f64;
        let (cost, error) = (self.cost / count, self.error / count);
        let named = match loss {
            Loss::Squared => [("rmse", cost.sqrt()), ("mae", error)],
            Loss::Logistic => [("logloss", cost), ("mae", error)],
            Loss::OneClass => [("loss", cost), ("mae", error)],
        };
        named.into_iter().map(|(name, figure)| (name.to_owned(), figure)).collect()
    }
}

/// *Collective.* Sums over entries whose users and items the model has.
fn sums(cluster: &Cluster, model: &Model, ratings: &DistArray<f32, 2>) -> Result<Sums> {
    let Model { user_factors: w, item_factors: h, user_side, item_side, mean, settings, .. } = model;
    let (loss, mean) = (settings.loss, *mean);
    let (costs, errors) = (cluster.accumulator::<f64>(), cluster.accumulator::<f64>());
    let machine = Machine::this();
    parallel_for!(
        cluster,
        for ([u, i], rating) in ratings {
            let score = mean + user_side[u][0] + item_side[i][0] + machine.dot(&w[u], &h[i]);
            costs += f64::from(loss.slope_and_cost(*rating, score).1);
            errors += f64::from((loss.for_mean(*rating) - loss.prediction(score)).abs());
        }
    )?;
    Ok(Sums { cost: costs.take()?, error: errors.take()?, count: ratings.len() })
}

/// *Collective.* Figures of a model on ratings.
pub(super) fn evaluate(cluster: &Cluster, model: &Model, ratings: &DistArray<f32, 2>) -> Result<Metrics> {
    Ok(sums(cluster, model, ratings)?.figures(model.loss()))
}

/// Figures over entries, cold ones included.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Evaluation {
    /// Figures by name, over all entries.
    pub figures: Metrics,
    /// How many entries there are.
    pub entries: u64,
    /// How many of them are of a user or an item that was not in the training data. They are predicted by the mean and the bias
    /// that is known.
    pub cold: u64,
}

impl Model {
    /// *Collective.* Figures of the model on ratings: `rmse` and `mae`, or `logloss`.
    pub fn evaluate(&self, cluster: &Cluster, ratings: &DistArray<f32, 2>) -> Result<Metrics> {
        let [users, items] = self.shape();
        let [most_users, most_items] = ratings.shape().extents();
        if most_users > users {
            return Err(Error::Unknown { what: "user", number: most_users - 1, count: users }.into());
        }
        if most_items > items {
            return Err(Error::Unknown { what: "item", number: most_items - 1, count: items }.into());
        }
        evaluate(cluster, self, ratings)
    }

    /// *Collective.* The same on ratings of anybody for anything, by the names that the ratings and the model have: those of
    /// users and items that the model does not know are predicted, too, as well as can be.
    pub fn evaluate_all(&self, cluster: &Cluster, ratings: &DistArray<f32, 2>) -> Result<Evaluation> {
        let numbers = Numbers::of(self, ratings);
        let known = aligned_to(ratings, self)?;
        let mut all = sums(cluster, self, &known)?;
        let loss = self.loss();
        let bias = |array: &DistArray<f32, 2>| array.hold("evaluation")?.copy_of_all(|_| true);
        let sides = [bias(&self.user_side)?, bias(&self.item_side)?];
        let mut cold = Sums::default();
        ratings.for_each(|key, rating| {
            let found = [numbers.number(0, key[0]), numbers.number(1, key[1])];
            if found.iter().all(Option::is_some) {
                return;
            }
            let biases = found.iter().zip(&sides).filter_map(|(number, side)| Some(side.row((*number)? as usize)[0]));
            let score = self.mean + biases.sum::<f32>();
            cold.cost += f64::from(loss.slope_and_cost(*rating, score).1);
            cold.error += f64::from((loss.for_mean(*rating) - loss.prediction(score)).abs());
            cold.count += 1;
        });
        for (cost, error, count) in cluster.all_gather((cold.cost, cold.error, cold.count))? {
            all = Sums { cost: all.cost + cost, error: all.error + error, count: all.count + count };
        }
        Ok(Evaluation { figures: all.figures(loss), entries: all.count, cold: all.count - known.len() })
    }
}
