//! Collectives of all kinds, several in flight, on a random cluster.

use super::{MAX_EVENTS, Scenario, bits32, random_cluster, require_nonzero, serial_sums};
use crate::actors::collectives::{CollectiveActor, CollectiveJob};
use crate::cluster_spec::ClusterSpec;
use crate::sampling;
use crate::simulation::{RunSummary, Simulation};
use crate::units::SimDuration;
use hemiola_collective_proto::protocol::{CallSetup, chunk_range};
use hemiola_collective_proto::{Algorithm, CollectiveMessage, Operation, ReduceOp};
use hemiola_core::Rank;
use hemiola_core::rng::SplitMix64;
use serde::{Deserialize, Serialize};

/// A collective of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CollectiveKind {
    /// All-reduce with this algorithm.
    AllReduce(Algorithm),
    /// Reduce-scatter of equal chunks.
    ReduceScatter,
    /// All-gather of equal blocks.
    AllGather,
    /// All-gather of blocks of different lengths.
    AllGatherRagged,
    /// Gather to this root.
    Gather(u32),
    /// Broadcast from this root.
    Broadcast(u32),
    /// Reduce to this root.
    Reduce(u32),
    /// All-to-all of equal blocks.
    AllToAll,
    /// Barrier of all peers, without data.
    Barrier,
}

/// Injected fault, which the check must detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CollectiveFault {
    /// Pairs of segments have swapped sequence numbers.
    SegmentsSwapped,
}

/// Collectives on a random cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CollectiveScenario {
    /// Random seed of data and cluster.
    pub seed: u64,
    /// Cluster on which it runs.
    pub cluster: ClusterSpec,
    /// Collectives and their lengths.
    pub jobs: Vec<(CollectiveKind, usize)>,
    /// Maximum number of collectives in flight.
    pub in_flight: usize,
    /// Bytes of elements in a message.
    pub segment: usize,
    /// Injected fault; `None` in regular runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<CollectiveFault>,
}

/// Blocks of different lengths.
fn ragged(peers: usize, block: usize) -> Vec<usize> {
    (0..peers).map(|peer| block * ((peer * 7 + 3) % 5) / 4).collect()
}

impl CollectiveKind {
    fn operation(self, peers: usize, length: usize) -> Operation {
        let operator = ReduceOp::Sum;
        let root = |root: u32| Rank::new(root % peers as u32);
        match self {
            Self::AllReduce(algorithm) => Operation::AllReduce { algorithm, operator, length },
            Self::ReduceScatter => Operation::ReduceScatter { operator, length },
            Self::AllGather => Operation::AllGather { block: length },
            Self::AllGatherRagged => Operation::AllGatherRagged { blocks: ragged(peers, length) },
            Self::Gather(to) => Operation::Gather { root: root(to), blocks: ragged(peers, length) },
            Self::Broadcast(from) => Operation::Broadcast { root: root(from), length },
            Self::Reduce(to) => Operation::Reduce { root: root(to), operator, length },
            Self::AllToAll => Operation::AllToAll { block: length },
            Self::Barrier => Operation::Barrier,
        }
    }

    /// Returns the expected result of a peer.
    fn expected(self, me: Rank, length: usize, data: &[Vec<f32>]) -> Vec<f32> {
        let peers = data.len();
        let root = |root: u32| root as usize % peers;
        let blocks = |lengths: &[usize]| -> Vec<f32> {
            let mut start = 0;
            let mut all = Vec::new();
            for (peer, length) in lengths.iter().enumerate() {
                all.extend_from_slice(&data[peer][start..start + length]);
                start += length;
            }
            all
        };
        match self {
            Self::AllReduce(algorithm) => serial_sums::all_reduce(algorithm, data),
            Self::ReduceScatter => {
                serial_sums::all_reduce(Algorithm::Ring, data)[chunk_range(length, peers, me.index())].to_vec()
            }
            Self::AllGather => blocks(&vec![length; peers]),
            Self::AllGatherRagged => blocks(&ragged(peers, length)),
            Self::Gather(to) if root(to) == me.index() => blocks(&ragged(peers, length)),
            Self::Broadcast(from) => data[root(from)].clone(),
            Self::Reduce(to) if root(to) == me.index() => serial_sums::reduce(root(to), data),
            Self::AllToAll => {
                let block = me.index() * length..(me.index() + 1) * length;
                data.iter().flat_map(|from| from[block.clone()].to_vec()).collect()
            }
            Self::Gather(_) | Self::Reduce(_) | Self::Barrier => Vec::new(),
        }
    }
}

fn swap_segments(message: &mut CollectiveMessage) {
    message.sequence ^= 1;
}

