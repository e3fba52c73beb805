//! Placement of the shards of a table on peers.
//!
//! **Invariant:** the placement of a shard follows from its number and this value, which is
//! identical on every peer.

use crate::error::Error;
use hemiola_cluster::{Cluster, Result};
use hemiola_core::Rank;
use hemiola_tables_proto::ShardId;
use serde::{Deserialize, Serialize};

/// Peers that hold the rows of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Servers {
    /// The job's dedicated servers if it has any, else every peer. The default.
    #[default]
    Auto,
    /// Every peer that runs the user program.
    Peers,
    /// These peers, which also run the user program.
    On(Vec<Rank>),
    /// The job's dedicated servers: processes that only hold tables. `hemiola run --servers` starts
    /// them.
    Dedicated,
}

impl Servers {
    /// Resolves the peers of a job that hold the shards of a table.
    pub(crate) fn placement(&self, table: &str, cluster: &Cluster) -> Result<TablePlacement> {
        let wrong = |problem: String| Err(Error::Servers { table: table.to_owned(), problem }.into());
        let dedicated: Vec<Rank> = cluster.servers().collect();
        let all_peers = || Rank::all(cluster.size()).collect();
        Ok(match self {
            Self::Auto if dedicated.is_empty() => TablePlacement(all_peers()),
            Self::Peers => TablePlacement(all_peers()),
            Self::Dedicated if dedicated.is_empty() => {
                return wrong(
                    "it needs dedicated servers, but the job has none; start the job with `hemiola run --servers 1`"
                        .into(),
                );
            }
            Self::Auto | Self::Dedicated => TablePlacement(dedicated),
            Self::On(ranks) => {
                let mut sorted = ranks.clone();
                sorted.sort_unstable();
                sorted.dedup();
                if ranks.is_empty() || sorted.len() < ranks.len() {
                    return wrong("`Servers::On` needs at least one peer, and each peer once".into());
                }
                if let Some(far) = sorted.last().filter(|rank| rank.index() >= cluster.size()) {
                    return wrong(format!("`Servers::On` names peer {far}, but there are {} peers", cluster.size()));
                }
                TablePlacement(ranks.clone())
            }
        })
    }
}

/// Peers that hold shards, which are dealt to them in turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TablePlacement(Vec<Rank>);

impl TablePlacement {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn contains(&self, rank: Rank) -> bool {
        self.0.contains(&rank)
    }

    /// Peer that holds a shard.
    pub(crate) fn rank_of(&self, shard: ShardId) -> Rank {
        self.0[shard.index() % self.0.len()]
    }
}
