//! Benchmarks of the simulator: communication-only jobs, to count events per second.

use super::mf;
use crate::actor::Actor;
use crate::actors::collectives::{CollectiveActor, CollectiveJob};
use crate::actors::gossip::{GossipActor, GossipSetup};
use crate::cluster_spec::ClusterSpec;
use crate::simulation::{RunSummary, Simulation};
use crate::units::SimDuration;
use hemiola_collective_proto::protocol::CallSetup;
use hemiola_collective_proto::{Algorithm, GossipSync, GossipWeights, Operation, ReduceOp, Topology};
use std::sync::Arc;

/// Protocol of a benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolBenchmark {
    /// Ring all-reduces of short vectors.
    AllReduce,
    /// Barriers of all peers.
    Barrier,
    /// Gossip averaging over a chord graph.
    Gossip,
    /// Clocks of a table with as many shards as peers.
    Tables,
}

impl ProtocolBenchmark {
    /// All benchmarks, for loops over them.
    pub const ALL: [Self; 4] = [Self::AllReduce, Self::Barrier, Self::Gossip, Self::Tables];

    /// Returns the name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all-reduce",
            Self::Barrier => "barrier",
            Self::Gossip => "gossip",
            Self::Tables => "tables",
        }
    }

    /// Runs `times` operations on `peers` peers.
    pub fn run(self, peers: usize, times: usize) -> Result<RunSummary, String> {
        match self {
            Self::AllReduce => {
                let (algorithm, operator) = (Algorithm::Ring, ReduceOp::Sum);
                collectives(peers, &Operation::AllReduce { algorithm, operator, length: 4 * peers }, times)
            }
            Self::Barrier => collectives(peers, &Operation::Barrier, times),
            Self::Gossip => gossip(peers, times),
            Self::Tables => {
                let job = mf::MfWorkload {
                    users: peers,
                    per_user: 10,
                    items: peers,
                    rank: 4,
                    clocks: times as u64,
                    shards: peers,
                    ..mf::MfWorkload::default()
                };
                job.run(&ClusterSpec::new(peers), 1, false).map(|outcome| outcome.ended)
            }
        }
    }
}

fn finish<A: Actor>(
    simulation: Result<Simulation<A>, crate::cluster_spec::InvalidClusterSpec>,
) -> Result<RunSummary, String> {
    simulation.map_err(|error| error.to_string())?.run().map_err(|trouble| trouble.to_string())
}

fn collectives(peers: usize, operation: &Operation, times: usize) -> Result<RunSummary, String> {
    finish(Simulation::new(&ClusterSpec::new(peers), 1, |me| {
        let elements = vec![1.0_f32; operation.buffer_length(peers)];
        let job = CollectiveJob { operation: operation.clone(), elements, before: SimDuration::from_micros(10) };
        CollectiveActor::new(CallSetup::new(me, peers), vec![job; times], 1)
    }))
}

fn gossip(peers: usize, times: usize) -> Result<RunSummary, String> {
    let graph = Topology::Chord.graph(peers).map_err(|error| error.to_string())?;
    let setup = GossipSetup {
        weights: GossipWeights::average(&graph).into(),
        length: 16,
        piece: 16,
        value_bytes: 8,
        synchronization: GossipSync::NotifyAck,
        rounds: times as u64,
        step: Arc::new(|_, _, _| {}),
        work: SimDuration::from_micros(10),
        survives_losses: false,
        ignore_others: false,
    };
    let cluster = ClusterSpec::new(peers);
    let actors = hemiola_core::Rank::all(peers).map(|me| GossipActor::new(me, peers, setup.clone()));
    let mut actors = actors.collect::<Result<Vec<_>, _>>()?.into_iter();
    finish(Simulation::new(&cluster, 1, |_| actors.next()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_benchmarks_end() {
        for benchmark in ProtocolBenchmark::ALL {
            assert!(benchmark.run(8, 3).unwrap().events > 24, "{benchmark:?}");
        }
    }
}
