//! A dense linear regression with few true coefficients and correlated columns.
//!
//! Neighbouring columns have correlation `rho`, columns `d` apart `rho^d` (an autoregressive process along the row): the
//! structure in which parallel coordinate descent diverges when it updates close columns at once, and for which a schedule
//! by dependency pays.

use super::{Part, values};
use crate::random::Permutation;

/// The parameters of a regression.
#[derive(Clone, Debug)]
pub struct Lasso {
    rows: u64,
    columns: u64,
    /// The true non-zero coefficients by column.
    truth: Vec<(u64, f64)>,
    correlation: f64,
    noise: f64,
    seed: u64,
}

impl Lasso {
    /// A regression with `support` non-zero coefficients of size 1 to 2, correlation 0.5 and noise of deviation 0.1.
    #[must_use]
    pub fn new(rows: u64, columns: u64, support: u64, seed: u64) -> Self {
        let truth = values(seed, Part::Truth);
        let place = Permutation::new(columns, seed);
        let coefficient = |number: u64| {
            let sign = if truth.chosen(number, 0, 0.5) { 1.0 } else { -1.0 };
            (place.apply(number), sign * truth.uniform(number, 1, 1.0..2.0))
        };
        let mut coefficients: Vec<_> = (0..support.min(columns)).map(coefficient).collect();
        coefficients.sort_unstable_by_key(|&(column, _)| column);
        Self { rows, columns, truth: coefficients, correlation: 0.5, noise: 0.1, seed }
    }

    /// The correlation of neighbouring columns, from 0 to below 1. Default: 0.5.
    #[must_use]
    pub fn correlation(mut self, correlation: f64) -> Self {
        self.correlation = correlation;
        self
    }

    /// The deviation of the noise. Default: 0.1.
    #[must_use]
    pub fn noise(mut self, deviation: f64) -> Self {
        self.noise = deviation;
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

    /// The true non-zero coefficients, by ascending column.
    #[must_use]
    pub fn truth(&self) -> &[(u64, f64)] {
        &self.truth
    }

    /// A row: the target and all features.
    #[must_use]
    pub fn row(&self, row: u64) -> (f64, Vec<f32>) {
        let choice = values(self.seed, Part::Choice);
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
        (signal + values(self.seed, Part::Noise).normal(row, 0, 0.0, self.noise), features)
    }
}
