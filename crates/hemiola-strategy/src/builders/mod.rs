//! Ways to decide.
//!
//! Each builder is the strategy of a known system, or [`Builder::Cheapest`], which prices all of them for every variable. A builder is a function of model and cluster; what it makes passes
//! the verifier.

mod cheapest;
mod collective;
mod groups;
mod hybrid;
mod served;

pub(crate) use cheapest::{candidates, price};

use crate::cluster::Cluster;
use crate::error::Result;
use crate::model::Model;
use crate::strategy::Strategy;
use hemiola_core::Rank;
use std::fmt;
use std::str::FromStr;

/// A way to decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Builder {
    /// Everything is served by the first peer. For comparison: its link is the bottleneck.
    ParameterServer,
    /// Whole variables are served by the peers, the next largest by the one that has the fewest bytes.
    Balanced,
    /// Large variables are cut along their longest dimension and served by the peers; the others are balanced.
    Partitioned {
        /// Shards of a variable, at most; as many as there are peers if not given.
        most: Option<usize>,
    },
    /// Everything is summed by all-reduce, several variables in a message (Horovod).
    AllReduce {
        /// Variables in a message; as many as latency asks for if not given.
        chunk: Option<usize>,
    },
    /// Factors for those variables for which they are fewer bytes, servers for the others (Poseidon).
    Poseidon,
    /// Rows that are touched are served, everything else is all-reduced (Parallax).
    Parallax,
    /// Pieces of 4 MB are served by the peers in turn (`BytePS`).
    Byteps,
    /// For each variable what is predicted to take the least time, given all the others.
    #[default]
    Cheapest,
}

impl Builder {
    /// All of them, with their usual settings.
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

    /// The strategy for a model on a cluster in which every peer trains.
    pub fn build(self, model: &Model, cluster: &Cluster) -> Result<Strategy> {
        cluster.check()?;
        let plans = match self {
            Self::ParameterServer => served::on_first(model),
            Self::Balanced => served::balanced(model, cluster),
            Self::Partitioned { most } => served::partitioned(model, cluster, most.unwrap_or(cluster.size()).max(1)),
            Self::AllReduce { chunk: None } => collective::summed(model, cluster),
            Self::AllReduce { chunk: Some(chunk) } => collective::in_chunks(model, chunk.max(1)),
            Self::Poseidon => hybrid::poseidon(model, cluster),
            Self::Parallax => hybrid::parallax(model, cluster),
            Self::Byteps => served::pieces(model, cluster),
            Self::Cheapest => cheapest::build(model, cluster),
        };
        let strategy = Strategy::new(cluster.size(), Rank::all(cluster.size()).collect(), plans);
        strategy.verify(model, cluster)?;
        Ok(strategy)
    }
}

impl fmt::Display for Builder {
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
            Self::Cheapest => formatter.write_str("cheapest"),
        }
    }
}

/// A name that no builder has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no builder {found:?}: it is one of parameter-server, balanced, partitioned[:SHARDS], all-reduce[:VARIABLES], poseidon, parallax, byteps, cheapest"
)]
pub struct NotABuilder {
    found: String,
}

impl FromStr for Builder {
    type Err = NotABuilder;

    fn from_str(text: &str) -> Result<Self, NotABuilder> {
        let wrong = || NotABuilder { found: text.to_owned() };
        let (name, number) = match text.split_once(':') {
            Some((name, number)) => (name, Some(number.parse().ok().filter(|number| *number > 0).ok_or_else(wrong)?)),
            None => (text, None),
        };
        match (name, number) {
            ("partitioned", most) => Ok(Self::Partitioned { most }),
            ("all-reduce", chunk) => Ok(Self::AllReduce { chunk }),
            (name, None) => Self::ALL.into_iter().find(|builder| builder.to_string() == name).ok_or_else(wrong),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for builder in Builder::ALL
            .into_iter()
            .chain([Builder::Partitioned { most: Some(3) }, Builder::AllReduce { chunk: Some(7) }])
        {
            assert_eq!(builder.to_string().parse(), Ok(builder));
        }
        for wrong in ["", "ring", "poseidon:3", "all-reduce:0", "partitioned:x"] {
            assert!(wrong.parse::<Builder>().unwrap_err().to_string().contains("poseidon, parallax"));
        }
    }
}
