//! Newtypes for ids, so that a rank is never mistaken for a worker or a count.
//!
//! ```compile_fail
//! use hemiola_core::{Rank, WorkerId};
//! let rank: Rank = WorkerId::new(0); // a worker is not a peer
//! ```

use serde::{Deserialize, Serialize};
use std::fmt;

/// Rank of a peer in its job, from 0 to `size - 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rank(u32);

impl Rank {
    /// Root of the job: it prints, it is the rendezvous of the other peers, and it holds the result
    /// of a reduction.
    pub const ROOT: Self = Self(0);

    /// Creates the rank with this number.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Returns the rank for use as an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the rank as it is sent on the wire.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Returns all ranks of a job of `size` peers, in order.
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

/// Defines newtypes for ids that count from 0, each with `new` and `index`. The calling crate needs
/// `serde`.
///
/// ```
/// hemiola_core::define_ids! {
///     /// Number of a page.
///     PageId;
/// }
/// assert_eq!(PageId::new(3).index(), 3);
/// ```
#[macro_export]
macro_rules! define_ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(u32);

        impl $name {
            /// Creates the id with this number.
            #[must_use]
            pub const fn new(number: u32) -> Self {
                Self(number)
            }

            /// Returns the id for use as an index.
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

define_ids! {
    /// Number of a worker (a compute thread) within its peer.
    WorkerId;
}

/// Identifier of the job a frame belongs to. Two jobs on one host never mix, even if one reuses the
/// other's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(u64);

impl JobId {
    /// Creates the id with this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the id of the job called `name`: the FNV-1a hash of its bytes, equal on every peer
    /// and in every release.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        let hash = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Self(hash)
    }

    /// Returns the id as it is sent on the wire.
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
