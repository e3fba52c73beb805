//! How long all-reduces take, measured once, so that later ones can choose their way.
//!
//! Each way is tried with vectors of three sizes; the line through its times, `latency + bytes × per_byte`, predicts all other sizes. What peer 0
//! found is told to all, so all choose alike. Figures are the best of a few, since a busy machine only ever adds time. Ways are measured, not
//! computed from links, because processes of one host share its cores, which no model of links knows.

use crate::flight::Flight;
use hemiola_cluster::{Cluster, Result};
use hemiola_collective_proto::Algorithm;
use hemiola_collective_proto::cost::Link;
use hemiola_collective_proto::protocol::{Operation, Operator, Tag};
use hemiola_core::{ChannelId, Rank};
use std::panic::Location;

/// The ways that are compared. Which peers share a host is not known here, so two levels are for those who ask for them.
const WAYS: [Algorithm; 4] = [Algorithm::Doubling, Algorithm::HalvingDoubling, Algorithm::Ring, Algorithm::Tree];
/// Ways that send whole vectors are not for longer ones: with the largest that is tried, one that happened to be disturbed might look better.
const SHORT_BYTES: usize = 1 << 20;
/// Elements of the vectors, and how often each is tried.
const SIZES: [(usize, u32); 3] = [(256, 8), (1 << 14, 4), (1 << 18, 3)];
/// How many collectives a measurement takes.
pub(crate) const COLLECTIVES: u64 = WAYS.len() as u64 * (8 + 4 + 3) + 1;

/// What each way takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speeds {
    ways: [(Algorithm, Link); 4],
}

impl Speeds {
    /// Each way, with the seconds of its smallest message and of each further byte of the vector.
    #[must_use]
    pub fn ways(&self) -> &[(Algorithm, Link)] {
        &self.ways
    }

    /// The fastest way for so many bytes.
    #[must_use]
    pub fn choose(&self, bytes: usize) -> Algorithm {
        let seconds = |link: Link| link.latency + bytes as f64 * link.per_byte;
        let fits = |algorithm| bytes <= SHORT_BYTES || !matches!(algorithm, Algorithm::Doubling | Algorithm::Tree);
        let best = self.ways.iter().filter(|way| fits(way.0)).min_by(|a, b| seconds(a.1).total_cmp(&seconds(b.1)));
        best.map_or(Algorithm::Ring, |&(algorithm, _)| algorithm)
    }
}

/// *Collective.* What each way takes in this job, the same on all peers. `channel` names the channels of so many [`COLLECTIVES`].
pub(crate) fn speeds(
    cluster: &Cluster,
    channel: impl Fn(u64) -> ChannelId,
    site: &'static Location<'static>,
) -> Result<Speeds> {
    let mut next = 0;
    let mut run = |operation: &Operation, elements: &mut [f64]| {
        next += 1;
        Flight::begin::<f64>(cluster, channel(next - 1), Tag::new(next - 1), operation, site)?.run(elements)
    };
    let mut found = Vec::new();
    for algorithm in WAYS {
        let mut samples = Vec::new();
        for (length, rounds) in SIZES {
            let mut elements = vec![0.0; length / 2];
            let mut best = f64::INFINITY;
            for _ in 0..rounds {
                let start = cluster.env().now();
                let operation = Operation::AllReduce { algorithm, operator: Operator::Sum, length: elements.len() };
                run(&operation, &mut elements)?;
                best = best.min((cluster.env().now() - start).as_secs_f64());
            }
            samples.push((size_of_val(&elements[..]) as u64, best));
        }
        let Link { latency, per_byte } = Link::fit(&samples).unwrap_or(Link { latency: 0.0, per_byte: 0.0 });
        found.extend([latency, per_byte]);
    }
    run(&Operation::Broadcast { root: Rank::ROOT, length: found.len() }, &mut found)?;
    let way = |place: usize| (WAYS[place], Link { latency: found[2 * place], per_byte: found[2 * place + 1] });
    Ok(Speeds { ways: [way(0), way(1), way(2), way(3)] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_is_chosen_by_size() {
        let way = |algorithm, latency, per_byte| (algorithm, Link { latency, per_byte });
        let speeds = Speeds {
            ways: [
                way(Algorithm::Doubling, 1e-5, 1e-8),
                way(Algorithm::HalvingDoubling, 5e-5, 2e-9),
                way(Algorithm::Ring, 1e-4, 1e-9),
                way(Algorithm::Tree, 2e-5, 4e-9),
            ],
        };
        let chosen = [100, 3_000, 20_000, 1 << 20].map(|bytes| speeds.choose(bytes));
        assert_eq!(chosen, [Algorithm::Doubling, Algorithm::Tree, Algorithm::HalvingDoubling, Algorithm::Ring]);
        // Whatever was measured, whole vectors are not sent if they are long.
        let disturbed = Speeds { ways: speeds.ways.map(|(algorithm, _)| way(algorithm, 0.0, 1.0)) };
        assert_eq!(
            [1 << 20, 1 << 21].map(|bytes| disturbed.choose(bytes)),
            [Algorithm::Doubling, Algorithm::HalvingDoubling]
        );
    }
}
