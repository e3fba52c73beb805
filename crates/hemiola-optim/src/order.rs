//! Orders of operations in which users of a rule differ.
//!
//! The alternatives are equal in real numbers and differ in the last bit of a result. They are
//! settings because a user's results must not change when it shares a rule with others.

use crate::Float;
use serde::{Deserialize, Serialize};

/// Order of operations of the step `r g / d` of a rule that divides by `d`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum StepOrder {
    /// `(r / d) g`: the learning rate of the element, times its gradient.
    #[default]
    DivideRate,
    /// `(r g) / d`: the plain step, divided.
    DivideProduct,
}

impl StepOrder {
    #[inline]
    pub(crate) fn step<W: Float>(self, rate: W, gradient: W, divisor: W) -> W {
        match self {
            Self::DivideRate => rate / divisor * gradient,
            Self::DivideProduct => rate * gradient / divisor,
        }
    }
}

/// Order of operations of the term `w g²` of a moving average of squares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SquareOrder {
    /// `w (g g)`: the square, times its weight.
    #[default]
    SquareFirst,
    /// `(w g) g`: a small weight keeps the square of a large gradient finite.
    WeightFirst,
}

impl SquareOrder {
    #[inline]
    pub(crate) fn term<W: Float>(self, weight: W, gradient: W) -> W {
        match self {
            Self::SquareFirst => weight * (gradient * gradient),
            Self::WeightFirst => weight * gradient * gradient,
        }
    }
}

/// Weights `k` and `1 - k` of the old average and of the new term in a moving average.
///
/// **Decision:** the complement is formed in `f64` and rounded once. A decay that was given in
/// `f32` has the complement that `f32` arithmetic gives it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AverageWeights<W> {
    pub(crate) old: W,
    pub(crate) new: W,
}

impl<W: Float> AverageWeights<W> {
    #[inline]
    pub(crate) fn new(decay: f64) -> Self {
        Self { old: W::from_f64(decay), new: W::from_f64(1.0 - decay) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn usual_decays_have_the_weights_of_their_decimal_digits() {
        let weights = |decay| {
            let AverageWeights { old, new } = AverageWeights::<f32>::new(decay);
            (old, new)
        };
        assert_eq!(weights(0.9), (0.9, 0.1));
        assert_eq!(weights(0.999), (0.999, 0.001));
        // As a decay of type `f32`, which is not 0.9.
        assert_eq!(weights(f64::from(0.9_f32)), (0.9, 1.0 - 0.9_f32));
    }

    proptest! {
        #[test]
        fn decays_in_single_precision_have_their_complement(decay in 0.0..=1.0_f32) {
            prop_assert_eq!(AverageWeights::<f32>::new(f64::from(decay)).new.to_bits(), (1.0 - decay).to_bits());
        }
    }
}
