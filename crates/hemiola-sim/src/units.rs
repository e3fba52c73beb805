//! Spans of time and rates of transfer, as people write them: `200us`, `1gbit`.
//!
//! A [`Span`] is whole nanoseconds and a [`Rate`] whole bytes per second, so nothing depends on how a machine rounds. In descriptions both are text with a
//! unit, or a plain number of nanoseconds or bytes per second.

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A stretch of virtual time, in nanoseconds.
///
/// ```
/// use hemiola_sim::Span;
/// assert_eq!("200us".parse::<Span>()?, Span::from_nanos(200_000));
/// assert_eq!(Span::from_nanos(1_500_000).to_string(), "1.5ms");
/// # Ok::<(), hemiola_sim::units::BadUnit>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// So many nanoseconds.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// So many microseconds.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros * 1000)
    }

    /// So many milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// So many seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1_000_000_000)
    }

    /// So many seconds, rounded to nanoseconds; zero if that is less than none.
    #[must_use]
    pub fn from_secs_f64(secs: f64) -> Self {
        Self((secs * 1e9).round().max(0.0) as u64)
    }

    /// In nanoseconds.
    #[must_use]
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// In seconds.
    #[must_use]
    pub fn secs(self) -> f64 {
        self.0 as f64 * 1e-9
    }

    /// So many times as long.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self((self.0 as f64 * factor).round().max(0.0) as u64)
    }
}

/// Bytes per second.
///
/// ```
/// use hemiola_sim::Rate;
/// assert_eq!("1gbit".parse::<Rate>()?.bytes_per_second(), 125_000_000);
/// assert_eq!(Rate::from_bits(40_000_000_000).to_string(), "40gbit");
/// # Ok::<(), hemiola_sim::units::BadUnit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// So many bytes per second.
    #[must_use]
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// So many bits per second.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits / 8)
    }

    /// In bytes per second.
    #[must_use]
    pub const fn bytes_per_second(self) -> u64 {
        self.0
    }

    /// How long so many bytes take.
    #[must_use]
    pub fn span_of(self, bytes: u64) -> Span {
        Span((u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(self.0.max(1))).min(u128::from(u64::MAX)) as u64)
    }
}

/// Text that is no span or rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no {what}; write a number and a unit, for example `{example}`")]
pub struct BadUnit {
    text: String,
    what: &'static str,
    example: &'static str,
}

const SPANS: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
/// In bytes per second. The longer names come first, since `gbit` ends as `bit` does.
const RATES: [(&str, f64); 8] = [
    ("gbit", 1e9 / 8.0),
    ("mbit", 1e6 / 8.0),
    ("kbit", 1e3 / 8.0),
    ("bit", 1.0 / 8.0),
    ("GB/s", 1e9),
    ("MB/s", 1e6),
    ("kB/s", 1e3),
    ("B/s", 1.0),
];

/// The number before one of the units, times what the unit is worth.
fn parse(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let text = text.trim();
    let (number, worth) = units.iter().find_map(|(unit, worth)| Some((text.strip_suffix(unit)?, *worth)))?;
    let number: f64 = number.trim().parse().ok()?;
    let value = (number * worth).round();
    (value.is_finite() && value >= 0.0 && value < u64::MAX as f64).then_some(value)
}

impl FromStr for Span {
    type Err = BadUnit;

    fn from_str(text: &str) -> Result<Self, BadUnit> {
        // `s` ends all of them; the first that leaves a number counts.
        let bad = || BadUnit { text: text.to_owned(), what: "span of time", example: "200us" };
        parse(text, &SPANS).map(|nanos| Self(nanos as u64)).ok_or_else(bad)
    }
}

impl FromStr for Rate {
    type Err = BadUnit;

    fn from_str(text: &str) -> Result<Self, BadUnit> {
        let bad = || BadUnit { text: text.to_owned(), what: "rate of transfer", example: "1gbit" };
        parse(text, &RATES).map(|bytes| Self(bytes as u64)).ok_or_else(bad)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = SPANS.iter().rev().find(|(_, worth)| self.0 as f64 >= *worth).unwrap_or(&SPANS[0]);
        write!(formatter, "{}{}", self.0 as f64 / unit.1, unit.0)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.0 as f64 * 8.0;
        let units = [("gbit", 1e9), ("mbit", 1e6), ("kbit", 1e3)];
        let unit = units.into_iter().find(|(_, worth)| bits >= *worth).unwrap_or(("bit", 1.0));
        write!(formatter, "{}{}", bits / unit.1, unit.0)
    }
}

struct Text<T>(std::marker::PhantomData<T>, &'static str);

impl<T: FromStr<Err = BadUnit> + From<u64>> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.1)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<T, E> {
        Ok(T::from(number))
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<T, E> {
        u64::try_from(number).map(T::from).map_err(|_| E::custom("it is less than none"))
    }
}

impl From<u64> for Span {
    fn from(nanos: u64) -> Self {
        Self(nanos)
    }
}

impl From<u64> for Rate {
    fn from(bytes: u64) -> Self {
        Self(bytes)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Text with a unit only if it says exactly the same.
        let text = self.to_string();
        if text.parse() == Ok(*self) { serializer.serialize_str(&text) } else { serializer.serialize_u64(self.0) }
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.to_string();
        if text.parse() == Ok(*self) { serializer.serialize_str(&text) } else { serializer.serialize_u64(self.0) }
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Text(std::marker::PhantomData, "a span of time such as \"200us\""))
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Text(std::marker::PhantomData, "a rate such as \"1gbit\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for nanos in [0, 1, 999, 1000, 1_234_567, 200_000, 3_000_000_000, u64::MAX / 3] {
            let text = serde_json::to_string(&Span(nanos)).unwrap();
            assert_eq!(serde_json::from_str::<Span>(&text).unwrap(), Span(nanos), "{text}");
        }
        for bytes in [1, 125, 125_000_000, 1_250_000_000, 123_456_789] {
            let text = serde_json::to_string(&Rate(bytes)).unwrap();
            assert_eq!(serde_json::from_str::<Rate>(&text).unwrap(), Rate(bytes), "{text}");
        }
    }

    #[test]
    fn units_are_told_apart_and_nonsense_is_refused() {
        assert_eq!("1.5ms".parse(), Ok(Span(1_500_000)));
        assert_eq!("2 s".parse(), Ok(Span(2_000_000_000)));
        assert_eq!("10mbit".parse(), Ok(Rate(1_250_000)));
        assert_eq!("3MB/s".parse(), Ok(Rate(3_000_000)));
        for text in ["", "5", "ms", "-1s", "NaNs", "1e400s", "1 parsec"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
        assert_eq!(
            "fast".parse::<Rate>().unwrap_err().to_string(),
            "`fast` is no rate of transfer; write a number and a unit, for example `1gbit`"
        );
    }

    #[test]
    fn bytes_take_their_time() {
        assert_eq!(Rate::from_bits(8_000_000_000).span_of(1000), Span(1000));
        assert_eq!(Rate(0).span_of(u64::MAX), Span(u64::MAX));
    }
}
