//! **Hemiola**: distributed machine learning. *A hemiola is a passage where one hand plays three beats while the other
//! plays two: different tempos, one bar line.*
//!
//! Bring a serial program; Hemiola runs it on one thread or on many machines, decides what travels over the wire, and
//! explains what it does. This page is the tour of its architecture; other pages link here instead of repeating it.
//!
//! # One program, every peer
//!
//! Every process of a job (a *peer*) runs the same `main`. Nothing has to be shipped anywhere, because every peer
//! already has all the code. With no configuration a program is a single peer with a worker thread per core:
//!
//! ```
//! fn main() -> hemiola::Result<()> {
//!     hemiola::run(|cluster| {
//!         let hosts = cluster.all_gather(format!("peer {}", cluster.rank()))?;
//!         cluster.println(format_args!("together: {}", hosts.join(", ")));
//!         Ok(())
//!     })
//! }
//! ```
//!
//! The same program runs as four peers under `hemiola run -n 4 -- program`, and under torchrun, `mpirun`, `srun` or as a
//! Kubernetes indexed job, without a change. [`standalone`] runs any number of peers inside one process, for tests.
//!
//! # Threads and bytes
//!
//! ```text
//!   peer 0                                             peer 1
//!   ┌───────────────────────────────┐                  ┌───────────────────────────────┐
//!   │ driver    runs `main`, makes  │   control lane   │ driver                        │
//!   │           collective calls ───┼──────────────────┼──▶                            │
//!   │ workers   compute             │    bulk lane     │ workers                       │
//!   │ I/O loops one per lane     ───┼──────────────────┼──▶ I/O loops                  │
//!   │ monitor   heartbeats, stalls  │                  │ monitor                       │
//!   └───────────────────────────────┘                  └───────────────────────────────┘
//! ```
//! Each pair of peers has two lanes that never wait for each other: a clock or an acknowledgement is not stuck behind
//! 64 MB of data. A thread that waits for a message reads the socket itself; a thread that sends writes it itself; the
//! I/O loops serve what nobody waits for. Every wait has a deadline and a reason: a lost peer is a typed
//! [error](Error) on all others within ten seconds, and a stalled job prints who waits for whom.
//!
//! # Loops
//!
//! [`parallel_for!`] runs a serial loop on all workers of all peers:
//!
//! ```text
//!   body ──▶ accesses ──▶ dependence vectors ──▶ legal ways (1D, rotation, waves, skewed, serial) ──▶ the cheapest
//!                                                                                                        │
//!   result, the bits of a serial order the plan names ◀── blocks on workers ◀── entries and arrays in place
//! ```
//! The guide with all rules is `docs/parallel-for.md`.
//!
//! # Tables
//!
//! [`cluster.table::<f32>("w")`](tables::Tables::table) makes a table of parameters that the workers of all peers read and add to while each goes at its own pace:
//!
//! ```text
//!   worker ── get ──▶ cache of its peer ── a row that is too old ──▶ shard, on some peer
//!          ── inc ──▶ sums in the cache ── when the clock ends, or ahead of need ──▶ shard ──▶ caches of all who read the row
//!          ── clock ─▶ nobody reads what is more than the table's staleness behind
//! ```
//! The guide is `docs/tables.md`.
//!
//! # Collectives
//!
//! [`cluster.collectives()`](collective::MakeCollectives::collectives) makes a handle for all-reduce and its relatives on slices of numbers, which block or go on while the program
//! computes:
//!
//! ```
//! use hemiola::collective::{MakeCollectives, Operator};
//! hemiola::standalone(2).run(|cluster| {
//!     let collectives = cluster.collectives()?;
//!     let sums = collectives.begin_all_reduce(vec![1.0_f32; 1000], Operator::Sum)?;
//!     // ... compute ...
//!     assert_eq!(sums.finish()?[999], 2.0);
//!     Ok(())
//! })?;
//! # Ok::<(), hemiola::Error>(())
//! ```
//! An all-reduce can send a part of the bytes ([`all_reduce_encoded`](collective::Collectives::all_reduce_encoded): half precision, one bit, top-k, low rank, sufficient factors), its relatives too, and
//! [`best_scheme`](collective::cost::MatrixUpdate::best_scheme) says how the update of a matrix travels cheapest. The guide is `docs/reduce.md`.
//!
//! # Schedules
//!
//! A [`schedule::Program`] says in three instructions which parameters are worth updating, what an update is, and what to make of the results; an engine runs it:
//!
//! ```text
//!   schedule ──▶ candidates ──▶ those that do not disturb each other ──▶ update, on the workers of every peer ──▶ aggregate
//!      ▲                                                                                                           │
//!      └────────────────────── what changed much comes again soon ◀────────────────────────────────────────────────┘
//! ```
//! The guide is `docs/schedules.md`.
//!
//! # Crates
//!
//! | crate | what it holds | what it must not know |
//! |---|---|---|
//! | [`core`] | ids, time, error kinds, and the traits at which protocols and drivers meet | anything else of ours |
//! | [`net`] | frames, transports (threads, TCP, TLS), joining | what the bytes mean |
//! | [`cluster`] | the [`Cluster`] handle, workers, liveness, launching | models and arrays |
//! | [`mod@array`] | shared arrays: read, cut, transformed, saved by all peers together | loops and models |
//! | [`loops`] | parallel loops: plans, views in their bodies, execution | what is computed |
//! | [`tables`] | tables of parameters on a cluster: handles of workers, services, checkpoints | what is learned |
//! | [`collective`] | collectives on a cluster, averages over a communication graph | what is summed, and why |
//! | [`strategy`] | how copies of each variable of a model are kept equal, as one value: builders, costs, checks | what is learned |
//! | [`schedule`] | scheduled model parallelism: programs in three instructions, and engines that run them | what is learned |
//! | `hemiola-collective-proto` | their protocols, communication graphs, encodings, costs | threads, sockets, clocks |
//! | `hemiola-tables-proto` | their protocol: shards, caches, clocks, budgets, procedures | threads, sockets, clocks |
//! | `hemiola-analysis` | which iterations of a loop may run at the same time, and why | threads, sockets, `proc_macro` |
//! | `hemiola-macros` | the macro `parallel_for!`, a shell around `hemiola-analysis` | what a loop means |
//! | `hemiola` | this facade | |
//! | `hemiola-cli` | the `hemiola` command | anything a user's program could not use |

