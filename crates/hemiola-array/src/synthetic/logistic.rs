//! Sparse binary classification: few features per row, with a power law over features.
//!
//! The label is +1 with probability `1 / (1 + exp(-x · truth))`, so even the true model errs. Its
//! error rate is the baseline for a fitted model.

use super::zipf::Zipf;
use super::{RandomStream, stream_rng};

/// Parameters of a synthetic classification.
#[derive(Clone, Debug)]
pub struct SyntheticLogistic {
    rows: u64,
    columns: u64,
    per_row: u64,
    scale: f64,
    seed: u64,
    popularity: Zipf,
}

impl SyntheticLogistic {
    /// Creates rows with about `per_row` of `columns` features, and coefficients of standard
    /// deviation 1.
    #[must_use]
    pub fn new(rows: u64, columns: u64, per_row: u64, seed: u64) -> Self {
        Self { rows, columns, per_row, scale: 1.0, seed, popularity: Zipf::new(columns, 0.8, seed) }
    }

    /// Sets the standard deviation of the coefficients: larger ones separate the classes better.
    /// Default: 1.
    #[must_use]
    pub fn scale(mut self, deviation: f64) -> Self {
        self.scale = deviation;
        self
    }

    /// Number of rows (examples).
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Number of columns (features).
    #[must_use]
    pub fn columns(&self) -> u64 {
        self.columns
    }

    /// True coefficient of a column.
    #[must_use]
    pub fn truth(&self, column: u64) -> f64 {
        stream_rng(self.seed, RandomStream::Truth).normal(column, 0, 0.0, self.scale)
    }

    /// Generates a row: the label, +1 or -1, and the features by ascending column.
    #[must_use]
    pub fn row(&self, row: u64) -> (f32, Vec<(u64, f32)>) {
        let count = 1 + stream_rng(self.seed, RandomStream::Count).random_below(row, 0, 2 * self.per_row.max(1) - 1);
        let columns = self.popularity.sample_distinct(stream_rng(self.seed, RandomStream::Choice), row, count as usize);
        let noise = stream_rng(self.seed, RandomStream::Noise);
        let features: Vec<(u64, f32)> =
            columns.into_iter().map(|column| (column, noise.uniform_f32(row, column + 1, 0.5..1.5))).collect();
        let margin: f64 = features.iter().map(|&(column, value)| f64::from(value) * self.truth(column)).sum();
        let positive = noise.random_bool(row, 0, 1.0 / (1.0 + libm::exp(-margin)));
        (if positive { 1.0 } else { -1.0 }, features)
    }
}
