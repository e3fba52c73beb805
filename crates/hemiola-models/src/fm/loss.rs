//! Losses of factorization machines.

use crate::training::TargetMetric;
use serde::{Deserialize, Serialize};

/// Loss that training minimizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FmLoss {
    /// Squared error, for quantities.
    #[default]
    Squared,
    /// Logistic loss, for two classes.
    Logistic,
}

impl FmLoss {
    /// Returns the name used in reports and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Squared => "squared",
            Self::Logistic => "logistic",
        }
    }

    /// Returns the metric that selects the best epoch.
    #[must_use]
    pub const fn target_metric(self) -> TargetMetric {
        match self {
            Self::Squared => TargetMetric::minimize("rmse"),
            Self::Logistic => TargetMetric::minimize("logloss"),
        }
    }

    /// Returns the negative gradient with respect to the score, and the loss of the example. The
    /// target of the logistic loss is 1 for the second class, or else 0. By convention, the gradient
    /// of the squared loss leaves out the factor 2.
    #[inline]
    pub(super) fn slope_and_cost(self, target: f32, score: f32) -> (f32, f32) {
        match self {
            Self::Squared => {
                let error = target - score;
                (error, error * error)
            }
            Self::Logistic => {
                let tail = (-score.abs()).exp();
                let chance = if score >= 0.0 { 1.0 / (1.0 + tail) } else { tail / (1.0 + tail) };
                (target - chance, score.max(0.0) - target * score + (1.0 + tail).ln())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradients_match_finite_differences() {
        for (loss, factor) in [(FmLoss::Squared, -2.0), (FmLoss::Logistic, -1.0)] {
            for (target, score) in [(0.0, -3.0), (1.0, -0.2), (1.0, 4.0), (0.0, 1.0)] {
                let cost = |score| f64::from(loss.slope_and_cost(target, score).1);
                let numeric = (cost(score + 1e-2) - cost(score - 1e-2)) / 2e-2;
                let slope = f64::from(loss.slope_and_cost(target, score).0);
                assert!((numeric - factor * slope).abs() < 2e-2, "{loss:?} {target} {score}: {numeric} {slope}");
            }
        }
        assert!((FmLoss::Logistic.slope_and_cost(0.0, 200.0).1 - 200.0).abs() < 1e-3);
    }
}
