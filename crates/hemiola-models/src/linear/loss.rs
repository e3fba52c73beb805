//! Losses, their conjugates, and the exact step along one dual coordinate.
//!
//! With `m` the margin `y (w·x + bias)` of an example and `α` its dual variable, `w = Σ α y x`. The
//! dual problem is to maximize `Σ gain(α) - ½ |w|²`. For any `α` its value is at most the minimum
//! of the primal problem, so the difference of both objectives (the *duality gap*) bounds the
//! distance from the minimum. A step maximizes the dual exactly along one `α`, without a learning
//! rate.
//!
//! The steps follow Hsieh et al. 2008 for both hinge losses and Yu, Huang and Lin 2011 for the
//! logistic loss.

use crate::training::TargetMetric;
use serde::{Deserialize, Serialize};

/// Newton's method for the logistic step stops when the derivative is below this, or after so many
/// steps; the next round continues from there.
const NEWTON_TOLERANCE: f64 = 1e-2;
const NEWTON_STEPS: usize = 8;
/// Smallest starting point of Newton's method, as a fraction of `C`.
const MIN_DUAL_SHARE: f64 = 1e-9;

/// Loss of an example by its margin `m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinearLoss {
    /// `max(0, 1 - m)`: the textbook support vector machine.
    Hinge,
    /// `max(0, 1 - m)²`: the default of liblinear and of scikit-learn's `LinearSVC`.
    SquaredHinge,
    /// `log(1 + exp(-m))`: logistic regression.
    Logistic,
}

/// Result of a step along one dual coordinate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct DualStep {
    /// New value of the dual variable.
    pub(super) alpha: f64,
    /// True if the variable was at a bound and the gradient points outward, so that it will
    /// probably stay there.
    pub(super) inactive: bool,
}

impl LinearLoss {
    /// Returns the kind of the model in saves, which is also its training command.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Hinge | Self::SquaredHinge => "svm",
            Self::Logistic => "logistic",
        }
    }

    /// Returns the target metric: the objective, not a validation metric. The minimum is the model
    /// that was asked for; to fit less closely, use a smaller `C`.
    #[must_use]
    pub const fn target_metric(self) -> TargetMetric {
        TargetMetric::minimize("objective")
    }

    /// Returns whether scores are log-odds.
    #[must_use]
    pub const fn has_probabilities(self) -> bool {
        matches!(self, Self::Logistic)
    }

    /// Returns the loss of an example with this margin.
    #[must_use]
    pub fn cost(self, margin: f64) -> f64 {
        match self {
            Self::Hinge => (1.0 - margin).max(0.0),
            Self::SquaredHinge => (1.0 - margin).max(0.0).powi(2),
            // No exponential can overflow.
            Self::Logistic => (-margin).max(0.0) + (-margin.abs()).exp().ln_1p(),
        }
    }

    /// Contribution of a dual variable to the dual objective: `-C loss*(-α / C)`.
    pub(super) fn gain(self, alpha: f64, c: f64) -> f64 {
        let entropy = |share: f64| if share > 0.0 { share * (share / c).ln() } else { 0.0 };
        match self {
            Self::Hinge => alpha,
            Self::SquaredHinge => alpha - alpha * alpha / (4.0 * c),
            Self::Logistic => -(entropy(alpha) + entropy(c - alpha)),
        }
    }

    /// Returns the `α` that maximizes the dual with all others fixed. `square` is the growth of
    /// `|w|²` per squared change: the squared norm of the example, and more where others change as
    /// well.
    pub(super) fn step(self, margin: f64, alpha: f64, square: f64, c: f64) -> DualStep {
        match self {
            Self::Hinge => {
                let slope = margin - 1.0;
                let inactive = (alpha <= 0.0 && slope > 0.0) || (alpha >= c && slope < 0.0);
                let alpha = if square > 0.0 {
                    (alpha - slope / square).clamp(0.0, c)
                } else if slope < 0.0 {
                    c
                } else {
                    0.0
                };
                DualStep { alpha, inactive }
            }
            Self::SquaredHinge => {
                let curve = 0.5 / c;
                let slope = margin - 1.0 + curve * alpha;
                DualStep { alpha: (alpha - slope / (square + curve)).max(0.0), inactive: alpha <= 0.0 && slope > 0.0 }
            }
            Self::Logistic => DualStep { alpha: logistic_step(margin, alpha, square, c), inactive: false },
        }
    }
}

