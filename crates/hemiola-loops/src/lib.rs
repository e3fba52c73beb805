//! Execution of parallel loops: a serial loop over entries or indices runs on all workers of all
//! peers, with the result of a serial order.
//!
//! ```text
//!   parallel_for! ──> LoopSite (accesses, as written)        captures (arrays, accumulators, buffers, values)
//!                        │                                        │ declare themselves
//!                        └──────────────> analysis <──────────────┘
//!                                            │ legal schedules, with proofs
//!          shapes, histograms, workers ──> plan: cuts, placements, schedule, cost
//!                                            │
//!       entries shuffled, arrays placed ──> workers run blocks ──> arrays released
//! ```
//!
//! A *pass* is one execution of a loop; in training loops it is usually an epoch. A loop is cut
//! along *space* into *parts*, which stay with their workers, and along *time* into *time blocks*,
//! which move between parts. A *block* is one part at one time block.
//!
//! | module | concept |
//! |---|---|
//! | [`site`] | [`LoopSite`]: compile-time description of a loop |
//! | [`plan`] | [`LoopPlan`]: blocks, schedule, placements and cost of a loop; its text and JSON |
//! | [`profile`] | [`LoopProfile`]: measurements on one machine, to predict other clusters |
//! | [`capture`], [`view`] | captured variables: on a peer, and in the body |
//! | [`buffer`] | [`WriteBuffer`]: delayed writes |
//! | [`recorder`], `prefetch` | rows that a block will read, recorded by the slice of the body |
//! | `arrays`, `halo` | arrays in a loop: held, placed, cut into windows; rows that two peers share |
//! | `served_block` | rows of a served array on their owner, for `hemiola_tables_proto::read_only` |
//! | `space` | iteration spaces |
//! | [`mod@run`] | workers, blocks, stages, barriers, messages between peers |
//! | [`expand`] | items that the expansion of `parallel_for!` calls |

mod arrays;
#[expect(unsafe_code, reason = "cells of several arrays are changed together; each use has its argument")]
pub mod buffer;
pub mod capture;
pub mod error;
#[doc(hidden)]
#[expect(unsafe_code, reason = "values are reached by address; each use has its argument")]
pub mod expand;
#[expect(unsafe_code, reason = "rows are shared by address; each use has its argument")]
mod halo;
pub mod plan;
mod prefetch;
pub mod profile;
pub mod recorder;
pub mod run;
mod served_block;
pub mod site;
mod space;
pub mod view;

pub use buffer::{BufferExt, WriteBuffer};
pub use error::Error;
pub use plan::LoopPlan;
pub use profile::LoopProfile;
pub use run::LoopReport;
pub use site::LoopSite;

/// Runs the iterations of a loop in parallel.
///
/// This is `hemiola::parallel_for!` for libraries that depend on this crate and not on the facade.
/// Syntax and meaning are the same; the expansion names this crate instead of `hemiola`.
///
/// ```
/// use hemiola_array::ArrayExt;
/// use hemiola_loops::parallel_for;
///
/// hemiola_cluster::standalone(2).run(|cluster| {
///     let mut squares = cluster.zeros::<f64, 1>([10])?;
///     parallel_for!(cluster, for i in 0..10 { squares[i] = (i * i) as f64; })?;
///     assert_eq!(squares.collect()?[7], ([7], 49.0));
///     Ok(())
/// })?;
/// # Ok::<(), hemiola_cluster::Error>(())
/// ```
#[macro_export]
macro_rules! parallel_for {
    ($($tokens:tt)*) => { $crate::expand::parallel_for_at!([$crate::expand] $($tokens)*) };
}
