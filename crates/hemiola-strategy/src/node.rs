//! What is decided for one shard of a variable.

use hemiola_collective_proto::graph::Topology;
use hemiola_collective_proto::{Algorithm, Encoding};
use hemiola_core::Rank;
use serde::{Deserialize, Serialize};

/// Where a shard lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Placement {
    /// At one peer, which keeps it for all.
    On(Rank),
    /// Row by row at several peers, as the rows of a table are.
    Sharded(Vec<Rank>),
    /// At every peer that trains, as a copy.
    Replicated,
}

/// How copies agree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Synchronizer {
    /// Updates go to where the shard lives, new values come back (reduce and broadcast).
    Served,
    /// The same for the rows that a batch touches alone (gather and scatter).
    ServedRows,
    /// Updates are summed by everybody for everybody.
    AllReduce {
        /// The way; the runtime chooses by its own measurements if none is given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        algorithm: Option<Algorithm>,
        /// Shards of the same group travel in one message.
        group: u32,
    },
    /// Everybody sends the factors of its update to everybody.
    Factors,
    /// Copies are averaged with those of neighbours in a graph. They are not equal after a step.
    Mix(Topology),
}

/// What is decided for one shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Where it lives.
    pub placement: Placement,
    /// How copies agree.
    pub synchronizer: Synchronizer,
    /// The form in which updates travel. New values travel as they are.
    pub encoding: Encoding,
    /// By how many steps a copy may lag.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub staleness: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(staleness: &u64) -> bool {
    *staleness == 0
}

impl Node {
    /// Served by one peer.
    #[must_use]
    pub fn served(peer: Rank) -> Self {
        Self {
            placement: Placement::On(peer),
            synchronizer: Synchronizer::Served,
            encoding: Encoding::Plain,
            staleness: 0,
        }
    }

    /// Rows served by several peers.
    #[must_use]
    pub fn served_rows(peers: Vec<Rank>) -> Self {
        let (placement, synchronizer) = (Placement::Sharded(peers), Synchronizer::ServedRows);
        Self { placement, synchronizer, encoding: Encoding::Plain, staleness: 0 }
    }

    /// Summed with a group.
    #[must_use]
    pub fn all_reduce(group: u32) -> Self {
        let synchronizer = Synchronizer::AllReduce { algorithm: None, group };
        Self { placement: Placement::Replicated, synchronizer, encoding: Encoding::Plain, staleness: 0 }
    }

    /// Rebuilt from factors.
    #[must_use]
    pub fn factors(pairs: u64) -> Self {
        let encoding = Encoding::SufficientFactors { pairs: pairs as usize };
        Self { placement: Placement::Replicated, synchronizer: Synchronizer::Factors, encoding, staleness: 0 }
    }

    /// The group in which it is summed, if it is.
    #[must_use]
    pub fn group(&self) -> Option<u32> {
        match self.synchronizer {
            Synchronizer::AllReduce { group, .. } => Some(group),
            _ => None,
        }
    }
}
