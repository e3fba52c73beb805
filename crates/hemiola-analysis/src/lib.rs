//! Which iterations of a loop may run at the same time: from the array accesses of its body to the ways of running it in
//! parallel, each with its proof.
//!
//! A loop body says, for every place where it uses an array, by which subscripts and whether it reads or writes
//! ([`access`]). Everything else in this crate is a function of that.
//!
//! **Invariant:** pure. This crate opens no socket, starts no thread, reads no clock, draws no random number, and knows
//! nothing of `proc_macro`.

pub mod access;

pub use access::{Access, ArrayUse, LoopSpec, Mode, Subscript};
