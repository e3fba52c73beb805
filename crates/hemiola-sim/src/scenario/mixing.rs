//! Averages over a graph on an uneven cluster, compared with the same rounds done by one.

use super::{EVENTS, Scenario, some, weather};
use crate::actors::mixing::{Mixing, Setup, Spoil};
use crate::chance;
use crate::describe::Description;
use crate::units::Span;
use crate::world::{Ended, World};
use hemiola_collective::mix::{Body, Message};
use hemiola_collective::{Synchronization, Topology, Weights};
use hemiola_core::Rank;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A fault to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MixingPlant {
    /// A slot is given back when its values have come, not when they have been used.
    AckOnArrival,
}

/// Rounds over a graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MixingScenario {
    /// Of the weather.
    pub seed: u64,
    /// Where it runs.
    pub cluster: Description,
    /// Who sends to whom.
    pub topology: Topology,
    /// What peers wait for.
    pub synchronization: Synchronization,
    /// How many rounds.
    pub rounds: u64,
    /// How many values.
    pub length: usize,
    /// And in a message.
    pub piece: usize,
    /// A fault to be found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plant: Option<MixingPlant>,
}

/// What a peer adds to its values in a round: never representable exactly.
fn step(peer: Rank, round: u64, values: &mut [f64]) {
    for (element, value) in values.iter_mut().enumerate() {
        *value += 1.0 / (3.0 + peer.index() as f64 + 11.0 * round as f64 + 997.0 * element as f64);
    }
}

/// Acknowledges on arrival, and not after the reduce.
fn ack_on_arrival(out: &mut Vec<Message>, received: Option<&Message>) {
    out.retain(|message| message.body != Body::Ack);
    if let Some(Message { from, to, version, body: Body::Notify }) = received {
        out.push(Message { from: *to, to: *from, version: *version, body: Body::Ack });
    }
}

impl MixingScenario {
    /// With a fault to be found.
    #[must_use]
    pub fn planted(mut self, plant: MixingPlant) -> Self {
        (self.plant, self.synchronization) = (Some(plant), Synchronization::NotifyAck);
        self
    }

    /// The values of all peers after each round, done one after the other.
    fn serially(&self, weights: &Weights) -> Vec<Vec<Vec<f64>>> {
        let mut now = vec![vec![0.0; self.length]; self.cluster.peers];
        let mut rounds = Vec::new();
        for round in 0..self.rounds {
            for peer in Rank::all(now.len()) {
                step(peer, round, &mut now[peer.index()]);
            }
            let mean = |to: Rank| -> Vec<f64> {
                let units = weights.row(to).units();
                let of: f64 = units.iter().map(|(_, units)| f64::from(*units)).sum();
                let sum = |at: usize| {
                    units.iter().fold(0.0, |sum, (from, units)| sum + f64::from(*units) * now[from.index()][at])
                };
                (0..self.length).map(|at| sum(at) / of).collect()
            };
            now = Rank::all(now.len()).map(mean).collect();
            rounds.push(now.clone());
        }
        rounds
    }
}

impl Scenario for MixingScenario {
    fn from_seed(seed: u64) -> Self {
        let random = &mut chance::generator(seed, 0);
        let peers = 1 + random.below(8);
        let topology = match random.below(7) {
            0 => Topology::Complete,
            1 => Topology::Ring,
            2 => Topology::Chain,
            3 => Topology::Star,
            4 => Topology::Chord,
            5 => Topology::Halton { degree: None },
            _ => Topology::RootExpander,
        };
        let synchronization = match random.below(6) {
            0 => Synchronization::Barrier,
            1 => Synchronization::Asynchronous,
            _ => Synchronization::NotifyAck,
        };
        Self {
            seed,
            cluster: weather::draw(peers, random),
            topology,
            synchronization,
            rounds: 1 + random.below(6) as u64,
            length: random.below(9),
            piece: 1 + random.below(4),
            plant: None,
        }
    }

    fn check(&self) -> Result<Ended, String> {
        some(&[("peers", self.cluster.peers)])?;
        let peers = self.cluster.peers;
        let graph = self.topology.graph(peers).map_err(|error| error.to_string())?;
        let weights = Weights::average(&graph);
        let setup = Setup {
            weights: weights.clone(),
            length: self.length,
            piece: self.piece,
            synchronization: self.synchronization,
            rounds: self.rounds,
            step: Arc::new(step),
            work: Span::from_micros(100),
        };
        let mut failed = None;
        let mut world = World::new(&self.cluster, self.seed, |me| {
            let spoil = self.plant.map(|_| ack_on_arrival as Spoil);
            let made = Mixing::new(me, peers, setup.clone());
            made.inspect_err(|problem| failed = Some(problem.clone())).ok().map(|mixing| mixing.spoiled(spoil))
        })
        .map_err(|error| error.to_string())?
        .limit(EVENTS);
        if let Some(problem) = failed {
            return Err(problem);
        }
        let ended = world.run().map_err(|trouble| trouble.to_string())?;
        let actors: Vec<&Mixing> = world.actors().iter().flatten().collect();
        for (peer, actor) in actors.iter().enumerate() {
            if actor.history().len() as u64 != self.rounds {
                return Err(format!("peer {peer} made {} rounds", actor.history().len()));
            }
        }
        if self.synchronization != Synchronization::NotifyAck {
            return Ok(ended);
        }
        let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        for (round, expected) in self.serially(&weights).iter().enumerate() {
            for (peer, actor) in actors.iter().enumerate() {
                let (found, reduced) = &actor.history()[round];
                if reduced.used != reduced.senders || reduced.torn + reduced.stale > 0 {
                    return Err(format!("peer {peer} reduced {reduced:?}"));
                }
                if bits(found) != bits(&expected[peer]) {
                    return Err(format!("round {round} of peer {peer} has other bits than the serial round"));
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
        for rounds in weather::less(self.rounds as usize, 1) {
            all.push(Self { rounds: rounds as u64, ..self.clone() });
        }
        all.extend(weather::calmer(&self.cluster).into_iter().map(|cluster| Self { cluster, ..self.clone() }));
        for length in weather::less(self.length, 1) {
            all.push(Self { length, ..self.clone() });
        }
        if self.topology != Topology::Ring {
            all.push(Self { topology: Topology::Ring, ..self.clone() });
        }
        all
    }
}
