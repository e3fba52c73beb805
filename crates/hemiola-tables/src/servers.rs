//! Which peers hold the shards of a table.
//!
//! **Invariant:** where a shard is follows from its number and this value, which every peer has alike.

use crate::error::Error;
use hemiola_cluster::{Cluster, Result};
use hemiola_core::Rank;
use hemiola_tables_proto::ShardId;
use serde::{Deserialize, Serialize};

/// Who holds a table's rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Servers {
    /// The job's dedicated servers if it has any, else every peer.
    #[default]
    Auto,
    /// Every peer that runs the program.
    Peers,
    /// These peers. They run the program, too.
    On(Vec<Rank>),
    /// The job's dedicated servers: processes that only hold tables. `hemiola run --servers` starts them.
    Dedicated,
}

impl Servers {
    /// The peers of a job that hold the shards of a table.
    pub(crate) fn homes(&self, table: &str, cluster: &Cluster) -> Result<Homes> {
        let wrong = |problem: String| Err(Error::Servers { table: table.to_owned(), problem }.into());
        let dedicated: Vec<Rank> = cluster.servers().collect();
        let everybody = || Rank::all(cluster.size()).collect();
        Ok(match self {
            Self::Auto if dedicated.is_empty() => Homes(everybody()),
            Self::Peers => Homes(everybody()),
            Self::Dedicated if dedicated.is_empty() => {
                return wrong(
                    "dedicated servers are to hold it, and this job has none; start it with `hemiola run --servers 1`"
                        .into(),
                );
            }
            Self::Auto | Self::Dedicated => Homes(dedicated),
            Self::On(ranks) => {
                let mut sorted = ranks.clone();
                sorted.sort_unstable();
                sorted.dedup();
                if ranks.is_empty() || sorted.len() < ranks.len() {
                    return wrong("name the peers that are to hold it, each once".into());
                }
                if let Some(far) = sorted.last().filter(|rank| rank.index() >= cluster.size()) {
                    return wrong(format!("peer {far} is to hold it, and there are {} peers", cluster.size()));
                }
                Homes(ranks.clone())
            }
        })
    }
}

/// The peers that hold shards, which are dealt to them in turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Homes(Vec<Rank>);

impl Homes {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn contains(&self, rank: Rank) -> bool {
        self.0.contains(&rank)
    }

    /// Where a shard is.
    pub(crate) fn of(&self, shard: ShardId) -> Rank {
        self.0[shard.index() % self.0.len()]
    }
}
