//! The examples: each prints what its documentation shows, and its result equals a serial
//! reference in plain Rust or has a known property.
//!
//! | file | examples |
//! |---|---|
//! | `output` | all: the output in the documentation |
//! | `factorization`, `clustering`, `ranking`, `stencils` | parallel loops beside serial loops, bit for bit |
//! | `servers` | tables: logistic regression, topic model, update rule |
//! | `properties` | collectives, gossip averaging, strategy, estimator |

mod clustering;
mod factorization;
mod output;
mod programs;
mod properties;
mod ranking;
mod servers;
mod stencils;

use crate::with_watchdog;
use hemiola::array::Element;
use hemiola::prelude::*;

/// Runs `program` on one to three peers with one to four workers each. It returns true on the root
/// if the result equals the serial reference.
fn equals_on_all_clusters(program: impl Fn(&Cluster) -> hemiola::Result<bool> + Send + Sync) {
    for (peers, workers) in (1..=3).flat_map(|peers| (1..=4).map(move |workers| (peers, workers))) {
        let run = || hemiola::standalone(peers).workers(workers).run(&program);
        assert!(with_watchdog(run).unwrap()[0], "not the same bits on {peers} peers with {workers} workers");
    }
}

/// All values of an array in the order of their keys.
fn values<T: Element, const N: usize>(array: &DistArray<T, N>) -> hemiola::Result<Vec<T>> {
    Ok(array.collect()?.into_iter().map(|(_, value)| value).collect())
}
