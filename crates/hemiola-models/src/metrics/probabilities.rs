//! Metrics of predicted probabilities: log loss and Brier score.

use super::ExactSum;

/// Lower bound of probabilities in the log loss, so that one error does not make it infinite.
pub const MIN_PROBABILITY: f64 = 1e-15;

/// Returns the log loss `−mean ln p` from the probability that each example's true class was given;
/// 0 without examples. Probabilities are bounded from below by [`MIN_PROBABILITY`].
///
/// ```
/// let loss = hemiola_models::metrics::log_loss([0.9, 0.5]);
/// assert!((loss - (-(0.9_f64.ln() + 0.5_f64.ln()) / 2.0)).abs() < 1e-15);
/// ```
pub fn log_loss(of_true_class: impl IntoIterator<Item = f64>) -> f64 {
    mean(of_true_class.into_iter().map(log_loss_of))
}

/// Returns the Brier score: the mean squared error of the probabilities. For two classes, it is
/// that of the second class, between 0 and 1. For more, squares are summed over the classes, and it
/// is between 0 and 2. An example is the probabilities of all classes, and the number of its class;
/// without examples it is 0.
///
/// ```
/// let score = hemiola_models::metrics::brier([(&[0.2, 0.8][..], 1), (&[0.6, 0.4], 1)]);
/// assert!((score - (0.04 + 0.36) / 2.0).abs() < 1e-15);
/// ```
pub fn brier<'a>(examples: impl IntoIterator<Item = (&'a [f64], usize)>) -> f64 {
    mean(examples.into_iter().map(|(probabilities, class)| brier_of(probabilities, class)))
}

/// Returns the log loss of one example.
pub(crate) fn log_loss_of(of_true_class: f64) -> f64 {
    -of_true_class.max(MIN_PROBABILITY).ln()
}

/// Returns the Brier score of one example. A class without a probability has none.
pub(crate) fn brier_of(probabilities: &[f64], class: usize) -> f64 {
    let square = |(index, probability): (usize, &f64)| (probability - f64::from(u8::from(index == class))).powi(2);
    match probabilities {
        // Both classes have the same error.
        [_, second] => square((1, second)),
        all => all.iter().enumerate().map(square).sum(),
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let mut count = 0_u64;
    let sum: ExactSum = values.inspect(|_| count += 1).collect();
    sum.value() / count.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_classes_sum_their_squares() {
        let score = brier([(&[0.7, 0.2, 0.1][..], 0), (&[0.1, 0.1, 0.8], 1)]);
        assert!((score - ((0.09 + 0.04 + 0.01) + (0.01 + 0.81 + 0.64)) / 2.0).abs() < 1e-15);
        assert!(brier([]) == 0.0 && log_loss([]) == 0.0);
    }

    #[test]
    fn an_impossible_class_has_a_finite_loss() {
        assert!((log_loss([0.0]) - 15.0 * 10_f64.ln()).abs() < 1e-12);
    }
}
