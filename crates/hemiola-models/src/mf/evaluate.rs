//! Evaluation metrics of a model on rating entries.

use super::data::{IndexMapping, aligned_to};
use super::loss::MfLoss;
use super::model::MfModel;
use super::sgd::SimdArch;
use crate::Error;
use crate::training::Metrics;
use hemiola_array::{AccumulatorExt, DistArray};
use hemiola_cluster::{Cluster, Result};
use hemiola_loops::parallel_for;

/// Sums over entries of the loss and of the absolute error, and the number of entries.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct ErrorSums {
    cost: f64,
    error: f64,
    count: u64,
}

impl ErrorSums {
    fn metrics(self, loss: MfLoss) -> Metrics {
        let count = self.count.max(1) as f64;
        let (cost, error) = (self.cost / count, self.error / count);
        let named = match loss {
            MfLoss::Squared => [("rmse", cost.sqrt()), ("mae", error)],
            MfLoss::Logistic => [("logloss", cost), ("mae", error)],
            MfLoss::OneClass | MfLoss::Bpr => [("loss", cost), ("mae", error)],
        };
        named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// *Collective.* Sums loss and error over entries whose users and items are in the model.
fn error_sums(cluster: &Cluster, model: &MfModel, ratings: &DistArray<f32, 2>) -> Result<ErrorSums> {
    let MfModel { user_factors: w, item_factors: h, user_state, item_state, mean, settings, .. } = model;
    let (loss, mean) = (settings.loss, *mean);
    let (costs, errors) = (cluster.accumulator::<f64>(), cluster.accumulator::<f64>());
    let machine = SimdArch::this();
    parallel_for!(
        cluster,
        for ([u, i], rating) in ratings {
            let score = mean + user_state[u][0] + item_state[i][0] + machine.dot(&w[u], &h[i]);
            costs += f64::from(loss.slope_and_cost(*rating, score).1);
            errors += f64::from((loss.observed(*rating) - loss.prediction(score)).abs());
        }
    )?;
    Ok(ErrorSums { cost: costs.take()?, error: errors.take()?, count: ratings.len() as u64 })
}

/// *Collective.* Evaluates a model on ratings whose indices are in the model.
pub(super) fn evaluate(cluster: &Cluster, model: &MfModel, ratings: &DistArray<f32, 2>) -> Result<Metrics> {
    Ok(error_sums(cluster, model, ratings)?.metrics(model.loss()))
}

/// Metrics over entries, including cold ones.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct MfEvaluation {
    /// Metrics over all entries, by name.
    pub metrics: Metrics,
    /// Number of evaluated entries.
    pub entries: u64,
    /// Number of cold entries: their user or item was not in the training data. They are predicted
    /// by the mean and the known bias.
    pub cold: u64,
}

impl MfModel {
    /// *Collective.* Returns metrics on ratings: `rmse` and `mae`, or `logloss`.
    pub fn evaluate(&self, cluster: &Cluster, ratings: &DistArray<f32, 2>) -> Result<Metrics> {
        let [users, items] = self.shape();
        let [most_users, most_items] = ratings.shape().extents();
        if most_users > users {
            return Err(Error::IndexOutOfRange { what: "user", number: most_users - 1, count: users }.into());
        }
        if most_items > items {
            return Err(Error::IndexOutOfRange { what: "item", number: most_items - 1, count: items }.into());
        }
        evaluate(cluster, self, ratings)
    }

    /// *Collective.* Returns metrics on ratings of any users and items, matched by name. Entries of
    /// unknown users or items are predicted by the mean and the known bias.
    pub fn evaluate_all(&self, cluster: &Cluster, ratings: &DistArray<f32, 2>) -> Result<MfEvaluation> {
        let numbers = IndexMapping::of(self, ratings);
        let known = aligned_to(ratings, self)?;
        let mut all = error_sums(cluster, self, &known)?;
        let loss = self.loss();
        let bias = |array: &DistArray<f32, 2>| array.lock("evaluation")?.replicate(|_| true);
        let sides = [bias(&self.user_state)?, bias(&self.item_state)?];
        let mut cold = ErrorSums::default();
        ratings.for_each(|key, rating| {
            let found = [numbers.number(0, key[0]), numbers.number(1, key[1])];
            if found.iter().all(Option::is_some) {
                return;
            }
            let biases = found.iter().zip(&sides).filter_map(|(number, side)| Some(side.row((*number)?)[0]));
            let score = self.mean + biases.sum::<f32>();
            cold.cost += f64::from(loss.slope_and_cost(*rating, score).1);
            cold.error += f64::from((loss.observed(*rating) - loss.prediction(score)).abs());
            cold.count += 1;
        });
        for (cost, error, count) in cluster.all_gather((cold.cost, cold.error, cold.count))? {
            all = ErrorSums { cost: all.cost + cost, error: all.error + error, count: all.count + count };
        }
        Ok(MfEvaluation { metrics: all.metrics(loss), entries: all.count, cold: all.count - known.len() as u64 })
    }
}
