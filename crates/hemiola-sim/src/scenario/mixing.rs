//! Averages over a graph on an uneven cluster, compared with the same rounds done by one; some peers may crash, and the others go on.
//!
//! Every round is judged by itself: from what peers pushed follows what each must have after its reduce, and from that what it pushes next. So all rounds together have the bits of serial ones.

use super::{EVENTS, Scenario, bits, some, weather};
use crate::actors::mixing::{Mixing, Setup, Spoil};
use crate::chance;
use crate::describe::{Description, Fault};
use crate::units::Span;
use crate::world::{Ended, World};
use hemiola_collective_proto::mix::{Body, Message};
use hemiola_collective_proto::{Synchronization, Topology, Weights};
use hemiola_core::Rank;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A fault to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MixingPlant {
    /// A slot is given back when its values have come, not when they have been used.
    AckOnArrival,
    /// A lost peer is left out from one's own next round on, not from one that nobody has begun.
    AloneAfterLoss,
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

    /// Whether a peer crashes.
    fn loses(&self) -> bool {
        (0..self.cluster.peers).any(|peer| self.crashes(peer))
    }

    fn crashes(&self, peer: usize) -> bool {
        self.cluster.faults.iter().any(|fault| matches!(fault, Fault::Crash { peer: one, .. } if *one == peer))
    }

    /// Judges a round of a peer that waits for its neighbours: what it pushed, and what its reduce gave.
    fn judge(&self, actors: &[&Mixing], weights: &Weights, peer: Rank, round: usize) -> Result<(), String> {
        let actor = actors[peer.index()];
        let mut pushed = if round == 0 { vec![0.0; self.length] } else { actor.history()[round - 1].0.clone() };
        step(peer, round as u64, &mut pushed);
        if bits(&pushed) != bits(&actor.pushed()[round]) {
            return Err(format!("round {round} of peer {peer} began with other values than the last one ended with"));
        }
        let (found, reduced) = &actor.history()[round];
        // Of one that is gone, what was in time is in, and the peer's own value stands for what was not.
        let gone: Vec<Rank> = actor.losses().iter().map(|(gone, _)| *gone).collect();
        let (units, missing) = (left_out(actor, weights, round), reduced.senders - reduced.used);
        let from = |from: &&Rank| units.row(peer).units().iter().any(|(sender, _)| sender == *from);
        let gone: Vec<Rank> = gone.iter().filter(from).copied().collect();
        if missing > gone.len() || reduced.torn + reduced.stale > 0 {
            return Err(format!("peer {peer} reduced {reduced:?}"));
        }
        let subsets = (0..1_u32 << gone.len()).filter(|subset| subset.count_ones() as usize == missing);
        for subset in subsets {
            let replaced =
                |from: &Rank| gone.iter().position(|one| one == from).is_some_and(|at| subset >> at & 1 == 1);
            let values = |from: &Rank| {
                let peer = if replaced(from) { peer } else { *from };
                actors[peer.index()].pushed().get(round)
            };
            let units = units.row(peer).units();
            let Some(senders) = units.iter().map(|(from, _)| values(from)).collect::<Option<Vec<_>>>() else {
                continue;
            };
            let of: f64 = units.iter().map(|(_, units)| f64::from(*units)).sum();
            let sum = |at: usize| {
                units.iter().zip(&senders).fold(0.0, |sum, ((_, units), values)| sum + f64::from(*units) * values[at])
            };
            let expected: Vec<f64> = (0..self.length).map(|at| sum(at) / of).collect();
            if bits(found) == bits(&expected) {
                return Ok(());
            }
        }
        Err(format!("round {round} of peer {peer} has other bits than the serial round"))
    }
}

/// The weights of a round, without those that a peer says are left out by then.
fn left_out(actor: &Mixing, weights: &Weights, round: usize) -> Weights {
    let mut steps = vec![(0, weights.clone())];
    for (gone, from) in actor.losses() {
        let without = steps.last().map_or_else(|| weights.clone(), |(_, last)| last.without(*gone));
        // Nobody left has begun a round that an earlier loss named later.
        steps.retain(|(begin, _)| *begin == 0 || begin < from);
        steps.push((*from, without));
    }
    let place = steps.iter().rposition(|(from, _)| *from <= round as u64).unwrap_or(0);
    steps.swap_remove(place).1
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
        let mut cluster = weather::draw(peers, random);
        let (rounds, length, piece) = (1 + random.below(6) as u64, random.below(9), 1 + random.below(4));
        if peers > 2 && synchronization != Synchronization::Barrier && random.below(3) == 0 {
            weather::crash(&mut cluster, random);
        }
        Self { seed, cluster, topology, synchronization, rounds, length, piece, plant: None }
    }

    fn check(&self) -> Result<Ended, String> {
        some(&[("peers", self.cluster.peers)])?;
        let peers = self.cluster.peers;
        let graph = self.topology.graph(peers).map_err(|error| error.to_string())?;
        let weights = Arc::new(Weights::average(&graph));
        let setup = Setup {
            weights: weights.clone(),
            length: self.length,
            piece: self.piece,
            value_bytes: 8,
            synchronization: self.synchronization,
            rounds: self.rounds,
            step: Arc::new(step),
            work: Span::from_micros(100),
            outlives: self.loses(),
            alone: self.plant == Some(MixingPlant::AloneAfterLoss),
        };
        let mut failed = None;
        let mut world = World::new(&self.cluster, self.seed, |me| {
            let spoil = (self.plant == Some(MixingPlant::AckOnArrival)).then_some(ack_on_arrival as Spoil);
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
        let strict = self.synchronization == Synchronization::NotifyAck;
        for (peer, actor) in Rank::all(peers).zip(&actors) {
            let whole = actor.history().len() as u64 == self.rounds;
            if !whole && !self.crashes(peer.index()) {
                return Err(format!("peer {peer} made {} rounds", actor.history().len()));
            }
            for round in (0..actor.history().len()).filter(|_| strict) {
                self.judge(&actors, &weights, peer, round)?;
            }
        }
        Ok(ended)
    }

    fn smaller(&self) -> Vec<Self> {
        let with = |cluster, rounds| Self { cluster, rounds, ..self.clone() };
        let mut all = weather::simpler(&self.cluster, self.rounds, with);
        for length in weather::less(self.length, 1) {
            all.push(Self { length, ..self.clone() });
        }
        if self.topology != Topology::Ring {
            all.push(Self { topology: Topology::Ring, ..self.clone() });
        }
        all
    }
}
