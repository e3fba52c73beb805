//! Foundation of all Hemiola crates: ids, time, error kinds, and the traits between protocols and
//! drivers.
//!
//! Protocol code depends on this crate and on other pure crates alone. It receives time,
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
//! | [`channel`] | [`ChannelId`], and [`ChannelOwner`]: registry of the subsystems that own channels |
//! | [`message`] | [`Message`] and [`Payload`] |
//! | [`transport`] | [`Transport`] and [`MessageSink`]: sending and receiving messages |
//! | [`loss`] | [`PeerLost`]: a lost peer and the cause of its loss |
//! | [`deadlines`] | [`Deadlines`]: timeouts of all kinds of waits |
//! | [`bandwidth`], [`token_bucket`] | [`Bandwidth`]; [`TokenBucket`]: rate limiter with debt |
//! | [`rng`] | random numbers: counter-based (Philox) and sequential (SplitMix64); [`Seed`] |
//! | [`varint`] | variable-length integers (LEB128) and zigzag gaps |
//! | [`unsafe_cell`] | [`UnsafeCell`] with the interface that loom tests replace |
//! | [`wait`] | intervals after which a waiting thread looks again |
//! | [`mod@printable`] | [`printable()`]: text of others, safe to print |
//! | [`event`] | [`ClusterEvent`]: events that a cluster reports while it runs |

pub mod bandwidth;
pub mod channel;
pub mod deadlines;
pub mod env;
pub mod event;
pub mod ids;
pub mod kind;
pub mod lane;
pub mod loss;
pub mod message;
pub mod moment;
pub mod printable;
pub mod rng;
pub mod token_bucket;
pub mod transport;
pub mod unsafe_cell;
pub mod varint;
pub mod wait;

pub use bandwidth::Bandwidth;
pub use channel::{ChannelId, ChannelOwner};
pub use deadlines::Deadlines;
pub use env::{Env, ProcessWork, ThreadHandle};
pub use event::{ClusterEvent, LastHeartbeat, Observer, StallReport, WaitSummary, Waiter};
pub use ids::{JobId, Rank, WorkerId};
pub use kind::ErrorKind;
pub use lane::{Lane, Purpose};
pub use loss::{GoodbyeReason, LossCause, PeerLost};
pub use message::{FRAME_OVERHEAD_BYTES, Message, OutgoingMessage, Payload};
pub use moment::Moment;
pub use printable::{printable, printable_lines};
pub use rng::Seed;
pub use token_bucket::TokenBucket;
pub use transport::{AssistOutcome, MessageSink, Traffic, TrafficLine, Transport, TransportError};
pub use unsafe_cell::UnsafeCell;
pub use wait::{POLL_INTERVAL, RECHECK_INTERVAL};
