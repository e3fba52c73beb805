//! Actors for Hemiola's protocols: each drives the state machines of a protocol crate in virtual
//! time, as the runtime does on a cluster.
//!
//! - [`tables`]: `ShardClient` and `ShardServer` of `hemiola-tables-proto`; runtime:
//!   `hemiola-tables`.
//! - [`snapshot`]: snapshots of `ShardServer`; runtime: checkpoints of `hemiola-tables`.
//! - [`collectives`]: `CollectiveEngine` of `hemiola-collective-proto`; runtime:
//!   `hemiola-collective`.
//! - [`compressed`]: `CompressedCollective`, `Compressor` and `CollectiveMachine` of
//!   `hemiola-collective-proto`; runtime: `hemiola-collective`.
//! - [`gossip`]: `GossipAverager` of `hemiola-collective-proto`, with NOTIFY-ACK, a barrier or
//!   neither; runtime: `hemiola-collective`.
//! - [`pipeline`]: `Pipeline` of `hemiola-schedule`; runtime: dynamic scheduling of
//!   `hemiola-schedule`.
//! - [`rotation`]: `RingPosition` of `hemiola-schedule`; runtime: rotation of `hemiola-schedule`.
//! - [`loop_blocks`]: `BlockRoute` of `hemiola-loops`; runtime: workers of `hemiola-loops`.
//!
//! **Invariant:** an actor makes no protocol decision. It passes messages to the state machines,
//! sends their outgoing messages on the lane that the runtime uses, with their size on the wire,
//! and lets time pass while workers compute. The drivers themselves are not shared with the
//! runtime, so their timing constants can differ.

pub mod collectives;
pub mod compressed;
pub mod gossip;
pub mod loop_blocks;
pub mod pipeline;
pub mod rotation;
pub mod snapshot;
pub mod tables;

/// Bytes that a frame adds to a message.
pub(crate) const FRAME: usize = hemiola_net::OVERHEAD_BYTES;
