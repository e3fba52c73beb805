//! Strategy builders.
//!
//! Each builder reproduces the strategy of a known system, except [`StrategyBuilder::Cheapest`],
//! which compares all of them for every variable. A builder is a function of model and cluster; its
//! strategy passes the verifier.

mod all_reduce;
mod cheapest;
mod groups;
mod hybrid;
mod parameter_server;
mod shaped;

pub(crate) use cheapest::{candidates, price};
pub use shaped::ShareBasis;

use crate::error::Result;
use crate::model::ModelSpec;
use crate::node::TableConsistency;
use crate::resources::ResourceSpec;
use crate::strategy::Strategy;
use hemiola_collective_proto::GossipSync;
use hemiola_core::Rank;
use std::fmt;
use std::str::FromStr;

/// Method to derive a strategy from a model and a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StrategyBuilder {
    /// Everything is served by the first peer. For comparison: its link is the bottleneck.
    ParameterServer,
    /// Whole variables are served by the peers: the next largest by the one with the fewest bytes.
    Balanced,
    /// Large variables are cut along their longest dimension and served by the peers; the others
    /// are balanced.
    Partitioned {
        /// Maximum number of shards of a variable; the number of peers by default.
        most: Option<usize>,
    },
    /// Everything is all-reduced, several variables per message (Horovod).
    AllReduce {
        /// Number of variables per message; derived from latency by default.
        chunk: Option<usize>,
    },
    /// Sufficient factors for variables for which they are fewer numbers, parameter servers for the
    /// others (Poseidon).
    Poseidon,
    /// Touched rows are served, everything else is all-reduced (Parallax).
    Parallax,
    /// Pieces of up to 4 MB, each served by the peer with the fewest bytes (`BytePS`).
    Byteps,
    /// Tables of the parameter server: chunks of up to 2 MB, each on the peer with the fewest bytes
    /// (Poseidon's key-value store, with Bösen's consistency models).
    Tables {
        /// Consistency model of all variables.
        consistency: TableConsistency,
    },
    /// Gossip averaging of everything over the root expander (ASAP).
    Gossip {
        /// Peers that an average waits for.
        synchronization: GossipSync,
    },
    /// As [`Partitioned`](Self::Partitioned), in two levels: updates are summed on each host before
    /// they travel to the server, and one peer of each host is the proxy of the others (hierarchical
    /// parameter server).
    TwoLevel,
    /// Everything is all-reduced in two levels: on each host, then over the first peers of the
    /// hosts.
    TwoLevelAllReduce,
    /// Everything is all-reduced in an order of the peers that follows hosts and fast links.
    OrderedRing,
    /// Large variables are cut along their longest dimension, and each shard is all-reduced.
    PartitionedAllReduce {
        /// Maximum number of shards of a variable; the number of peers by default.
        most: Option<usize>,
    },
    /// As [`PartitionedAllReduce`](Self::PartitionedAllReduce), along random dimensions into a
    /// random number of shards. For comparison, and as a start for a search.
    RandomAxis {
        /// Random seed. The same seed gives the same strategy.
        seed: u64,
    },
    /// Large variables are cut and served in shares in proportion to the peers' bandwidth or memory.
    Proportional {
        /// Property of the peers.
        by: ShareBasis,
    },
    /// For each variable the method with the least predicted time, given all the others.
    #[default]
    Cheapest,
}

impl StrategyBuilder {
    /// Builders whose copies are equal after every step, with their default settings.
    pub const ALL: [Self; 8] = [
        Self::ParameterServer,
        Self::Balanced,
        Self::Partitioned { most: None },
        Self::AllReduce { chunk: None },
        Self::Poseidon,
        Self::Parallax,
        Self::Byteps,
        Self::Cheapest,
    ];

    /// Builders that keep variables in tables, with each consistency model.
    pub const TABLES: [Self; 3] = [
        Self::Tables { consistency: TableConsistency::Bsp },
        Self::Tables { consistency: TableConsistency::Ssp(1) },
        Self::Tables { consistency: TableConsistency::Async },
    ];

    /// Builders that average copies by gossip, with each synchronization.
    pub const GOSSIP: [Self; 3] = [
        Self::Gossip { synchronization: GossipSync::NotifyAck },
        Self::Gossip { synchronization: GossipSync::Barrier },
        Self::Gossip { synchronization: GossipSync::Asynchronous },
    ];

    /// Builders that use the shape of the cluster or cut variables for all-reduce. Their copies are
    /// equal after every step, too.
    pub const SHAPED: [Self; 7] = [
        Self::TwoLevel,
        Self::TwoLevelAllReduce,
        Self::OrderedRing,
        Self::PartitionedAllReduce { most: None },
        Self::RandomAxis { seed: 0 },
        Self::Proportional { by: ShareBasis::Bandwidth },
        Self::Proportional { by: ShareBasis::Memory },
    ];

