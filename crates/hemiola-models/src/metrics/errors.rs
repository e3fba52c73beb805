//! Errors of predicted quantities: RMSE, MAE and R².

use super::ExactSum;
use crate::training::Metrics;
use hemiola_cluster::{Cluster, Result};
use serde::{Deserialize, Serialize};

/// Sums from which errors of quantities are computed.
///
/// ```
/// use hemiola_models::metrics::ErrorSums;
/// let mut sums = ErrorSums::default();
/// [(3.0, 2.5), (-0.5, 0.0), (2.0, 2.0), (7.0, 8.0)].into_iter().for_each(|(target, found)| sums.add(target, found));
/// assert_eq!(sums.mae(), Some(0.5));
/// assert_eq!(sums.rmse(), Some(0.375_f64.sqrt()));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorSums {
    count: u64,
    squares: ExactSum,
    errors: ExactSum,
    targets: ExactSum,
}

impl ErrorSums {
    /// Adds a quantity and its prediction.
    pub fn add(&mut self, target: f64, prediction: f64) {
        let error = target - prediction;
        self.count += 1;
        self.squares.add(error * error);
        self.errors.add(error.abs());
        self.targets.add(target);
    }

    /// Adds the sums of other examples.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.squares.merge(&other.squares);
        self.errors.merge(&other.errors);
        self.targets.merge(&other.targets);
    }

    /// Returns the number of examples.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the root of the mean squared error; `None` without examples.
    #[must_use]
    pub fn rmse(&self) -> Option<f64> {
        self.mean(&self.squares).map(f64::sqrt)
    }

    /// Returns the mean absolute error; `None` without examples.
    #[must_use]
    pub fn mae(&self) -> Option<f64> {
        self.mean(&self.errors)
    }

    /// Returns the coefficient of determination, `1 − Σ error² / Σ (target − mean)²`, from the
    /// second sum. `None` if all targets are equal.
    #[must_use]
    pub fn r2(&self, deviations: &ExactSum) -> Option<f64> {
        Some(deviations.value()).filter(|sum| *sum > 0.0).map(|sum| 1.0 - self.squares.value() / sum)
    }

    /// Returns the mean of the targets; 0 without examples.
    #[must_use]
    pub fn target_mean(&self) -> f64 {
        self.mean(&self.targets).unwrap_or(0.0)
    }

    fn mean(&self, sum: &ExactSum) -> Option<f64> {
        (self.count > 0).then(|| sum.value() / self.count as f64)
    }

    /// *Collective.* Returns the number of examples of all peers and their `rmse`, `mae` and `r2`.
    /// Every peer passes its own examples.
    pub fn gather(cluster: &Cluster, examples: impl Iterator<Item = (f64, f64)> + Clone) -> Result<(u64, Metrics)> {
        let mut mine = Self::default();
        examples.clone().for_each(|(target, prediction)| mine.add(target, prediction));
        let all = merged(&cluster.all_gather(mine)?, Self::merge);
        let mean = all.target_mean();
        let deviations: ExactSum = examples.map(|(target, _)| (target - mean) * (target - mean)).collect();
        let deviations = merged(&cluster.all_gather(deviations)?, ExactSum::merge);
        let named = [("rmse", all.rmse()), ("mae", all.mae()), ("r2", all.r2(&deviations))];
        let metrics = named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
        Ok((all.count, metrics))
    }
}

fn merged<T: Default>(all: &[T], merge: impl Fn(&mut T, &T)) -> T {
    all.iter().fold(T::default(), |mut sum, one| {
        merge(&mut sum, one);
        sum
    })
}

/// Returns the root of the mean squared error of predictions; `None` without examples.
#[must_use]
pub fn rmse(targets: &[f64], predictions: &[f64]) -> Option<f64> {
    sums(targets, predictions).rmse()
}

/// Returns the mean absolute error of predictions; `None` without examples.
#[must_use]
pub fn mae(targets: &[f64], predictions: &[f64]) -> Option<f64> {
    sums(targets, predictions).mae()
}

/// Returns the coefficient of determination of predictions: 1 if they are exact, 0 if they are as
/// good as the mean. `None` if all targets are equal.
#[must_use]
pub fn r2(targets: &[f64], predictions: &[f64]) -> Option<f64> {
    let sums = sums(targets, predictions);
    let mean = sums.target_mean();
    sums.r2(&targets.iter().map(|target| (target - mean) * (target - mean)).collect())
}

fn sums(targets: &[f64], predictions: &[f64]) -> ErrorSums {
    let mut sums = ErrorSums::default();
    targets.iter().zip(predictions).for_each(|(target, prediction)| sums.add(*target, *prediction));
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_those_of_their_definitions() {
        let (targets, found) = ([3.0, -0.5, 2.0, 7.0], [2.5, 0.0, 2.0, 8.0]);
        assert!((rmse(&targets, &found).unwrap() - 0.375_f64.sqrt()).abs() < 1e-15);
        assert!((mae(&targets, &found).unwrap() - 0.5).abs() < 1e-15);
        assert!((r2(&targets, &found).unwrap() - (1.0 - 1.5 / 29.1875)).abs() < 1e-15);
        assert_eq!((r2(&[2.0, 2.0], &[1.0, 3.0]), rmse(&[], &[])), (None, None));
    }

    #[test]
    fn gathered_errors_have_the_same_bits_on_any_number_of_peers() {
        let value = |row: usize| (((row * 7919) % 1013) as f64 * 0.37, ((row * 104_729) % 997) as f64 * 0.31);
        let of = |peers: usize| {
            let found = hemiola_cluster::standalone(peers).run(|cluster| {
                let rank = cluster.rank().index();
                ErrorSums::gather(cluster, (0..1000).filter(|row| row % peers == rank).map(value))
            });
            let found = found.unwrap();
            assert!(found.iter().all(|one| *one == found[0]));
            (found[0].0, found[0].1.values().map(|value| value.to_bits()).collect::<Vec<_>>())
        };
        let serial = of(1);
        assert_eq!((serial.0, serial.1.len()), (1000, 3));
        assert_eq!((of(2), of(4)), (serial.clone(), serial));
    }
}
