//! All-reduce algorithms and their communication volume.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Communication pattern of an all-reduce. Every algorithm gives all peers the same bits; the order
/// of the additions differs between algorithms (see [`crate::protocol`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Algorithm {
    /// Ring: each chunk goes round twice, first to be reduced and then to be gathered. The fewest
    /// bytes, in `2 (peers − 1)` consecutive messages.
    Ring,
    /// Reduce to the root of a binomial tree, then broadcast from it. Few consecutive messages,
    /// each with the whole vector.
    Tree,
    /// Recursive halving, then doubling: peers exchange halves, quarters, eighths, ... and gather
    /// them back in reverse. Few bytes *and* few messages; best with a power of two of peers.
    HalvingDoubling,
    /// Recursive doubling: pairs of peers exchange and sum whole vectors. Half as many consecutive
    /// messages as halving and doubling, and `log₂ peers` vectors per peer. For short vectors.
    Doubling,
    /// A tree inside each group of consecutive peers (a host), and a ring between the first peers
    /// of the groups.
    TwoLevel {
        /// Number of peers per group; the last group may have fewer.
        group: usize,
    },
}

impl Algorithm {
    /// Number of whole vectors that a peer sends, as a mean over all peers. It is
    /// `2 (peers − 1) / peers`, except for [`Algorithm::Doubling`]: there each of the largest power
    /// of two `p ≤ peers` sends `log₂ p` vectors, and each peer beyond `p` adds one vector in each
    /// direction.
    #[must_use]
    pub fn sent_vectors(self, peers: usize) -> f64 {
        let peers = peers.max(1);
        let total = match self {
            Self::Doubling => {
                let rounds = peers.ilog2();
                let core = 1_usize << rounds;
                core as f64 * f64::from(rounds) + 2.0 * (peers - core) as f64
            }
            _ => 2.0 * (peers - 1) as f64,
        };
        total / peers as f64
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{CollectiveStep, Operation, ReduceOp};
    use hemiola_core::Rank;

    #[test]
    fn vectors_sent_are_those_of_the_steps() {
        const LENGTH: usize = 40;
        for peers in 1..=17 {
            let flat = [Algorithm::Ring, Algorithm::Tree, Algorithm::HalvingDoubling, Algorithm::Doubling];
            for algorithm in flat.into_iter().chain((1..=peers).map(|group| Algorithm::TwoLevel { group })) {
                let operation = Operation::AllReduce { algorithm, operator: ReduceOp::Sum, length: LENGTH };
                let steps = Rank::all(peers).flat_map(|me| operation.steps(me, peers, LENGTH));
                let sent =
                    |step: CollectiveStep| if let CollectiveStep::Send { range, .. } = step { range.len() } else { 0 };
                let total: usize = steps.map(sent).sum();
                let expected = algorithm.sent_vectors(peers) * (peers * LENGTH) as f64;
                assert!((total as f64 - expected).abs() < 1e-6, "{algorithm} among {peers}: {total}, not {expected}");
            }
        }
    }
}
