//! Bandwidth of a link or of a budget, in whole bytes per second.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Bandwidth in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bandwidth(u64);

impl Bandwidth {
    /// Creates a bandwidth of this many bytes per second.
    #[must_use]
    pub const fn bytes_per_second(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Creates a bandwidth of this many megabits (10⁶ bits) per second.
    #[must_use]
    pub const fn mbps(megabits: u64) -> Self {
        Self(megabits * 1_000_000 / 8)
    }

    /// Returns the number of bytes per second.
    #[must_use]
    pub const fn per_second(self) -> u64 {
        self.0
    }

    /// Returns the number of bytes that fit into `time`.
    #[must_use]
    pub fn bytes_in(self, time: Duration) -> usize {
        usize::try_from(u128::from(self.0) * time.as_nanos() / 1_000_000_000).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:.1} Mbit/s", self.0 as f64 * 8e-6)
    }
}
