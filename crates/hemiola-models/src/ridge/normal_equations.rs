//! Normal equations of least squares: `(X'X + alpha I) w = X'y`, of centred columns and labels
//! where there is an intercept.
//!
//! Columns are not centred in memory, where they may be sparse. Sums are taken of the columns as
//! they are, and the terms of the means are subtracted: `X'X - n x̄ x̄'` and `X'y - n ȳ x̄`. With weights
//! of the rows, all sums and means are weighted, and `n` is the sum of weights.

use crate::examples::{BlockedRows, ExampleBlock, add_in_place, tree_sum};
use hemiola_cluster::{Cluster, Result};
use std::sync::Arc;

/// Maximum number of columns for which the matrix is factorized.
pub const DIRECT_COLUMNS: usize = 512;
/// A pivot below this fraction of its diagonal element is rounding error.
const SMALLEST_PIVOT: f64 = 1e-10;

/// Means of columns and labels, and sums of products that need no matrix.
#[derive(Debug)]
pub(super) struct LeastSquaresMoments {
    /// Mean of each column; 0 without an intercept.
    pub(super) means: Vec<f64>,
    /// Mean of the labels; 0 without an intercept.
    pub(super) label_mean: f64,
    /// `X'y` of centred columns and labels.
    pub(super) target: Vec<f64>,
    /// Diagonal of the matrix, with `alpha`.
    pub(super) diagonal: Vec<f64>,
    /// Sum of the weights of the rows.
    pub(super) total: f64,
    /// Weights of all rows; `None` for equal ones.
    weights: RowWeights,
}

/// Weights of all rows, by number; `None` for equal ones.
pub(super) type RowWeights = Option<Arc<Vec<f64>>>;

/// Returns the weight of a row of a block.
pub(super) fn weight_of(weights: &RowWeights, block: &ExampleBlock, row: usize) -> f64 {
    weights.as_ref().map_or(1.0, |weights| weights[block.numbers[row]])
}

impl LeastSquaresMoments {
    /// *Collective.* Sums over all rows, twice: labels are centred before they are multiplied.
    pub(super) fn of(
        cluster: &Cluster,
        rows: &BlockedRows,
        columns: usize,
        (alpha, intercept): (f64, bool),
        weights: RowWeights,
    ) -> Result<Self> {
        let first = tree_sum(
            cluster,
            rows,
            |index| {
                let block = &rows.blocks[index];
                let mut sums = vec![0.0; columns + 2];
                for (row, target) in block.targets.iter().enumerate() {
                    let weight = weight_of(&weights, block, row);
                    block.row(row).for_each(|(column, value)| sums[column] += weight * f64::from(value));
                    sums[columns] += weight * target;
                    sums[columns + 1] += weight;
                }
                sums
            },
            add_in_place,
        )?;
        let mut means = first.unwrap_or_else(|| vec![0.0; columns + 2]);
        let total = means.pop().unwrap_or(0.0);
        for sum in &mut means {
            *sum = if intercept { *sum / total } else { 0.0 };
        }
        let label_mean = means.pop().unwrap_or(0.0);
        let second = tree_sum(
            cluster,
            rows,
            |index| {
                let block = &rows.blocks[index];
                let mut sums = vec![0.0; 2 * columns + 1];
                for (row, target) in block.targets.iter().enumerate() {
                    let weight = weight_of(&weights, block, row);
                    let target = weight * (target - label_mean);
                    for (column, value) in block.row(row) {
                        let value = f64::from(value);
                        sums[column] += value * target;
                        sums[columns + column] += weight * value * value;
                    }
                    sums[2 * columns] += target;
                }
                sums
            },
            add_in_place,
        )?;
        let sums = second.unwrap_or_else(|| vec![0.0; 2 * columns + 1]);
        let rest = sums[2 * columns];
        let target = (0..columns).map(|column| sums[column] - means[column] * rest).collect();
        let diagonal =
            |column: usize| (sums[columns + column] - total * means[column] * means[column]).max(0.0) + alpha;
        let diagonal = (0..columns).map(diagonal).collect();
        Ok(Self { means, label_mean, target, diagonal, total, weights })
    }

