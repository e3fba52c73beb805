//! Gossip averaging over a graph: compute, push, wait for the senders, reduce, repeat.
//!
//! With a barrier, all peers report to peer 0 and wait for its release, before and after the
//! reduce, as in `hemiola-collective`. Asynchronous peers reduce the values that have arrived.
//!
//! Losses are handled as in `hemiola-collective`, too. No peer pushes or reduces until all
//! remaining peers have exchanged their next round. All exclude the lost peer from the largest of
//! these rounds on.

use crate::actor::{Actor, ActorContext, ActorResult};
use crate::actors::FRAME;
use crate::units::SimDuration;
use crate::wait_graph::PendingWait;
use hemiola_collective_proto::gossip::{GossipBody, GossipMessage as ProtocolMessage, GossipRound};
use hemiola_collective_proto::{GossipAverager, GossipSync, GossipWeights};
use hemiola_core::{Lane, Moment, Rank};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Header bytes of a message.
const HEADER_BYTES: usize = 64;

/// Message between gossip actors.
#[derive(Clone, Debug)]
pub enum GossipActorMessage {
    /// Message of the gossip protocol.
    Protocol(ProtocolMessage),
    /// Number of barriers that the sender has reached; from peer 0, that all have reached.
    Barrier(u64),
    /// Loss of a peer, and the next round of the sender.
    LossNotice(Rank, u64),
}

/// Local computation between two pushes: changes the values of a peer in a round.
pub type LocalStep = Arc<dyn Fn(Rank, u64, &mut [f64]) + Send + Sync>;

/// Injected fault: changes the outgoing messages, which answer `received` if given.
pub type GossipFaultHook = fn(&mut Vec<ProtocolMessage>, received: Option<&ProtocolMessage>);

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
    /// At a barrier; `true` for the one before the reduce.
    Barrier(bool),
    Reducing,
    Done,
}

/// Agreement of the remaining peers on the first round without a lost peer.
#[derive(Debug)]
struct LossAgreement {
    lost_peer: Rank,
    /// Peers whose notice is missing.
    others: Vec<Rank>,
    /// Largest round so far.
    round: u64,
}

/// A peer that averages by gossip.
#[derive(Debug)]
pub struct GossipActor {
    setup: GossipSetup,
    me: Rank,
    averager: GossipAverager<f64>,
    values: Vec<f64>,
    phase: GossipPhase,
    /// Values after each round, and the outcome of each reduce.
    history: Vec<(Vec<f64>, GossipRound)>,
    /// End time of each round.
    ends: Vec<Moment>,
    /// Number of barriers reached, and the reports of other peers.
    barriers: u64,
    arrivals: Vec<u64>,
    /// Values pushed in each round.
    pushed: Vec<Vec<f64>>,
    /// Unresolved losses; notices by lost peer and sender; current agreement.
    unresolved: VecDeque<Rank>,
    notices: BTreeMap<(Rank, Rank), u64>,
    agreement: Option<LossAgreement>,
    /// Excluded peers, with the first round without them.
    losses: Vec<(Rank, u64)>,
    fault: Option<GossipFaultHook>,
}

