//! Durations and data rates with units: `200us`, `1gbit`.
//!
//! A [`SimDuration`] is an integer number of nanoseconds and a [`DataRate`] an integer number of
//! bytes per second, so nothing depends on rounding. In a cluster spec both are text with a unit,
//! or a plain number of nanoseconds or bytes per second.

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A duration of virtual time, in nanoseconds; also a time since the start of a run.
///
/// ```
/// use hemiola_sim::SimDuration;
/// assert_eq!("200us".parse::<SimDuration>()?, SimDuration::from_nanos(200_000));
/// assert_eq!(SimDuration::from_nanos(1_500_000).to_string(), "1.5ms");
/// # Ok::<(), hemiola_sim::units::UnitParseError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SimDuration(u64);

impl SimDuration {
    /// The duration of zero nanoseconds.
    pub const ZERO: Self = Self(0);

    /// Creates a duration from nanoseconds.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Creates a duration from microseconds.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros * 1000)
    }

    /// Creates a duration from milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// Creates a duration from seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1_000_000_000)
    }

    /// Creates a duration from seconds, rounded to nanoseconds; zero if negative.
    #[must_use]
    pub fn from_secs_f64(secs: f64) -> Self {
        Self((secs * 1e9).round().max(0.0) as u64)
    }

    /// Returns the duration in nanoseconds.
    #[must_use]
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Returns the duration in seconds.
    #[must_use]
    pub fn secs(self) -> f64 {
        self.0 as f64 * 1e-9
    }

    /// Multiplies the duration, rounded to nanoseconds.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self((self.0 as f64 * factor).round().max(0.0) as u64)
    }
}

/// A data rate in bytes per second.
///
/// ```
/// use hemiola_sim::DataRate;
/// assert_eq!("1gbit".parse::<DataRate>()?.bytes_per_second(), 125_000_000);
/// assert_eq!(DataRate::from_bits(40_000_000_000).to_string(), "40gbit");
/// # Ok::<(), hemiola_sim::units::UnitParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataRate(u64);

impl DataRate {
    /// Creates a rate from bytes per second.
    #[must_use]
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Creates a rate from bits per second.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits / 8)
    }

    /// Returns the rate in bytes per second.
    #[must_use]
    pub const fn bytes_per_second(self) -> u64 {
        self.0
    }

    /// Returns the time that a transfer of this size takes.
    #[must_use]
    pub fn transfer_time(self, bytes: u64) -> SimDuration {
        SimDuration(
            (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(self.0.max(1))).min(u128::from(u64::MAX)) as u64
        )
    }
}

/// Text that is neither a duration nor a data rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {what}; use a number with a unit, for example `{example}`")]
pub struct UnitParseError {
    text: String,
    what: &'static str,
    example: &'static str,
}

const DURATION_UNITS: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
/// In bytes per second. Longer names come first, since `gbit` ends with `bit`.
const RATE_UNITS: [(&str, f64); 8] = [
    ("gbit", 1e9 / 8.0),
    ("mbit", 1e6 / 8.0),
    ("kbit", 1e3 / 8.0),
    ("bit", 1.0 / 8.0),
    ("GB/s", 1e9),
    ("MB/s", 1e6),
    ("kB/s", 1e3),
    ("B/s", 1.0),
];

/// Parses a number with one of the units.
fn parse(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let text = text.trim();
    let (number, worth) = units.iter().find_map(|(unit, worth)| Some((text.strip_suffix(unit)?, *worth)))?;
    let number: f64 = number.trim().parse().ok()?;
    let value = (number * worth).round();
    (value.is_finite() && value >= 0.0 && value < u64::MAX as f64).then_some(value)
}

impl FromStr for SimDuration {
    type Err = UnitParseError;

    fn from_str(text: &str) -> Result<Self, UnitParseError> {
        // All units end with `s`; the first that leaves a number counts.
        let bad = || UnitParseError { text: text.to_owned(), what: "duration", example: "200us" };
        parse(text, &DURATION_UNITS).map(|nanos| Self(nanos as u64)).ok_or_else(bad)
    }
}

