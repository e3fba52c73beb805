//! Synchronization of a model's variables by a [`Strategy`](hemiola_strategy::Strategy), without
//! I/O: from the gradients of a backward pass to the values of the next forward pass.
//!
//! A [`SyncNode`] holds the values of one peer and executes the strategy. Its driver passes events
//! in: a step has started, a gradient is ready, a collective has completed. The node returns
//! [effects](SyncEffect): start this collective with these elements, publish these values. It knows
//! no tensor library, thread, socket or clock. `hemiola-sync` drives it on a cluster, `hemiola-sim`
//! in virtual time, and tests drive it with collectives that complete in any order.
//!
//! | module | concept |
//! |---|---|
//! | `ids` | typed indices of variables, pieces and units |
//! | `plan` | [`SyncPlan`]: pieces (shards) and units (pieces that travel together) |
//! | `shard_layout` | position of a shard inside its variable |
//! | `collective_order` | order in which all peers start the collectives of a stage |
//! | `unit_order` | agreement of all peers on the order of units |
//! | `stage` | stages of a synchronization |
//! | `gradient` | gradients as layers give them, and sums of them |
//! | `accumulated_gradients` | gradients of several passes, until the step that sends them |
//! | [`row_key`] | rows with their keys, as they travel |
//! | `kernel` | [`UpdateKernel`]: arithmetic that the framework provides |
//! | `clip` | gradient clipping by value or global norm |
//! | `error_feedback` | residuals of compressors, over a restart |
//! | `sync_node` | [`SyncNode`]: steps, turns and units in flight |
//! | `apply` | updates of the values of a unit |
//! | `step_progress` | progress of one step |
//! | `totals` | examples, loss and norm of a step over all peers |
//! | `effect` | collectives to start and their results |
//! | `call_plan` | [`CallPlan`]: the call that every driver makes for a collective |
//! | `unit_protocol` | interface of the five synchronizers |
//! | `all_reduce` | all-reduce, then every peer updates |
//! | `parameter_server` | reduce to the owner, update there, broadcast of values |
//! | `sufficient_factors` | all-gather of factors, then every peer multiplies and updates |
//! | `rows` | all-to-all of touched rows, update by their owners, all-gather of new rows |
//! | `gossip` | local update, then averaging with neighbours |
//! | `tables` | units in tables of the parameter server: update, end of the clock, request |
//! | `table_chunk` | client and shard of one chunk |
//! | `table_rule` | the framework's optimizer as update rule of a table |
//! | `table_row` | cells of a chunk, as they travel |
//!
//! README.md of `hemiola-sync` explains units, turns and stages, and why they cannot deadlock.

mod accumulated_gradients;
mod all_reduce;
mod apply;
mod call_plan;
mod clip;
mod collective_order;
mod effect;
mod error;
mod error_feedback;
mod gossip;
mod gradient;
mod ids;
mod kernel;
mod parameter_server;
mod plan;
pub mod row_key;
mod rows;
mod shard_layout;
mod stage;
mod step_progress;
mod sufficient_factors;
mod sync_node;
mod table_chunk;
mod table_row;
mod table_rule;
mod tables;
mod totals;
mod unit_order;
mod unit_protocol;

pub use accumulated_gradients::AccumulatedGradients;
pub use call_plan::CallPlan;
pub use clip::GradientClip;
pub use effect::{CollectiveId, CollectiveOp, CollectiveOutput, CollectiveSource, SyncChannel, SyncEffect};
pub use error::{Error, Result};
pub use error_feedback::ErrorFeedback;
pub use gradient::GradientPayload;
pub use hemiola_tables_proto::TableMessage;
pub use ids::{PieceId, UnitId, VariableId};
pub use kernel::UpdateKernel;
pub use plan::{SyncMethod, SyncPlan, SyncUnit, TableChunkPlan, VariablePiece};
pub use shard_layout::ShardLayout;
pub use stage::SyncStage;
pub use sync_node::{NodeSettings, PieceSnapshot, SyncNode};
