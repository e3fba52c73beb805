//! Gossip averaging on a random cluster, compared with serial rounds; some peers may crash, and the
//! others continue.
//!
//! Each round is checked on its own: the pushed values determine the result of each reduce, and
//! that determines the next push. Together, all rounds have the bits of serial rounds.

use super::{MAX_EVENTS, Scenario, bits, random_cluster, require_nonzero};
use crate::actors::gossip::{GossipActor, GossipFaultHook, GossipSetup};
use crate::cluster_spec::{ClusterSpec, Fault};
use crate::sampling;
use crate::simulation::{RunSummary, Simulation};
use crate::units::SimDuration;
use hemiola_collective_proto::gossip::{GossipBody, GossipMessage, GossipNodeMessage};
use hemiola_collective_proto::{GossipSync, GossipWeights, Topology};
use hemiola_core::Rank;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Injected fault, which the check must detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GossipFault {
    /// A slot is acknowledged when its values arrive, not when they have been used.
    AckOnArrival,
    /// A lost peer is excluded from the peer's own next round, without agreement.
    NoAgreementAfterLoss,
}

/// Gossip rounds on a random cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GossipScenario {
    /// Random seed of the cluster.
    pub seed: u64,
    /// Cluster on which it runs.
    pub cluster: ClusterSpec,
    /// Communication graph of the averages.
    pub topology: Topology,
    /// Synchronization of rounds between neighbours.
    pub synchronization: GossipSync,
    /// Number of rounds to run.
    pub rounds: u64,
    /// Number of values per peer.
    pub length: usize,
    /// Number of values per message.
    pub piece: usize,
    /// Injected fault; `None` in regular runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<GossipFault>,
}

/// Local step of a round; its results are never exactly representable.
fn step(peer: Rank, round: u64, values: &mut [f64]) {
    for (element, value) in values.iter_mut().enumerate() {
        *value += 1.0 / (3.0 + peer.index() as f64 + 11.0 * round as f64 + 997.0 * element as f64);
    }
}

/// Acknowledges on arrival instead of after the reduce.
fn ack_on_arrival(out: &mut Vec<GossipNodeMessage>, received: Option<&GossipNodeMessage>) {
    let is_ack = |message: &GossipNodeMessage| {
        matches!(message, GossipNodeMessage::Averager(GossipMessage { body: GossipBody::Ack, .. }))
    };
    out.retain(|message| !is_ack(message));
    if let Some(GossipNodeMessage::Averager(GossipMessage { from, to, version, body: GossipBody::Notify })) = received {
        let ack = GossipMessage { from: *to, to: *from, version: *version, body: GossipBody::Ack };
        out.push(GossipNodeMessage::Averager(ack));
    }
}

impl GossipScenario {
    /// Injects a fault, and uses NOTIFY-ACK.
    #[must_use]
    pub fn with_fault(mut self, fault: GossipFault) -> Self {
        (self.fault, self.synchronization) = (Some(fault), GossipSync::NotifyAck);
        self
    }

    /// Returns whether the spec has a crash.
    fn has_crash(&self) -> bool {
        (0..self.cluster.peers).any(|peer| self.crashes(peer))
    }

    fn crashes(&self, peer: usize) -> bool {
        self.cluster.faults.iter().any(|fault| matches!(fault, Fault::Crash { peer: one, .. } if *one == peer))
    }

