//! Jobs that do nothing but talk: how many events of each protocol a simulation gets through.

use super::mf;
use crate::actor::Actor;
use crate::actors::collectives::{Collectives, Job};
use crate::actors::mixing::{Mixing, Setup};
use crate::describe::Description;
use crate::units::Span;
use crate::world::{Ended, World};
use hemiola_collective_proto::{Algorithm, Operation, Operator, Synchronization, Topology, Weights};
use std::sync::Arc;

/// A protocol, for so many peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Talk {
    /// Ring all-reduces of a few numbers.
    AllReduce,
    /// Barriers.
    Barrier,
    /// Rounds of averages over a chord graph.
    Mixing,
    /// Clocks of a table with as many shards as peers.
    Tables,
}

impl Talk {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::AllReduce, Self::Barrier, Self::Mixing, Self::Tables];

    /// In a word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all-reduce",
            Self::Barrier => "barrier",
            Self::Mixing => "mixing",
            Self::Tables => "tables",
        }
    }

    /// Runs it on so many peers, so many times.
    pub fn run(self, peers: usize, times: usize) -> Result<Ended, String> {
        match self {
            Self::AllReduce => {
                let (algorithm, operator) = (Algorithm::Ring, Operator::Sum);
                collectives(peers, &Operation::AllReduce { algorithm, operator, length: 4 * peers }, times)
            }
            Self::Barrier => collectives(peers, &Operation::Barrier, times),
            Self::Mixing => mixing(peers, times),
            Self::Tables => {
                let job = mf::Job {
                    users: peers,
                    per_user: 10,
                    items: peers,
                    rank: 4,
                    clocks: times as u64,
                    shards: peers,
                    ..mf::Job::default()
                };
                job.run(&Description::new(peers), 1, false).map(|outcome| outcome.ended)
            }
        }
    }
}

fn finish<A: Actor>(world: Result<World<A>, crate::describe::Impossible>) -> Result<Ended, String> {
    world.map_err(|error| error.to_string())?.run().map_err(|trouble| trouble.to_string())
}

fn collectives(peers: usize, operation: &Operation, times: usize) -> Result<Ended, String> {
    finish(World::new(&Description::new(peers), 1, |me| {
        let elements = vec![1.0_f32; operation.buffer_length(peers)];
        let job = Job { operation: operation.clone(), elements, before: Span::from_micros(10) };
        Collectives::new(me, peers, vec![job; times], 1, 1 << 18)
    }))
}

fn mixing(peers: usize, times: usize) -> Result<Ended, String> {
    let graph = Topology::Chord.graph(peers).map_err(|error| error.to_string())?;
    let setup = Setup {
        weights: Weights::average(&graph).into(),
        length: 16,
        piece: 16,
        value_bytes: 8,
        synchronization: Synchronization::NotifyAck,
        rounds: times as u64,
        step: Arc::new(|_, _, _| {}),
        work: Span::from_micros(10),
        outlives: false,
        alone: false,
    };
    let cluster = Description::new(peers);
    let mixers = hemiola_core::Rank::all(peers).map(|me| Mixing::new(me, peers, setup.clone()));
    let mut mixers = mixers.collect::<Result<Vec<_>, _>>()?.into_iter();
    finish(World::new(&cluster, 1, |_| mixers.next()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_them_come_to_an_end() {
        for talk in Talk::ALL {
            assert!(talk.run(8, 3).unwrap().events > 24, "{talk:?}");
        }
    }
}
