//! Collectives of all kinds, several in flight, on an uneven cluster.

use super::{EVENTS, Scenario, bits32, serial, some, weather};
use crate::actors::collectives::{Collectives, Job};
use crate::chance;
use crate::describe::Description;
use crate::units::Span;
use crate::world::{Ended, World};
use hemiola_collective_proto::protocol::cut;
use hemiola_collective_proto::{Algorithm, Message, Operation, Operator, Random};
use hemiola_core::Rank;
use serde::{Deserialize, Serialize};

/// One collective of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// An all-reduce.
    AllReduce(Algorithm),
    /// A reduce-scatter.
    ReduceScatter,
    /// An all-gather of equal blocks.
    AllGather,
    /// An all-gather of blocks that differ.
    AllGatherRagged,
    /// A gather to a root.
    Gather(u32),
    /// A broadcast from a root.
    Broadcast(u32),
    /// A reduce to a root.
    Reduce(u32),
    /// Everybody sends a block to everybody.
    AllToAll,
    /// A barrier.
    Barrier,
}

/// A fault to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CollectivePlant {
    /// The segments of a transfer are numbered in pairs the wrong way round.
    SegmentsSwapped,
}

/// Collectives on a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CollectiveScenario {
    /// Of data and weather.
    pub seed: u64,
    /// Where it runs.
    pub cluster: Description,
    /// What is done, with how many elements.
    pub jobs: Vec<(Kind, usize)>,
    /// So many at once.
    pub in_flight: usize,
    /// Bytes of elements in a message.
    pub segment: usize,
    /// A fault to be found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plant: Option<CollectivePlant>,
}

/// Blocks of different lengths.
fn ragged(peers: usize, block: usize) -> Vec<usize> {
    (0..peers).map(|peer| block * ((peer * 7 + 3) % 5) / 4).collect()
}

impl Kind {
    fn operation(self, peers: usize, length: usize) -> Operation {
        let operator = Operator::Sum;
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

    /// What a peer must have afterwards where its result is.
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
            Self::AllReduce(algorithm) => serial::all_reduce(algorithm, data),
            Self::ReduceScatter => serial::all_reduce(Algorithm::Ring, data)[cut(length, peers, me.index())].to_vec(),
            Self::AllGather => blocks(&vec![length; peers]),
            Self::AllGatherRagged => blocks(&ragged(peers, length)),
            Self::Gather(to) if root(to) == me.index() => blocks(&ragged(peers, length)),
            Self::Broadcast(from) => data[root(from)].clone(),
            Self::Reduce(to) if root(to) == me.index() => {
                let turned = |element: usize| -> Vec<f32> {
                    (0..peers).map(|place| data[(place + root(to)) % peers][element]).collect()
                };
                (0..length).map(|element| serial::tree(&turned(element))).collect()
            }
            Self::AllToAll => {
                let block = me.index() * length..(me.index() + 1) * length;
                data.iter().flat_map(|from| from[block.clone()].to_vec()).collect()
            }
            Self::Gather(_) | Self::Reduce(_) | Self::Barrier => Vec::new(),
        }
    }
}

fn swapped(message: &mut Message) {
    message.sequence ^= 1;
}

impl CollectiveScenario {
    /// What each peer brings to each job.
    fn data(&self) -> Vec<Vec<Vec<f32>>> {
        let mut random = chance::generator(self.seed, 1);
        let peers = self.cluster.peers;
        let job = |&(kind, length): &(Kind, usize)| {
            let length = kind.operation(peers, length).buffer_length(peers);
            (0..peers).map(|_| (0..length).map(|_| random.symmetric() as f32).collect()).collect()
        };
        self.jobs.iter().map(job).collect()
    }
}

impl Scenario for CollectiveScenario {
    fn from_seed(seed: u64) -> Self {
        let random = &mut chance::generator(seed, 0);
        let peers = 1 + random.below(9);
        let kind = |random: &mut Random| match random.below(14) {
            0 => Kind::ReduceScatter,
            1 => Kind::AllGather,
            2 => Kind::AllGatherRagged,
            3 => Kind::Gather(random.below(9) as u32),
            4 => Kind::Broadcast(random.below(9) as u32),
            5 => Kind::Reduce(random.below(9) as u32),
            6 => Kind::AllToAll,
            7 => Kind::Barrier,
            8 => Kind::AllReduce(Algorithm::Tree),
            9 => Kind::AllReduce(Algorithm::HalvingDoubling),
            10 => Kind::AllReduce(Algorithm::Doubling),
            11 => Kind::AllReduce(Algorithm::TwoLevel { group: 1 + random.below(4) }),
            _ => Kind::AllReduce(Algorithm::Ring),
        };
        let jobs = (0..=random.below(5)).map(|_| (kind(random), [0, 1, 7, 100, 3000][random.below(5)])).collect();
        Self {
            seed,
            cluster: weather::draw(peers, random),
            jobs,
            in_flight: 1 + random.below(3),
            segment: [4, 64, 4096][random.below(3)],
            plant: None,
        }
    }

    fn check(&self) -> Result<Ended, String> {
        some(&[("peers", self.cluster.peers)])?;
        let (data, peers) = (self.data(), self.cluster.peers);
        let spoil = self.plant.map(|_| swapped as fn(&mut Message));
        let mut world = World::new(&self.cluster, self.seed, |me| {
            let job = |(&(kind, length), data): (&(Kind, usize), &Vec<Vec<f32>>)| Job {
                operation: kind.operation(peers, length),
                elements: data[me.index()].clone(),
                before: Span::from_micros(50),
            };
            let jobs = self.jobs.iter().zip(&data).map(job).collect();
            Collectives::new(me, peers, jobs, self.in_flight, self.segment).spoiled(spoil)
        })
        .map_err(|error| error.to_string())?
        .limit(EVENTS);
        let ended = world.run().map_err(|trouble| trouble.to_string())?;
        for (me, actor) in Rank::all(peers).zip(world.actors()) {
            for (number, (&(kind, length), data)) in self.jobs.iter().zip(&data).enumerate() {
                let result = kind.operation(peers, length).result(me, peers);
                let found = &actor.jobs()[number].elements[result];
                let expected = kind.expected(me, length, data);
                if bits32(found) != bits32(&expected) {
                    return Err(format!(
                        "peer {me} has other bits than the documented order gives in job {number}, {kind:?}"
                    ));
                }
            }
        }
        Ok(ended)
    }

    fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for peers in weather::less(self.cluster.peers, 1) {
            all.push(Self { cluster: weather::fewer(&self.cluster, peers), ..self.clone() });
        }
        for number in (0..self.jobs.len()).filter(|_| self.jobs.len() > 1) {
            let mut jobs = self.jobs.clone();
            jobs.remove(number);
            all.push(Self { jobs, ..self.clone() });
        }
        all.extend(weather::calmer(&self.cluster).into_iter().map(|cluster| Self { cluster, ..self.clone() }));
        if self.in_flight > 1 {
            all.push(Self { in_flight: 1, ..self.clone() });
        }
        for (number, (kind, length)) in self.jobs.iter().enumerate() {
            for length in weather::less(*length, 1) {
                let mut jobs = self.jobs.clone();
                jobs[number] = (*kind, length);
                all.push(Self { jobs, ..self.clone() });
            }
        }
        all
    }
}

impl CollectiveScenario {
    /// With a fault to be found.
    #[must_use]
    pub fn planted(mut self, plant: CollectivePlant) -> Self {
        self.plant = Some(plant);
        self
    }
}
