//! The floor every other Hemiola crate stands on: ids, time, the kinds of error, and the traits at which protocols
//! and drivers meet.
//!
//! Protocol code (clocks, shards, rings, schedulers) is written against this crate alone. It learns the time, receives
//! messages and draws random numbers through arguments, so the same code runs on threads, over TCP and in a
//! simulation with virtual time. **Invariant:** this crate depends on no other crate of ours, opens no socket, starts
//! no thread and reads no clock.
//!
//! | file | concept |
//! |---|---|
//! | [`ids`] | a type for each kind of number: [`Rank`], [`WorkerId`], [`JobId`] |
//! | [`moment`] | [`Moment`], a point in time that may be virtual |
//! | [`mod@env`] | [`Env`]: time, randomness and threads, as an argument |
//! | [`kind`] | [`ErrorKind`]: the caller's mistake, the world's failure, or our bug |
//! | [`lane`] | [`Lane`] and [`Purpose`]: which way a message travels and what it is for |
//! | [`message`] | [`Message`] and [`Payload`] |
//! | [`transport`] | [`Transport`] and [`Inbox`]: how messages leave and arrive |
//! | [`loss`] | [`PeerLost`]: the typed story of a peer that is gone |
//! | [`deadlines`] | [`Deadlines`]: how long each kind of wait may last |
//! | [`event`] | [`Event`]: what a cluster reports while it runs |

pub mod deadlines;
pub mod env;
pub mod event;
pub mod ids;
pub mod kind;
pub mod lane;
pub mod loss;
pub mod message;
pub mod moment;
pub mod transport;

pub use deadlines::Deadlines;
pub use env::{Env, Task};
pub use event::{Event, LastWords, Observer, Stall, WaitSummary, Waiter};
pub use ids::{JobId, Rank, WorkerId};
pub use kind::ErrorKind;
pub use lane::{Lane, Purpose};
pub use loss::{LossCause, Parting, PeerLost};
pub use message::{ChannelId, Message, Outgoing, Payload};
pub use moment::Moment;
pub use transport::{Assist, Inbox, Traffic, TrafficLine, Transport, TransportError};
