//! Decision for one shard of a variable.

use hemiola_collective_proto::graph::Topology;
use hemiola_collective_proto::{Algorithm, Compression};
use hemiola_core::Rank;
use serde::{Deserialize, Serialize};

/// Placement of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ShardPlacement {
    /// On one peer, which serves it to all.
    On(Rank),
    /// Row by row on several peers, like the rows of a table.
    Sharded(Vec<Rank>),
    /// A copy on every training peer.
    Replicated,
}

/// Synchronization method of the copies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Synchronizer {
    /// Parameter server: updates go to the owner of the shard, new values come back (reduce and
    /// broadcast).
    ParameterServer,
    /// Parameter server for the rows that a batch touches only (gather and scatter).
    ParameterServerRows,
    /// All-reduce of the updates.
    AllReduce {
        /// Algorithm of the all-reduce. By default the executor chooses one that does not depend on
        /// measurements.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        algorithm: Option<Algorithm>,
        /// Group of the shard; shards of a group are fused into one message.
        group: u32,
    },
    /// Every peer sends the sufficient factors of its update to all peers.
    SufficientFactors,
    /// Gossip averaging with the neighbours in a graph. Copies are not equal after a step.
    Gossip(Topology),
}

/// Decision for one shard: placement, synchronizer, compression and staleness bound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StrategyNode {
    /// Placement of the shard.
    pub placement: ShardPlacement,
    /// Synchronization method of its copies.
    pub synchronizer: Synchronizer,
    /// Compression of the updates. New values travel uncompressed.
    pub compression: Compression,
    /// Staleness bound in steps; 0 by default.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub staleness: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(staleness: &u64) -> bool {
    *staleness == 0
}

impl StrategyNode {
    /// Returns a node served by one peer.
    #[must_use]
    pub fn parameter_server(peer: Rank) -> Self {
        Self {
            placement: ShardPlacement::On(peer),
            synchronizer: Synchronizer::ParameterServer,
            compression: Compression::Plain,
            staleness: 0,
        }
    }

    /// Returns a node whose rows are served by several peers.
    #[must_use]
    pub fn parameter_server_rows(peers: Vec<Rank>) -> Self {
        let (placement, synchronizer) = (ShardPlacement::Sharded(peers), Synchronizer::ParameterServerRows);
        Self { placement, synchronizer, compression: Compression::Plain, staleness: 0 }
    }

    /// Returns a node that is all-reduced in a group.
    #[must_use]
    pub fn all_reduce(group: u32) -> Self {
        let synchronizer = Synchronizer::AllReduce { algorithm: None, group };
        Self { placement: ShardPlacement::Replicated, synchronizer, compression: Compression::Plain, staleness: 0 }
    }

    /// Returns a node that is rebuilt from sufficient factors.
    #[must_use]
    pub fn sufficient_factors(pairs: u64) -> Self {
        let compression = Compression::SufficientFactors { pairs: pairs as usize };
        Self {
            placement: ShardPlacement::Replicated,
            synchronizer: Synchronizer::SufficientFactors,
            compression,
            staleness: 0,
        }
    }

    /// All-reduce group of the node, if it has one.
    #[must_use]
    pub fn group(&self) -> Option<u32> {
        match self.synchronizer {
            Synchronizer::AllReduce { group, .. } => Some(group),
            _ => None,
        }
    }
}
