//! Losses of matrix factorization.

use crate::training::TargetMetric;
use serde::{Deserialize, Serialize};

/// Loss that training minimizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum MfLoss {
    /// Squared error, for numeric ratings.
    #[default]
    Squared,
    /// Logistic loss, for binary ratings: positive above 0, negative otherwise.
    Logistic,
    /// One-class (implicit feedback) loss: entries are positive events with a weight, all other
    /// pairs are weak negatives. See `one_class`.
    OneClass,
    /// Bayesian personalized ranking: entries are positive events, and an item with an event is to
    /// rank above one without. See `bpr`.
    Bpr,
}

impl MfLoss {
    /// Returns the name used in reports and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Squared => "squared",
            Self::Logistic => "logistic",
            Self::OneClass => "one-class",
            Self::Bpr => "bpr",
        }
    }

    /// Returns whether entries are positive events without ratings (implicit feedback).
    #[must_use]
    pub const fn is_implicit(self) -> bool {
        matches!(self, Self::OneClass | Self::Bpr)
    }

    /// Returns the negative gradient with respect to the score, and the loss of the entry.
    #[inline]
    pub(super) fn slope_and_cost(self, rating: f32, score: f32) -> (f32, f32) {
        match self {
            Self::Squared => {
                let error = rating - score;
                (error, error * error)
            }
            Self::Logistic => {
                let chance = sigmoid(score);
                if rating > 0.0 { (1.0 - chance, softplus(-score)) } else { (-chance, softplus(score)) }
            }
            // Every event is positive; the rating is its confidence.
            Self::OneClass => {
                let error = 1.0 - score;
                (rating * error, rating * error * error)
            }
            // Of the pair with an item of score 0.
            Self::Bpr => (1.0 - sigmoid(score), softplus(-score)),
        }
    }

    /// Converts a score to a prediction: a rating, the probability of a positive, or a preference
    /// near 1.
    #[must_use]
    pub fn prediction(self, score: f32) -> f32 {
        match self {
            Self::Squared | Self::OneClass | Self::Bpr => score,
            Self::Logistic => sigmoid(score),
        }
    }

    /// Returns the score that predicts the mean rating.
    pub(super) fn base_score(self, mean: f32) -> f32 {
        match self {
            Self::Squared => mean,
            Self::Logistic => {
                let chance = mean.clamp(1e-4, 1.0 - 1e-4);
                (chance / (1.0 - chance)).ln()
            }
            // Nearly all pairs are unobserved.
            Self::OneClass | Self::Bpr => 0.0,
        }
    }

    /// Returns the target value of a rating, as used for the mean.
    pub(super) fn observed(self, rating: f32) -> f32 {
        match self {
            Self::Squared => rating,
            Self::Logistic => f32::from(rating > 0.0),
            Self::OneClass | Self::Bpr => 1.0,
        }
    }

    /// Returns the metric that selects the best epoch.
    #[must_use]
    pub const fn target_metric(self) -> TargetMetric {
        match self {
            Self::Squared => TargetMetric::minimize("rmse"),
            Self::Logistic => TargetMetric::minimize("logloss"),
            Self::OneClass | Self::Bpr => TargetMetric::maximize("ndcg@10"),
        }
    }

    /// Returns the name of the target metric.
    #[must_use]
    pub const fn metric_name(self) -> &'static str {
        self.target_metric().name
    }
}

pub(super) fn sigmoid(score: f32) -> f32 {
    1.0 / (1.0 + (-score).exp())
}

/// Computes `ln(1 + exp(score))` without overflow.
fn softplus(score: f32) -> f32 {
    score.max(0.0) + (-score.abs()).exp().ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradients_match_finite_differences() {
        for loss in [MfLoss::Squared, MfLoss::Logistic] {
            for rating in [0.0_f32, 1.0] {
                for score in [-3.0_f32, -0.2, 0.0, 1.0, 4.0] {
                    let cost = |score| f64::from(loss.slope_and_cost(rating, score).1);
                    let slope = f64::from(loss.slope_and_cost(rating, score).0);
                    let numeric = (cost(score + 1e-2) - cost(score - 1e-2)) / 2e-2;
                    // By convention, the gradient of the squared loss leaves out the factor 2.
                    let expected = if loss == MfLoss::Squared { -2.0 * slope } else { -slope };
                    assert!((numeric - expected).abs() < 2e-2, "{loss:?} {rating} {score}: {numeric} {expected}");
                }
            }
        }
    }

    #[test]
    fn large_scores_do_not_overflow() {
        assert!((MfLoss::Logistic.slope_and_cost(0.0, 200.0).1 - 200.0).abs() < 1e-3);
        assert!(MfLoss::Logistic.slope_and_cost(1.0, 200.0).1 < 1e-3);
        assert!((MfLoss::Logistic.prediction(MfLoss::Logistic.base_score(0.3)) - 0.3).abs() < 1e-6);
    }
}
