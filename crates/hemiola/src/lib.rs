//! **Hemiola**: distributed machine learning in Rust. *A hemiola is a passage in which one hand
//! plays three beats while the other plays two: different tempos, one bar line.*
//!
//! Hemiola parallelizes serial training loops by dependence analysis, and offers a parameter server
//! with bounded staleness, MPI-style collectives with gradient compression, gossip averaging and
//! scheduled model parallelism. The same program runs on one thread or on many machines, and prints
//! what it does and why. This page is the tour of the architecture; other pages link here.
//!
//! # Peers and workers
//!
//! Every process of a job (a *peer*) runs the same `main` (SPMD). No code is shipped, because every
//! peer already has it. Without configuration a program is a single peer with one worker thread per
//! core:
//!
//! ```
//! fn main() -> hemiola::Result<()> {
//!     hemiola::run(|cluster| {
//!         let peers = cluster.all_gather(format!("peer {}", cluster.rank()))?;
//!         cluster.println(format_args!("hello from {}", peers.join(", ")));
//!         Ok(())
//!     })
//! }
//! ```
//!
//! The same program runs as four peers under `hemiola run -n 4 -- program`, and without a change
//! under torchrun, `mpirun`, `srun` or as a Kubernetes indexed job. [`standalone`] runs any number
//! of peers as threads of one process, for tests.
//!
//! # Threads and network
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
//!
//! Each pair of peers has two lanes that never block each other: a clock tick or an acknowledgement
//! does not queue behind 64 MB of data. A thread that waits for a message reads the socket itself,
//! and a thread that sends writes it itself. The I/O loops serve all other traffic. Every wait has
//! a deadline and a reason. A lost peer is a typed [error](Error) on all others within ten seconds,
//! and a stalled job prints which peers wait for which.
//!
//! # Parallel loops
//!
//! [`parallel_for!`] runs a serial loop on all workers of all peers:
//!
//! ```text
//!   body ──▶ accesses ──▶ dependence vectors ──▶ legal schedules ──▶ the cheapest plan
//!                                                                          │
//!   result of a serial order, bit for bit ◀── workers run blocks ◀── entries and arrays placed
//! ```
//!
//! Schedules are independent parts (1D), rotation, wavefront, skewed wavefront, and serial
//! execution. The guide is `docs/guides/parallel-loops.md`.
//!
//! # Tables: the parameter server
//!
//! [`cluster.table::<f32>("w")`](tables::TableExt::table) makes a sharded table of parameters. The
//! workers of all peers read and update it asynchronously, within a staleness bound (BSP, stale
//! synchronous parallel, or asynchronous):
//!
//! ```text
//!   worker ── get ───▶ cache of its peer ── if the row is too stale ──▶ shard, on some peer
//!          ── inc ───▶ pending updates ── after each clock, or eagerly ──▶ shard ──▶ other caches
//!          ── clock ─▶ ends an iteration; later reads are at most the staleness bound behind
//! ```
//!
//! The guide is `docs/guides/parameter-server.md`.
//!
//! # Collectives
//!
//! [`cluster.communicator()`](collective::CollectiveExt::communicator) makes a communicator for
//! all-reduce, reduce-scatter, all-gather, broadcast and other collectives on slices of numbers,
//! blocking and non-blocking:
//!
//! ```
//! use hemiola::collective::{CollectiveExt, ReduceOp};
//! hemiola::standalone(2).run(|cluster| {
//!     let communicator = cluster.communicator()?;
//!     let sums = communicator.begin_all_reduce(vec![1.0_f32; 1000], ReduceOp::Sum)?;
//!     // ... compute ...
//!     assert_eq!(sums.wait()?[999], 2.0);
//!     Ok(())
//! })?;
//! # Ok::<(), hemiola::Error>(())
//! ```
//!
//! All-reduce and the other collectives support gradient compression
//! ([`all_reduce_compressed`](collective::Communicator::all_reduce_compressed)): fp16/bf16, 1-bit,
//! top-k, low rank (PowerSGD) and sufficient factors. [`Gossip`](collective::Gossip) averages
//! models over a sparse communication graph instead. The guide is `docs/guides/collectives.md`.
//!
//! # Scheduled model parallelism
//!
//! A [`schedule::DynamicProgram`] has three instructions: propose parameters to update, update
//! them, and aggregate the results. A scheduler runs it:
//!
//! ```text
//!   schedule ──▶ candidates ──▶ those without conflicts ──▶ update, on all workers ──▶ aggregate
//!      ▲                                                                                  │
//!      └────────────── parameters that changed most get priority ◀────────────────────────┘
//! ```
//!
//! The guide is `docs/guides/schedules.md`.
//!
//! # Errors
//!
//! [`Error`] has a variant per layer with that layer's error type: `Error::Array(error)`,
//! `Error::Tables(error)`. [`Error::kind`] separates usage errors, external failures and bugs, and
//! [`exit_code`](crate::core::ErrorKind::exit_code) gives the exit code of each kind. `?` converts
//! the errors of all layers, and texts and I/O errors of the program.
//!
//! Functions of the layers return [`cluster::Result`], which holds the same errors. A callback or
//! trait method of a layer returns it, too, and may use `?` on both.
//!
//! # Crates
//!
//! This facade re-exports:
//!
//! | crate | contents | must not use |
//! |---|---|---|
//! | [`core`] | ids, time, error kinds, traits between protocols and drivers | any other crate |
//! | [`net`] | frames, transports (threads, TCP, TLS), joining | the meaning of the bytes |
//! | [`cluster`] | the [`Cluster`] handle, workers, liveness, launching | arrays, models |
//! | [`mod@array`] | distributed arrays: storage, partitioning, readers, saving | loops, models |
//! | [`loops`] | parallel loops: plans, views, execution | models |
//! | [`tables`] | parameter server on a cluster: tables, shards, checkpoints | models |
//! | [`collective`] | collectives and gossip averaging on a cluster | models |
//! | [`schedule`] | scheduled model parallelism | models |
//! | [`optim`] | update rules of optimizers over slices: SGD, AdaGrad, Adam and others | threads, sockets |
//! | [`strategy`] | synchronization strategies: builders, costs, checks | threads, sockets |
//! | [`training`] | the training loop of all models: epochs, stopping, checkpoints, reports | models |
//! | [`models`] | matrix factorization, LDA, linear and sparse models | layers besides these |
//! | `nn` | data-parallel training of neural networks (Burn modules); feature `nn` | |
//! | `sync` | synchronization of a model's variables by a strategy; feature `nn` | tensor libraries |
//! | `sim` | the protocols on a cluster in virtual time; feature `sim` | threads, sockets, clocks |
//!
//! `models` is a default feature: a program that uses `default-features = false` does not build it.
//! The features `cuda` and `nvrtc` are those of `nn`; `arrow` and `object-store` are those of
//! [`mod@array`].
//!
//! Other crates of the workspace:
//!
//! | crate | contents | must not use |
//! |---|---|---|
//! | `hemiola-analysis` | dependence analysis of loops | threads, sockets, `proc_macro` |
//! | `hemiola-macros` | the macro `parallel_for!`: syntax and code generation | the run time |
//! | `hemiola-tables-proto` | table protocol as state machines: shards, caches, clocks | threads, sockets |
//! | `hemiola-collective-proto` | collectives, gossip and compression as state machines | threads, sockets |
//! | `hemiola-sync-proto` | synchronization of a model's variables as state machines | threads, sockets |
//! | `hemiola-plot` | charts as SVG, PNG and text | any other crate |
//! | `hemiola-bench` | benchmarks behind `hemiola bench` | |
//! | `hemiola-cli` | the `hemiola` command | |
//! | `hemiola-testkit`, `hemiola-fuzz` | helpers of integration tests; fuzz targets; not published | |

