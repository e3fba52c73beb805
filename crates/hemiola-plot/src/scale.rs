//! Scale of an axis: from values to positions.
//!
//! **Invariant:** `low < high`, both within the range of safe arithmetic, and positive on a
//! logarithmic scale. Any set of values gives such a scale: none at all, one repeated value, or
//! NaN.

use crate::ticks::{self, AxisTick};

/// Largest absolute value that is shown. Differences of larger values would overflow.
const LARGEST: f64 = 1e300;

/// Smallest positive value that is distinguished from 0.
const SMALLEST: f64 = 1e-290;

/// Maps the values of an axis to positions from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AxisScale {
    low: f64,
    high: f64,
    logarithmic: bool,
    whole: bool,
    reversed: bool,
}

impl AxisScale {
    /// Creates a scale from the smallest to the largest of these values.
    pub fn of(values: impl IntoIterator<Item = f64>, logarithmic: bool) -> Self {
        let usable = values.into_iter().filter(|value| shows(*value, logarithmic));
        let ends = usable.fold(None, |ends: Option<[f64; 2]>, value| {
            Some(ends.map_or([value; 2], |[low, high]| [low.min(value), high.max(value)]))
        });
        let [low, high] = ends.unwrap_or(if logarithmic { [1.0, 10.0] } else { [0.0, 1.0] });
        let mut scale = Self { low, high, logarithmic, whole: false, reversed: false };
        // A narrower range cannot be labelled.
        let tight = high - low <= 1e-9 * low.abs().max(high.abs()).max(SMALLEST);
        if tight {
            [scale.low, scale.high] = match (logarithmic, low.abs().max(high.abs()) < SMALLEST) {
                (true, _) => [low / 2.0, high * 2.0],
                (false, true) => [-1.0, 1.0],
                (false, false) => [low - low.abs() * 0.1, high + high.abs() * 0.1],
            };
        }
        scale
    }

    /// Adds this share of its length at both ends, so that lines do not touch the frame.
    #[must_use]
    pub fn padded(self, share: f64) -> Self {
        if self.logarithmic {
            let factor = ((self.high.ln() - self.low.ln()) * share).exp();
            let (low, high) = ((self.low / factor).max(SMALLEST), (self.high * factor).min(LARGEST));
            Self { low, high, ..self }
        } else {
            let more = (self.high - self.low) * share;
            Self { low: self.low - more, high: self.high + more, ..self }
        }
    }

    /// Starts the scale at 0, if it is linear and all values are positive.
    #[must_use]
    pub fn from_zero(self) -> Self {
        if self.logarithmic || self.low < 0.0 { self } else { Self { low: 0.0, ..self } }
    }

    /// Restricts the labels to integers.
    #[must_use]
    pub fn integer_ticks(self) -> Self {
        Self { whole: true, ..self }
    }

    /// Places the high end at position 0.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self { reversed: true, ..self }
    }

    /// Returns whether a value can be shown: it is finite, and positive on a logarithmic scale.
    #[must_use]
    pub fn can_show(&self, value: f64) -> bool {
        shows(value, self.logarithmic)
    }

    /// Position of a value: 0 at the low end, 1 at the high end; the other way round if reversed.
    #[must_use]
    pub fn position(&self, value: f64) -> f64 {
        let position = if self.logarithmic {
            // Separate logarithms: the ratio of a very large and a very small value is infinite.
            (value.ln() - self.low.ln()) / (self.high.ln() - self.low.ln())
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if self.reversed { 1.0 - position } else { position }
    }

    /// Returns at most `most` labelled values, by position.
    #[must_use]
    pub fn ticks(&self, most: usize) -> Vec<AxisTick> {
        let mut ticks = if self.logarithmic {
            ticks::logarithmic(self.low, self.high, most)
        } else {
            ticks::linear(self.low, self.high, most, self.whole)
        };
        if self.reversed {
            ticks.reverse();
        }
        ticks
    }
}

fn shows(value: f64, logarithmic: bool) -> bool {
    value.abs() <= LARGEST && (!logarithmic || value >= SMALLEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn any_values_make_a_scale() {
        for logarithmic in [false, true] {
            for values in [
                vec![],
                vec![f64::NAN],
                vec![0.0, 0.0],
                vec![-3.0],
                vec![7.0; 3],
                vec![8.6e-309],
                vec![1e300, -1e300, f64::INFINITY],
            ] {
                let scale = AxisScale::of(values.clone(), logarithmic).padded(0.05);
                assert!(scale.low < scale.high && scale.ticks(6).len() >= 2, "{values:?}: {scale:?}");
            }
        }
        assert!((AxisScale::of([2.0, 8.0], false).from_zero().position(4.0) - 0.5).abs() < 1e-12);
        assert!((AxisScale::of([1.0, 100.0], true).position(10.0) - 0.5).abs() < 1e-12);
        let reversed = AxisScale::of([1.0, 100.0], true).reversed();
        let ticks = reversed.ticks(4);
        assert!((reversed.position(100.0), reversed.position(1.0)) == (0.0, 1.0), "{reversed:?}");
        assert!(ticks.windows(2).all(|pair| reversed.position(pair[0].value) < reversed.position(pair[1].value)));
    }

    proptest! {
        #[test]
        fn values_lie_between_the_ends_in_order(
            values in proptest::collection::vec(proptest::num::f64::ANY, 1..20), logarithmic: bool
        ) {
            let scale = AxisScale::of(values.iter().copied(), logarithmic).padded(0.05);
            prop_assert!(scale.low < scale.high, "{scale:?}");
            let mut shown: Vec<_> = values.into_iter().filter(|value| scale.can_show(*value)).collect();
            shown.sort_by(f64::total_cmp);
            let positions: Vec<_> = shown.iter().map(|value| scale.position(*value)).collect();
            prop_assert!(positions.iter().all(|position| (-1e-9..=1.0 + 1e-9).contains(position)), "{scale:?} {positions:?}");
            prop_assert!(positions.windows(2).all(|pair| pair[0] <= pair[1]));
            prop_assert!(scale.ticks(6).len() >= 2, "{scale:?} {:?}", scale.ticks(6));
        }
    }
}
