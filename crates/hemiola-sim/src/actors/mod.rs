//! The state machines of the protocol crates, each driven as its driver on a cluster drives it, in virtual time.
//!
//! | module | runs | as does |
//! |---|---|---|
//! | [`tables`] | `Client` and `Server` of `hemiola-tables-proto` | `hemiola-tables` |
//! | [`saving`] | snapshots of `Server` | `hemiola-tables`' checkpoints |
//! | [`collectives`] | `Engine` of `hemiola-collective-proto` | `hemiola-collective` |
//! | [`encoded`] | `Exchange`, `Encoder` and `Machine` of `hemiola-collective-proto` | `hemiola-collective` |
//! | [`mixing`] | `Mixer` of `hemiola-collective-proto`, with NOTIFY-ACK, a barrier, or neither | `hemiola-collective` |
//! | [`pipeline`] | `Pipeline` of `hemiola-schedule` | its `Dynamic` |
//! | [`ring`] | `Seat` of `hemiola-schedule` | its `Rotation` |
//! | [`blocks`] | `Route` of `hemiola-loops` | its workers and post |
//!
//! **Invariant:** an actor decides nothing of the protocol. It hands messages over, sends what is to be sent on the lane that its driver would take, with the bytes it would have, and lets
//! time pass where workers compute.

pub mod blocks;
pub mod collectives;
pub mod encoded;
pub mod mixing;
pub mod pipeline;
pub mod ring;
pub mod saving;
pub mod tables;

/// What a frame adds to the bytes of a message.
pub(crate) const FRAME: usize = hemiola_net::OVERHEAD_BYTES;
