//! Objective of softmax regression: its value and gradient, and products with its Hessian.
//!
//! Weights are class by class, each with a weight per column and then the intercept. With the
//! probabilities `p` of an example, the gradient with respect to the scores is `p - e_label`, and the
//! Hessian maps changes `u` of the scores to `p (u - p·u)`.

use crate::examples::{BlockedRows, ExampleBlock, add_in_place, tree_sum};
use hemiola_cluster::{Cluster, Result};
use std::sync::Arc;

/// Problem: examples, and the parameters of the objective.
#[derive(Debug)]
pub(super) struct SoftmaxObjective {
    /// Rows whose targets are class numbers.
    pub(super) rows: BlockedRows,
    pub(super) classes: usize,
    pub(super) columns: usize,
    pub(super) c: f64,
    pub(super) intercept: bool,
    /// Weights of all examples, by row; `None` for equal ones.
    pub(super) weights: Option<Arc<Vec<f64>>>,
}

/// Value and gradient, with metrics of the training examples.
#[derive(Clone, Debug)]
pub(super) struct SoftmaxValue {
    pub(super) objective: f64,
    pub(super) gradient: Vec<f64>,
    /// Mean log loss of the examples.
    pub(super) logloss: f64,
    /// Fraction of the examples that are classified correctly.
    pub(super) accuracy: f64,
}

impl SoftmaxObjective {
    /// Weight of an example.
    fn weight(&self, block: &ExampleBlock, row: usize) -> f64 {
        self.weights.as_ref().map_or(1.0, |weights| weights[block.numbers[row]])
    }

    /// Number of weights of a class.
    fn width(&self) -> usize {
        self.columns + 1
    }

    /// *Collective.* Returns the objective and its gradient.
    pub(super) fn value(&self, cluster: &Cluster, weights: &[f64]) -> Result<SoftmaxValue> {
        let (width, size) = (self.width(), weights.len());
        let sums = tree_sum(
            cluster,
            &self.rows,
            |index| {
                let block = &self.rows.blocks[index];
                let mut sums = vec![0.0; size + 3];
                let mut scores = vec![0.0; self.classes];
                for (row, target) in block.targets.iter().enumerate() {
                    let class = *target as usize;
                    scores_of(block, row, weights, width, &mut scores);
                    sums[size + 1] += f64::from(highest(&scores) == class);
                    let own = scores[class];
                    let (cost, weight) = (normalize(&mut scores) - own, self.weight(block, row));
                    sums[size] += weight * cost;
                    sums[size + 2] += cost;
                    scores[class] -= 1.0;
                    for score in &mut scores {
                        *score *= weight;
                    }
                    self.add_outer(block, row, &scores, &mut sums[..size]);
                }
                sums
            },
            add_in_place,
        )?;
        let mut sums = sums.unwrap_or_else(|| vec![0.0; size + 3]);
        let count = self.rows.examples as f64;
        let (cost, right, logloss) = (sums[size], sums[size + 1], sums[size + 2]);
        sums.truncate(size);
        let mut penalty = 0.0;
        for (index, (sum, weight)) in sums.iter_mut().zip(weights).enumerate() {
            *sum *= self.c;
            if index % width < self.columns {
                *sum += weight;
                penalty += 0.5 * weight * weight;
            }
        }
        let objective = penalty + self.c * cost;
        Ok(SoftmaxValue { objective, gradient: sums, logloss: logloss / count, accuracy: right / count })
    }

    /// *Collective.* Returns the product of the Hessian at `weights` with a vector.
    pub(super) fn hessian_product(&self, cluster: &Cluster, weights: &[f64], vector: &[f64]) -> Result<Vec<f64>> {
        let (width, size) = (self.width(), weights.len());
        let sums = tree_sum(
            cluster,
            &self.rows,
            |index| {
                let block = &self.rows.blocks[index];
                let mut sums = vec![0.0; size];
                let (mut shares, mut changes) = (vec![0.0; self.classes], vec![0.0; self.classes]);
                for row in 0..block.len() {
                    scores_of(block, row, weights, width, &mut shares);
                    normalize(&mut shares);
                    scores_of(block, row, vector, width, &mut changes);
                    let mean: f64 = shares.iter().zip(&changes).map(|(share, change)| share * change).sum();
                    let weight = self.weight(block, row);
                    for (change, share) in changes.iter_mut().zip(&shares) {
                        *change = weight * share * (*change - mean);
                    }
                    self.add_outer(block, row, &changes, &mut sums);
                }
                sums
            },
            add_in_place,
        )?;
        let mut sums = sums.unwrap_or_else(|| vec![0.0; size]);
        for (index, (sum, value)) in sums.iter_mut().zip(vector).enumerate() {
            *sum *= self.c;
            if index % width < self.columns {
                *sum += value;
            }
        }
        Ok(sums)
    }

    /// Adds the outer product of a number per class and the features of a row.
    fn add_outer(&self, block: &ExampleBlock, row: usize, of_class: &[f64], sums: &mut [f64]) {
        for (factor, sums) in of_class.iter().zip(sums.chunks_exact_mut(self.width())) {
            block.row(row).for_each(|(column, value)| sums[column] += factor * f64::from(value));
            if self.intercept {
                sums[self.columns] += factor;
            }
        }
    }
}

/// Computes the score of each class.
pub(super) fn scores_of(block: &ExampleBlock, row: usize, weights: &[f64], width: usize, scores: &mut [f64]) {
    for (score, weights) in scores.iter_mut().zip(weights.chunks_exact(width)) {
        let product: f64 = block.row(row).map(|(column, value)| weights[column] * f64::from(value)).sum();
        *score = product + weights[width - 1];
    }
}

/// Converts scores to probabilities; returns the logarithm of the sum of their exponentials.
pub(super) fn normalize(scores: &mut [f64]) -> f64 {
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    for score in &mut *scores {
        *score = (*score - most).exp();
    }
    let sum: f64 = scores.iter().sum();
    for score in scores {
        *score /= sum;
    }
    most + sum.ln()
}

/// Returns the index of the highest number; of equal ones the first.
pub(super) fn highest(scores: &[f64]) -> usize {
    (0..scores.len()).fold(0, |best, class| if scores[class] > scores[best] { class } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_scores_do_not_overflow() {
        let mut scores = [1000.0, 1000.0, -1000.0];
        assert!((normalize(&mut scores) - (1000.0 + 2.0_f64.ln())).abs() < 1e-9);
        assert!(scores[0].total_cmp(&0.5).is_eq() && scores[1].total_cmp(&0.5).is_eq() && scores[2].abs() < 1e-300);
        assert_eq!(highest(&[1.0, 3.0, 3.0]), 1);
    }
}
