//! Protocol of a sharded parameter server with bounded staleness.
//!
//! A *table* has rows of numbers. *Shards* own the rows. The workers of a peer read rows through a
//! shared cache and send updates to the shards. A staleness bound limits how old a read may be
//! (BSP, SSP or asynchronous).
//!
//! The crate is sans-I/O: every component is a state machine that takes calls and messages and
//! returns messages. **Invariant:** it contains no socket, thread, wall clock or source of
//! randomness. A host supplies messages, time and seeds: threads and TCP in `hemiola-tables`, virtual
//! time in `hemiola-sim`. The README of this crate describes states, messages, clocks, freshness,
//! leases and races.
//!
//! | module | concept |
//! |---|---|
//! | [`spec`] | [`TableSpec`]: shape, [`Consistency`] and delivery of a table; [`KeySpace`], [`RowInitializer`] |
//! | [`clock`] | [`VectorClock`] of the workers, and the [`ClockWaitQueue`](clock::ClockWaitQueue) |
//! | [`dtype`], [`cells`], [`store`] | element types, cells of a row, and row storage |
//! | [`server`] | [`ShardServer`]: one shard of a table, its leases and snapshots |
//! | [`client`] | [`ShardClient`]: row cache and pending updates of one peer towards one shard |
//! | [`node`] | [`TableNode`]: routing and policy of one peer, which every driver runs |
//! | [`partition`] | the shard that owns a row: interleaved, hashed, or one range per shard ([`RangePartition`]) |
//! | [`stream`] | numbered messages, delivered in order and exactly once |
//! | [`message`], [`batch`], [`wire`], [`key_list`] | messages between clients and shards, and their encoding |
//! | [`read_only`] | [`ReadOnlyClient`], [`ReadOnlyServer`]: rows of any cell type that change only at barriers |
//! | [`rate_limiter`], [`priority`] | bandwidth-managed communication: how much is sent eagerly, and which rows first |
//! | [`selection_rng`] | [`SelectionRng`]: random generator of the row selection, which snapshots save |
//! | [`update_rule`] | server-side optimizers: [`UpdateRule`] and the built-in rules |
//! | [`in_loop`] | [`TableInLoop`]: a table used by a parallel loop, and the traits through which loops drive tables |

pub mod batch;
pub mod cells;
pub mod client;
pub mod clock;
pub mod dtype;
pub mod error;
pub mod in_loop;
pub mod key_list;
pub mod message;
pub mod node;
pub mod partition;
pub mod priority;
pub mod rate_limiter;
pub mod read_only;
pub mod selection_rng;
pub mod server;
pub mod spec;
pub mod store;
pub mod stream;
pub mod update_rule;
mod value_buffer;
pub mod wire;

pub use cells::RowCells;
pub use client::ShardClient;
pub use clock::{Clock, VectorClock};
pub use error::{Error, Result};
pub use in_loop::{ClockInterval, TableInLoop};
pub use node::{NodeLimiters, TableHost, TableMessage, TableNode, TablePlacement};
pub use partition::RangePartition;
pub use priority::{CommPolicy, PriorityPolicy, RowSelection};
pub use rate_limiter::RateLimiter;
pub use read_only::{ReadOnlyClient, ReadOnlyServer, RowRequest, RowSource};
pub use selection_rng::SelectionRng;
pub use server::ShardServer;
pub use spec::{ClientId, Consistency, KeySpace, NonFinitePolicy, RowDelivery, RowInitializer, ShardId, TableSpec};
pub use update_rule::UpdateRule;
