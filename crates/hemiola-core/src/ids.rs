//! A type for each kind of number, so that a rank is never taken for a worker or a count.
//!
//! ```compile_fail
//! use hemiola_core::{Rank, WorkerId};
//! let rank: Rank = WorkerId::new(0); // a worker is not a peer
//! ```

use serde::{Deserialize, Serialize};
use std::fmt;

/// The number of a peer in its job, from 0 to `size - 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rank(u32);

impl Rank {
    /// The peer that prints, that others meet at, and that holds the result of a reduction.
    pub const ROOT: Self = Self(0);

    /// The peer with this number.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number, for use as an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The number as it travels.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// All ranks of a job of `size` peers, in order.
    ///
    /// ```
    /// use hemiola_core::Rank;
    /// assert_eq!(Rank::all(2).collect::<Vec<_>>(), [Rank::new(0), Rank::new(1)]);
    /// ```
    #[must_use]
    pub fn all(size: usize) -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator {
        (0..size).map(|index| Self(index as u32))
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Makes types for numbers that count things from 0, each with `new` and `index`. Whoever calls it needs `serde`.
///
/// ```
/// hemiola_core::numbers! {
///     /// The number of a page.
///     PageId;
/// }
/// assert_eq!(PageId::new(3).index(), 3);
/// ```
#[macro_export]
macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(u32);

        impl $name {
            /// The one with this number.
            #[must_use]
            pub const fn new(number: u32) -> Self {
                Self(number)
            }

            /// The number, for use as an index.
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                self.0.fmt(formatter)
            }
        }
    )*};
}

numbers! {
    /// The number of a worker (a compute thread) inside its peer.
    WorkerId;
}

/// Which job a frame belongs to. Two jobs on one host never mix, even when one takes over the other's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(u64);

impl JobId {
    /// The job with this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The job with this name (FNV-1a of its bytes: the same on every peer and every release).
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        let hash = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Self(hash)
    }

    /// The number as it travels.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_names_hash_to_published_values() {
        // Reference values of 64-bit FNV-1a.
        assert_eq!(JobId::from_name("").number(), 0xcbf2_9ce4_8422_2325);
        assert_eq!(JobId::from_name("a").number(), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(JobId::from_name("foobar").number(), 0x8594_4171_f739_67e8);
    }
}
