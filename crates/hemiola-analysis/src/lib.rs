//! Dependence analysis of loops over arrays.
//!
//! The analysis takes the array accesses of a loop body and finds the parallelizations that keep
//! all dependences between iterations. Every verdict carries its proof.
//!
//! ```text
//!   accesses ──▶ equations ──▶ dependence vectors ──▶ verdict on each parallelization ──▶ array placement
//!   access       equations     vector, dependence     parallelization, skew, unimodular   placement
//!                                                     └──────────── analysis ───────────┘ block_order
//! ```
//!
//! | file | concept |
//! |---|---|
//! | [`access`] | description of a loop: [`LoopSpec`], [`Access`], [`Subscript`] |
//! | `equations` | equality of subscripts, solved for all dimensions of an array together |
//! | [`vector`] | dependence vectors: sets of distances between iterations |
//! | [`dependence`] | dependences from pairs of accesses |
//! | [`unimodular`] | unimodular changes of coordinates |
//! | [`skew`] | search for a change of coordinates that turns all dependences forward |
//! | [`parallelization`] | parallel execution orders, the legality rules and their proof |
//! | [`mod@analysis`] | [`analyze`], and the proof object [`Analysis`] |
//! | `index_names` | texts about parallelizations, with the names of the loop's indices |
//! | [`block_order`] | order of the blocks of a 2D parallelization |
//! | [`placement`] | partitioning of each array that fits a parallelization |
//! | [`error`] | invalid loop descriptions |
//!
//! The analysis does not choose among the legal parallelizations. The choice needs array sizes and
//! is made by `hemiola-loops`.
//!
//! **Invariant:** pure. This crate opens no socket, starts no thread, reads no clock, draws no
//! random number, and does not depend on `proc_macro`.

pub mod access;
pub mod analysis;
pub mod block_order;
pub mod dependence;
mod equations;
pub mod error;
#[cfg(test)]
mod fixtures;
mod index_names;
pub mod parallelization;
pub mod placement;
pub mod skew;
pub mod unimodular;
pub mod vector;

pub use access::{Access, AccessMode, ArrayAccesses, LoopSpec, Subscript};
pub use analysis::{Analysis, analyze};
pub use dependence::{AccessPair, Dependence};
pub use error::Error;
pub use parallelization::{
    BlockTraversal, CandidateSchedule, LegalityRule, LegalityViolation, Parallelization, ScheduleVerdict,
};
pub use placement::{ArrayPartitioning, PlacementConstraint, WriteMode, offset_range, place_arrays};
pub use unimodular::UnimodularMatrix;
pub use vector::{DependenceDistance, DependenceVector};