pub use hemiola_array as array;
pub use hemiola_cluster as cluster;
pub use hemiola_collective as collective;
pub use hemiola_core as core;
pub use hemiola_loops as loops;
#[cfg(feature = "models")]
pub use hemiola_models as models;
pub use hemiola_net as net;
#[cfg(feature = "nn")]
pub use hemiola_nn as nn;
pub use hemiola_optim as optim;
pub use hemiola_schedule as schedule;
#[cfg(feature = "sim")]
pub use hemiola_sim as sim;
pub use hemiola_strategy as strategy;
#[cfg(feature = "nn")]
pub use hemiola_sync as sync;
pub use hemiola_tables as tables;
pub use hemiola_training as training;

pub use error::{Error, Result};
pub use hemiola_cluster::{Cluster, launch};
pub use hemiola_macros::parallel_for;
pub use run::{run, standalone};

#[cfg(doctest)]
mod book;
mod error;
mod run;

/// Items that most programs need: `use hemiola::prelude::*`.
pub mod prelude {
    pub use crate::Cluster;
    #[cfg(feature = "arrow")]
    pub use crate::array::dist::ReadColumnsExt;
    pub use crate::array::{Accumulator, AccumulatorExt, ArrayExt, DistArray, PartitionSpec, ReadExt};
    pub use crate::collective::{CollectiveExt, GossipExt};
    pub use crate::core::{Rank, Seed};
    pub use crate::loops::BufferExt;
    pub use crate::parallel_for;
    pub use crate::tables::TableExt;
}
