//! Placement of the shards of a table on peers.
//!
//! **Invariant:** the peer of a shard follows from the shard's number and this value, which is
//! identical on every peer.

use crate::spec::ShardId;
use hemiola_core::Rank;
use serde::{Deserialize, Serialize};

/// Peers that hold the shards of a table. Shards are dealt to them in turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TablePlacement(Vec<Rank>);

impl TablePlacement {
    /// Creates the placement on these peers, in this order.
    ///
    /// # Panics
    /// If there are no peers.
    #[must_use]
    pub fn new(peers: Vec<Rank>) -> Self {
        assert!(!peers.is_empty(), "the shards of a table need at least one peer");
        Self(peers)
    }

    /// Creates the placement on all peers of a job with `peers` peers.
    #[must_use]
    pub fn on_all(peers: usize) -> Self {
        Self::new(Rank::all(peers).collect())
    }

    /// Number of peers that hold shards.
    #[must_use]
    pub fn peers(&self) -> usize {
        self.0.len()
    }

    /// Returns true if the peer holds shards.
    #[must_use]
    pub fn contains(&self, rank: Rank) -> bool {
        self.0.contains(&rank)
    }

    /// Peer that holds a shard.
    #[must_use]
    pub fn rank_of(&self, shard: ShardId) -> Rank {
        self.0[shard.index() % self.0.len()]
    }
}
