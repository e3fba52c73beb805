//! Gram matrix: the cost of all pairs of a user and an item without visiting them.
//!
//! `Σ_i (w · h_i)² = wᵀ (Σ_i h_i h_iᵀ) w`: a matrix of rank × rank represents all items. Workers
//! sum it in double precision and round once, because all solves start from it.

use hemiola_array::Element;
use serde::{Deserialize, Serialize};

/// Sum of outer products, or a single row whose outer product is still pending.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct GramMatrix {
    /// Row-major; empty while there are none. Only the upper triangle is filled.
    sums: Vec<f64>,
    row: Vec<f32>,
}

impl Element for GramMatrix {}

impl GramMatrix {
    /// Creates the Gram matrix of one row.
    pub(super) fn of(row: &[f32]) -> Self {
        Self { sums: Vec::new(), row: row.to_vec() }
    }

    /// Adds two Gram matrices.
    pub(super) fn joined(mut self, other: Self) -> Self {
        self.materialize();
        if self.sums.is_empty() {
            return other;
        }
        if other.row.is_empty() {
            self.sums.iter_mut().zip(&other.sums).for_each(|(mine, theirs)| *mine += theirs);
        } else {
            add(&mut self.sums, &other.row);
        }
        self
    }

    fn materialize(&mut self) {
        if !self.row.is_empty() {
            self.sums = vec![0.0; self.row.len() * self.row.len()];
            add(&mut self.sums, &std::mem::take(&mut self.row));
        }
    }

    /// Returns the full symmetric matrix, `width` × `width`, times a factor.
    pub(super) fn scaled(mut self, width: usize, factor: f32) -> Vec<f32> {
        self.materialize();
        let mut matrix = vec![0.0; width * width];
        if self.sums.is_empty() {
            return matrix;
        }
        for row in 0..width {
            for column in row..width {
                let value = (f64::from(factor) * self.sums[row * width + column]) as f32;
                matrix[row * width + column] = value;
                matrix[column * width + row] = value;
            }
        }
        matrix
    }
}

fn add(sums: &mut [f64], row: &[f32]) {
    let width = row.len();
    for (at, value) in row.iter().enumerate() {
        let cells = sums[at * width + at..(at + 1) * width].iter_mut();
        cells.zip(&row[at..]).for_each(|(cell, other)| *cell += f64::from(*value) * f64::from(*other));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_sum_of_all_outer_products_in_any_grouping() {
        let rows = [[1.0, 2.0], [3.0, -1.0], [0.5, 0.0]];
        let all = |from: GramMatrix| rows.iter().fold(from, |sum, row| sum.joined(GramMatrix::of(row)));
        let expected = [10.25, -1.0, -1.0, 5.0];
        assert_eq!(all(GramMatrix::default()).scaled(2, 1.0), expected);
        assert_eq!(
            GramMatrix::default().joined(all(GramMatrix::default())).joined(GramMatrix::default()).scaled(2, 1.0),
            expected
        );
        assert_eq!(all(GramMatrix::default()).joined(all(GramMatrix::default())).scaled(2, 0.5), expected);
        assert_eq!(GramMatrix::of(&rows[0]).scaled(2, 1.0), [1.0, 2.0, 2.0, 4.0]);
        assert_eq!(GramMatrix::default().scaled(2, 1.0), [0.0; 4]);
    }
}
