//! The sum of all products of a row with itself: what every pair of a user and an item costs, without visiting them.
//!
//! `Σ_i (w · h_i)² = wᵀ (Σ_i h_i h_iᵀ) w`: a matrix as wide as the rank stands for all items. It is summed in double
//! precision by the workers and rounded once, because everything that is solved afterwards starts from it.

use hemiola::array::Element;
use serde::{Deserialize, Serialize};

/// Sums of products, or a row whose products are still to be added.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Gram {
    /// Row after row; empty while there are none. Only the upper triangle is filled.
    sums: Vec<f64>,
    row: Vec<f32>,
}

impl Element for Gram {}

impl Gram {
    /// The products of one row.
    pub(super) fn of(row: &[f32]) -> Self {
        Self { sums: Vec::new(), row: row.to_vec() }
    }

    /// Both together.
    pub(super) fn joined(mut self, other: Self) -> Self {
        self.settle();
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

    fn settle(&mut self) {
        if !self.row.is_empty() {
            self.sums = vec![0.0; self.row.len() * self.row.len()];
            add(&mut self.sums, &std::mem::take(&mut self.row));
        }
    }

    /// The whole symmetric matrix, `width` × `width`, times a factor.
    pub(super) fn scaled(mut self, width: usize, factor: f32) -> Vec<f32> {
        self.settle();
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
    fn it_is_the_sum_of_all_products_whoever_adds_them() {
        let rows = [[1.0, 2.0], [3.0, -1.0], [0.5, 0.0]];
        let all = |from: Gram| rows.iter().fold(from, |sum, row| sum.joined(Gram::of(row)));
        let expected = [10.25, -1.0, -1.0, 5.0];
        assert_eq!(all(Gram::default()).scaled(2, 1.0), expected);
        assert_eq!(Gram::default().joined(all(Gram::default())).joined(Gram::default()).scaled(2, 1.0), expected);
        assert_eq!(all(Gram::default()).joined(all(Gram::default())).scaled(2, 0.5), expected);
        assert_eq!(Gram::of(&rows[0]).scaled(2, 1.0), [1.0, 2.0, 2.0, 4.0]);
        assert_eq!(Gram::default().scaled(2, 1.0), [0.0; 4]);
    }
}
