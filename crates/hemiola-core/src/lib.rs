//! Foundation of all Hemiola crates: ids, time, error kinds, and the traits between protocols and
//! drivers.
//!
//! Protocol code (clocks, shards, rings, schedulers) depends on this crate alone. It receives time,
//! messages and random numbers through arguments, so the same code runs on threads, over TCP and in
//! a simulation with virtual time. **Invariant:** this crate depends on no other Hemiola crate,
//! opens no socket, starts no thread and reads no clock.
//!
//! | file | concept |
//! |---|---|
//! | [`ids`] | newtypes for ids: [`Rank`], [`WorkerId`], [`JobId`] |
//! | [`moment`] | [`Moment`], a point in real or virtual time |
//! | [`mod@env`] | [`Env`]: time, randomness and threads as an argument |
//! | [`kind`] | [`ErrorKind`]: usage error, external failure, or bug |
//! | [`lane`] | [`Lane`] and [`Purpose`] of a message |
//! | [`message`] | [`Message`] and [`Payload`] |
//! | [`transport`] | [`Transport`] and [`MessageSink`]: sending and receiving messages |
//! | [`loss`] | [`PeerLost`]: a lost peer and the cause of its loss |
//! | [`deadlines`] | [`Deadlines`]: timeouts of all kinds of waits |
//! | [`rng`] | random numbers: counter-based (Philox) and sequential (SplitMix64) |
//! | [`event`] | [`ClusterEvent`]: events that a cluster reports while it runs |

pub mod deadlines;
pub mod env;
pub mod event;
pub mod ids;
pub mod kind;
pub mod lane;
pub mod loss;
pub mod message;
pub mod moment;
pub mod rng;
pub mod transport;

pub use deadlines::Deadlines;
pub use env::{Env, ThreadHandle};
pub use event::{ClusterEvent, LastHeartbeat, Observer, StallReport, WaitSummary, Waiter};
pub use ids::{JobId, Rank, WorkerId};
pub use kind::ErrorKind;
pub use lane::{Lane, Purpose};
pub use loss::{GoodbyeReason, LossCause, PeerLost};
pub use message::{ChannelId, Message, OutgoingMessage, Payload};
pub use moment::Moment;
pub use transport::{AssistOutcome, MessageSink, Traffic, TrafficLine, Transport, TransportError};
