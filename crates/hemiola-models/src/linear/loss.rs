//! Losses, their conjugates, and the exact step along one dual coordinate.
//!
//! With `m` the margin `y (w·x + bias)` of an example and `α` its dual variable, `w = Σ α y x`. The dual problem is to maximize
//! `Σ gain(α) - ½ |w|²`; whatever the `α`, that is at most the minimum of the primal one, so the difference between both
//! objectives (the *gap*) bounds how far from the minimum a model is. A step maximizes the dual along one `α` exactly: no step size is needed.
//!
//! The steps are those of Hsieh et al. 2008 for both hinges and of Yu, Huang and Lin 2011 for the logistic loss.

use crate::training::Figure;
use serde::{Deserialize, Serialize};

/// Newton's method for the logistic step ends when the derivative is below this, or after so many steps: the next pass goes on from there.
const SLOPE: f64 = 1e-2;
const NEWTON_STEPS: usize = 8;
/// A share of `C` so small that Newton's method had better not start there.
const NEARLY_NONE: f64 = 1e-9;

/// What an example costs by its margin `m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// `max(0, 1 - m)`: the support vector machine of the books.
    Hinge,
    /// `max(0, 1 - m)²`: the default of liblinear and of scikit-learn's `LinearSVC`.
    SquaredHinge,
    /// `log(1 + exp(-m))`: logistic regression.
    Logistic,
}

/// Where a step along a coordinate leads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    /// The new value of the dual variable.
    pub(super) alpha: f64,
    /// It was at the end of its range before, and the slope leads out of it: it will probably stay there for a while.
    pub(super) idle: bool,
}

impl Loss {
    /// What a save of a model with this loss calls itself, and the command that trains it.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Hinge | Self::SquaredHinge => "svm",
            Self::Logistic => "logistic",
        }
    }

    /// The figure that counts: what is minimized, and not a figure of held-out examples. The minimum is the model that was asked for; to learn less
    /// from the examples, a smaller `C` is the way.
    #[must_use]
    pub const fn figure(self) -> Figure {
        Figure::low("objective")
    }

    /// Whether scores are the logarithms of odds.
    #[must_use]
    pub const fn has_chances(self) -> bool {
        matches!(self, Self::Logistic)
    }

    /// What an example with this margin costs.
    #[must_use]
    pub fn cost(self, margin: f64) -> f64 {
        match self {
            Self::Hinge => (1.0 - margin).max(0.0),
            Self::SquaredHinge => (1.0 - margin).max(0.0).powi(2),
            // Neither exponential can overflow.
            Self::Logistic => (-margin).max(0.0) + (-margin.abs()).exp().ln_1p(),
        }
    }

    /// What a dual variable adds to the dual objective: `-C loss*(-α / C)`.
    pub(super) fn gain(self, alpha: f64, c: f64) -> f64 {
        let entropy = |share: f64| if share > 0.0 { share * (share / c).ln() } else { 0.0 };
        match self {
            Self::Hinge => alpha,
            Self::SquaredHinge => alpha - alpha * alpha / (4.0 * c),
            Self::Logistic => -(entropy(alpha) + entropy(c - alpha)),
        }
    }

    /// The `α` that maximizes the dual, all others being as they are. `square` is how much `|w|²` grows with the square of the change: the
    /// squared length of the example, and more where others change as well.
    pub(super) fn step(self, margin: f64, alpha: f64, square: f64, c: f64) -> Step {
        match self {
            Self::Hinge => {
                let slope = margin - 1.0;
                let idle = (alpha <= 0.0 && slope > 0.0) || (alpha >= c && slope < 0.0);
                let alpha = if square > 0.0 {
                    (alpha - slope / square).clamp(0.0, c)
                } else if slope < 0.0 {
                    c
                } else {
                    0.0
                };
                Step { alpha, idle }
            }
            Self::SquaredHinge => {
                let curve = 0.5 / c;
                let slope = margin - 1.0 + curve * alpha;
                Step { alpha: (alpha - slope / (square + curve)).max(0.0), idle: alpha <= 0.0 && slope > 0.0 }
            }
            Self::Logistic => Step { alpha: logistic_step(margin, alpha, square, c), idle: false },
        }
    }
}

/// Where `square (z - α) + margin + log(z / (C - z))` is nearly 0. Of `z` and `C - z` the one that will be the smaller is looked for, so that neither
/// is lost to rounding.
fn logistic_step(margin: f64, alpha: f64, square: f64, c: f64) -> f64 {
    let turned = margin <= 0.0;
    let (start, linear) = if turned { (c - alpha, -margin) } else { (alpha, margin) };
    let mut z = if start <= NEARLY_NONE * c {
        (c / (1.0 + linear.exp())).max(NEARLY_NONE * c)
    } else if start > 0.5 * c {
        0.1 * start
    } else {
        start
    };
    for step in 0..NEWTON_STEPS {
        let slope = square * (z - start) + linear + (z / (c - z)).ln();
        // At least one step is made: near the end of training all slopes are small.
        if step > 0 && slope.abs() < SLOPE {
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

    const ALL: [Loss; 3] = [Loss::Hinge, Loss::SquaredHinge, Loss::Logistic];

    /// The dual objective along one coordinate, up to a constant.
    fn along(loss: Loss, margin: f64, alpha: f64, square: f64, c: f64, to: f64) -> f64 {
        loss.gain(to, c) - margin * (to - alpha) - 0.5 * square * (to - alpha) * (to - alpha)
    }

    #[test]
    fn no_other_step_is_better() {
        for loss in ALL {
            for c in [0.01, 1.0, 30.0] {
                for margin in [-40.0, -1.0, 0.0, 0.3, 1.0, 1.7, 40.0] {
                    for alpha in [0.0, 0.2 * c, 0.9 * c, c] {
                        for square in [0.0, 0.01, 3.0, 2000.0] {
                            let step = loss.step(margin, alpha, square, c);
                            let reached = along(loss, margin, alpha, square, c, step.alpha);
                            assert!(reached.is_finite(), "{loss:?} {c} {margin} {alpha} {square}: {step:?}");
                            // The logistic step is not exact, but nearly so.
                            let slack = if loss == Loss::Logistic { 0.02 * c } else { 1e-9 * c };
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
    fn gains_are_conjugates_of_costs() {
        for loss in ALL {
            let c = 0.7;
            for part in 0..=10 {
                let alpha = c * f64::from(part) / 10.0;
                // The least of C loss(m) + α m over all margins.
                let least = (-4000..4000)
                    .map(|m| f64::from(m) / 200.0)
                    .map(|m| c * loss.cost(m) + alpha * m)
                    .fold(f64::INFINITY, f64::min);
                assert!((least - loss.gain(alpha, c)).abs() < 1e-3, "{loss:?} {alpha}: {least}");
            }
        }
    }

    #[test]
    fn costs_are_finite_however_wrong_a_score_is() {
        assert!((Loss::Logistic.cost(-800.0) - 800.0).abs() < 1e-9);
        assert!(Loss::Logistic.cost(800.0) >= 0.0);
    }
}
