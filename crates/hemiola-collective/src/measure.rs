//! Measurement of all-reduce algorithms, done once, so that later calls can choose the fastest.
//!
//! Each algorithm is timed with vectors of three sizes; the line through its times,
//! `latency + bytes × per_byte`, predicts all other sizes. The result of peer 0 is broadcast, so
//! all peers choose alike. A time is the best of a few, since a busy machine only ever adds time.
//! Algorithms are measured, not computed from link timings, because processes of one host share its
//! cores, which no model of links captures.

use crate::error::protocol_error;
use crate::in_flight::CallOpener;
use hemiola_cluster::Result;
use hemiola_collective_proto::Algorithm;
use hemiola_collective_proto::cost::AlphaBeta;
use hemiola_collective_proto::protocol::{CallSetup, CollectiveCall, ElementKind, Operation, ReduceOp, TagSequence};
use hemiola_core::Rank;
use std::panic::Location;

/// Measured algorithms. The assignment of peers to hosts is not known here, so the two-level
/// algorithm must be requested by name.
const ALGORITHMS: [Algorithm; 4] = [Algorithm::Doubling, Algorithm::HalvingDoubling, Algorithm::Ring, Algorithm::Tree];
/// Limit for algorithms that send whole vectors. For longer ones a disturbed measurement of the
/// largest size could otherwise make them look better.
const SHORT_BYTES: usize = 1 << 20;
/// Lengths of the measured vectors, and repetitions of each.
const SIZES: [(usize, u32); 3] = [(256, 8), (1 << 14, 4), (1 << 18, 3)];
/// Number of collectives that a measurement takes.
pub(crate) const MEASUREMENT_COLLECTIVES: u64 = ALGORITHMS.len() as u64 * (8 + 4 + 3) + 1;

/// Measured time of each all-reduce algorithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AlgorithmTimings {
    timings: [(Algorithm, AlphaBeta); 4],
}

impl AlgorithmTimings {
    /// Each algorithm with its latency and its seconds per byte of the vector.
    #[must_use]
    pub fn timings(&self) -> &[(Algorithm, AlphaBeta)] {
        &self.timings
    }

    /// Returns the fastest algorithm for a vector of so many bytes.
    #[must_use]
    pub fn choose(&self, bytes: usize) -> Algorithm {
        let seconds = |link: AlphaBeta| link.latency + bytes as f64 * link.per_byte;
        let fits = |algorithm| bytes <= SHORT_BYTES || !matches!(algorithm, Algorithm::Doubling | Algorithm::Tree);
        let best =
            self.timings.iter().filter(|timing| fits(timing.0)).min_by(|a, b| seconds(a.1).total_cmp(&seconds(b.1)));
        best.map_or(Algorithm::Ring, |&(algorithm, _)| algorithm)
    }
}

/// *Collective.* Measures each algorithm; the result is the same on all peers. Takes the first
/// [`MEASUREMENT_COLLECTIVES`] tags of a communicator.
pub(crate) fn measure_timings(opener: &CallOpener, site: &'static Location<'static>) -> Result<AlgorithmTimings> {
    let (cluster, tags) = (&opener.cluster, TagSequence::starting_at(0));
    let setup = CallSetup::new(cluster.rank(), cluster.size());
    let run = |operation: &Operation, elements: &mut [f64]| {
        let call =
            CollectiveCall::begin(setup, tags.take_one(), operation, ElementKind::F64).map_err(protocol_error)?;
        opener.open(call, site).run(elements)
    };
    let mut measured = Vec::new();
    for algorithm in ALGORITHMS {
        let mut samples = Vec::new();
        for (length, rounds) in SIZES {
            let mut elements = vec![0.0; length / 2];
            let mut best = f64::INFINITY;
            for _ in 0..rounds {
                let start = cluster.env().now();
                let operation = Operation::AllReduce { algorithm, operator: ReduceOp::Sum, length: elements.len() };
                run(&operation, &mut elements)?;
                best = best.min((cluster.env().now() - start).as_secs_f64());
            }
            samples.push((size_of_val(&elements[..]) as u64, best));
        }
        let AlphaBeta { latency, per_byte } =
            AlphaBeta::fit(&samples).unwrap_or(AlphaBeta { latency: 0.0, per_byte: 0.0 });
        measured.extend([latency, per_byte]);
    }
    run(&Operation::Broadcast { root: Rank::ROOT, length: measured.len() }, &mut measured)?;
    let timing = |index: usize| {
        (ALGORITHMS[index], AlphaBeta { latency: measured[2 * index], per_byte: measured[2 * index + 1] })
    };
    Ok(AlgorithmTimings { timings: [timing(0), timing(1), timing(2), timing(3)] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_is_chosen_by_size() {
        let timing = |algorithm, latency, per_byte| (algorithm, AlphaBeta { latency, per_byte });
        let timings = AlgorithmTimings {
            timings: [
                timing(Algorithm::Doubling, 1e-5, 1e-8),
                timing(Algorithm::HalvingDoubling, 5e-5, 2e-9),
                timing(Algorithm::Ring, 1e-4, 1e-9),
                timing(Algorithm::Tree, 2e-5, 4e-9),
            ],
        };
        let chosen = [100, 3_000, 20_000, 1 << 20].map(|bytes| timings.choose(bytes));
        assert_eq!(chosen, [Algorithm::Doubling, Algorithm::Tree, Algorithm::HalvingDoubling, Algorithm::Ring]);
        // Whatever was measured, long vectors are not sent whole.
        let disturbed = AlgorithmTimings { timings: timings.timings.map(|(algorithm, _)| timing(algorithm, 0.0, 1.0)) };
        assert_eq!(
            [1 << 20, 1 << 21].map(|bytes| disturbed.choose(bytes)),
            [Algorithm::Doubling, Algorithm::HalvingDoubling]
        );
    }
}
