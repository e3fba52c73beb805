//! Synchronization strategies: how the copies of each variable of a model are kept equal, as one
//! value.
//!
//! In data-parallel training every peer trains a copy of a model ([`ModelSpec`]) on its own
//! examples; the updates of the copies have to be combined, variable by variable. A [`Strategy`]
//! says for each variable into which shards it is cut, where each shard is placed, how its copies
//! synchronize, how updates are compressed and how stale a copy may be. It is plain data: print it,
//! save it, compare two of them, edit one by hand. A [`StrategyBuilder`] makes a strategy out of a
//! model and a cluster ([`ResourceSpec`]); [`Strategy::verify`] rejects strategies that cannot
//! work; [`CostModel`] predicts bytes and time; [`explain`] shows the choices with their reasons.
//!
//! The representation follows section 7.3 of the `AutoDist` thesis and the costs its section 8.3.1;
//! where they differ, the file says why.
//!
//! **Invariants.** Everything here is a function of its arguments, without I/O, clocks or
//! randomness: peers with the same model and cluster derive the same strategy without
//! communication. The strategy of a builder passes the verifier.
//!
//! | file | concept |
//! |---|---|
//! | `model` | variables, their shapes, and the structure of their gradients |
//! | `resources` | peers, hosts and links |
//! | `partition` | cutting a variable into shards |
//! | `node` | decision for one shard |
//! | `strategy` | decisions for a model; file formats |
//! | `verify`, `diff`, `display` | verification, comparison, and text form |
//! | `cost` | bytes and seconds |
//! | `builders/` | strategy builders |
//! | `explain` | the choices with their costs and all alternatives |

mod builders;
mod cost;
mod diff;
mod display;
mod error;
mod explain;
mod model;
mod node;
mod partition;
mod resources;
mod strategy;
mod verify;

pub use builders::{ShareBasis, StrategyBuilder, UnknownStrategyBuilder};
pub use cost::{CostModel, NetworkLoad, NodeCost};
pub use diff::StrategyDifference;
pub use error::{Error, Result, StrategyProblem};
pub use explain::{StrategyExplanation, SyncChoice, explain};
pub use hemiola_collective_proto::Route;
pub use model::{GradientKind, ModelSpec, VariableSpec};
pub use node::{GossipPlan, ShardPlacement, StrategyNode, Synchronizer, TableConsistency};
pub use partition::{Partitioning, VariableShard};
pub use resources::{LinkOverride, LinkSpec, PeerSpec, ResourceSpec};
pub use strategy::{Strategy, VariablePlan};
