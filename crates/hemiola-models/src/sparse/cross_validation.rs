//! Which penalty is the best: every example is predicted once by models that have not seen it.
//!
//! **Invariant:** which fold an example is in follows from its number and the seed, so it is the same however examples are divided among peers.

use super::examples::{Examples, deal};
use super::ground::Ground;
use super::kernel::Value;
use super::loss::log_loss;
use super::path::{Grid, walk};
use super::settings::Lambda;
use super::{SparseRegression, Trained};
use crate::Error;
use crate::training::Session;
use hemiola::array::dist::Labelled;
use hemiola::array::random::Values;
use hemiola::{Cluster, Result};
use serde::{Deserialize, Serialize};

/// The draw that decides which fold an example is in.
const FOLD: u64 = 11;

/// The mean loss on examples that were not trained on, for every penalty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CrossValidation {
    /// Penalties, from the largest.
    pub lambdas: Vec<f64>,
    /// The mean over folds of the loss on held-out examples: the mean squared error, or the log loss.
    pub mean: Vec<f64>,
    /// The standard error of each mean.
    pub error: Vec<f64>,
    /// The place of the penalty with the least loss.
    pub best: usize,
    /// The place of the largest penalty whose loss is within one standard error of the least: as good as one can tell, with fewer coefficients.
    pub simplest: usize,
}

impl SparseRegression {
    /// *Collective.* Finds the loss of every penalty of the grid by cross-validation with so many folds.
    pub fn cross_validate(
        &self,
        cluster: &Cluster,
        examples: &Labelled,
        grid: Grid,
        folds: u64,
    ) -> Result<CrossValidation> {
        let (dealt, _) = deal(cluster, examples, examples.features.shape().extent(1))?;
        self.cross_validate_rows(cluster, dealt, grid, folds)
    }

    /// *Collective.* The same, and then trains on all examples with the best penalty, or the `simplest` that is as good as one can tell.
    pub fn fit_best(
        &self,
        cluster: &Cluster,
        examples: &Labelled,
        (grid, folds): (Grid, u64),
        simplest: bool,
        session: Session<'_>,
    ) -> Result<(Trained, CrossValidation)> {
        let found = self.cross_validate(cluster, examples, grid, folds)?;
        let lambda = found.lambdas[if simplest { found.simplest } else { found.best }];
        let chosen = self.with_lambda(Lambda::Value(lambda))?;
        Ok((chosen.fit_with(cluster, examples, None, session)?, found))
    }

    /// *Collective.* The same for rows that this peer has by columns already.
    pub fn cross_validate_rows<T: Value>(
        &self,
        cluster: &Cluster,
        examples: Examples<T>,
        grid: Grid,
        folds: u64,
    ) -> Result<CrossValidation> {
        let settings = &self.settings;
        let ground = Ground::new(cluster, examples, settings.loss)?;
        if !(2..=1000).contains(&folds) {
            let expected = "from 2 to 1000";
            return Err(Error::Setting { setting: "folds", found: folds.to_string(), expected }.into());
        }
        let largest = ground.field(cluster, |field| Ok(ground.solver(field, settings)?.largest()))?;
        let lambdas = grid.lambdas((largest / settings.ratio).max(f64::MIN_POSITIVE));
        let values = Values::new(settings.seed);
        let fold_of = |row: u64| (values.unit(row, FOLD) * folds as f64) as u64;
        let mut losses: Vec<Vec<f64>> = Vec::new();
        for fold in 0..folds {
            let (train, held_out) =
                (ground.subset(|row| fold_of(row) != fold), ground.subset(|row| fold_of(row) == fold));
            let counts: Vec<(u64, u64)> =
                cluster.all_gather((train.labels.len() as u64, held_out.labels.len() as u64))?;
            let (rows, count) = counts.iter().fold((0, 0), |sum, peer| (sum.0 + peer.0, sum.1 + peer.1));
            if rows == 0 || count == 0 {
                continue;
            }
            let points = train.field(cluster, |field| {
                let mut solver = train.solver(field, settings)?;
                walk(field, &mut solver, settings, &lambdas, false)
            })?;
            let loss = |point: &super::Point| -> f64 {
                let scores = held_out.scores(&point.coefficients);
                let rows = scores.iter().map(|score| score + point.intercept).zip(&held_out.labels);
                match held_out.classes {
                    None => rows.map(|(score, label)| (label - score) * (label - score)).sum(),
                    Some([_, second]) => {
                        rows.map(|(score, label)| log_loss(f64::from(*label as f32 >= second), score)).sum()
                    }
                }
            };
            let mine: Vec<f64> = points.iter().map(loss).collect();
            let all: Vec<Vec<f64>> = cluster.all_gather(mine)?;
            let mean = |place: usize| all.iter().map(|peer| peer[place]).sum::<f64>() / count as f64;
            losses.push((0..lambdas.len()).map(mean).collect());
        }
        if losses.len() < 2 {
            return Err(Error::NoExamples.into());
        }
        Ok(CrossValidation::of(lambdas, &losses))
    }
}

impl CrossValidation {
    /// From the loss of each fold for each penalty.
    fn of(lambdas: Vec<f64>, losses: &[Vec<f64>]) -> Self {
        let folds = losses.len() as f64;
        let mean: Vec<f64> =
            (0..lambdas.len()).map(|place| losses.iter().map(|fold| fold[place]).sum::<f64>() / folds).collect();
        let spread = |place: usize| losses.iter().map(|fold| (fold[place] - mean[place]).powi(2)).sum::<f64>();
        let error: Vec<f64> = (0..lambdas.len()).map(|place| (spread(place) / (folds - 1.0) / folds).sqrt()).collect();
        let best = (0..mean.len()).min_by(|left, right| mean[*left].total_cmp(&mean[*right])).unwrap_or(0);
        let simplest = mean.iter().position(|loss| *loss <= mean[best] + error[best]).unwrap_or(best);
        Self { lambdas, mean, error, best, simplest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simplest_is_the_largest_penalty_within_one_standard_error() {
        let losses = [vec![9.0, 2.2, 1.9, 2.5], vec![9.0, 2.0, 2.1, 2.5]];
        let found = CrossValidation::of(vec![4.0, 3.0, 2.0, 1.0], &losses);
        assert_eq!((found.best, found.simplest), (2, 1));
        assert!((found.mean[1] - 2.1).abs() < 1e-12 && (found.error[1] - 0.1).abs() < 1e-12);
    }
}
