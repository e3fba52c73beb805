//! Tables on real clusters: threads as peers, and processes.

mod bits;
mod checkpoints;
mod dedicated;
mod endings;
mod killing;
mod managed;
mod mistakes;
mod processes;
mod staleness;
mod support;
