//! The ways to do an all-reduce.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How an all-reduce travels. All give every peer the same bits, each in an order of its own (see [`crate::protocol`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Algorithm {
    /// Chunks go round twice, once to be summed and once to be told: the fewest bytes, `2 (peers − 1)` messages one after the other.
    Ring,
    /// Up a binomial tree and down again: the fewest messages one after the other, whole vectors each.
    Tree,
    /// Halves, quarters, eighths, ... are exchanged with ever nearer peers, and back: few bytes *and* few messages, best with a power of two.
    HalvingDoubling,
    /// Whole vectors are exchanged with ever nearer peers, and both sum: half the messages one after the other of the last, `log₂ peers` times the bytes. For
    /// vectors that are short.
    Doubling,
    /// A tree inside each group of consecutive peers (a host), a ring between the first of each.
    TwoLevel {
        /// Peers in each group; the last may have fewer.
        group: usize,
    },
}

impl fmt::Display for Algorithm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ring => formatter.write_str("ring"),
            Self::Tree => formatter.write_str("tree"),
            Self::HalvingDoubling => formatter.write_str("halving-doubling"),
            Self::Doubling => formatter.write_str("doubling"),
            Self::TwoLevel { group } => write!(formatter, "two-level, groups of {group}"),
        }
    }
}
