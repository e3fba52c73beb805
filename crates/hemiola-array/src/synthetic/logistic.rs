//! Sparse binary classification: few features per row, with a power law over features.
//!
//! The label is +1 with probability `1 / (1 + exp(-x · truth))`, so even the true model errs. Its
//! error rate is the baseline for a fitted model.

use super::zipf::Zipf;
use super::{RandomStream, stream_rng};

/// Exponent of the power law over features.
const SKEW: f64 = 0.8;

/// Parameters of a synthetic classification.
///
/// ```
/// use hemiola_array::synthetic::SyntheticLogistic;
/// let examples = SyntheticLogistic { columns: 50, seed: 1, ..SyntheticLogistic::default() };
/// let (label, features) = examples.generator().row(7);
/// assert!(label.abs() == 1.0 && features.iter().all(|(column, _)| *column < 50));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SyntheticLogistic {
    /// Number of rows (examples).
    pub rows: usize,
    /// Number of columns (features).
    pub columns: usize,
    /// Mean number of features of a row.
    pub features_per_row: usize,
    /// Standard deviation of the coefficients: larger ones separate the classes better.
    pub scale: f64,
    /// Random seed of coefficients, features and labels.
    pub seed: u64,
}

impl Default for SyntheticLogistic {
    /// 1,000 rows with about 10 of 500 features, and coefficients of standard deviation 1.
    fn default() -> Self {
        Self { rows: 1000, columns: 500, features_per_row: 10, scale: 1.0, seed: 0 }
    }
}

impl SyntheticLogistic {
    /// Returns the generator of the rows.
    #[must_use]
    pub fn generator(self) -> LogisticGenerator {
        let popularity = Zipf::new(self.columns, SKEW, self.seed);
        LogisticGenerator { set: self, popularity }
    }
}

/// Generator of the rows of a [`SyntheticLogistic`].
#[derive(Clone, Debug)]
pub struct LogisticGenerator {
    set: SyntheticLogistic,
    popularity: Zipf,
}

impl LogisticGenerator {
    /// Returns the parameters of the set.
    #[must_use]
    pub fn set(&self) -> &SyntheticLogistic {
        &self.set
    }

    /// True coefficient of a column.
    #[must_use]
    pub fn truth(&self, column: usize) -> f64 {
        stream_rng(self.set.seed, RandomStream::Truth).normal(column as u64, 0, 0.0, self.set.scale)
    }

    /// Generates a row: the label, +1 or -1, and the features by ascending column.
    #[must_use]
    pub fn row(&self, row: usize) -> (f32, Vec<(usize, f32)>) {
        let (seed, most) = (self.set.seed, 2 * self.set.features_per_row.max(1) as u64 - 1);
        let count = 1 + stream_rng(seed, RandomStream::Count).random_below(row as u64, 0, most);
        let columns = self.popularity.sample_distinct(stream_rng(seed, RandomStream::Choice), row, count as usize);
        let noise = stream_rng(seed, RandomStream::Noise);
        let row = row as u64;
        let value = |column: usize| noise.uniform_f32(row, column as u64 + 1, 0.5..1.5);
        let features: Vec<(usize, f32)> = columns.into_iter().map(|column| (column, value(column))).collect();
        let margin: f64 = features.iter().map(|&(column, value)| f64::from(value) * self.truth(column)).sum();
        let positive = noise.random_bool(row, 0, 1.0 / (1.0 + libm::exp(-margin)));
        (if positive { 1.0 } else { -1.0 }, features)
    }
}