impl CollectiveScenario {
    /// Returns the input buffers, by job and peer.
    fn data(&self) -> Vec<Vec<Vec<f32>>> {
        let mut random = sampling::generator(self.seed, 1);
        let peers = self.cluster.peers;
        let job = |&(kind, length): &(CollectiveKind, usize)| {
            let length = kind.operation(peers, length).buffer_length(peers);
            (0..peers).map(|_| (0..length).map(|_| random.symmetric() as f32).collect()).collect()
        };
        self.jobs.iter().map(job).collect()
    }
}

impl Scenario for CollectiveScenario {
    fn from_seed(seed: u64) -> Self {
        let random = &mut sampling::generator(seed, 0);
        let peers = 1 + random.below(9);
        let kind = |random: &mut SplitMix64| match random.below(14) {
            0 => CollectiveKind::ReduceScatter,
            1 => CollectiveKind::AllGather,
            2 => CollectiveKind::AllGatherRagged,
            3 => CollectiveKind::Gather(random.below(9) as u32),
            4 => CollectiveKind::Broadcast(random.below(9) as u32),
            5 => CollectiveKind::Reduce(random.below(9) as u32),
            6 => CollectiveKind::AllToAll,
            7 => CollectiveKind::Barrier,
            8 => CollectiveKind::AllReduce(Algorithm::Tree),
            9 => CollectiveKind::AllReduce(Algorithm::HalvingDoubling),
            10 => CollectiveKind::AllReduce(Algorithm::Doubling),
            11 => CollectiveKind::AllReduce(Algorithm::TwoLevel { group: 1 + random.below(4) }),
            _ => CollectiveKind::AllReduce(Algorithm::Ring),
        };
        let jobs = (0..=random.below(5)).map(|_| (kind(random), [0, 1, 7, 100, 3000][random.below(5)])).collect();
        Self {
            seed,
            cluster: random_cluster::draw(peers, random),
            jobs,
            in_flight: 1 + random.below(3),
            segment: [4, 64, 4096][random.below(3)],
            fault: None,
        }
    }

    fn check(&self) -> Result<RunSummary, String> {
        require_nonzero(&[("peers", self.cluster.peers)])?;
        let (data, peers) = (self.data(), self.cluster.peers);
        let fault = self.fault.map(|_| swap_segments as fn(&mut CollectiveMessage));
        let mut simulation = Simulation::new(&self.cluster, self.seed, |me| {
            let job = |(&(kind, length), data): (&(CollectiveKind, usize), &Vec<Vec<f32>>)| CollectiveJob {
                operation: kind.operation(peers, length),
                elements: data[me.index()].clone(),
                before: SimDuration::from_micros(50),
            };
            let jobs = self.jobs.iter().zip(&data).map(job).collect();
            let setup = CallSetup::new(me, peers).segment_bytes(self.segment);
            CollectiveActor::new(setup, jobs, self.in_flight).with_faults(fault)
        })
        .map_err(|error| error.to_string())?
        .event_limit(MAX_EVENTS);
        let ended = simulation.run().map_err(|trouble| trouble.to_string())?;
        for (me, actor) in Rank::all(peers).zip(simulation.actors()) {
            for (number, (&(kind, length), data)) in self.jobs.iter().zip(&data).enumerate() {
                let result = kind.operation(peers, length).result(me, peers);
                let found = &actor.jobs()[number].elements[result];
                let expected = kind.expected(me, length, data);
                if bits32(found) != bits32(&expected) {
                    return Err(format!(
                        "peer {me} differs in bits from the documented order in job {number}, {kind:?}"
                    ));
                }
            }
        }
        Ok(ended)
    }

    fn shrink(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for peers in random_cluster::smaller_numbers(self.cluster.peers, 1) {
            all.push(Self { cluster: random_cluster::with_fewer_peers(&self.cluster, peers), ..self.clone() });
        }
        for number in (0..self.jobs.len()).filter(|_| self.jobs.len() > 1) {
            let mut jobs = self.jobs.clone();
            jobs.remove(number);
            all.push(Self { jobs, ..self.clone() });
        }
        all.extend(random_cluster::calmer(&self.cluster).into_iter().map(|cluster| Self { cluster, ..self.clone() }));
        if self.in_flight > 1 {
            all.push(Self { in_flight: 1, ..self.clone() });
        }
        for (number, (kind, length)) in self.jobs.iter().enumerate() {
            for length in random_cluster::smaller_numbers(*length, 1) {
                let mut jobs = self.jobs.clone();
                jobs[number] = (*kind, length);
                all.push(Self { jobs, ..self.clone() });
            }
        }
        all
    }
}

impl CollectiveScenario {
    /// Returns the scenario with an injected fault.
    #[must_use]
    pub fn with_fault(mut self, fault: CollectiveFault) -> Self {
        self.fault = Some(fault);
        self
    }
}