    /// *Collective.* Returns the product of the matrix with a vector, in one pass over the rows.
    pub(super) fn product(
        &self,
        cluster: &Cluster,
        rows: &BlockedRows,
        alpha: f64,
        vector: &[f64],
    ) -> Result<Vec<f64>> {
        let columns = vector.len();
        let shift: f64 = self.means.iter().zip(vector).map(|(mean, value)| mean * value).sum();
        let sums = tree_sum(
            cluster,
            rows,
            |index| {
                let block = &rows.blocks[index];
                let mut sums = vec![0.0; columns + 1];
                for row in 0..block.len() {
                    let product: f64 = block.row(row).map(|(column, value)| f64::from(value) * vector[column]).sum();
                    let centred = weight_of(&self.weights, block, row) * (product - shift);
                    block.row(row).for_each(|(column, value)| sums[column] += f64::from(value) * centred);
                    sums[columns] += centred;
                }
                sums
            },
            add_in_place,
        )?;
        let sums = sums.unwrap_or_else(|| vec![0.0; columns + 1]);
        Ok((0..columns)
            .map(|column| sums[column] - self.means[column] * sums[columns] + alpha * vector[column])
            .collect())
    }

    /// *Collective.* Solves the equations by a factorization of the matrix; `None` if it is
    /// numerically singular.
    pub(super) fn solve(&self, cluster: &Cluster, rows: &BlockedRows, alpha: f64) -> Result<Option<Vec<f64>>> {
        let columns = self.means.len();
        let sums = tree_sum(
            cluster,
            rows,
            |index| {
                let block = &rows.blocks[index];
                let mut sums = vec![0.0; columns * columns];
                let mut entries = Vec::new();
                for row in 0..block.len() {
                    entries.clear();
                    entries.extend(block.row(row).map(|(column, value)| (column, f64::from(value))));
                    let weight = weight_of(&self.weights, block, row);
                    for (at, (row, left)) in entries.iter().enumerate() {
                        let (sums, left) = (&mut sums[row * columns..][..columns], weight * left);
                        entries[..=at].iter().for_each(|(column, right)| sums[*column] += left * right);
                    }
                }
                sums
            },
            add_in_place,
        )?;
        let mut matrix = sums.unwrap_or_else(|| vec![0.0; columns * columns]);
        for row in 0..columns {
            for column in 0..=row {
                matrix[row * columns + column] -= self.total * self.means[row] * self.means[column];
            }
            matrix[row * columns + row] += alpha;
        }
        Ok(cholesky_solve(&mut matrix, &self.target))
    }
}

/// Solves a symmetric positive definite system, given by its lower triangle; `None` if it is
/// numerically singular.
fn cholesky_solve(matrix: &mut [f64], target: &[f64]) -> Option<Vec<f64>> {
    let size = target.len();
    for row in 0..size {
        let (above, below) = matrix.split_at_mut(row * size);
        let own = &mut below[..=row];
        for column in 0..row {
            let other = &above[column * size..][..=column];
            let sum: f64 = own[..column].iter().zip(other).map(|(left, right)| left * right).sum();
            own[column] = (own[column] - sum) / other[column];
        }
        let pivot = own[row] - own[..row].iter().map(|left| left * left).sum::<f64>();
        if pivot.is_nan() || pivot <= SMALLEST_PIVOT * own[row] {
            return None;
        }
        own[row] = pivot.sqrt();
    }
    let mut solution = target.to_vec();
    for row in 0..size {
        let sum: f64 = (0..row).map(|column| matrix[row * size + column] * solution[column]).sum();
        solution[row] = (solution[row] - sum) / matrix[row * size + row];
    }
    for row in (0..size).rev() {
        let sum: f64 = (row + 1..size).map(|below| matrix[below * size + row] * solution[below]).sum();
        solution[row] = (solution[row] - sum) / matrix[row * size + row];
    }
    Some(solution)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factorization_solves_and_refuses_singular_matrices() {
        // Lower triangle of [[4, 2], [2, 5]]; the rest is not read.
        let solution = cholesky_solve(&mut [4.0, 9.0, 2.0, 5.0], &[8.0, 12.0]).unwrap();
        assert!((solution[0] - 1.0).abs() < 1e-12 && (solution[1] - 2.0).abs() < 1e-12, "{solution:?}");
        assert_eq!(cholesky_solve(&mut [1.0, 0.0, 2.0, 4.0], &[1.0, 2.0]), None);
        assert_eq!(cholesky_solve(&mut [0.0], &[0.0]), None);
    }
}
