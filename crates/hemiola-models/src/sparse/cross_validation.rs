//! K-fold cross-validation of the penalty.
//!
//! **Invariant:** the fold of an example follows from its number and the seed, so it does not
//! depend on the distribution over peers.

use super::SparseRegression;
use super::examples::{SparseExamples, distribute};
use super::kernel::ColumnValue;
use super::loss::log_loss;
use super::path::{LambdaGrid, follow_path};
use super::problem::SparseProblem;
use crate::Error;
use crate::setters::require;
use hemiola_array::dist::LabelledData;
use hemiola_cluster::{Cluster, Result};
use hemiola_core::rng::PhiloxRng;
use serde::{Deserialize, Serialize};

/// Random stream that assigns folds.
const FOLD_DRAW: u64 = 11;

/// Cross-validated loss for every penalty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CrossValidation {
    /// Penalties in descending order.
    pub lambdas: Vec<f64>,
    /// Mean over folds of the validation loss: mean squared error, or log loss.
    pub mean: Vec<f64>,
    /// Standard error of each mean.
    pub error: Vec<f64>,
    /// Index of the penalty with the smallest loss.
    pub best: usize,
    /// Index chosen by the one-standard-error rule: the largest penalty whose loss is within one
    /// standard error of the smallest.
    pub one_standard_error: usize,
}

impl SparseRegression {
    /// *Collective.* Computes the loss of every penalty of the grid by cross-validation with
    /// `folds` folds.
    pub fn cross_validate(
        &self,
        cluster: &Cluster,
        examples: &LabelledData,
        grid: LambdaGrid,
        folds: usize,
    ) -> Result<CrossValidation> {
        self.cross_validate_with(cluster, examples, grid, folds, &mut |_| ())
    }

    /// *Collective.* Cross-validates as [`cross_validate`](Self::cross_validate) does. `on_fold` is
    /// called after each fold with its number, from 1.
    pub fn cross_validate_with(
        &self,
        cluster: &Cluster,
        examples: &LabelledData,
        grid: LambdaGrid,
        folds: usize,
        on_fold: &mut dyn FnMut(usize),
    ) -> Result<CrossValidation> {
        let (distributed, _) = distribute(cluster, examples, examples.features.shape().extent(1))?;
        self.of_folds(cluster, distributed, grid, folds, on_fold)
    }

    /// *Collective.* Cross-validates rows that this peer already holds by columns.
    pub fn cross_validate_rows<T: ColumnValue>(
        &self,
        cluster: &Cluster,
        examples: SparseExamples<T>,
        grid: LambdaGrid,
        folds: usize,
    ) -> Result<CrossValidation> {
        self.of_folds(cluster, examples, grid, folds, &mut |_| ())
    }

    fn of_folds<T: ColumnValue>(
        &self,
        cluster: &Cluster,
        examples: SparseExamples<T>,
        grid: LambdaGrid,
        folds: usize,
        on_fold: &mut dyn FnMut(usize),
    ) -> Result<CrossValidation> {
        let settings = &self.settings;
        let problem = SparseProblem::new(cluster, examples, settings.loss)?;
        require("folds", &folds, (2..=1000).contains(&folds), "from 2 to 1000")?;
        let largest = problem.with_reducer(cluster, |reducer| Ok(problem.solver(reducer, settings)?.max_l1()))?;
        let lambdas = grid.lambdas((largest / settings.l1_ratio).max(f64::MIN_POSITIVE));
        let values = PhiloxRng::new(settings.seed);
        let fold_of = |row: usize| (values.random_f64(row as u64, FOLD_DRAW) * folds as f64) as usize;
        let mut losses: Vec<Vec<f64>> = Vec::new();
        for fold in 0..folds {
            let (train, validation) =
                (problem.subset(|row| fold_of(row) != fold), problem.subset(|row| fold_of(row) == fold));
            let counts: Vec<(usize, usize)> = cluster.all_gather((train.labels.len(), validation.labels.len()))?;
            let (rows, count) = counts.iter().fold((0, 0), |sum, peer| (sum.0 + peer.0, sum.1 + peer.1));
            if rows == 0 || count == 0 {
                continue;
            }
            let points = train.with_reducer(cluster, |reducer| {
                let mut solver = train.solver(reducer, settings)?;
                follow_path(reducer, &mut solver, settings, &lambdas, &|_| false)
            })?;
            let loss = |point: &super::PathPoint| -> f64 {
                let scores = validation.scores(&point.coefficients);
                let rows = scores.iter().map(|score| score + point.intercept).zip(&validation.labels);
                match validation.classes {
                    None => rows.map(|(score, label)| (label - score) * (label - score)).sum(),
                    Some([_, second]) => {
                        rows.map(|(score, label)| log_loss(f64::from(*label as f32 >= second), score)).sum()
                    }
                }
            };
            let mine: Vec<f64> = points.iter().map(loss).collect();
            let all: Vec<Vec<f64>> = cluster.all_gather(mine)?;
            let mean = |index: usize| all.iter().map(|peer| peer[index]).sum::<f64>() / count as f64;
            losses.push((0..lambdas.len()).map(mean).collect());
            on_fold(fold + 1);
        }
        if losses.len() < 2 {
            return Err(Error::NoExamples.into());
        }
        Ok(CrossValidation::of(lambdas, &losses))
    }
}

impl CrossValidation {
    /// Summarizes the losses of each fold for each penalty.
    fn of(lambdas: Vec<f64>, losses: &[Vec<f64>]) -> Self {
        let folds = losses.len() as f64;
        let mean: Vec<f64> =
            (0..lambdas.len()).map(|index| losses.iter().map(|fold| fold[index]).sum::<f64>() / folds).collect();
        let spread = |index: usize| losses.iter().map(|fold| (fold[index] - mean[index]).powi(2)).sum::<f64>();
        let error: Vec<f64> = (0..lambdas.len()).map(|index| (spread(index) / (folds - 1.0) / folds).sqrt()).collect();
        let best = (0..mean.len()).min_by(|left, right| mean[*left].total_cmp(&mean[*right])).unwrap_or(0);
        let one_standard_error = mean.iter().position(|loss| *loss <= mean[best] + error[best]).unwrap_or(best);
        Self { lambdas, mean, error, best, one_standard_error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_standard_error_rule_takes_the_largest_penalty() {
        let losses = [vec![9.0, 2.2, 1.9, 2.5], vec![9.0, 2.0, 2.1, 2.5]];
        let found = CrossValidation::of(vec![4.0, 3.0, 2.0, 1.0], &losses);
        assert_eq!((found.best, found.one_standard_error), (2, 1));
        assert!((found.mean[1] - 2.1).abs() < 1e-12 && (found.error[1] - 0.1).abs() < 1e-12);
    }
}
