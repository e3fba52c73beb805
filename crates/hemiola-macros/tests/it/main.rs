//! `parallel_for!` as a user's crate sees it, on a run time of one thread (`tests/mock`).
//!
//! `run`: expansions compile, run and describe themselves. `slices`: what is predicted is what is read. `refused`: what
//! does not compile, and how the compiler says so.

// A user's crate may be stricter than ours; the expansion must pass all the same.
#![deny(warnings, clippy::all, clippy::pedantic)]

extern crate self as hemiola;

#[path = "../mock/mod.rs"]
pub mod loops;

mod refused;
mod run;
mod slices;
