//! Actors for Hemiola's protocols: each drives the state machines of a protocol crate in virtual
//! time, as the runtime does on a cluster.
//!
//! - [`tables`]: `TableNode` of `hemiola-tables-proto` with its clients and shards; runtime:
//!   `hemiola-tables`.
//! - [`snapshot`]: snapshots of `ShardServer`; runtime: checkpoints of `hemiola-tables`.
//! - [`collectives`]: `CollectiveCall` of `hemiola-collective-proto`; runtime:
//!   `hemiola-collective`.
//! - [`compressed`]: `CompressedCall` of `hemiola-collective-proto`; runtime: `hemiola-collective`.
//! - [`gossip`]: `GossipNode` of `hemiola-collective-proto`, with NOTIFY-ACK, a barrier or neither;
//!   runtime: `hemiola-collective`.
//! - [`pipeline`]: `Pipeline` of `hemiola-schedule`; runtime: dynamic scheduling of
//!   `hemiola-schedule`.
//! - [`rotation`]: `RotationNode` of `hemiola-schedule`; runtime: rotation of `hemiola-schedule`.
//! - [`sync`]: `SyncNode` of `hemiola-sync-proto`, with its collectives; runtime: `hemiola-sync`.
//! - [`loop_blocks`]: `RotationNode` of `hemiola-schedule` on the `BlockRoute` of `hemiola-loops`;
//!   runtime: workers of `hemiola-loops`.
//!
//! **Invariant:** an actor makes no protocol decision. It passes messages to the state machines,
//! sends their outgoing messages on the lane that the runtime uses, with their size on the wire,
//! and lets time pass while workers compute. Lanes and header sizes of tables, collectives, gossip
//! and synchronization are those of the nodes and calls that the runtime drives too; the actors of
//! schedules and loops name their own.

mod channel_calls;
pub mod collectives;
pub mod compressed;
pub mod gossip;
pub mod loop_blocks;
pub mod pipeline;
pub mod rotation;
mod simulated_model;
pub mod snapshot;
pub mod sync;
mod table_host;
pub mod tables;

/// Bytes that a frame adds to a message.
pub(crate) const FRAME: usize = hemiola_core::FRAME_OVERHEAD_BYTES;
