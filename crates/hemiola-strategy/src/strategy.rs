//! Decisions for a whole model, and their file formats.

use crate::error::{Error, Result};
use crate::node::{ShardPlacement, StrategyNode};
use crate::partition::{Partitioning, VariableShard};
use hemiola_collective_proto::Route;
use hemiola_core::Rank;
use serde::{Deserialize, Serialize};

/// Version of the file format.
const FORMAT: u32 = 1;

/// Decision for one variable: its partitioning, and a node for each shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VariablePlan {
    /// Name of the variable.
    pub variable: String,
    /// Shape of the variable, so that a strategy for another model is detected.
    pub shape: Vec<usize>,
    /// Partitioning of the variable into shards.
    pub partitioning: Partitioning,
    /// Node of each shard, in row-major order.
    pub nodes: Vec<StrategyNode>,
}

impl VariablePlan {
    /// Iterates over the shards with their nodes.
    pub fn shards(&self) -> impl Iterator<Item = (VariableShard, &StrategyNode)> {
        self.partitioning.cut(&self.shape).into_iter().zip(&self.nodes)
    }
}

/// Synchronization strategy of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Strategy {
    /// Version of the file format.
    format: u32,
    /// Number of peers of the cluster.
    pub peers: usize,
    /// Peers that train a copy of the model. Others may serve.
    pub replicas: Vec<Rank>,
    /// Plan of each variable, in the order of the model.
    pub plans: Vec<VariablePlan>,
}

impl Strategy {
    /// Creates a strategy for a cluster of `peers` in which `replicas` train.
    #[must_use]
    pub fn new(peers: usize, replicas: Vec<Rank>, plans: Vec<VariablePlan>) -> Self {
        Self { format: FORMAT, peers, replicas, plans }
    }

    /// Lets the last `servers` peers serve and not train: all served shards move to them, the next
    /// largest to the one with the fewest bytes. All-reduced variables are summed by the other peers.
    #[must_use]
    pub fn with_serving_peers(mut self, servers: usize) -> Self {
        if servers == 0 {
            return self;
        }
        let trainers = self.peers.saturating_sub(servers);
        let ranks: Vec<Rank> = Rank::all(self.peers).skip(trainers).collect();
        self.replicas.retain(|rank| rank.index() < trainers);
        let mut bytes = vec![0; ranks.len()];
        let mut shards: Vec<(u64, &mut StrategyNode, usize)> = Vec::new();
        for plan in &mut self.plans {
            let pieces = plan.partitioning.cut(&plan.shape);
            shards.extend(
                pieces.iter().zip(&mut plan.nodes).map(|(shard, node)| (shard.elements(), node, shard.matrix().0)),
            );
        }
        shards.sort_by_key(|(elements, ..)| std::cmp::Reverse(*elements));
        for (elements, node, rows) in shards {
            match &mut node.placement {
                ShardPlacement::On(owner) => {
                    let least = (0..ranks.len()).min_by_key(|index| bytes[*index]).unwrap_or(0);
                    bytes[least] += elements;
                    *owner = ranks.get(least).copied().unwrap_or(*owner);
                }
                ShardPlacement::Sharded(owners) => *owners = ranks.iter().copied().take(rows).collect(),
                ShardPlacement::Replicated => {}
            }
            for route in [&mut node.route, &mut node.proxies].into_iter().flatten() {
                let among = |group: &Vec<Rank>| group.iter().copied().filter(|rank| rank.index() < trainers).collect();
                let groups: Vec<Vec<Rank>> = route.groups().iter().map(among).collect();
                *route = Route::new(groups.into_iter().filter(|group: &Vec<Rank>| !group.is_empty()).collect());
            }
        }
        self
    }

    /// Returns the plan of a variable.
    #[must_use]
    pub fn plan(&self, variable: &str) -> Option<&VariablePlan> {
        self.plans.iter().find(|plan| plan.variable == variable)
    }

    /// Parses a strategy in JSON or, if the text does not begin with a brace, in TOML.
    pub fn parse(text: &str) -> Result<Self> {
        let problem = |problem: String| Error::File { what: "the strategy", problem };
        let strategy: Self = if text.trim_start().starts_with('{') {
            serde_json::from_str(text).map_err(|error| problem(error.to_string()))?
        } else {
            toml::from_str(text).map_err(|error| problem(error.to_string()))?
        };
        if strategy.format != FORMAT {
            return Err(problem(format!("it has format {}, and this version reads format {FORMAT}", strategy.format)));
        }
        Ok(strategy)
    }

    /// Serializes the strategy as indented JSON.
    ///
    /// # Panics
    /// Never: it is plain data.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data always serializes")
    }

    /// Serializes the strategy as TOML.
    ///
    /// # Panics
    /// Never: it is plain data.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("plain data always serializes")
    }
}
