//! How the copies of each variable of a model are kept equal, as one value.
//!
//! Every peer trains a copy of a [`Model`] on its own examples; what the copies learn has to be brought together, variable by variable. A [`Strategy`] says for each of them
//! into which shards it is cut, where each shard lives, how its copies agree, in what form updates travel and how old a copy may be. It is plain data: print it, save it,
//! compare two of them, edit one by hand. [`Builder`]s make strategies out of a model and a [`Cluster`]; [`Strategy::verify`] refuses those that cannot work; [`Costs`]
//! says what one will send and how long that takes; [`explain`] tells people.
//!
//! The representation follows section 7.3 of the `AutoDist` thesis and the costs its section 8.3.1; where they differ, the file says why.
//!
//! **Invariants.** Everything here is a function of its arguments, without I/O, clocks or chance: peers that know the same model and cluster come to the same strategy without
//! talking. A builder's strategy passes the verifier.
//!
//! | file | concept |
//! |---|---|
//! | `model` | variables, their shapes, and what their gradients are like |
//! | `cluster` | peers, hosts and links |
//! | `partition` | cutting a variable into shards |
//! | `node` | what is decided for one shard |
//! | `strategy` | what is decided for a model; files |
//! | `verify`, `diff`, `show` | whether it can work, how two differ, how one reads |
//! | `cost` | bytes and seconds |
//! | `builders/` | ways to decide |
//! | `explain` | why it is so |

mod builders;
mod cluster;
mod cost;
mod diff;
mod error;
mod explain;
mod model;
mod node;
mod partition;
mod show;
mod strategy;
mod verify;

pub use builders::{Builder, NotABuilder};
pub use cluster::{Cluster, Link, Pair, Peer};
pub use cost::{Costs, Load, NodeCost};
pub use diff::Difference;
pub use error::{Error, Problem, Result};
pub use explain::{Choice, Explanation, explain};
pub use model::{Gradient, Model, Variable};
pub use node::{Node, Placement, Synchronizer};
pub use partition::{Partitioning, Shard};
pub use strategy::{Plan, Strategy};
