//! A sparse binary classification: few features per row, some features far more common than others.
//!
//! The label is +1 with probability `1 / (1 + exp(-x · truth))`, so even the truth errs: its error is what a fitted model is
//! compared with.

use super::zipf::Zipf;
use super::{Part, values};

/// The parameters of a classification.
#[derive(Clone, Debug)]
pub struct Logistic {
    rows: u64,
    columns: u64,
    per_row: u64,
    scale: f64,
    seed: u64,
    popularity: Zipf,
}

impl Logistic {
    /// Rows with about `per_row` features of `columns`, with coefficients of deviation 1.
    #[must_use]
    pub fn new(rows: u64, columns: u64, per_row: u64, seed: u64) -> Self {
        Self { rows, columns, per_row, scale: 1.0, seed, popularity: Zipf::new(columns, 0.8, seed) }
    }

    /// The deviation of the coefficients: larger ones make the classes easier to tell. Default: 1.
    #[must_use]
    pub fn scale(mut self, deviation: f64) -> Self {
        self.scale = deviation;
        self
    }

    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The number of columns.
    #[must_use]
    pub fn columns(&self) -> u64 {
        self.columns
    }

    /// The true coefficient of a column.
    #[must_use]
    pub fn truth(&self, column: u64) -> f64 {
        values(self.seed, Part::Truth).normal(column, 0, 0.0, self.scale)
    }

    /// A row: the label, +1 or -1, and the features by ascending column.
    #[must_use]
    pub fn row(&self, row: u64) -> (f32, Vec<(u64, f32)>) {
        let count = 1 + values(self.seed, Part::Count).below(row, 0, 2 * self.per_row.max(1) - 1);
        let columns = self.popularity.draw_distinct(values(self.seed, Part::Choice), row, count as usize);
        let noise = values(self.seed, Part::Noise);
        let features: Vec<(u64, f32)> =
            columns.into_iter().map(|column| (column, noise.uniform_f32(row, column + 1, 0.5..1.5))).collect();
        let margin: f64 = features.iter().map(|&(column, value)| f64::from(value) * self.truth(column)).sum();
        let positive = noise.chosen(row, 0, 1.0 / (1.0 + libm::exp(-margin)));
        (if positive { 1.0 } else { -1.0 }, features)
    }
}
