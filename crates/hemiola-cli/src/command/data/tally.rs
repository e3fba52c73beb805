//! Minimum, mean and maximum of a stream of numbers, and the narrowest type that represents them.
//!
//! **Invariant:** [`ValueTally::join`] in the order of the pieces is bit-identical, whichever
//! workers computed them.

use serde::Serialize;

/// Statistics of one column or of all values.
#[derive(Clone, Copy, Debug)]
pub(super) struct ValueTally {
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
    whole: bool,
    /// Number of fields that are not numbers.
    texts: u64,
    /// Number of empty fields.
    missing: u64,
    /// Number of NaN and infinite values, which do not count for minimum, mean and maximum.
    not_finite: u64,
}

impl Default for ValueTally {
    fn default() -> Self {
        let (min, max) = (f64::INFINITY, f64::NEG_INFINITY);
        Self { count: 0, sum: 0.0, min, max, whole: true, texts: 0, missing: 0, not_finite: 0 }
    }
}

impl ValueTally {
    pub(super) fn add(&mut self, value: f64) {
        if !value.is_finite() {
            self.not_finite += 1;
            self.whole = false; // no integer type represents it
            return;
        }
        self.count += 1;
        self.sum += value;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.whole &= value.fract() == 0.0;
    }

    pub(super) fn miss(&mut self) {
        self.missing += 1;
    }

    /// Counts a field that is not a number.
    pub(super) fn text(&mut self) {
        self.texts += 1;
    }

    pub(super) fn join(&mut self, next: &Self) {
        self.count += next.count;
        self.sum += next.sum;
        self.min = self.min.min(next.min);
        self.max = self.max.max(next.max);
        self.whole &= next.whole;
        self.texts += next.texts;
        self.missing += next.missing;
        self.not_finite += next.not_finite;
    }

    /// Returns the number of values of any kind.
    pub(super) fn count(&self) -> u64 {
        self.count + self.not_finite + self.texts
    }

    pub(super) fn texts(&self) -> u64 {
        self.texts
    }

    /// Returns the number of numeric values.
    pub(super) fn numbers(&self) -> u64 {
        self.count + self.not_finite
    }

    pub(super) fn missing(&self) -> u64 {
        self.missing
    }

    /// Returns the statistics, or `None` without a finite number.
    pub(super) fn stats(&self) -> Option<ColumnStatistics> {
        if self.count == 0 {
            return None;
        }
        let mean = (self.sum / self.count as f64).clamp(self.min, self.max);
        let Self { min, max, not_finite, .. } = *self;
        Some(ColumnStatistics { r#type: self.number_type(), min, mean, max, not_finite })
    }

    fn number_type(&self) -> &'static str {
        let whole = [
            ("u8", 0.0, f64::from(u8::MAX)),
            ("u16", 0.0, f64::from(u16::MAX)),
            ("u32", 0.0, f64::from(u32::MAX)),
            ("i32", f64::from(i32::MIN), f64::from(i32::MAX)),
            ("u64", 0.0, u64::MAX as f64),
            ("i64", i64::MIN as f64, i64::MAX as f64),
        ];
        let fits = |&(_, min, max): &(&str, f64, f64)| self.whole && min <= self.min && self.max <= max;
        whole.iter().find(|range| fits(range)).map_or("f32", |&(name, ..)| name)
    }
}

/// Statistics of the numbers of a column, or of all values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ColumnStatistics {
    /// Narrowest of `u8`, `u16`, `u32`, `i32`, `u64`, `i64` for integers, else `f32`.
    pub(super) r#type: &'static str,
    pub(super) min: f64,
    pub(super) mean: f64,
    pub(super) max: f64,
    /// Number of NaN and infinite values, if they are kept.
    pub(super) not_finite: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(values: &[f64]) -> ValueTally {
        let mut tally = ValueTally::default();
        for &value in values {
            tally.add(value);
        }
        tally
    }

    #[test]
    fn the_type_is_as_narrow_as_the_numbers_allow() {
        let of = |values: &[f64]| tally(values).stats().unwrap().r#type;
        assert_eq!((of(&[0.0, 255.0]), of(&[256.0]), of(&[65_536.0])), ("u8", "u16", "u32"));
        assert_eq!((of(&[-1.0]), of(&[1e10]), of(&[-1e10]), of(&[0.5])), ("i32", "u64", "i64", "f32"));
    }

    #[test]
    fn joined_tallies_ignore_nan() {
        let mut joined = tally(&[1.0, f64::NAN]);
        joined.join(&tally(&[4.0]));
        let stats = joined.stats().unwrap();
        assert_eq!((stats.min, stats.mean, stats.max, stats.not_finite), (1.0, 2.5, 4.0, 1));
        assert_eq!((stats.r#type, joined.count()), ("f32", 3));
        assert_eq!(ValueTally::default().stats(), None);
    }
}
