//! Dense linear regression with a sparse true coefficient vector and correlated columns.
//!
//! Neighbouring columns have correlation `rho`, columns `d` apart `rho^d` (an autoregressive
//! process along the row). With this structure, parallel coordinate descent diverges when it
//! updates close columns at once, and a dependency-aware schedule pays off.

use super::{RandomStream, stream_rng};
use hemiola_core::Seed;
use hemiola_core::rng::Permutation;

/// Parameters of a synthetic regression.
///
/// ```
/// use hemiola_array::synthetic::SyntheticLasso;
/// let regression = SyntheticLasso { rows: 50, support: 3, ..SyntheticLasso::default() };
/// assert_eq!(regression.generator().truth().len(), 3);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SyntheticLasso {
    /// Number of rows (examples).
    pub rows: usize,
    /// Number of columns (features).
    pub columns: usize,
    /// Number of non-zero coefficients, each of size 1 to 2.
    pub support: usize,
    /// Correlation of neighbouring columns, from 0 to below 1.
    pub correlation: f64,
    /// Standard deviation of the noise.
    pub noise: f64,
    /// Random seed of coefficients, features and noise.
    pub seed: u64,
}

impl Default for SyntheticLasso {
    /// 1,000 rows and 100 columns, 10 of them with an effect.
    fn default() -> Self {
        Self { rows: 1000, columns: 100, support: 10, correlation: 0.5, noise: 0.1, seed: 0 }
    }
}

impl SyntheticLasso {
    /// Draws the coefficients and returns the generator of the rows.
    #[must_use]
    pub fn generator(self) -> LassoGenerator {
        let truth = stream_rng(self.seed, RandomStream::Truth);
        let permutation = Permutation::new(self.columns as u64, Seed(self.seed));
        let coefficient = |number: usize| {
            let number = number as u64;
            let sign = if truth.random_bool(number, 0, 0.5) { 1.0 } else { -1.0 };
            (permutation.apply(number) as usize, sign * truth.uniform(number, 1, 1.0..2.0))
        };
        let mut coefficients: Vec<_> = (0..self.support.min(self.columns)).map(coefficient).collect();
        coefficients.sort_unstable_by_key(|&(column, _)| column);
        LassoGenerator { set: self, truth: coefficients }
    }
}

/// Coefficients of a [`SyntheticLasso`], and generator of its rows.
#[derive(Clone, Debug)]
pub struct LassoGenerator {
    set: SyntheticLasso,
    /// True non-zero coefficients by column.
    truth: Vec<(usize, f64)>,
}

impl LassoGenerator {
    /// Returns the parameters of the set.
    #[must_use]
    pub fn set(&self) -> &SyntheticLasso {
        &self.set
    }

    /// True non-zero coefficients, by ascending column.
    #[must_use]
    pub fn truth(&self) -> &[(usize, f64)] {
        &self.truth
    }

    /// Generates a row: the target and all features.
    #[must_use]
    pub fn row(&self, row: usize) -> (f64, Vec<f32>) {
        let SyntheticLasso { columns, correlation, noise, seed, .. } = self.set;
        let row = row as u64;
        let choice = stream_rng(seed, RandomStream::Choice);
        let fresh = libm::sqrt(1.0 - correlation * correlation);
        let mut previous = 0.0;
        let features: Vec<f32> = (0..columns as u64)
            .map(|column| {
                let normal = choice.normal(row, column, 0.0, 1.0);
                previous = if column == 0 { normal } else { correlation * previous + fresh * normal };
                previous as f32
            })
            .collect();
        let signal: f64 = self.truth.iter().map(|&(column, value)| value * f64::from(features[column])).sum();
        (signal + stream_rng(seed, RandomStream::Noise).normal(row, 0, 0.0, noise), features)
    }
}