    /// Checks the pushed values and the reduce of one round under NOTIFY-ACK.
    fn check_round(
        &self,
        actors: &[&GossipActor],
        weights: &GossipWeights,
        peer: Rank,
        round: usize,
    ) -> Result<(), String> {
        let actor = actors[peer.index()];
        let mut pushed = if round == 0 { vec![0.0; self.length] } else { actor.history()[round - 1].0.clone() };
        step(peer, round as u64, &mut pushed);
        if bits(&pushed) != bits(&actor.pushed()[round]) {
            return Err(format!(
                "round {round} of peer {peer} starts with other values than the last round ended with"
            ));
        }
        let (found, reduced) = &actor.history()[round];
        // Values of a lost peer that arrived in time are used; the peer's own value replaces the
        // others.
        let gone: Vec<Rank> = actor.losses().iter().map(|(gone, _)| *gone).collect();
        let (units, missing) = (remaining_weights(actor, weights, round), reduced.senders - reduced.used);
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

/// Returns the weights of a round, without the peers that are excluded by then.
fn remaining_weights(actor: &GossipActor, weights: &GossipWeights, round: usize) -> GossipWeights {
    let mut steps = vec![(0, weights.clone())];
    for (gone, from) in actor.losses() {
        let without = steps.last().map_or_else(|| weights.clone(), |(_, last)| last.without(*gone));
        // No remaining peer has started the round that an earlier loss named.
        steps.retain(|(begin, _)| *begin == 0 || begin < from);
        steps.push((*from, without));
    }
    let place = steps.iter().rposition(|(from, _)| *from <= round as u64).unwrap_or(0);
    steps.swap_remove(place).1
}

impl Scenario for GossipScenario {
    fn from_seed(seed: u64) -> Self {
        let random = &mut sampling::generator(seed, 0);
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
            0 => GossipSync::Barrier,
            1 => GossipSync::Asynchronous,
            _ => GossipSync::NotifyAck,
        };
        let mut cluster = random_cluster::draw(peers, random);
        let (rounds, length, piece) = (1 + random.below(6) as u64, random.below(9), 1 + random.below(4));
        if peers > 2 && random.below(3) == 0 {
            random_cluster::add_crash(&mut cluster, random);
        }
        Self { seed, cluster, topology, synchronization, rounds, length, piece, fault: None }
    }

    fn check(&self) -> Result<RunSummary, String> {
        require_nonzero(&[("peers", self.cluster.peers)])?;
        let peers = self.cluster.peers;
        let graph = self.topology.graph(peers).map_err(|error| error.to_string())?;
        let weights = Arc::new(GossipWeights::average(&graph));
        let setup = GossipSetup {
            weights: weights.clone(),
            length: self.length,
            piece: self.piece,
            value_bytes: 8,
            synchronization: self.synchronization,
            rounds: self.rounds,
            step: Arc::new(step),
            work: SimDuration::from_micros(100),
            survives_losses: self.has_crash(),
            ignore_others: self.fault == Some(GossipFault::NoAgreementAfterLoss),
        };
        let mut failed = None;
        let mut simulation = Simulation::new(&self.cluster, self.seed, |me| {
            let spoil = (self.fault == Some(GossipFault::AckOnArrival)).then_some(ack_on_arrival as GossipFaultHook);
            let made = GossipActor::new(me, peers, setup.clone());
            made.inspect_err(|problem| failed = Some(problem.clone())).ok().map(|actor| actor.with_faults(spoil))
        })
        .map_err(|error| error.to_string())?
        .event_limit(MAX_EVENTS);
        if let Some(problem) = failed {
            return Err(problem);
        }
        let ended = simulation.run().map_err(|trouble| trouble.to_string())?;
        let actors: Vec<&GossipActor> = simulation.actors().iter().flatten().collect();
        let strict = self.synchronization == GossipSync::NotifyAck;
        for (peer, actor) in Rank::all(peers).zip(&actors) {
            let whole = actor.history().len() as u64 == self.rounds;
            if !whole && !self.crashes(peer.index()) {
                return Err(format!("peer {peer} finished {} rounds only", actor.history().len()));
            }
            for round in (0..actor.history().len()).filter(|_| strict) {
                self.check_round(&actors, &weights, peer, round)?;
            }
        }
        Ok(ended)
    }

    fn shrink(&self) -> Vec<Self> {
        let with = |cluster, rounds| Self { cluster, rounds, ..self.clone() };
        let mut all = random_cluster::simpler(&self.cluster, self.rounds, with);
        for length in random_cluster::smaller_numbers(self.length, 1) {
            all.push(Self { length, ..self.clone() });
        }
        if self.topology != Topology::Ring {
            all.push(Self { topology: Topology::Ring, ..self.clone() });
        }
        all
    }
}
