//! Simulation of a cluster in virtual time: Hemiola's protocols on modelled networks and computers, with
//! faults.
//!
//! A [`ClusterSpec`] describes the cluster. [`Actor`]s are the peers; they drive the state machines that
//! also run on real clusters. A [`Simulation`] processes their events one after the other in virtual
//! nanoseconds. The same spec, seed and actors give the same run.
//!
//! ```
//! use hemiola_core::{Lane, Rank};
//! use hemiola_sim::{Actor, ActorContext, ActorResult, ClusterSpec, PendingWait, Simulation};
//!
//! /// Answers every message, until both peers have sent ten.
//! struct PingPong(u32);
//!
//! impl Actor for PingPong {
//!     type Message = u32;
//!
//!     fn on_start(&mut self, context: &mut ActorContext<'_, u32>) -> ActorResult {
//!         if context.rank() == Rank::ROOT {
//!             context.send(Rank::new(1), Lane::Control, 100, 0);
//!         }
//!         Ok(())
//!     }
//!
//!     fn on_message(&mut self, from: Rank, message: u32, context: &mut ActorContext<'_, u32>) -> ActorResult {
//!         self.0 = message;
//!         if message < 19 {
//!             context.send(from, Lane::Control, 100, message + 1);
//!         }
//!         Ok(())
//!     }
//!
//!     fn on_timer(&mut self, _: u64, _: &mut ActorContext<'_, u32>) -> ActorResult {
//!         Ok(())
//!     }
//!
//!     fn is_done(&self) -> bool {
//!         self.0 >= 18
//!     }
//!
//!     fn pending_waits(&self) -> Vec<PendingWait> {
//!         Vec::new()
//!     }
//! }
//!
//! let ended = Simulation::new(&ClusterSpec::new(2), 1, |_| PingPong(0))?.run()?;
//! assert_eq!(ended.events, 20);
//! assert!(ended.end_time.secs() > 20.0 * 50e-6, "twenty messages, 50 µs each");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | concept |
//! |---|---|
//! | [`cluster_spec`] | [`ClusterSpec`]: peers, links, racks, faults, and their validation |
//! | [`actor`] | [`Actor`] and [`ActorContext`]: code on a peer and its access to the simulation |
//! | [`actors`] | actors for the protocols of Hemiola |
//! | [`simulation`] | [`Simulation`]: processes events in the order of time |
//! | [`scenario`], [`mod@explore`] | randomized scenarios with their invariants; search for failures and shrinking |
//! | [`paper_figures`] | figures of papers, reproduced at their scale |
//! | `network` | message transfer, as FIFO queues or as fair flows |
//! | `compute`, `cores` | compute times; cores shared by the peers of a host |
//! | [`workload`] | jobs that compute real results in virtual time |
//! | [`wait_graph`] | [`WaitGraph`]: pending waits at a deadlock |
//! | [`staleness`] | staleness study: learning curves under update delays, in iterations |
//! | [`trace`] | timelines for Chrome and Perfetto |
//! | [`units`], [`sampling`] | durations and data rates; random numbers |
//!
//! **Invariant:** a run uses no socket, no wall clock, no thread, and no randomness other than its
//! seed. README.md of this crate is the design note: what is modelled, and what a run proves.

pub mod actor;
pub mod actors;
pub mod cluster_spec;
mod compute;
mod cores;
mod event_queue;
pub mod explore;
mod network;
pub mod paper_figures;
pub mod sampling;
pub mod scenario;
pub mod simulation;
pub mod staleness;
pub mod trace;
pub mod units;
pub mod wait_graph;
pub mod workload;

pub use actor::{Actor, ActorContext, ActorResult};
pub use cluster_spec::ClusterSpec;
pub use explore::explore;
pub use simulation::{PeerUsage, RunSummary, SimError, Simulation};
pub use units::{DataRate, SimDuration};
pub use wait_graph::{PendingWait, WaitGraph};

/// Page of the book on randomized testing; its snippets run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/internals/randomized-testing.md")]
struct RandomizedTesting;
