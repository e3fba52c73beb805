//! Decision for one shard of a variable.

use hemiola_collective_proto::graph::Topology;
use hemiola_collective_proto::{Algorithm, Compression, GossipSync, Route};
use hemiola_core::Rank;
use serde::{Deserialize, Serialize};
use std::fmt;

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

/// Consistency model of a variable that is kept in a table of the parameter server: the updates of
/// other peers that a read must contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TableConsistency {
    /// Bulk synchronous parallel: all updates of the step. The server sums the gradients of all
    /// peers and applies one update.
    Bsp,
    /// Stale synchronous parallel: all updates up to this many steps ago. The server applies the
    /// gradient of each peer when it arrives.
    Ssp(u64),
    /// Asynchronous: updates that have arrived. The server applies the gradient of each peer when
    /// it arrives.
    Async,
}

impl fmt::Display for TableConsistency {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bsp => formatter.write_str("BSP"),
            Self::Ssp(steps) => write!(formatter, "SSP({steps})"),
            Self::Async => formatter.write_str("asynchronous"),
        }
    }
}

/// Gossip averaging of a shard: its graph, and what a peer waits for. In a file, a graph alone
/// stands for NOTIFY-ACK.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "GossipForm", into = "GossipForm")]
pub struct GossipPlan {
    /// Communication graph.
    pub topology: Topology,
    /// NOTIFY-ACK waits for the neighbours, a barrier (BSP) for all peers, and an asynchronous
    /// average for nobody.
    pub synchronization: GossipSync,
}

impl From<Topology> for GossipPlan {
    fn from(topology: Topology) -> Self {
        Self { topology, synchronization: GossipSync::NotifyAck }
    }
}

/// Forms of a [`GossipPlan`] in a file.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum GossipForm {
    Full(FullGossipForm),
    Graph(Topology),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FullGossipForm {
    topology: Topology,
    synchronization: GossipSync,
}

impl From<GossipForm> for GossipPlan {
    fn from(form: GossipForm) -> Self {
        match form {
            GossipForm::Graph(topology) => topology.into(),
            GossipForm::Full(FullGossipForm { topology, synchronization }) => Self { topology, synchronization },
        }
    }
}

impl From<GossipPlan> for GossipForm {
    fn from(plan: GossipPlan) -> Self {
        let GossipPlan { topology, synchronization } = plan;
        match synchronization {
            GossipSync::NotifyAck => Self::Graph(topology),
            _ => Self::Full(FullGossipForm { topology, synchronization }),
        }
    }
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
    /// Parameter server with clocks: the shard is a row of a table, whose server applies updates
    /// and returns values as its consistency model says.
    Table {
        /// Consistency model of the copies.
        consistency: TableConsistency,
    },
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
    Gossip(GossipPlan),
}

/// Decision for one shard: placement, synchronizer, compression, staleness bound and routes.
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
    /// Route of the updates of an all-reduce or a parameter server: the replicas, in groups. Updates
    /// of a group are summed at its first peer (the transfer destination of `AutoDist`); one group
    /// states the order of the peers (its reduction sequence). `None` is direct, in rank order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
    /// Proxies of a variable of a parameter server: the first peer of each group keeps a copy for
    /// its group. The owner sends new values to the proxies only, and they pass them on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxies: Option<Route>,
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
            route: None,
            proxies: None,
        }
    }

    /// Returns a node kept in a table on one peer.
    #[must_use]
    pub fn table(peer: Rank, consistency: TableConsistency) -> Self {
        Self { synchronizer: Synchronizer::Table { consistency }, ..Self::parameter_server(peer) }
    }

    /// Returns a node whose rows are served by several peers.
    #[must_use]
    pub fn parameter_server_rows(peers: Vec<Rank>) -> Self {
        let (placement, synchronizer) = (ShardPlacement::Sharded(peers), Synchronizer::ParameterServerRows);
        Self { placement, synchronizer, ..Self::parameter_server(Rank::ROOT) }
    }

    /// Returns a node that is all-reduced in a group.
    #[must_use]
    pub fn all_reduce(group: u32) -> Self {
        let synchronizer = Synchronizer::AllReduce { algorithm: None, group };
        Self { placement: ShardPlacement::Replicated, synchronizer, ..Self::parameter_server(Rank::ROOT) }
    }

    /// Returns a node that is averaged by gossip.
    #[must_use]
    pub fn gossip(plan: impl Into<GossipPlan>) -> Self {
        let synchronizer = Synchronizer::Gossip(plan.into());
        Self { synchronizer, ..Self::all_reduce(0) }
    }

    /// Returns a node that is rebuilt from sufficient factors.
    #[must_use]
    pub fn sufficient_factors(pairs: u64) -> Self {
        let compression = Compression::SufficientFactors { pairs: pairs as usize };
        Self { synchronizer: Synchronizer::SufficientFactors, compression, ..Self::all_reduce(0) }
    }

    /// Returns this node with a route of its updates.
    #[must_use]
    pub fn over(mut self, route: Route) -> Self {
        self.route = Some(route);
        self
    }

    /// Returns this node with proxies that keep a copy for their groups.
    #[must_use]
    pub fn with_proxies(mut self, proxies: Route) -> Self {
        self.proxies = Some(proxies);
        self
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
