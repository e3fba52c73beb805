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

impl Algorithm {
    /// How many whole vectors a peer sends, as a mean over all peers: `2 (peers − 1) / peers`, but for [`Algorithm::Doubling`], where all of the largest power of two `p ≤ peers` send theirs
    /// `log₂ p` times, and each of the others once there and once back.
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
    use crate::protocol::{Operation, Operator, Step};
    use hemiola_core::Rank;

    #[test]
    fn vectors_sent_are_those_of_the_steps() {
        const LENGTH: usize = 40;
        for peers in 1..=17 {
            let flat = [Algorithm::Ring, Algorithm::Tree, Algorithm::HalvingDoubling, Algorithm::Doubling];
            for algorithm in flat.into_iter().chain((1..=peers).map(|group| Algorithm::TwoLevel { group })) {
                let operation = Operation::AllReduce { algorithm, operator: Operator::Sum, length: LENGTH };
                let steps = Rank::all(peers).flat_map(|me| operation.steps(me, peers, LENGTH));
                let sent = |step: Step| if let Step::Send { range, .. } = step { range.len() } else { 0 };
                let total: usize = steps.map(sent).sum();
                let said = algorithm.sent_vectors(peers) * (peers * LENGTH) as f64;
                assert!((total as f64 - said).abs() < 1e-6, "{algorithm} among {peers}: {total}, not {said}");
            }
        }
    }
}