impl GossipActor {
    /// Creates one of the peers.
    pub fn new(me: Rank, peers: usize, setup: GossipSetup) -> Result<Self, String> {
        let GossipSetup { weights, length, piece, synchronization, .. } = &setup;
        let averager = GossipAverager::new(me, weights.clone(), *length, *piece, *synchronization);
        Ok(Self {
            me,
            averager: averager.map_err(|error| error.to_string())?,
            values: vec![0.0; setup.length],
            phase: GossipPhase::Computing,
            history: Vec::new(),
            ends: Vec::new(),
            barriers: 0,
            // Only peer 0 receives all reports.
            arrivals: vec![0; if me == Rank::ROOT { peers } else { 1 }],
            pushed: Vec::new(),
            unresolved: VecDeque::new(),
            notices: BTreeMap::new(),
            agreement: None,
            losses: Vec::new(),
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

    /// Excluded peers with the first round without them, in order of detection.
    #[must_use]
    pub fn losses(&self) -> &[(Rank, u64)] {
        &self.losses
    }

    /// Resolves losses one after the other, then makes progress.
    fn resolve_losses(&mut self, context: &mut ActorContext<'_, GossipActorMessage>) -> ActorResult {
        loop {
            let Some(agreement) = &mut self.agreement else {
                let Some(lost_peer) = self.unresolved.pop_front() else { return self.make_progress(context) };
                self.begin_agreement(lost_peer, context);
                continue;
            };
            let LossAgreement { lost_peer, others, round } = agreement;
            others.retain(|from| match self.notices.remove(&(*lost_peer, *from)) {
                Some(theirs) => {
                    *round = theirs.max(*round);
                    false
                }
                // A peer that is lost as well sends no notice.
                None => !self.unresolved.contains(from),
            });
            if !others.is_empty() {
                context.begin_wait(0, "waits for a loss notice");
                return Ok(());
            }
            let (lost_peer, round) =
                (*lost_peer, if self.setup.ignore_others { self.averager.next_round() } else { *round });
            self.agreement = None;
            self.losses.push((lost_peer, round));
            self.averager.exclude(lost_peer, round).map_err(|error| error.to_string())?;
        }
    }

    fn begin_agreement(&mut self, lost_peer: Rank, context: &mut ActorContext<'_, GossipActorMessage>) {
        let round = self.averager.next_round();
        let lost = |other: &Rank| self.losses.iter().any(|(lost, _)| lost == other);
        let left = |other: &Rank| *other != self.me && *other != lost_peer && !lost(other);
        let others: Vec<Rank> = Rank::all(context.peers()).filter(left).collect();
        for to in &others {
            context.send(*to, Lane::Control, 16 + FRAME, GossipActorMessage::LossNotice(lost_peer, round));
        }
        self.agreement = Some(LossAgreement { lost_peer, others, round });
    }

    fn compute(&mut self, context: &mut ActorContext<'_, GossipActorMessage>) {
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
        mut out: Vec<ProtocolMessage>,
        received: Option<&ProtocolMessage>,
        context: &mut ActorContext<'_, GossipActorMessage>,
    ) {
        if let Some(fault) = self.fault {
            fault(&mut out, received);
        }
        for message in out {
            let (lane, bytes) = match &message.body {
                GossipBody::Piece { values, .. } => {
                    (Lane::Bulk, values.len() / size_of::<f64>() * self.setup.value_bytes)
                }
                GossipBody::Notify => (Lane::Bulk, 0),
                GossipBody::Ack => (Lane::Control, 0),
            };
            context.send(message.to, lane, bytes + HEADER_BYTES + FRAME, GossipActorMessage::Protocol(message));
        }
    }

    /// Reports the arrival at a barrier.
    fn arrive_at_barrier(&mut self, before_reduce: bool, context: &mut ActorContext<'_, GossipActorMessage>) {
        self.barriers += 1;
        self.phase = GossipPhase::Barrier(before_reduce);
        if self.me == Rank::ROOT {
            self.arrivals[0] = self.barriers;
        } else {
            context.send(Rank::ROOT, Lane::Control, 8 + FRAME, GossipActorMessage::Barrier(self.barriers));
        }
    }

    /// Returns whether all peers have reached the barrier; peer 0 then releases the others.
    fn all_arrived(&mut self, context: &mut ActorContext<'_, GossipActorMessage>) -> bool {
        if self.me != Rank::ROOT {
            return self.arrivals[0] >= self.barriers;
        }
        let all = self.arrivals.iter().all(|arrivals| *arrivals >= self.barriers);
        if all {
            for to in Rank::all(context.peers()).skip(1) {
                context.send(to, Lane::Control, 8 + FRAME, GossipActorMessage::Barrier(self.barriers));
            }
        }
        all
    }

    /// Pushes and reduces as far as possible.
    fn make_progress(&mut self, context: &mut ActorContext<'_, GossipActorMessage>) -> ActorResult {
        let barrier = self.setup.synchronization == GossipSync::Barrier;
        while self.agreement.is_none() {
            match self.phase {
                GossipPhase::Pushing if self.averager.can_push() => {
                    let mut out = Vec::new();
                    self.averager.push(&self.values, &mut out).map_err(|error| error.to_string())?;
                    self.pushed.push(self.values.clone());
                    self.send(out, None, context);
                    if barrier {
                        self.arrive_at_barrier(true, context);
                    } else {
                        self.phase = GossipPhase::Reducing;
                    }
                }
                GossipPhase::Barrier(before_reduce) => {
                    if !self.all_arrived(context) {
                        context.begin_wait(0, "waits at a barrier");
                        return Ok(());
                    }
                    if !before_reduce {
                        self.compute(context);
                        return Ok(());
                    }
                    self.phase = GossipPhase::Reducing;
                }
                GossipPhase::Reducing if self.averager.can_reduce() => {
                    let mut out = Vec::new();
                    let reduced =
                        self.averager.reduce(&mut self.values, &mut out).map_err(|error| error.to_string())?;
                    self.history.push((self.values.clone(), reduced));
                    self.ends.push(context.now());
                    self.send(out, None, context);
                    if barrier {
                        self.arrive_at_barrier(false, context);
                    } else {
                        self.compute(context);
                        return Ok(());
                    }
                }
                GossipPhase::Pushing | GossipPhase::Reducing => {
                    context.begin_wait(0, "waits for neighbours");
                    return Ok(());
                }
                GossipPhase::Computing | GossipPhase::Done => return Ok(()),
            }
        }
        Ok(())
    }
}

impl Actor for GossipActor {
    type Message = GossipActorMessage;

    fn on_start(&mut self, context: &mut ActorContext<'_, GossipActorMessage>) -> ActorResult {
        self.compute(context);
        Ok(())
    }

    fn on_message(
        &mut self,
        from: Rank,
        message: GossipActorMessage,
        context: &mut ActorContext<'_, GossipActorMessage>,
    ) -> ActorResult {
        match message {
            GossipActorMessage::Protocol(message) => {
                if self.fault.is_some() {
                    self.send(Vec::new(), Some(&message), context);
                }
                self.averager.receive(message).map_err(|error| error.to_string())?;
            }
            GossipActorMessage::Barrier(count) => self.arrivals[from.index()] = count,
            GossipActorMessage::LossNotice(lost_peer, round) => {
                self.notices.insert((lost_peer, from), round);
                return self.resolve_losses(context);
            }
        }
        self.make_progress(context)
    }

    fn on_timer(&mut self, _: u64, context: &mut ActorContext<'_, GossipActorMessage>) -> ActorResult {
        (self.setup.step)(self.me, self.history.len() as u64, &mut self.values);
        self.phase = GossipPhase::Pushing;
        self.make_progress(context)
    }

    fn on_peer_lost(&mut self, peer: Rank, context: &mut ActorContext<'_, GossipActorMessage>) -> ActorResult {
        if !self.setup.survives_losses {
            return if self.is_done() { Ok(()) } else { Err(format!("peer {peer} is lost")) };
        }
        self.unresolved.push_back(peer);
        self.resolve_losses(context)
    }

    fn is_done(&self) -> bool {
        self.phase == GossipPhase::Done && self.agreement.is_none()
    }

    fn pending_waits(&self) -> Vec<PendingWait> {
        let round = self.history.len();
        if let Some(LossAgreement { lost_peer, others, .. }) = &self.agreement {
            return vec![PendingWait::new("driver", format!("a loss notice for peer {lost_peer}"), others.clone())];
        }
        match self.phase {
            GossipPhase::Computing | GossipPhase::Done => Vec::new(),
            GossipPhase::Barrier(_) => {
                let late = self.arrivals.iter().enumerate().filter(|(_, arrivals)| **arrivals < self.barriers);
                let late = late.map(|(peer, _)| Rank::new(peer as u32));
                let on = if self.me == Rank::ROOT { late.collect() } else { vec![Rank::ROOT] };
                vec![PendingWait::new("driver", format!("a barrier of round {round}"), on)]
            }
            GossipPhase::Pushing | GossipPhase::Reducing => {
                let (acks, notifies) = self.averager.waits();
                let wait = |what, on: Vec<Rank>| PendingWait::new("driver", format!("{what} of round {round}"), on);
                [wait("ACKs", acks), wait("NOTIFYs", notifies)].into_iter().filter(|wait| !wait.on.is_empty()).collect()
            }
        }
    }
}
