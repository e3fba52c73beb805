//! Losses and their dual counterparts.
//!
//! For both losses, `residual` is the negative derivative by the prediction, so that slopes are dot
//! products of columns with it, and a multiple of the residual is a dual point. The gap between
//! both objectives bounds the distance from the minimum.

use serde::{Deserialize, Serialize};

/// Training loss; the objective is its mean over rows plus the penalty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SparseLoss {
    /// `½ (y − p)²`: regression.
    Squared,
    /// `log(1 + exp(−y p))` with `y` −1 or 1: binary classification.
    Logistic,
}

impl SparseLoss {
    /// Returns the largest second derivative.
    pub(super) fn max_curvature(self) -> f64 {
        match self {
            Self::Squared => 1.0,
            Self::Logistic => 0.25,
        }
    }
}

/// Probability of the second class.
#[inline]
pub(super) fn sigmoid(margin: f64) -> f64 {
    1.0 / (1.0 + (-margin).exp())
}

/// Computes `log(1 + exp(margin)) − target · margin` for a target of 0 or 1.
#[inline]
pub(super) fn log_loss(target: f64, margin: f64) -> f64 {
    let against = if target > 0.5 { -margin } else { margin };
    if against > 0.0 { against + (-against).exp().ln_1p() } else { against.exp().ln_1p() }
}

/// Computes the entropy `−(t log t + (1 − t) log(1 − t))`: the contribution of a row to the dual of
/// the log loss.
#[inline]
pub(super) fn entropy(probability: f64) -> f64 {
    let part = |share: f64| if share > 0.0 { -share * share.ln() } else { 0.0 };
    part(probability) + part(1.0 - probability)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_loss_does_not_overflow() {
        assert!((log_loss(1.0, 0.0) - std::f64::consts::LN_2).abs() < 1e-15);
        assert!((log_loss(1.0, -800.0) - 800.0).abs() < 1e-12 && log_loss(0.0, -800.0) == 0.0);
        assert!((log_loss(0.0, 2.0) - (1.0 + 2.0_f64.exp()).ln()).abs() < 1e-14);
    }

    #[test]
    fn entropy_is_the_conjugate_of_the_log_loss() {
        // Fenchel-Young inequality: equality at the derivative, strict elsewhere.
        for margin in [-3.0, -0.2, 0.0, 1.7] {
            let probability = sigmoid(margin);
            let conjugate = |probability: f64| entropy(probability) + probability * margin;
            assert!((log_loss(0.0, margin) - conjugate(probability)).abs() < 1e-14);
            assert!(log_loss(0.0, margin) > conjugate(0.9 * probability));
        }
        assert!(entropy(0.0) == 0.0 && entropy(1.0) == 0.0);
    }
}