/// Finds an approximate root of `square (z - α) + margin + log(z / (C - z))`. The smaller of `z`
/// and `C - z` is the unknown, so that neither is lost to rounding.
fn logistic_step(margin: f64, alpha: f64, square: f64, c: f64) -> f64 {
    let turned = margin <= 0.0;
    let (start, linear) = if turned { (c - alpha, -margin) } else { (alpha, margin) };
    let mut z = if start <= MIN_DUAL_SHARE * c {
        (c / (1.0 + linear.exp())).max(MIN_DUAL_SHARE * c)
    } else if start > 0.5 * c {
        0.1 * start
    } else {
        start
    };
    for step in 0..NEWTON_STEPS {
        let slope = square * (z - start) + linear + (z / (c - z)).ln();
        // At least one step is taken: near convergence all derivatives are small.
        if step > 0 && slope.abs() < NEWTON_TOLERANCE {
            break;
        }
        let next = z - slope / (square + c / (z * (c - z)));
        z = if next <= 0.0 {
            0.1 * z
        } else if next >= c {
            c - 0.1 * (c - z)
        } else {
            next
        };
    }
    if turned { c - z } else { z }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [LinearLoss; 3] = [LinearLoss::Hinge, LinearLoss::SquaredHinge, LinearLoss::Logistic];

    /// The dual objective along one coordinate, up to a constant.
    fn along(loss: LinearLoss, margin: f64, alpha: f64, square: f64, c: f64, to: f64) -> f64 {
        loss.gain(to, c) - margin * (to - alpha) - 0.5 * square * (to - alpha) * (to - alpha)
    }

    #[test]
    fn steps_maximize_the_dual() {
        for loss in ALL {
            for c in [0.01, 1.0, 30.0] {
                for margin in [-40.0, -1.0, 0.0, 0.3, 1.0, 1.7, 40.0] {
                    for alpha in [0.0, 0.2 * c, 0.9 * c, c] {
                        for square in [0.0, 0.01, 3.0, 2000.0] {
                            let step = loss.step(margin, alpha, square, c);
                            let reached = along(loss, margin, alpha, square, c, step.alpha);
                            assert!(reached.is_finite(), "{loss:?} {c} {margin} {alpha} {square}: {step:?}");
                            // The logistic step is only approximate.
                            let slack = if loss == LinearLoss::Logistic { 0.02 * c } else { 1e-9 * c };
                            for part in 0..=200 {
                                let other = along(loss, margin, alpha, square, c, c * f64::from(part) / 200.0);
                                assert!(reached >= other - slack, "{loss:?} {c} {margin} {alpha} {square}: {step:?}");
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn gains_are_conjugates_of_losses() {
        for loss in ALL {
            let c = 0.7;
            for part in 0..=10 {
                let alpha = c * f64::from(part) / 10.0;
                // Minimum of `C loss(m) + α m` over all margins.
                let least = (-4000..4000)
                    .map(|m| f64::from(m) / 200.0)
                    .map(|m| c * loss.cost(m) + alpha * m)
                    .fold(f64::INFINITY, f64::min);
                assert!((least - loss.gain(alpha, c)).abs() < 1e-3, "{loss:?} {alpha}: {least}");
            }
        }
    }

    #[test]
    fn losses_do_not_overflow() {
        assert!((LinearLoss::Logistic.cost(-800.0) - 800.0).abs() < 1e-9);
        assert!(LinearLoss::Logistic.cost(800.0) >= 0.0);
    }
}
