//! `parallel_for!` in a user's crate, on the real run time.
//!
//! `run`: expansions compile, run and describe themselves. `slices`: a slice predicts the reads of
//! the body. `compile_errors`: loops that do not compile, and the messages of the compiler.

// A user's crate may be stricter than this workspace; the expansion must pass its lints.
#![deny(warnings, clippy::all, clippy::pedantic)]

mod compile_errors;
mod run;
mod slices;

use hemiola::array::Element;
use hemiola::prelude::*;

/// Runs a program with one worker, with two workers, and on two peers.
fn on_clusters(program: impl Fn(&Cluster) -> hemiola::Result<()> + Sync) {
    for (peers, workers) in [(1, 1), (1, 2), (2, 1)] {
        let cluster = hemiola::standalone(peers).workers(workers);
        let outcome = hemiola_testkit::with_watchdog(|| cluster.run(&program).map_err(|error| error.to_string()));
        outcome.unwrap_or_else(|error| panic!("{peers} peers with {workers} workers: {error}"));
    }
}

/// Cells of an array, in the order of their keys.
fn values<T: Element, const N: usize>(array: &DistArray<T, N>) -> hemiola::Result<Vec<T>> {
    Ok(array.collect()?.into_iter().map(|(_, value)| value).collect())
}
