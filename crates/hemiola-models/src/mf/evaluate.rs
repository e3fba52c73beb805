//! Evaluation metrics of a model on rating entries.
//!
//! **Invariant:** sums are whole numbers of a small unit, so metrics have the same bits on any
//! number of peers and workers.

use super::data::{IndexMapping, aligned_to};
use super::loss::MfLoss;
use super::model::{FetchedRows, MfModel};
use super::sgd::{SimdArch, dot};
use crate::Error;
use crate::training::Metrics;
use hemiola_array::{Accumulator, DistArray, Element};
use hemiola_cluster::{Cluster, Result};
use hemiola_loops::parallel_for;
use serde::{Deserialize, Serialize};

/// Unit of the sums relative to that of ratings: sums of whole numbers of units do not depend on
/// the order of additions.
const UNIT: f64 = 1.0 / (1_u64 << 50) as f64;

/// Sums over entries, in units: of the loss, of the absolute error, of ratings and their squares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct EntrySums {
    cost: i128,
    error: i128,
    rating: i128,
    square: i128,
    count: u64,
    /// Number of entries whose score is not finite.
    not_finite: u64,
}

impl Element for EntrySums {}

/// Units of the sums of a model.
#[derive(Clone, Copy, Debug)]
struct SumUnits {
    loss: MfLoss,
    mean: f64,
    /// Units of errors, and of squared errors and losses.
    linear: f64,
    square: f64,
}

impl SumUnits {
    fn of(model: &MfModel) -> Self {
        let linear = f64::from(model.deviation) * UNIT;
        let square = if model.loss() == MfLoss::Squared { linear * f64::from(model.deviation) } else { UNIT };
        Self { loss: model.loss(), mean: f64::from(model.mean), linear, square }
    }

    /// Returns the sums of one entry. Ratings are relative to the mean of the model, so that their
    /// spread is exact.
    #[inline]
    fn entry_sums(self, rating: f32, score: f32) -> EntrySums {
        let Self { loss, mean, linear, square } = self;
        let (cost, observed) = (f64::from(loss.slope_and_cost(rating, score).1), loss.observed(rating));
        let error = f64::from((observed - loss.prediction(score)).abs());
        let deviation = f64::from(observed) - mean;
        EntrySums {
            cost: (cost / square).round() as i128,
            error: (error / linear).round() as i128,
            rating: (deviation / linear).round() as i128,
            square: (deviation * deviation / square).round() as i128,
            count: 1,
            not_finite: u64::from(!cost.is_finite()),
        }
    }

    fn metrics(self, sums: EntrySums) -> Metrics {
        let count = sums.count.max(1) as f64;
        let finite = if sums.not_finite > 0 { f64::NAN } else { 1.0 };
        let cost = finite * sums.cost as f64 * self.square / count;
        let error = finite * sums.error as f64 * self.linear / count;
        let named = match self.loss {
            MfLoss::Squared => [("rmse", cost.sqrt()), ("mae", error)],
            MfLoss::Logistic => [("logloss", cost), ("mae", error)],
            MfLoss::OneClass | MfLoss::Bpr => [("loss", cost), ("mae", error)],
        };
        named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Returns the coefficient of determination of ratings; `None` if all are equal.
    fn r2(self, sums: EntrySums) -> Option<f64> {
        let count = sums.count.max(1) as f64;
        let mean = sums.rating as f64 * self.linear / count;
        let spread = sums.square as f64 * self.square / count - mean * mean;
        let of_ratings = self.loss == MfLoss::Squared && spread > 0.0 && sums.not_finite == 0;
        of_ratings.then(|| 1.0 - sums.cost as f64 * self.square / count / spread)
    }
}

impl EntrySums {
    fn joined(self, other: Self) -> Self {
        Self {
            cost: self.cost + other.cost,
            error: self.error + other.error,
            rating: self.rating + other.rating,
            square: self.square + other.square,
            count: self.count + other.count,
            not_finite: self.not_finite + other.not_finite,
        }
    }
}

/// *Collective.* Sums over entries whose users and items are in the model.
fn entry_sums(cluster: &Cluster, model: &MfModel, ratings: &DistArray<f32, 2>) -> Result<EntrySums> {
    let MfModel { user_factors: w, item_factors: h, user_state, item_state, mean, .. } = model;
    let (units, mean) = (SumUnits::of(model), *mean);
    let sums = Accumulator::new(cluster, EntrySums::default(), EntrySums::joined);
    let machine = SimdArch::this();
    parallel_for!(
        cluster,
        for ([u, i], rating) in ratings {
            let score = mean + user_state[u][0] + item_state[i][0] + machine.dot(&w[u], &h[i]);
            let one = units.entry_sums(*rating, score);
            sums.add(one);
        }
    )?;
    sums.take()
}

/// *Collective.* Evaluates a model on ratings whose indices are in the model.
pub(super) fn evaluate(cluster: &Cluster, model: &MfModel, ratings: &DistArray<f32, 2>) -> Result<Metrics> {
    Ok(SumUnits::of(model).metrics(entry_sums(cluster, model, ratings)?))
}

/// Metrics over entries, including cold ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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

