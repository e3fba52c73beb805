//! Gossip averaging over a graph: compute, push, wait for the senders, reduce, repeat.
//!
//! [`GossipNode`] makes all decisions of the protocol, as in `hemiola-collective`: what to wait
//! for, the barrier, and the agreement after a loss.

use crate::actor::{Actor, ActorContext, ActorResult};
use crate::actors::FRAME;
use crate::units::SimDuration;
use crate::wait_graph::PendingWait;
use hemiola_collective_proto::gossip::{GossipChannel, GossipNodeMessage, GossipRound, GossipWait};
use hemiola_collective_proto::{GossipNode, GossipSync, GossipWeights};
use hemiola_core::{Moment, Rank};
use std::sync::Arc;

/// Local computation between two pushes: changes the values of a peer in a round.
pub type LocalStep = Arc<dyn Fn(Rank, u64, &mut [f64]) + Send + Sync>;

/// Injected fault: changes the outgoing messages, which answer `received` if given.
pub type GossipFaultHook = fn(&mut Vec<GossipNodeMessage>, received: Option<&GossipNodeMessage>);

/// Settings of a peer.
#[derive(Clone)]
pub struct GossipSetup {
    /// Averaging weights of the graph.
    pub weights: Arc<GossipWeights>,
    /// Number of values per peer.
    pub length: usize,
    /// Number of values per message.
    pub piece: usize,
    /// Wire size of a value in bytes: 8, or more if the values stand for a larger model.
    pub value_bytes: usize,
    /// Synchronization of rounds: NOTIFY-ACK, barrier or none.
    pub synchronization: GossipSync,
    /// Number of rounds to run.
    pub rounds: u64,
    /// Local computation of a round.
    pub step: LocalStep,
    /// Duration of the local computation.
    pub work: SimDuration,
    /// Continues without lost peers.
    pub survives_losses: bool,
    /// Injected fault: excludes lost peers from its own next round on, without agreement.
    pub ignore_others: bool,
}

impl std::fmt::Debug for GossipSetup {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("GossipSetup")
            .field("length", &self.length)
            .field("rounds", &self.rounds)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GossipPhase {
    Computing,
    /// Values are ready to push.
    Pushing,
    Reducing,
    Done,
}

/// A peer that averages by gossip.
#[derive(Debug)]
pub struct GossipActor {
    setup: GossipSetup,
    peers: usize,
    node: GossipNode<f64>,
    values: Vec<f64>,
    phase: GossipPhase,
    /// Values after each round, and the outcome of each reduce.
    history: Vec<(Vec<f64>, GossipRound)>,
    /// End time of each round.
    ends: Vec<Moment>,
    /// Values pushed in each round.
    pushed: Vec<Vec<f64>>,
    fault: Option<GossipFaultHook>,
}

impl GossipActor {
    /// Creates one of the peers.
    pub fn new(me: Rank, peers: usize, setup: GossipSetup) -> Result<Self, String> {
        let GossipSetup { weights, length, piece, synchronization, .. } = &setup;
        let node = GossipNode::new(me, weights.clone(), *length, *piece, *synchronization);
        Ok(Self {
            peers,
            node: node.map_err(|error| error.to_string())?,
            values: vec![0.0; setup.length],
            phase: GossipPhase::Computing,
            history: Vec::new(),
            ends: Vec::new(),
            pushed: Vec::new(),
            fault: None,
            setup,
        })
    }

    /// Injects a fault into outgoing messages.
    #[must_use]
    pub fn with_faults(mut self, fault: Option<GossipFaultHook>) -> Self {
        self.fault = fault;
        self
    }

    /// Values after each round, and the outcome of each reduce.
    #[must_use]
    pub fn history(&self) -> &[(Vec<f64>, GossipRound)] {
        &self.history
    }

    /// End time of each round.
    #[must_use]
    pub fn round_ends(&self) -> &[Moment] {
        &self.ends
    }

    /// Values pushed in each round.
    #[must_use]
    pub fn pushed(&self) -> &[Vec<f64>] {
        &self.pushed
    }

    /// Excluded peers with the first round without them, in order of agreement.
    #[must_use]
    pub fn losses(&self) -> &[(Rank, u64)] {
        self.node.exclusions()
    }

    fn compute(&mut self, context: &mut ActorContext<'_, GossipNodeMessage>) {
        context.end_wait(0);
        self.phase =
            if self.history.len() as u64 == self.setup.rounds { GossipPhase::Done } else { GossipPhase::Computing };
        if self.phase == GossipPhase::Computing {
            context.compute(0, "computes", self.setup.work, 0);
        }
    }

