//! Tables on real clusters: threads as peers, and processes.

mod bits;
mod endings;
mod managed;
mod mistakes;
mod processes;
mod staleness;
mod support;
