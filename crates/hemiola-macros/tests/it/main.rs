//! `parallel_for!` in a user's crate, on a run time of one thread (`tests/mock`).
//!
//! `run`: expansions compile, run and describe themselves. `slices`: a slice predicts the reads of
//! the body. `compile_errors`: loops that do not compile, and the messages of the compiler.

// A user's crate may be stricter than this workspace; the expansion must pass its lints.
#![deny(warnings, clippy::all, clippy::pedantic)]

extern crate self as hemiola;

#[path = "../mock/mod.rs"]
pub mod loops;

mod compile_errors;
mod run;
mod slices;
