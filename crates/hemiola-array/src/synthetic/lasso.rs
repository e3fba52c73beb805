//! Dense linear regression with a sparse true coefficient vector and correlated columns.
//!
//! Neighbouring columns have correlation `rho`, columns `d` apart `rho^d` (an autoregressive
//! process along the row). With this structure, parallel coordinate descent diverges when it
//! updates close columns at once, and a dependency-aware schedule pays off.

use super::{RandomStream, stream_rng};
use hemiola_core::rng::Permutation;

/// Parameters of a synthetic regression.
#[derive(Clone, Debug)]
pub struct SyntheticLasso {
    rows: u64,
    columns: u64,
    /// True non-zero coefficients by column.
    truth: Vec<(u64, f64)>,
    correlation: f64,
    noise: f64,
    seed: u64,
}

impl SyntheticLasso {
    /// Creates a regression with `support` non-zero coefficients of size 1 to 2, correlation 0.5
    /// and noise of standard deviation 0.1.
    #[must_use]
    pub fn new(rows: u64, columns: u64, support: u64, seed: u64) -> Self {
        let truth = stream_rng(seed, RandomStream::Truth);
        let permutation = Permutation::new(columns, seed);
        let coefficient = |number: u64| {
            let sign = if truth.random_bool(number, 0, 0.5) { 1.0 } else { -1.0 };
            (permutation.apply(number), sign * truth.uniform(number, 1, 1.0..2.0))
        };
        let mut coefficients: Vec<_> = (0..support.min(columns)).map(coefficient).collect();
        coefficients.sort_unstable_by_key(|&(column, _)| column);
        Self { rows, columns, truth: coefficients, correlation: 0.5, noise: 0.1, seed }
    }

    /// Sets the correlation of neighbouring columns, from 0 to below 1. Default: 0.5.
    #[must_use]
    pub fn correlation(mut self, correlation: f64) -> Self {
        self.correlation = correlation;
        self
    }

    /// Sets the standard deviation of the noise. Default: 0.1.
    #[must_use]
    pub fn noise(mut self, deviation: f64) -> Self {
        self.noise = deviation;
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

    /// True non-zero coefficients, by ascending column.
    #[must_use]
    pub fn truth(&self) -> &[(u64, f64)] {
        &self.truth
    }

    /// Generates a row: the target and all features.
    #[must_use]
    pub fn row(&self, row: u64) -> (f64, Vec<f32>) {
        let choice = stream_rng(self.seed, RandomStream::Choice);
        let fresh = libm::sqrt(1.0 - self.correlation * self.correlation);
        let mut previous = 0.0;
        let features: Vec<f32> = (0..self.columns)
            .map(|column| {
                let normal = choice.normal(row, column, 0.0, 1.0);
                previous = if column == 0 { normal } else { self.correlation * previous + fresh * normal };
                previous as f32
            })
            .collect();
        let signal: f64 = self.truth.iter().map(|&(column, value)| value * f64::from(features[column as usize])).sum();
        (signal + stream_rng(self.seed, RandomStream::Noise).normal(row, 0, 0.0, self.noise), features)
    }
}
