//! `parallel_for!` under normal and failure conditions.

mod aliases;
mod failures;
mod plans;
mod processes;
mod served;
mod spaces;

use crate::with_watchdog;
use hemiola::cluster::{Cluster, Result};
use hemiola::core::Deadlines;
use std::time::Duration;

/// Runs a program on a standalone cluster with short deadlines, so that a hang is reported.
fn run<T: Send>(peers: usize, workers: usize, program: impl Fn(&Cluster) -> Result<T> + Sync) -> Vec<T> {
    let mut deadlines = Deadlines::default();
    deadlines.wait = Duration::from_secs(30);
    let cluster = hemiola::cluster::standalone(peers).workers(workers).deadlines(deadlines);
    let results = with_watchdog(|| cluster.run(&program).map_err(|error| error.to_string()));
    results.unwrap_or_else(|error| panic!("{peers} peers with {workers} workers: {error}"))
}
