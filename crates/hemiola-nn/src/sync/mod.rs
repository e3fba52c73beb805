//! Gradient synchronization: from the gradients of a backward pass to the values of the next
//! forward pass.
//!
//! One thread per peer owns the values of the peer and executes the strategy. It receives each
//! gradient as soon as that is complete, starts the collectives of its unit, and publishes new
//! values as they arrive. The backward pass continues meanwhile, and the next forward pass waits
//! for each variable on its own.
//!
//! | module | concept |
//! |---|---|
//! | `shard_layout` | position of a shard inside its variable |
//! | `plan` | pieces (shards with values) and units (pieces that travel together) |
//! | `collective_order` | order in which all peers start collectives |
//! | `unit_sync` | state machine of a unit in one step |
//! | `rows` | rows with their keys |
//! | `factors` | gradients from sufficient factors |
//! | `clip` | gradient clipping |
//! | `worker` | the synchronization thread |

mod clip;
mod collective_order;
mod factors;
mod plan;
mod rows;
mod shard_layout;
mod unit_sync;
mod worker;

pub(crate) use plan::{SyncMethod, SyncPlan, SyncUnit, VariablePiece};
pub(crate) use shard_layout::ShardLayout;
pub(crate) use worker::{GradientPayload, SyncEvent, SyncSettings, SyncSnapshot, SyncWorker};
