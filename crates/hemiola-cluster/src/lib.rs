//! Peers, workers, liveness and launching.
//!
//! A [`Cluster`] is the handle a program holds. [`run`] makes one from the environment (one peer with as many workers as
//! cores, unless a launcher says otherwise), [`standalone`] makes a whole job inside one process, [`Cluster::builder`]
//! takes everything by hand, and [`launch`] starts the peers of a job as processes.
//!
//! **Threads of a peer.** The *driver* runs the program and makes collective calls. *Workers* compute (`workers.rs`).
//! Two *I/O loops*, one per lane, move bytes that nobody waits for. The *monitor* sends heartbeats, notices silence and
//! explains stalls (`monitor.rs`). *Services* of other layers serve other peers (`service.rs`). **Invariant:** only this crate starts threads, and every wait has a deadline and a
//! reason (`waits.rs`).
//!
//! | file | concept |
//! |---|---|
//! | `cluster.rs`, `builder.rs`, `run.rs`, `standalone.rs` | the handle and the ways to get one |
//! | `exchange.rs`, `tree.rs` | barrier, broadcast, all-gather of small values |
//! | `workers.rs`, `crew.rs` | compute threads; the same standing by, for work in small pieces |
//! | `service.rs`, `link.rs` | threads that serve other peers, and what they hold of the cluster |
//! | `liveness.rs` | who lives: pure |
//! | `monitor.rs`, `waits.rs`, `narrator.rs` | heartbeats, who waits for what, telling a person |
//! | `placement/`, `variables.rs` | which peer this process is, from what launchers set |
//! | `launch/` | starting and supervising the peers of a job |
//! | `interrupt.rs` | being asked to end, by a signal |
//! | `system_env.rs` | the real clock, random device and threads |

mod all_to_all;
mod builder;
mod cluster;
mod crew;
mod error;
mod exchange;
mod interrupt;
pub mod launch;
mod link;
mod liveness;
mod monitor;
mod narrator;
pub mod placement;
mod run;
mod service;
mod standalone;
mod system_env;
mod tree;
pub mod variables;
mod waits;
mod workers;

pub use builder::{ClusterBuilder, MOST_WORKERS};
pub use cluster::Cluster;
pub use crew::Crew;
pub use error::{Error, Result};
pub use hemiola_net::Mailbox;
pub use interrupt::Interrupt;
pub use link::Link;
pub use narrator::Narrator;
pub use run::run;
pub use service::{Ending, Service};
pub use standalone::{Standalone, standalone};
pub use system_env::SystemEnv;
pub use waits::{Reason, WaitGuard, Waits};
pub use workers::{Worker, panic_message};