pub use hemiola_array as array;
pub use hemiola_cluster as cluster;
pub use hemiola_collective as collective;
pub use hemiola_core as core;
pub use hemiola_loops as loops;
pub use hemiola_net as net;
pub use hemiola_schedule as schedule;
pub use hemiola_strategy as strategy;
pub use hemiola_tables as tables;

pub use hemiola_cluster::{Cluster, Error, Result, launch, run, standalone};
pub use hemiola_macros::parallel_for;

/// What most programs need: `use hemiola::prelude::*`.
pub mod prelude {
    pub use crate::Cluster;
    pub use crate::array::{Accumulate, Accumulator, DistArray, MakeArrays, Partition, ReadArrays};
    pub use crate::collective::MakeCollectives;
    pub use crate::core::Rank;
    pub use crate::loops::BufferArray;
    pub use crate::parallel_for;
    pub use crate::tables::Tables;
}

/// The snippets of the guide to data, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/data.md")]
struct DataGuide;

/// The snippets of the guide to parallel loops, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/parallel-for.md")]
struct LoopsGuide;

/// The snippets of the guide to collectives, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/reduce.md")]
struct ReduceGuide;

/// The snippets of the guide to strategies, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/strategies.md")]
struct StrategiesGuide;

/// The snippets of the guide to schedules, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/schedules.md")]
struct SchedulesGuide;

/// The snippets of the guide to tables, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/tables.md")]
struct TablesGuide;

/// The snippets of the README, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