    /// Sends outgoing messages of the protocol. `received` is the message that they answer, if any.
    fn send(
        &mut self,
        mut out: Vec<GossipNodeMessage>,
        received: Option<&GossipNodeMessage>,
        context: &mut ActorContext<'_, GossipNodeMessage>,
    ) {
        if let Some(fault) = self.fault {
            fault(&mut out, received);
        }
        for message in out {
            let values = message.value_bytes() / size_of::<f64>() * self.setup.value_bytes;
            let (lane, bytes) = (message.channel().lane(), message.header_bytes() + values + FRAME);
            context.send(message.to(), lane, bytes, message);
        }
    }

    /// Pushes and reduces as far as possible.
    fn make_progress(&mut self, context: &mut ActorContext<'_, GossipNodeMessage>) -> ActorResult {
        loop {
            let mut out = Vec::new();
            let wait = match self.phase {
                GossipPhase::Computing | GossipPhase::Done => return Ok(()),
                GossipPhase::Pushing => self.node.poll_push(),
                GossipPhase::Reducing => self.node.poll_reduce(&mut out),
            };
            if wait.is_none() && self.phase == GossipPhase::Pushing {
                self.node.push(&self.values, &mut out).map_err(|error| error.to_string())?;
                self.pushed.push(self.values.clone());
                self.phase = GossipPhase::Reducing;
            } else if wait.is_none() {
                let reduced = self.node.reduce(&mut self.values, &mut out).map_err(|error| error.to_string())?;
                self.history.push((self.values.clone(), reduced));
                self.ends.push(context.now());
                self.send(out, None, context);
                self.compute(context);
                return Ok(());
            }
            self.send(out, None, context);
            if let Some(GossipWait { channel, .. }) = wait {
                context.begin_wait(0, wait_name(channel));
                return Ok(());
            }
        }
    }
}

fn wait_name(channel: GossipChannel) -> &'static str {
    match channel {
        GossipChannel::Values | GossipChannel::Acks => "waits for neighbours",
        GossipChannel::Votes => "waits for votes about a loss",
        GossipChannel::Barriers => "waits at a barrier",
    }
}

impl Actor for GossipActor {
    type Message = GossipNodeMessage;

    fn on_start(&mut self, context: &mut ActorContext<'_, GossipNodeMessage>) -> ActorResult {
        self.compute(context);
        Ok(())
    }

    fn on_message(
        &mut self,
        _: Rank,
        message: GossipNodeMessage,
        context: &mut ActorContext<'_, GossipNodeMessage>,
    ) -> ActorResult {
        if self.setup.ignore_others && matches!(message, GossipNodeMessage::Vote { .. }) {
            return Ok(());
        }
        if self.fault.is_some() {
            self.send(Vec::new(), Some(&message), context);
        }
        let mut out = Vec::new();
        self.node.receive(message, &mut out).map_err(|error| error.to_string())?;
        self.send(out, None, context);
        self.make_progress(context)
    }

    fn on_timer(&mut self, _: u64, context: &mut ActorContext<'_, GossipNodeMessage>) -> ActorResult {
        (self.setup.step)(self.node.me(), self.history.len() as u64, &mut self.values);
        self.phase = GossipPhase::Pushing;
        self.make_progress(context)
    }

    fn on_peer_lost(&mut self, peer: Rank, context: &mut ActorContext<'_, GossipNodeMessage>) -> ActorResult {
        if !self.setup.survives_losses {
            return if self.is_done() { Ok(()) } else { Err(format!("peer {peer} is lost")) };
        }
        let mut out = Vec::new();
        if self.setup.ignore_others {
            let (to, round) = (self.node.me(), self.node.next_round());
            for from in Rank::all(self.peers).filter(|&from| from != to) {
                let vote = GossipNodeMessage::Vote { from, to, lost: peer, round };
                self.node.receive(vote, &mut out).map_err(|error| error.to_string())?;
            }
        }
        self.node.on_peer_lost(peer, &mut out).map_err(|error| error.to_string())?;
        self.send(out, None, context);
        self.make_progress(context)
    }

    fn is_done(&self) -> bool {
        self.phase == GossipPhase::Done && self.node.exclusions().len() == self.node.lost().len()
    }

    fn pending_waits(&self) -> Vec<PendingWait> {
        let round = self.history.len();
        let averages = matches!(self.phase, GossipPhase::Pushing | GossipPhase::Reducing);
        if !averages && self.node.exclusions().len() == self.node.lost().len() {
            return Vec::new();
        }
        let mut waits: Vec<PendingWait> = Vec::new();
        for channel in GossipChannel::ALL {
            let on: Vec<Rank> =
                self.node.waits().into_iter().filter(|wait| wait.channel == channel).map(|wait| wait.peer).collect();
            if !on.is_empty() {
                waits.push(PendingWait::new("driver", format!("{} in round {round}", channel.awaited()), on));
            }
        }
        waits
    }
}
