//! Scheduled model parallelism: choose what to update, then update it.
//!
//! Parameters of a model depend on each other, and converge unevenly. A *schedule* says which of them are worth updating now, and which may be updated at once; what an update does is
//! another matter. A program is three instructions ([`Program`]: schedule, update, aggregate); engines run them on all workers of all peers. (After Kim et al., *SMPFRAME*, 2015.)
//!
//! - [`Dynamic`] is for schedules that follow the model: small rounds of jobs that do not disturb each other, the most promising first, several rounds in flight.
//! - [`Rotation`] is for schedules that are known: parts of the model go around a ring of workers, and each works on its own data with what it holds.
//!
//! ```
//! use hemiola_schedule::order::{Order, RoundRobin};
//! use hemiola_schedule::{Ask, Candidate, Done, Dynamic, Program};
//! use std::ops::ControlFlow;
//!
//! /// Solves `a[j] x[j] = b[j]` for every `j`: nothing depends on anything.
//! struct Solve(RoundRobin);
//!
//! struct Equations { a: Vec<f64>, b: Vec<f64>, x: Vec<f64> }
//!
//! impl Program for Solve {
//!     type Job = usize;
//!     type Partial = f64;
//!     type State = Equations;
//!
//!     fn schedule(&self, ask: &Ask, _: &Equations, candidates: &mut Vec<Candidate<usize>>) {
//!         self.0.propose(ask, candidates);
//!     }
//!
//!     fn update(&self, job: &usize, state: &Equations) -> f64 {
//!         state.b[*job] / state.a[*job]
//!     }
//!
//!     fn aggregate(&mut self, done: &Done<'_, usize, f64>, state: &mut Equations, _: &mut hemiola_cluster::Crew<'_>) -> hemiola_cluster::Result<()> {
//!         for (place, job) in done.jobs.iter().enumerate() {
//!             state.x[*job] = done.partials(place).next().copied().unwrap_or_default();
//!         }
//!         Ok(())
//!     }
//! }
//!
//! hemiola_cluster::standalone(1).workers(2).run(|cluster| {
//!     let mut state = Equations { a: vec![2.0, 4.0, 8.0], b: vec![2.0, 8.0, 24.0], x: vec![0.0; 3] };
//!     Dynamic::new(cluster).concurrent(2).watch_every(3).run(&mut Solve(RoundRobin::new(3)), &mut state, |_, _, _| Ok(ControlFlow::Break(())))?;
//!     assert_eq!(state.x, [1.0, 2.0, 3.0]);
//!     Ok(())
//! })?;
//! # Ok::<(), hemiola_cluster::Error>(())
//! ```
//!
//! | file | concept |
//! |---|---|
//! | [`program`] | [`Program`]: the three instructions |
//! | [`dynamic`] | [`Dynamic`]: rounds on workers and peers |
//! | [`rotation`] | [`Rotation`]: blocks around a ring |
//! | [`pool`] | jobs of one peer, each done once by one of its workers |
//! | [`order`] | ready orders of coordinates: round robin, random, by priority; couplings that are kept |
//! | [`plan`] | what is decided, without I/O: [`pipeline`](plan::pipeline), [`ring`](plan::ring), [`deal`](plan::deal), [`sums`](plan::sums) |
//! | [`trace`] | progress by data and by time |
//! | `meet` | what peers tell each other of a round |
//! | [`error`] | what can go wrong |

pub mod dynamic;
pub mod error;
mod meet;
pub mod order;
pub mod plan;
pub mod pool;
pub mod program;
pub mod rotation;
pub mod trace;

pub use dynamic::{Dynamic, Report, Spent};
pub use error::Error;
pub use plan::deal::Deal;
pub use plan::pipeline::{Conflicts, Tally};
pub use program::{Ask, Candidate, Done, Program};
pub use rotation::{Rotating, Rotation, Synchronize, Turn};
pub use trace::{Point, Progress, Trace};