    /// *Collective.* Predicts ratings for pairs of user and item by index, where `None` is a user or
    /// an item that is not in the model: the prediction is then that of the mean and the known bias.
    pub fn predict_any(&self, cluster: &Cluster, pairs: &[[Option<usize>; 2]]) -> Result<Vec<f32>> {
        let fetch = |side: usize| {
            let (factors, state) =
                [(&self.user_factors, &self.user_state), (&self.item_factors, &self.item_state)][side];
            FetchedRows::fetch(cluster, factors, state, pairs.iter().filter_map(|pair| pair[side]))
        };
        let (users, items) = (fetch(0)?, fetch(1)?);
        let score = |[user, item]: &[Option<usize>; 2]| {
            let (user, item) = (user.map(|user| users.get(user)), item.map(|item| items.get(item)));
            let bias = self.mean + user.map_or(0.0, |user| user.1) + item.map_or(0.0, |item| item.1);
            user.zip(item).map_or(bias, |(user, item)| bias + dot(user.0, item.0))
        };
        Ok(pairs.iter().map(score).map(|score| self.loss().prediction(score)).collect())
    }

    /// *Collective.* Returns metrics on ratings of any users and items, matched by name. Entries of
    /// unknown users or items are predicted by the mean and the known bias.
    pub fn evaluate_all(&self, cluster: &Cluster, ratings: &DistArray<f32, 2>) -> Result<MfEvaluation> {
        let numbers = IndexMapping::of(self, ratings);
        let known = aligned_to(ratings, self)?;
        let (units, of_known) = (SumUnits::of(self), entry_sums(cluster, self, &known)?);
        let bias = |array: &DistArray<f32, 2>| array.lock("evaluation")?.replicate(|_| true);
        let sides = [bias(&self.user_state)?, bias(&self.item_state)?];
        let mut cold = EntrySums::default();
        ratings.for_each(|key, rating| {
            let found = [numbers.number(0, key[0]), numbers.number(1, key[1])];
            if found.iter().all(Option::is_some) {
                return;
            }
            let biases = found.iter().zip(&sides).filter_map(|(number, side)| Some(side.row((*number)?)[0]));
            cold = cold.joined(units.entry_sums(*rating, self.mean + biases.sum::<f32>()));
        });
        let all = cluster.all_gather(cold)?.into_iter().fold(of_known, EntrySums::joined);
        let mut metrics = units.metrics(all);
        metrics.extend(units.r2(all).map(|r2| ("r2".to_owned(), r2)));
        Ok(MfEvaluation { metrics, entries: all.count, cold: all.count - of_known.count })
    }
}
