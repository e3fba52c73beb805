//! Synchronization without a tensor library.

mod checkpoints;
mod linear_model;
mod waits;
