//! Tables: rows that shards own, workers read through caches and update, with a bound on how stale a read may be.
//!
//! Everything here is a state machine: it takes calls and messages and returns messages. **Invariant:** no socket, thread, wall clock or
//! randomness is in here; messages, time and seeds come from others.
//!
//! | module | concept |
//! |---|---|
//! | [`spec`] | [`Spec`]: what a table is; [`Consistency`], [`Ids`], [`Defaults`] |
//! | [`clock`] | [`Clocks`] of workers and their minimum; [`Parked`](clock::Parked): what waits for it |
//! | [`number`], [`cells`], [`store`] | what rows hold and how they lie in memory |
//! | [`server`] | [`Server`]: a shard, and snapshots of it |
//! | [`client`] | [`Client`]: the cache of a peer's workers, and their updates under way |
//! | [`stream`] | messages in order, exactly once |
//! | [`message`], [`batch`], [`wire`] | what clients and shards say to each other, and its bytes |
//! | [`budget`], [`priority`] | what is sent ahead of need: how much, and which rows first |
//! | [`random`] | [`Random`]: a seeded generator that can be saved |
//! | [`procedure`] | server-side update rules |
//! | [`in_loop`] | [`InLoop`]: a table as a loop uses it, and the traits by which loops drive tables |
//!
//! The older, simpler form without clocks serves arrays of loops: between two points where all workers meet nothing changes, so
//! whatever is cached is true until then.
//!
//! | module | concept |
//! |---|---|
//! | [`owners`] | [`Owners`]: which peer owns which row |
//! | [`shard`] | [`Shard`]: the rows one peer owns; bulk get, bulk apply |
//! | [`cache`] | [`RowCache`]: rows a worker was sent |
//! | [`rows`] | lists of rows as they travel |

pub mod batch;
pub mod budget;
pub mod cache;
pub mod cells;
pub mod client;
pub mod clock;
pub mod error;
pub mod in_loop;
pub mod message;
pub mod number;
pub mod owners;
pub mod priority;
pub mod procedure;
pub mod random;
pub mod rows;
pub mod server;
pub mod shard;
pub mod spec;
pub mod store;
pub mod stream;
mod values;
pub mod wire;

pub use budget::Pacer;
pub use cache::RowCache;
pub use cells::Cells;
pub use client::Client;
pub use clock::{Clock, Clocks};
pub use error::{Error, Result};
pub use in_loop::{ClockEnds, InLoop};
pub use owners::Owners;
pub use priority::{Choice, Managed, Priority};
pub use procedure::Procedure;
pub use random::Random;
pub use server::Server;
pub use shard::Shard;
pub use spec::{ClientId, Consistency, Defaults, Delivery, Ids, NonFinite, ShardId, Spec};
