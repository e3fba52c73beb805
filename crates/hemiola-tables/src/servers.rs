//! Choice of the peers that hold the shards of a table.

use crate::error::Error;
use hemiola_cluster::{Cluster, Result};
use hemiola_core::Rank;
use hemiola_tables_proto::TablePlacement;

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
        Ok(match self {
            Self::Auto if dedicated.is_empty() => TablePlacement::on_all(cluster.size()),
            Self::Peers => TablePlacement::on_all(cluster.size()),
            Self::Dedicated if dedicated.is_empty() => {
                return wrong(
                    "it needs dedicated servers, but the job has none; start the job with `hemiola run --servers 1`"
                        .into(),
                );
            }
            Self::Auto | Self::Dedicated => TablePlacement::new(dedicated),
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
                TablePlacement::new(ranks.clone())
            }
        })
    }
}
