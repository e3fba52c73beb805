//! Parameter server tables on a cluster: rows that the workers of all peers read and update, with
//! bounded staleness.
//!
//! This crate is the runtime of the `hemiola-tables-proto` state machines. It gives them and the
//! node that connects them locks, threads, time and the network. The protocol is described in the
//! README of that crate.
//!
//! ```
//! use hemiola_tables::TableExt;
//!
//! hemiola_cluster::standalone(2).workers(2).run(|cluster| {
//!     let table = cluster.table::<f32>("w").rows(10).width(3).staleness(1).build()?;
//!     table.each_worker(|worker| {
//!         for _ in 0..5 {
//!             let sum: f32 = worker.get(7, |row| row.iter().sum())?;
//!             assert!(sum >= 0.0);
//!             worker.inc(7, &[1.0, 0.0, 0.5])?;
//!             worker.clock()?;
//!         }
//!         Ok(())
//!     })?;
//!     assert_eq!(table.collect()?[&7], [20.0, 0.0, 10.0]); // 4 workers, 5 clocks
//!     Ok(())
//! })?;
//! # Ok::<(), hemiola_cluster::Error>(())
//! ```
//!
//! **Placement.** Shards are dealt to all peers in turn, a few on each, or to those that
//! [`Servers`] names. Every peer has a cache for each shard, behind its own lock. Messages within a
//! peer are delivered by a direct call on the sending thread, without serialization. Messages from
//! other peers are handled inline on the network reader thread (`endpoint.rs`). So a cached read
//! costs one lock, and in one process nothing is sent at all.
//!
//! **Invariants.** The lock of a client or shard is never held while another of them is taken or a
//! message is sent. Messages may then overtake each other, and the protocol restores their order. A
//! thread that handles incoming messages never blocks on a full send queue, so peers that send to
//! each other cannot deadlock. Every wait of a worker ends: with its result, the loss of a peer, a
//! failure elsewhere, or the deadline.
//!
//! | file | concept |
//! |---|---|
//! | [`builder`] | [`TableBuilder`]: settings of a table; [`TableExt`]: tables of a cluster |
//! | [`table`] | [`Table`]: handle of a peer |
//! | [`worker`] | [`TableWorker`]: handle of a worker; [`TableRow`] |
//! | `in_loop` | tables in parallel loops |
//! | `backend` | tables by messages or in place, behind one interface |
//! | `runtime` | clients and shards of a peer, their locks, and the services of a table |
//! | `host` | host of the protocol's node, which routes messages |
//! | `endpoint` | messages to and from other peers |
//! | `local_table` | tables of a single process, used in place |
//! | `sharded_rwlock` | sharded (big-reader) reader-writer lock |
//! | `waiters` | waiting workers, and failure propagation |
//! | `servers` | [`Servers`]: the peers that hold shards |
//! | `serve`, `commands` | [`serve`](serve()): a dedicated server, and the commands it executes |
//! | [`checkpoint`] | [`TableCheckpoint`]: a table at a clock, in a folder |
//! | [`error`] | errors of a table on a cluster |

mod backend;
pub mod builder;
pub mod checkpoint;
mod commands;
mod endpoint;
pub mod error;
mod host;
mod in_loop;
mod local_table;
mod runtime;
mod serve;
mod servers;
mod sharded_rwlock;
#[cfg(test)]
mod sharded_rwlock_tests;
mod sync;
pub mod table;
mod waiters;
pub mod worker;

pub use builder::{TableBuilder, TableExt};
pub use checkpoint::TableCheckpoint;
pub use error::Error;
pub use hemiola_core::Bandwidth;
pub use hemiola_tables_proto::Error as ProtocolError;
pub use hemiola_tables_proto::dtype::{ComputeType, StorageType};
pub use hemiola_tables_proto::update_rule::{
    AdaGrad, AdaRevision, Adam, Addition, BuiltInRule, LocalApply, RowUpdate, Sgd, SnapshotAdaRevision, UnknownVersion,
    UpdateRule,
};
pub use hemiola_tables_proto::{
    Clock, CommPolicy, Consistency, NonFinitePolicy, PriorityPolicy, RowCells, RowDelivery, RowInitializer,
    RowSelection, TableInLoop,
};
#[doc(hidden)]
pub use in_loop::TableIndex;
pub use serve::serve;
pub use servers::Servers;
pub use table::Table;
pub use worker::{TableRow, TableWorker};