    /// Iterates over all builders, with their default settings.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().chain(Self::SHAPED).chain(Self::TABLES).chain(Self::GOSSIP)
    }

    /// Builds the strategy for a model on a cluster in which every peer trains.
    pub fn build(self, model: &ModelSpec, cluster: &ResourceSpec) -> Result<Strategy> {
        cluster.check()?;
        let plans = match self {
            Self::ParameterServer => parameter_server::on_first_peer(model),
            Self::Balanced => parameter_server::balanced(model, cluster),
            Self::Partitioned { most } => {
                parameter_server::partitioned(model, cluster, most.unwrap_or(cluster.size()).max(1))
            }
            Self::AllReduce { chunk: None } => all_reduce::all_reduced(model, cluster),
            Self::AllReduce { chunk: Some(chunk) } => all_reduce::fixed_groups(model, chunk.max(1)),
            Self::Poseidon => hybrid::poseidon(model, cluster),
            Self::Parallax => hybrid::parallax(model, cluster),
            Self::Byteps => parameter_server::byteps_pieces(model, cluster),
            Self::Tables { consistency } => parameter_server::tables(model, cluster, consistency),
            Self::Gossip { synchronization } => hybrid::gossip(model, synchronization),
            Self::TwoLevel => shaped::two_level(model, cluster),
            Self::TwoLevelAllReduce => shaped::two_level_all_reduce(model, cluster),
            Self::OrderedRing => shaped::ordered_ring(model, cluster),
            Self::PartitionedAllReduce { most } => {
                shaped::partitioned_all_reduce(model, most.unwrap_or(cluster.size()).max(1))
            }
            Self::RandomAxis { seed } => shaped::random_axis(model, cluster.size(), seed),
            Self::Proportional { by } => shaped::proportional(model, cluster, by),
            Self::Cheapest => cheapest::build(model, cluster),
        };
        let strategy = Strategy::new(cluster.size(), Rank::all(cluster.size()).collect(), plans);
        strategy.verify(model, cluster)?;
        Ok(strategy)
    }
}

impl fmt::Display for StrategyBuilder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ParameterServer => formatter.write_str("parameter-server"),
            Self::Balanced => formatter.write_str("balanced"),
            Self::Partitioned { most: None } => formatter.write_str("partitioned"),
            Self::Partitioned { most: Some(most) } => write!(formatter, "partitioned:{most}"),
            Self::AllReduce { chunk: None } => formatter.write_str("all-reduce"),
            Self::AllReduce { chunk: Some(chunk) } => write!(formatter, "all-reduce:{chunk}"),
            Self::Poseidon => formatter.write_str("poseidon"),
            Self::Parallax => formatter.write_str("parallax"),
            Self::Byteps => formatter.write_str("byteps"),
            Self::Tables { consistency: TableConsistency::Bsp } => formatter.write_str("bsp"),
            Self::Tables { consistency: TableConsistency::Ssp(steps) } => write!(formatter, "ssp:{steps}"),
            Self::Tables { consistency: TableConsistency::Async } => formatter.write_str("async"),
            Self::Gossip { synchronization: GossipSync::NotifyAck } => formatter.write_str("notify-ack"),
            Self::Gossip { synchronization: GossipSync::Barrier } => formatter.write_str("gossip-bsp"),
            Self::Gossip { synchronization: GossipSync::Asynchronous } => formatter.write_str("gossip-async"),
            Self::TwoLevel => formatter.write_str("two-level"),
            Self::TwoLevelAllReduce => formatter.write_str("two-level-all-reduce"),
            Self::OrderedRing => formatter.write_str("ordered-ring"),
            Self::PartitionedAllReduce { most: None } => formatter.write_str("partitioned-all-reduce"),
            Self::PartitionedAllReduce { most: Some(most) } => write!(formatter, "partitioned-all-reduce:{most}"),
            Self::RandomAxis { seed: 0 } => formatter.write_str("random-axis"),
            Self::RandomAxis { seed } => write!(formatter, "random-axis:{seed}"),
            Self::Proportional { by: ShareBasis::Bandwidth } => formatter.write_str("proportional"),
            Self::Proportional { by: ShareBasis::Memory } => formatter.write_str("proportional-to-memory"),
            Self::Cheapest => formatter.write_str("cheapest"),
        }
    }
}

/// Error: a name that no builder has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no strategy builder is named `{found}`; use parameter-server, balanced, partitioned[:SHARDS], all-reduce[:VARIABLES], poseidon, parallax, byteps, two-level, two-level-all-reduce, ordered-ring, partitioned-all-reduce[:SHARDS], random-axis[:SEED], proportional, proportional-to-memory, bsp, ssp[:STEPS], async, notify-ack, gossip-bsp, gossip-async or cheapest"
)]
pub struct UnknownStrategyBuilder {
    found: String,
}

impl FromStr for StrategyBuilder {
    type Err = UnknownStrategyBuilder;

    fn from_str(text: &str) -> Result<Self, UnknownStrategyBuilder> {
        let wrong = || UnknownStrategyBuilder { found: text.to_owned() };
        let (name, number) = match text.split_once(':') {
            Some((name, number)) => (name, Some(number.parse().ok().filter(|number| *number > 0).ok_or_else(wrong)?)),
            None => (text, None),
        };
        match (name, number) {
            ("partitioned", most) => Ok(Self::Partitioned { most }),
            ("all-reduce", chunk) => Ok(Self::AllReduce { chunk }),
            ("partitioned-all-reduce", most) => Ok(Self::PartitionedAllReduce { most }),
            ("random-axis", seed) => Ok(Self::RandomAxis { seed: seed.unwrap_or(0) as u64 }),
            ("ssp", steps) => {
                Ok(Self::Tables { consistency: TableConsistency::Ssp(steps.map_or(1, |steps| steps as u64)) })
            }
            (name, None) => Self::all().find(|builder| builder.to_string() == name).ok_or_else(wrong),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for builder in StrategyBuilder::all()
            .chain([StrategyBuilder::Partitioned { most: Some(3) }, StrategyBuilder::AllReduce { chunk: Some(7) }])
            .chain([StrategyBuilder::PartitionedAllReduce { most: Some(2) }, StrategyBuilder::RandomAxis { seed: 9 }])
        {
            assert_eq!(builder.to_string().parse(), Ok(builder));
        }
        for wrong in ["", "ring", "poseidon:3", "all-reduce:0", "partitioned:x", "ssp:0", "async:1"] {
            assert!(wrong.parse::<StrategyBuilder>().unwrap_err().to_string().contains("poseidon, parallax"));
        }
    }
}
