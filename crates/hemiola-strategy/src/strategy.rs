//! What is decided for a whole model, and the files it is kept in.

use crate::error::{Error, Result};
use crate::node::Node;
use crate::partition::{Partitioning, Shard};
use hemiola_core::Rank;
use serde::{Deserialize, Serialize};

/// The version of the file format.
const FORMAT: u32 = 1;

/// What is decided for one variable: how it is cut, and a node for each shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The variable's name.
    pub variable: String,
    /// Its shape, so that a strategy for another model is found out.
    pub shape: Vec<usize>,
    /// How it is cut.
    pub partitioning: Partitioning,
    /// A node for each shard, in row-major order.
    pub nodes: Vec<Node>,
}

impl Plan {
    /// Each shard with its node.
    pub fn shards(&self) -> impl Iterator<Item = (Shard, &Node)> {
        self.partitioning.cut(&self.shape).into_iter().zip(&self.nodes)
    }
}

/// How the copies of a model are kept equal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Strategy {
    /// The version of the format.
    format: u32,
    /// How many peers the cluster has.
    pub peers: usize,
    /// Those who train a copy of the model. Others may serve.
    pub replicas: Vec<Rank>,
    /// A plan for each variable, in the order of the model.
    pub plans: Vec<Plan>,
}

impl Strategy {
    /// A strategy for a cluster of `peers` in which `replicas` train.
    #[must_use]
    pub fn new(peers: usize, replicas: Vec<Rank>, plans: Vec<Plan>) -> Self {
        Self { format: FORMAT, peers, replicas, plans }
    }

    /// The plan of a variable.
    #[must_use]
    pub fn plan(&self, variable: &str) -> Option<&Plan> {
        self.plans.iter().find(|plan| plan.variable == variable)
    }

    /// Reads a strategy in JSON or, if it does not begin with a brace, in TOML.
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

    /// The strategy in JSON, indented for people.
    ///
    /// # Panics
    /// Never: it is plain data.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data")
    }

    /// The strategy in TOML.
    ///
    /// # Panics
    /// Never: it is plain data.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("plain data")
    }
}
