//! Which iterations of a loop may run at the same time: from the array accesses of its body to the ways of running it in
//! parallel, each with its proof.
//!
//! ```text
//!   accesses ──▶ equations ──▶ dependence vectors ──▶ verdict on each strategy ──▶ homes for the arrays
//!   access       equations     vector, depend         strategy, skew, transform    placement
//!                                                     └───── analysis ─────┘       schedule
//! ```
//!
//! | file | concept |
//! |---|---|
//! | [`access`] | what a loop says of itself: [`LoopSpec`], [`Access`], [`Subscript`] |
//! | `equations` | when subscripts are equal, for all dimensions of an array together |
//! | [`vector`] | sets of distances between iterations |
//! | [`depend`] | from pairs of accesses to such sets |
//! | [`transform`] | unimodular changes of coordinates |
//! | [`skew`] | finding one that turns dependences forward |
//! | [`strategy`] | ways to run a loop, the rules they follow, the proof of the rules |
//! | [`mod@analysis`] | [`analyze`], and the proof object [`Analysis`] |
//! | `names` | sentences about strategies |
//! | [`schedule`] | when each block of a 2D strategy runs |
//! | [`placement`] | where each array can live meanwhile |
//! | [`error`] | what can be wrong with the question |
//!
//! Choosing among the legal strategies needs sizes, and is left to whoever knows them.
//!
//! **Invariant:** pure. This crate opens no socket, starts no thread, reads no clock, draws no random number, and knows
//! nothing of `proc_macro`.

pub mod access;
pub mod analysis;
pub mod depend;
mod equations;
pub mod error;
mod names;
pub mod placement;
#[cfg(test)]
mod sample;
pub mod schedule;
pub mod skew;
pub mod strategy;
#[cfg(feature = "syntax")]
pub mod syntax;
pub mod transform;
pub mod vector;

pub use access::{Access, ArrayUse, LoopSpec, Mode, Subscript};
pub use analysis::{Analysis, analyze};
pub use depend::{Dependence, Pair};
pub use error::Error;
pub use placement::{Home, Placement, Usage, place, reach};
pub use strategy::{Attempt, Candidate, Order, Refusal, Rule, Strategy};
pub use transform::Matrix;
pub use vector::{Element, Vector};
