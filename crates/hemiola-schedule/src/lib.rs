//! Scheduled model parallelism: choose the parameters to update, then update them.
//!
//! Parameters of a model depend on each other and converge unevenly. A *schedule* selects the
//! parameters that are worth updating now and that may be updated concurrently, independent of the
//! update itself. A program has three functions ([`DynamicProgram`]: schedule, update, aggregate),
//! and schedulers run them on all workers of all peers. (After Kim et al., *SMPFRAME*, 2015.)
//!
//! - [`DynamicScheduler`] is for schedules that follow the model: small rounds of jobs without
//!   conflicts, the highest priority first, several rounds in flight.
//! - [`RotationScheduler`] is for schedules known in advance: blocks of the model travel around a
//!   ring of workers, and each worker updates the block it holds with its own data.
//!
//! ```
//! use hemiola_cluster::WorkerTeam;
//! use hemiola_schedule::order::{CoordinateOrder, RoundRobinOrder};
//! use hemiola_schedule::{
//!     DynamicProgram, DynamicScheduler, JobCandidate, RoundResults, ScheduleRequest,
//! };
//! use std::ops::ControlFlow;
//!
//! /// Solves `a[j] x[j] = b[j]` for every `j`: the jobs are independent.
//! struct Solve(RoundRobinOrder);
//!
//! struct Equations { a: Vec<f64>, b: Vec<f64>, x: Vec<f64> }
//!
//! impl DynamicProgram for Solve {
//!     type Job = usize;
//!     type Partial = f64;
//!     type State = Equations;
//!
//!     fn schedule(
//!         &self,
//!         request: &ScheduleRequest,
//!         _: &Equations,
//!         candidates: &mut Vec<JobCandidate<usize>>,
//!     ) {
//!         self.0.propose(request, candidates);
//!     }
//!
//!     fn update(&self, job: &usize, state: &Equations) -> f64 {
//!         state.b[*job] / state.a[*job]
//!     }
//!
//!     fn aggregate(
//!         &mut self,
//!         results: &RoundResults<'_, usize, f64>,
//!         state: &mut Equations,
//!         _: &mut WorkerTeam<'_>,
//!     ) -> hemiola_cluster::Result<()> {
//!         for (index, job) in results.jobs.iter().enumerate() {
//!             state.x[*job] = results.partials(index).next().copied().unwrap_or_default();
//!         }
//!         Ok(())
//!     }
//! }
//!
//! hemiola_cluster::standalone(1).workers(2).run(|cluster| {
//!     let (a, b) = (vec![2.0, 4.0, 8.0], vec![2.0, 8.0, 24.0]);
//!     let mut state = Equations { a, b, x: vec![0.0; 3] };
//!     let mut program = Solve(RoundRobinOrder::new(3));
//!     let scheduler = DynamicScheduler::new(cluster).concurrent(2).callback_every(3);
//!     scheduler.run(&mut program, &mut state, |_, _, _| Ok(ControlFlow::Break(())))?;
//!     assert_eq!(state.x, [1.0, 2.0, 3.0]);
//!     Ok(())
//! })?;
//! # Ok::<(), hemiola_cluster::Error>(())
//! ```
//!
//! | file | concept |
//! |---|---|
//! | [`program`] | [`DynamicProgram`]: schedule, update, aggregate |
//! | [`dynamic`] | [`DynamicScheduler`]: rounds on workers and peers |
//! | [`rotation`] | [`RotationScheduler`]: blocks around a ring |
//! | [`pool`] | jobs of one peer, each run once by one of its workers |
//! | [`order`] | update orders of coordinates: round robin, random, by priority; a cache of couplings |
//! | [`plan`] | decisions without I/O: pipeline, ring, rotation node, assignment, sum tree |
//! | [`trace`] | objective by data touched, jobs and time |
//! | `result_exchange` | messages between peers about a round |
//! | [`error`] | errors of scheduled programs |

pub mod dynamic;
pub mod error;
pub mod order;
pub mod plan;
pub mod pool;
pub mod program;
mod result_exchange;
pub mod rotation;
pub mod trace;

pub use dynamic::{DynamicScheduler, PhaseTimes, ScheduleReport};
pub use error::Error;
pub use plan::assignment::JobAssignment;
pub use plan::pipeline::{ConflictPolicy, PipelineCounts};
pub use program::{DynamicProgram, JobCandidate, RoundResults, ScheduleRequest};
pub use rotation::{RotationBarrier, RotationProgram, RotationReport, RotationScheduler};
pub use trace::{ObjectiveSample, ObjectiveTrace, ScheduleProgress};
