//! Tables of parameters: rows that the workers of all peers read and update, with a bound on how stale a read may be.
//!
//! This crate drives the state machines of `hemiola-tables-proto` on a real cluster: it gives them locks, threads, time and the network.
//!
//! ```
//! use hemiola_tables::Tables;
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
//! **Where things are.** Shards lie on all peers in turn, a few on each, or on those that [`Servers`] says. Every peer has a cache for each shard, behind a lock of its own. A
//! message is handled by whoever produced it, if its receiver is on the same peer, and as a value; messages of other peers are handled by the thread
//! that reads them (`post.rs`). So a read of a row that is here costs a lock, and in one process nothing travels at all.
//!
//! **Invariants.** No lock is held while another is taken or a message is sent: messages may overtake each other then, and the machines put them in order.
//! A thread that handles messages of others never waits for room to send, so peers that send to each other make way for each other. Every wait
//! of a worker ends: by what it waits for, by the loss of a peer, by the failure of somebody, or at the deadline.
//!
//! | file | concept |
//! |---|---|
//! | [`builder`] | [`TableBuilder`]: what a table is to be |
//! | [`table`] | [`Table`]: the handle of a peer |
//! | [`worker`] | [`TableWorker`]: what a worker does with a table; [`Row`] |
//! | `in_loop` | tables in the bodies of loops |
//! | `hub` | the machines of a peer, and messages between them |
//! | `post` | messages to and from other peers |
//! | `place` | tables of one process, read and updated in place |
//! | `readers` | a lock that readers do not share |
//! | `parking` | workers that wait, and why everything ends |
//! | `servers` | [`Servers`]: which peers hold shards |
//! | `serve`, `orders` | [`serve`](serve()): a peer that only holds tables, and what it is told |
//! | [`checkpoint`] | [`Checkpoint`]: a table as it was at a clock, in a folder |
//! | [`error`] | what can go wrong |

pub mod builder;
pub mod checkpoint;
pub mod error;
mod hub;
mod in_loop;
mod orders;
mod parking;
mod place;
mod post;
mod readers;
mod serve;
mod servers;
pub mod table;
pub mod worker;

pub use builder::{TableBuilder, Tables};
pub use checkpoint::Checkpoint;
pub use error::Error;
pub use hemiola_net::Bandwidth;
pub use hemiola_tables_proto::number::{Cell, Number};
pub use hemiola_tables_proto::procedure::{AdaGrad, AdaRevision, Adam, Add, Procedure, Sgd};
pub use hemiola_tables_proto::{Choice, Clock, Consistency, Defaults, Delivery, InLoop, Managed, NonFinite, Priority};
pub use serve::serve;
pub use servers::Servers;
pub use table::Table;
pub use worker::{Row, TableWorker};
