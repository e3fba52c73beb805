//! Collectives and gossip averaging on clusters of threads and of processes.

mod compressed;
mod compressed_goals;
mod conditions;
mod gossip;
mod overlap;
mod processes;
mod sums;
mod support;
