//! What a prediction is compared with, and how.

use crate::training::Figure;
use serde::{Deserialize, Serialize};

/// What is minimized.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Loss {
    /// The square of the error: ratings are numbers.
    #[default]
    Squared,
    /// The logistic loss: ratings are yes (above 0) or no (0 or below).
    Logistic,
    /// Entries are events with a weight; what is not there is a weak no. See `one_class`.
    OneClass,
}

impl Loss {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Squared => "squared",
            Self::Logistic => "logistic",
            Self::OneClass => "one-class",
        }
    }

    /// How much the prediction should grow, and what the entry costs.
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
            // Every event is a yes, and a rating says how sure.
            Self::OneClass => {
                let error = 1.0 - score;
                (rating * error, rating * error * error)
            }
        }
    }

    /// What a score means: a rating, the chance of a yes, or how near it is to one.
    #[must_use]
    pub fn prediction(self, score: f32) -> f32 {
        match self {
            Self::Squared | Self::OneClass => score,
            Self::Logistic => sigmoid(score),
        }
    }

    /// The score that means the mean of all ratings.
    pub(super) fn score_of_mean(self, mean: f32) -> f32 {
        match self {
            Self::Squared => mean,
            Self::Logistic => {
                let chance = mean.clamp(1e-4, 1.0 - 1e-4);
                (chance / (1.0 - chance)).ln()
            }
            // Nearly all pairs are no events.
            Self::OneClass => 0.0,
        }
    }

    /// What the mean is taken of.
    pub(super) fn for_mean(self, rating: f32) -> f32 {
        match self {
            Self::Squared => rating,
            Self::Logistic => f32::from(rating > 0.0),
            Self::OneClass => 1.0,
        }
    }

    /// The figure that training looks at.
    #[must_use]
    pub const fn figure(self) -> Figure {
        match self {
            Self::Squared => Figure::low("rmse"),
            Self::Logistic => Figure::low("logloss"),
            Self::OneClass => Figure::high("ndcg@10"),
        }
    }

    /// Its name.
    #[must_use]
    pub const fn metric(self) -> &'static str {
        self.figure().name
    }
}

pub(super) fn sigmoid(score: f32) -> f32 {
    1.0 / (1.0 + (-score).exp())
}

/// `ln(1 + exp(score))`, without overflow.
fn softplus(score: f32) -> f32 {
    score.max(0.0) + (-score.abs()).exp().ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_are_those_of_costs() {
        for loss in [Loss::Squared, Loss::Logistic] {
            for rating in [0.0_f32, 1.0] {
                for score in [-3.0_f32, -0.2, 0.0, 1.0, 4.0] {
                    let cost = |score| f64::from(loss.slope_and_cost(rating, score).1);
                    let slope = f64::from(loss.slope_and_cost(rating, score).0);
                    let numeric = (cost(score + 1e-2) - cost(score - 1e-2)) / 2e-2;
                    // The slope of the square is half its derivative, as is usual.
                    let expected = if loss == Loss::Squared { -2.0 * slope } else { -slope };
                    assert!((numeric - expected).abs() < 2e-2, "{loss:?} {rating} {score}: {numeric} {expected}");
                }
            }
        }
    }

    #[test]
    fn large_scores_cost_what_they_are() {
        assert!((Loss::Logistic.slope_and_cost(0.0, 200.0).1 - 200.0).abs() < 1e-3);
        assert!(Loss::Logistic.slope_and_cost(1.0, 200.0).1 < 1e-3);
        assert!((Loss::Logistic.prediction(Loss::Logistic.score_of_mean(0.3)) - 0.3).abs() < 1e-6);
    }
}
