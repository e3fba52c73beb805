//! Point in time, measured from the start of an environment.
//!
//! Code that holds a `std::time::Instant` cannot run in virtual time, because an `Instant` cannot
//! be constructed. A [`Moment`] counts nanoseconds since the start of its [`Env`](crate::Env).
//! **Invariant:** moments of different environments are never compared; they do not cross the wire.

use std::ops::{Add, Sub};
use std::time::Duration;

/// Point in time, as nanoseconds since the start of its environment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// Start of the environment.
    pub const ZERO: Self = Self(0);

    /// Creates the moment this many nanoseconds after the start.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the nanoseconds since the start.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the time from `earlier` to this moment; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    /// Saturates at the end of time, so that an unbounded wait needs no special case.
    fn add(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

impl Sub for Moment {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_instead_of_panicking() {
        assert_eq!(Moment::from_nanos(5) + Duration::MAX, Moment::from_nanos(u64::MAX));
        assert_eq!(Moment::ZERO - Moment::from_nanos(7), Duration::ZERO);
    }
}
