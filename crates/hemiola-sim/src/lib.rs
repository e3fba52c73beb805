//! A cluster in virtual time: the protocols of Hemiola against modelled networks, modelled computers and faults.
//!
//! A [`Description`] says what the cluster is; [`Actor`]s say what its peers do, with the very state machines that run on real clusters; a [`World`] runs both, one event after the other, in nanoseconds that
//! pass as fast as they can be computed. The same description, seed and actors give the same run.
//!
//! ```
//! use hemiola_core::{Lane, Rank};
//! use hemiola_sim::{Actor, Context, Description, Outcome, Wait, World};
//!
//! /// Answers whatever comes, until both have spoken ten times.
//! struct Talker(u32);
//!
//! impl Actor for Talker {
//!     type Message = u32;
//!
//!     fn start(&mut self, context: &mut Context<'_, u32>) -> Outcome {
//!         if context.me() == Rank::ROOT {
//!             context.send(Rank::new(1), Lane::Control, 100, 0);
//!         }
//!         Ok(())
//!     }
//!
//!     fn receive(&mut self, from: Rank, message: u32, context: &mut Context<'_, u32>) -> Outcome {
//!         self.0 = message;
//!         if message < 19 {
//!             context.send(from, Lane::Control, 100, message + 1);
//!         }
//!         Ok(())
//!     }
//!
//!     fn timer(&mut self, _: u64, _: &mut Context<'_, u32>) -> Outcome {
//!         Ok(())
//!     }
//!
//!     fn is_done(&self) -> bool {
//!         self.0 >= 18
//!     }
//!
//!     fn waits(&self) -> Vec<Wait> {
//!         Vec::new()
//!     }
//! }
//!
//! let ended = World::new(&Description::new(2), 1, |_| Talker(0))?.run()?;
//! assert_eq!(ended.events, 20);
//! assert!(ended.at.secs() > 20.0 * 50e-6, "twenty messages, 50 µs each");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | concept |
//! |---|---|
//! | [`describe`] | [`Description`]: peers, links, racks, faults; what cannot be is refused with the reason |
//! | [`actor`] | [`Actor`]: what runs on a peer; [`Context`]: what it may ask of the world |
//! | [`actors`] | the state machines of the protocol crates, in virtual time |
//! | [`world`] | [`World`]: runs events in the order of time |
//! | [`scenario`], [`mod@explore`] | jobs made from seeds with what must hold of them; many of them, and the smallest that fails |
//! | [`figure`] | figures of papers at their own scale |
//! | `network` | how messages travel and share links, in queues or as flows |
//! | `compute`, `cores` | how long peers compute; how those of one host share its cores |
//! | [`workload`] | jobs that do real work in virtual time |
//! | [`stuck`] | [`WaitGraph`]: who waits for whom when nothing can happen any more |
//! | [`study`] | what staleness does to learning, in iterations rather than nanoseconds |
//! | [`trace`] | what happened when, for Chrome and Perfetto |
//! | [`units`], [`chance`] | spans and rates; numbers from distributions |
//!
//! **Invariant:** no socket or wall clock, no thread in a run, and no randomness but from a given seed.

pub mod actor;
pub mod actors;
pub mod chance;
mod compute;
mod cores;
pub mod describe;
pub mod explore;
pub mod figure;
mod network;
mod queue;
pub mod scenario;
pub mod stuck;
pub mod study;
pub mod trace;
pub mod units;
pub mod workload;
pub mod world;

pub use actor::{Actor, Context, Outcome};
pub use describe::Description;
pub use explore::explore;
pub use stuck::{Wait, WaitGraph};
pub use units::{Rate, Span};
pub use world::{Account, Ended, Trouble, World};
