//! Losses: of one row, and what belongs to them in the dual problem.
//!
//! For both, `residual` is minus the derivative by what is predicted, so that slopes are products of columns with it, and a multiple of the residual is a
//! point of the dual problem. The gap between both problems bounds how far a point is from the minimum.

use serde::{Deserialize, Serialize};

/// What is minimized beside the penalty: the mean of this over rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// `½ (y − p)²`: quantities.
    Squared,
    /// `log(1 + exp(−y p))` with `y` −1 or 1: two classes.
    Logistic,
}

impl Loss {
    /// The largest second derivative.
    pub(super) fn steepest(self) -> f64 {
        match self {
            Self::Squared => 1.0,
            Self::Logistic => 0.25,
        }
    }
}

/// The chance of the second class.
#[inline]
pub(super) fn sigmoid(margin: f64) -> f64 {
    1.0 / (1.0 + (-margin).exp())
}

/// `log(1 + exp(margin)) − target · margin`, with a target of 0 or 1.
#[inline]
pub(super) fn log_loss(target: f64, margin: f64) -> f64 {
    let against = if target > 0.5 { -margin } else { margin };
    if against > 0.0 { against + (-against).exp().ln_1p() } else { against.exp().ln_1p() }
}

/// The entropy of a chance, `−(t log t + (1 − t) log(1 − t))`: what a row adds to the dual of the log loss.
#[inline]
pub(super) fn entropy(chance: f64) -> f64 {
    let part = |share: f64| if share > 0.0 { -share * share.ln() } else { 0.0 };
    part(chance) + part(1.0 - chance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_losses_are_exact_where_exponents_are_large() {
        assert!((log_loss(1.0, 0.0) - std::f64::consts::LN_2).abs() < 1e-15);
        assert!((log_loss(1.0, -800.0) - 800.0).abs() < 1e-12 && log_loss(0.0, -800.0) == 0.0);
        assert!((log_loss(0.0, 2.0) - (1.0 + 2.0_f64.exp()).ln()).abs() < 1e-14);
    }

    #[test]
    fn loss_and_entropy_meet_where_the_dual_point_belongs_to_the_margin() {
        // Fenchel and Young: equal at the derivative, not below elsewhere.
        for margin in [-3.0, -0.2, 0.0, 1.7] {
            let chance = sigmoid(margin);
            let conjugate = |chance: f64| entropy(chance) + chance * margin;
            assert!((log_loss(0.0, margin) - conjugate(chance)).abs() < 1e-14);
            assert!(log_loss(0.0, margin) > conjugate(0.9 * chance));
        }
        assert!(entropy(0.0) == 0.0 && entropy(1.0) == 0.0);
    }
}