impl FromStr for DataRate {
    type Err = UnitParseError;

    fn from_str(text: &str) -> Result<Self, UnitParseError> {
        let bad = || UnitParseError { text: text.to_owned(), what: "data rate", example: "1gbit" };
        parse(text, &RATE_UNITS).map(|bytes| Self(bytes as u64)).ok_or_else(bad)
    }
}

impl fmt::Display for SimDuration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = DURATION_UNITS.iter().rev().find(|(_, worth)| self.0 as f64 >= *worth).unwrap_or(&DURATION_UNITS[0]);
        write!(formatter, "{}{}", self.0 as f64 / unit.1, unit.0)
    }
}

impl fmt::Display for DataRate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.0 as f64 * 8.0;
        let units = [("gbit", 1e9), ("mbit", 1e6), ("kbit", 1e3)];
        let unit = units.into_iter().find(|(_, worth)| bits >= *worth).unwrap_or(("bit", 1.0));
        write!(formatter, "{}{}", bits / unit.1, unit.0)
    }
}

struct UnitVisitor<T>(std::marker::PhantomData<T>, &'static str);

impl<T: FromStr<Err = UnitParseError> + From<u64>> Visitor<'_> for UnitVisitor<T> {
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
        u64::try_from(number).map(T::from).map_err(|_| E::custom("a negative number; use zero or more"))
    }
}

impl From<u64> for SimDuration {
    fn from(nanos: u64) -> Self {
        Self(nanos)
    }
}

impl From<u64> for DataRate {
    fn from(bytes: u64) -> Self {
        Self(bytes)
    }
}

impl Serialize for SimDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // As text with a unit only if that is exact.
        let text = self.to_string();
        if text.parse() == Ok(*self) { serializer.serialize_str(&text) } else { serializer.serialize_u64(self.0) }
    }
}

impl Serialize for DataRate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.to_string();
        if text.parse() == Ok(*self) { serializer.serialize_str(&text) } else { serializer.serialize_u64(self.0) }
    }
}

impl<'de> Deserialize<'de> for SimDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UnitVisitor(std::marker::PhantomData, "a duration such as \"200us\""))
    }
}

impl<'de> Deserialize<'de> for DataRate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UnitVisitor(std::marker::PhantomData, "a data rate such as \"1gbit\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_round_trip() {
        for nanos in [0, 1, 999, 1000, 1_234_567, 200_000, 3_000_000_000, u64::MAX / 3] {
            let text = serde_json::to_string(&SimDuration(nanos)).unwrap();
            assert_eq!(serde_json::from_str::<SimDuration>(&text).unwrap(), SimDuration(nanos), "{text}");
        }
        for bytes in [1, 125, 125_000_000, 1_250_000_000, 123_456_789] {
            let text = serde_json::to_string(&DataRate(bytes)).unwrap();
            assert_eq!(serde_json::from_str::<DataRate>(&text).unwrap(), DataRate(bytes), "{text}");
        }
    }

    #[test]
    fn units_are_distinguished_and_others_refused() {
        assert_eq!("1.5ms".parse(), Ok(SimDuration(1_500_000)));
        assert_eq!("2 s".parse(), Ok(SimDuration(2_000_000_000)));
        assert_eq!("10mbit".parse(), Ok(DataRate(1_250_000)));
        assert_eq!("3MB/s".parse(), Ok(DataRate(3_000_000)));
        for text in ["", "5", "ms", "-1s", "NaNs", "1e400s", "1 parsec"] {
            assert!(text.parse::<SimDuration>().is_err(), "{text}");
        }
        assert_eq!(
            "fast".parse::<DataRate>().unwrap_err().to_string(),
            "`fast` is not a data rate; use a number with a unit, for example `1gbit`"
        );
    }

    #[test]
    fn transfer_times_round_up() {
        assert_eq!(DataRate::from_bits(8_000_000_000).transfer_time(1000), SimDuration(1000));
        assert_eq!(DataRate(0).transfer_time(u64::MAX), SimDuration(u64::MAX));
    }
}
