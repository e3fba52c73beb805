//! Peers, workers, liveness and launching.
//!
//! A [`Cluster`] is the handle of a program to its job. [`run`] creates one from the environment (one
//! peer with one worker per core, unless a launcher says otherwise). [`standalone`] runs a whole job
//! inside one process. [`Cluster::builder`] takes every setting explicitly, and [`launch`] starts the
//! peers of a job as processes.
//!
//! **Threads of a peer.** The *driver* runs the program and makes collective calls. *Workers* compute
//! (`worker_pool.rs`). Two *I/O loops*, one per lane, move bytes that no thread waits for. The
//! *monitor* sends heartbeats, detects silence and explains stalls (`monitor.rs`). *Services* of
//! other layers serve other peers (`service.rs`). **Invariant:** only this crate starts threads, and
//! every wait has a deadline and a reason (`waits.rs`). shutdown.md beside this file is the design
//! note on loss, goodbye, exclusion and the launcher.
//!
//! | file | concept |
//! |---|---|
//! | `cluster.rs`, `builder.rs`, `run.rs`, `standalone.rs` | the cluster handle and its constructors |
//! | `peer_context.rs`, `tree.rs` | runtime context; barrier, broadcast, all-gather of small values |
//! | `all_to_all.rs` | all-to-all exchange of bytes |
//! | `worker_pool.rs`, `worker_team.rs`, `fork_join.rs` | compute threads; fork-join team for small tasks |
//! | `service.rs`, `peer_handle.rs` | threads that serve other peers, and their non-owning handle |
//! | `liveness.rs` | detection of silent peers: pure |
//! | `bounded_wait.rs`, `waits.rs` | blocking waits with deadline and reason; their registry |
//! | `monitor.rs`, `stderr_observer.rs` | heartbeats and stall reports; default observer |
//! | `rank_assignment/`, `environment.rs` | rank and size of this process, from a launcher's variables |
//! | `launch/` | starting and supervising the peers of a job |
//! | `interrupt.rs` | graceful shutdown after a signal |
//! | `stop_request.rs` | request to leave a pass before its end, agreed on by all peers |
//! | `system_env.rs` | the real clock, random device and threads |

mod all_to_all;
mod bounded_wait;
mod builder;
mod cluster;
pub mod environment;
mod error;
mod fork_join;
mod interrupt;
pub mod launch;
mod liveness;
mod monitor;
mod peer_context;
mod peer_handle;
mod progress;
pub mod rank_assignment;
mod run;
mod service;
mod standalone;
mod stderr_observer;
mod stop_request;
mod sync;
mod system_env;
mod tree;
mod waits;
mod work_source;
mod worker_pool;
mod worker_share;
mod worker_team;

pub use bounded_wait::WaitContext;
pub use builder::{ClusterBuilder, MAX_WORKERS};
pub use cluster::Cluster;
pub use error::{Error, Result};
pub use hemiola_net::ChannelReceiver;
pub use interrupt::{Interrupt, InterruptResponse};
pub use peer_handle::PeerHandle;
pub use run::run;
pub use service::{ServiceHandle, ShutdownToken};
pub use standalone::{Standalone, standalone};
pub use stderr_observer::StderrObserver;
pub use stop_request::{StopPoll, StopRequest, StopRequestCause, StopScope};
pub use system_env::SystemEnv;
pub use waits::{WaitGuard, WaitReason, WaitRegistry};
pub use worker_pool::{Worker, panic_message};
pub use worker_team::WorkerTeam;
