//! One gossip node of one peer, as every driver runs it: threads, TCP and the simulator.
//!
//! A [`GossipNode`] owns the [`GossipAverager`] of its peer and everything around it: the barrier
//! of [`GossipSync::Barrier`], the agreement of the remaining peers after a loss, and the channel,
//! lane and size of each message. A driver carries messages, reports lost peers, and asks before
//! each half of a round what is still [awaited](GossipWait).
//!
//! **Barrier.** The first remaining peer collects all arrivals and then releases all peers. A
//! message names the number of rounds, and a peer that has arrived at a later round has arrived at
//! this one as well. When the first peer is lost, every peer repeats its arrival to the new first one, which
//! repeats its last release; so it does not matter whom the lost peer had released. The barrier
//! guarantees that all peers have *sent*, not that everything has arrived: it travels on another
//! lane. That is the barrier of the paper (section 4: no guarantee that receivers have the values
//! when they reduce), which exists here for comparison.
//!
//! **Peer loss.** Each remaining peer sends the number of its next round, its *vote*, to all
//! remaining peers, and neither pushes nor reduces until it has theirs. The largest is the first
//! round without the lost peer. Losses are settled one after the other. **Invariant:** no remaining
//! peer has started that round, since its vote was at least the round it would start next. If two
//! peers are lost at the same moment, the second one's vote may have reached only some; then a
//! round can be awaited in vain, and the deadline of the driver ends the job.

use super::averager::{GossipAverager, GossipElement, GossipRound, GossipSync};
use super::channel::{GossipChannel, GossipNodeMessage};
use crate::graph::GossipWeights;
use crate::{Error, Result};
use hemiola_core::Rank;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Message that a node waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GossipWait {
    /// Channel on which the message will arrive.
    pub channel: GossipChannel,
    /// Sender of the message.
    pub peer: Rank,
}

/// Agreement of the remaining peers on the first round without a lost peer.
#[derive(Debug)]
struct LossAgreement {
    lost: Rank,
    /// Peers whose vote is missing.
    missing: Vec<Rank>,
    /// Largest round voted for so far.
    round: u64,
}

/// Gossip node of one peer.
#[derive(Debug)]
pub struct GossipNode<T> {
    me: Rank,
    peers: usize,
    synchronization: GossipSync,
    averager: GossipAverager<T>,
    /// Lost peers, in order of detection.
    lost: Vec<Rank>,
    /// Lost peers without an agreement so far.
    unsettled: VecDeque<Rank>,
    /// Votes by lost peer and voter.
    votes: BTreeMap<(Rank, Rank), u64>,
    agreement: Option<LossAgreement>,
    /// Excluded peers, with the first round without each.
    exclusions: Vec<(Rank, u64)>,
    /// Number of barriers that this peer has arrived at, and passed.
    arrived: u64,
    passed: u64,
    /// Number of rounds that each peer has announced in barriers.
    announced: BTreeMap<Rank, u64>,
}

impl<T: GossipElement> GossipNode<T> {
    /// Creates the node of peer `me` for `length` values, sent in pieces of up to `piece` values.
    /// All peers must pass the same. Nodes of one process may share their weights.
    pub fn new(
        me: Rank,
        weights: impl Into<Arc<GossipWeights>>,
        length: usize,
        piece: usize,
        synchronization: GossipSync,
    ) -> Result<Self> {
        let weights = weights.into();
        let peers = weights.peers();
        Ok(Self {
            me,
            peers,
            synchronization,
            averager: GossipAverager::new(me, weights, length, piece, synchronization)?,
            lost: Vec::new(),
            unsettled: VecDeque::new(),
            votes: BTreeMap::new(),
            agreement: None,
            exclusions: Vec::new(),
            arrived: 0,
            passed: 0,
            announced: BTreeMap::new(),
        })
    }

    /// Rank of this peer.
    #[must_use]
    pub fn me(&self) -> Rank {
        self.me
    }

    /// First round that this peer has not started.
    #[must_use]
    pub fn next_round(&self) -> u64 {
        self.averager.next_round()
    }

    /// Lost peers, in order of detection.
    #[must_use]
    pub fn lost(&self) -> &[Rank] {
        &self.lost
    }

    /// Excluded peers with the first round without them, in order of agreement.
    #[must_use]
    pub fn exclusions(&self) -> &[(Rank, u64)] {
        &self.exclusions
    }

    /// Returns true if a receiver without room gets nothing more of this version, instead of being
    /// waited for.
    #[must_use]
    pub fn skips_slow_receivers(&self) -> bool {
        self.synchronization == GossipSync::Asynchronous
    }

    /// Returns the message that [`GossipNode::push`] waits for, or `None` if it can be called.
    #[must_use]
    pub fn poll_push(&self) -> Option<GossipWait> {
        self.vote_wait().or_else(|| {
            let peer = self.averager.waits().0.first().copied()?;
            Some(GossipWait { channel: GossipChannel::Acks, peer })
        })
    }

    /// Starts a round: sends the values to all receivers.
    pub fn push(&mut self, values: &[T], out: &mut Vec<GossipNodeMessage>) -> Result<()> {
        self.check_settled()?;
        let mut messages = Vec::new();
        self.averager.push(values, &mut messages)?;
        out.extend(messages.into_iter().map(GossipNodeMessage::Averager));
        Ok(())
    }

    /// Arrives at the barrier, if there is one, and returns the message that
    /// [`GossipNode::reduce`] waits for, or `None` if it can be called.
    pub fn poll_reduce(&mut self, out: &mut Vec<GossipNodeMessage>) -> Option<GossipWait> {
        self.vote_wait().or_else(|| self.barrier_wait(out)).or_else(|| {
            let peer = self.averager.waits().1.first().copied()?;
            Some(GossipWait { channel: GossipChannel::Values, peer })
        })
    }

    /// Completes the round: `values` become the weighted mean of themselves and those of the
    /// senders.
    pub fn reduce(&mut self, values: &mut [T], out: &mut Vec<GossipNodeMessage>) -> Result<GossipRound> {
        self.check_settled()?;
        let mut messages = Vec::new();
        let reduced = self.averager.reduce(values, &mut messages)?;
        out.extend(messages.into_iter().map(GossipNodeMessage::Averager));
        Ok(reduced)
    }

    /// Accepts a message of another peer.
    pub fn receive(&mut self, message: GossipNodeMessage, out: &mut Vec<GossipNodeMessage>) -> Result<()> {
        match message {
            GossipNodeMessage::Averager(message) => self.averager.receive(message),
            GossipNodeMessage::Barrier { from, rounds, .. } => {
                let announced = self.announced.entry(from).or_insert(0);
                *announced = rounds.max(*announced);
                Ok(())
            }
            GossipNodeMessage::Vote { from, lost, round, .. } => {
                self.votes.insert((lost, from), round);
                self.settle_losses(out)
            }
        }
    }

    /// Starts the exclusion of a lost peer; repeated reports are ignored.
    pub fn on_peer_lost(&mut self, lost: Rank, out: &mut Vec<GossipNodeMessage>) -> Result<()> {
        if !self.lost.contains(&lost) {
            self.lost.push(lost);
            self.unsettled.push_back(lost);
        }
        self.settle_losses(out)
    }

    /// Returns all messages that this peer waits for, for stall reports.
    #[must_use]
    pub fn waits(&self) -> Vec<GossipWait> {
        let wait = |channel| move |peer| GossipWait { channel, peer };
        if let Some(agreement) = &self.agreement {
            return agreement.missing.iter().copied().map(wait(GossipChannel::Votes)).collect();
        }
        if self.arrived > self.passed {
            return self.late_peers().map(wait(GossipChannel::Barriers)).collect();
        }
        let (acks, values) = self.averager.waits();
        let acks = acks.into_iter().map(wait(GossipChannel::Acks));
        acks.chain(values.into_iter().map(wait(GossipChannel::Values))).collect()
    }

    fn vote_wait(&self) -> Option<GossipWait> {
        let peer = *self.agreement.as_ref()?.missing.first()?;
        Some(GossipWait { channel: GossipChannel::Votes, peer })
    }

    fn check_settled(&self) -> Result<()> {
        match &self.agreement {
            None => Ok(()),
            Some(LossAgreement { lost, .. }) => {
                let problem = format!("the remaining peers have not agreed on the first round without peer {lost}");
                Err(Error::InvalidCall { peers: self.peers, problem })
            }
        }
    }

    fn remaining(&self) -> impl Iterator<Item = Rank> {
        Rank::all(self.peers).filter(|rank| !self.lost.contains(rank))
    }

    /// Peer that collects the arrivals at a barrier.
    fn first_remaining(&self) -> Rank {
        self.remaining().next().unwrap_or(self.me)
    }

    fn barrier_wait(&mut self, out: &mut Vec<GossipNodeMessage>) -> Option<GossipWait> {
        if self.synchronization != GossipSync::Barrier {
            return None;
        }
        let (me, first, rounds) = (self.me, self.first_remaining(), self.averager.next_round());
        if self.arrived < rounds {
            self.arrived = rounds;
            if me != first {
                out.push(GossipNodeMessage::Barrier { from: me, to: first, rounds });
            }
        }
        if self.passed >= self.arrived {
            return None;
        }
        if let Some(peer) = self.late_peers().next() {
            return Some(GossipWait { channel: GossipChannel::Barriers, peer });
        }
        self.passed = self.arrived;
        self.release_others(out);
        None
    }

    /// Peers whose announcement is missing at the current barrier.
    fn late_peers(&self) -> impl Iterator<Item = Rank> {
        let first = self.first_remaining();
        let late = move |peer: &Rank| self.announced.get(peer).is_none_or(|announced| *announced < self.arrived);
        self.remaining().filter(move |&peer| peer != self.me && (self.me == first || peer == first)).filter(late)
    }

    /// Announces the passed barriers to all others, on the first remaining peer.
    fn release_others(&self, out: &mut Vec<GossipNodeMessage>) {
        let (from, rounds) = (self.me, self.passed);
        if from == self.first_remaining() && rounds > 0 {
            let others = self.remaining().filter(|&to| to != from);
            out.extend(others.map(|to| GossipNodeMessage::Barrier { from, to, rounds }));
        }
    }

    /// Settles losses one after the other, as far as votes allow.
    fn settle_losses(&mut self, out: &mut Vec<GossipNodeMessage>) -> Result<()> {
        loop {
            let Some(agreement) = &mut self.agreement else {
                let Some(lost) = self.unsettled.pop_front() else { return Ok(()) };
                self.vote(lost, out);
                continue;
            };
            let LossAgreement { lost, missing, round } = agreement;
            missing.retain(|from| match self.votes.remove(&(*lost, *from)) {
                Some(theirs) => {
                    *round = theirs.max(*round);
                    false
                }
                // A peer that is lost as well sends no vote.
                None => !self.lost.contains(from),
            });
            if !missing.is_empty() {
                return Ok(());
            }
            let (lost, round) = (*lost, *round);
            self.agreement = None;
            self.averager.exclude(lost, round)?;
            self.exclusions.push((lost, round));
            self.repeat_barrier(lost, out);
        }
    }

    /// Sends this peer's vote about a lost peer to all remaining ones.
    fn vote(&mut self, lost: Rank, out: &mut Vec<GossipNodeMessage>) {
        let (from, round) = (self.me, self.averager.next_round());
        let missing: Vec<Rank> = self.remaining().filter(|&to| to != from).collect();
        out.extend(missing.iter().map(|&to| GossipNodeMessage::Vote { from, to, lost, round }));
        self.agreement = Some(LossAgreement { lost, missing, round });
    }

    /// Repeats arrival and release if the lost peer was the first.
    fn repeat_barrier(&self, lost: Rank, out: &mut Vec<GossipNodeMessage>) {
        let (from, first, rounds) = (self.me, self.first_remaining(), self.arrived);
        if lost > first {
            return;
        }
        if from == first {
            self.release_others(out);
        } else if rounds > 0 {
            out.push(GossipNodeMessage::Barrier { from, to: first, rounds });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Topology;

    fn nodes(peers: usize, synchronization: GossipSync) -> Vec<GossipNode<f64>> {
        let weights = Arc::new(GossipWeights::average(&Topology::Complete.graph(peers).unwrap()));
        let node = |me| GossipNode::new(me, weights.clone(), 1, 1, synchronization).unwrap();
        Rank::all(peers).map(node).collect()
    }

    /// Delivers messages until none is left, except for those to `lost`.
    fn deliver(nodes: &mut [GossipNode<f64>], mut messages: Vec<GossipNodeMessage>, lost: Rank) {
        while let Some(message) = messages.pop() {
            if message.to() != lost {
                nodes[message.to().index()].receive(message, &mut messages).unwrap();
            }
        }
    }

    #[test]
    fn a_lost_first_peer_may_have_released_only_some() {
        let (zero, one, two) = (Rank::new(0), Rank::new(1), Rank::new(2));
        let mut nodes = nodes(3, GossipSync::Barrier);
        let mut messages = Vec::new();
        for node in &mut nodes {
            node.push(&[1.0], &mut messages).unwrap();
        }
        let barrier = |peer| Some(GossipWait { channel: GossipChannel::Barriers, peer });
        assert_eq!(nodes[0].poll_reduce(&mut messages), barrier(one));
        assert_eq!(nodes[1].poll_reduce(&mut messages), barrier(zero));
        assert_eq!(nodes[2].poll_reduce(&mut messages), barrier(zero));
        deliver(&mut nodes, messages, Rank::new(9));
        let mut releases = Vec::new();
        assert_eq!(nodes[0].poll_reduce(&mut releases), None);
        // Peer 0 is lost after it has released peer 1 alone, which then completes its round.
        deliver(&mut nodes, releases, two);
        let mut messages = Vec::new();
        assert_eq!(nodes[1].poll_reduce(&mut messages), None);
        nodes[1].reduce(&mut [1.0], &mut messages).unwrap();
        assert_eq!(nodes[2].poll_reduce(&mut messages), barrier(zero));
        nodes[1].on_peer_lost(zero, &mut messages).unwrap();
        assert_eq!(nodes[1].poll_push(), Some(GossipWait { channel: GossipChannel::Votes, peer: two }));
        assert!(nodes[1].push(&[1.0], &mut messages).is_err(), "no push before the agreement");
        nodes[2].on_peer_lost(zero, &mut messages).unwrap();
        deliver(&mut nodes, messages, zero);
        let mut messages = Vec::new();
        assert_eq!((nodes[1].poll_push(), nodes[2].poll_reduce(&mut messages)), (None, None));
        assert_eq!(nodes[1].exclusions(), nodes[2].exclusions());
        nodes[2].reduce(&mut [1.0], &mut messages).unwrap();
    }

    #[test]
    fn votes_that_arrive_before_the_loss_is_known_count() {
        let lost = Rank::new(2);
        let mut nodes = nodes(3, GossipSync::NotifyAck);
        let mut messages = Vec::new();
        nodes[0].push(&[1.0], &mut messages).unwrap();
        nodes[1].on_peer_lost(lost, &mut messages).unwrap();
        deliver(&mut nodes, messages, lost);
        assert!(nodes[0].exclusions().is_empty(), "peer 0 does not know of the loss");
        let mut messages = Vec::new();
        nodes[0].on_peer_lost(lost, &mut messages).unwrap();
        nodes[0].on_peer_lost(lost, &mut messages).unwrap();
        assert_eq!(messages.len(), 1, "one vote, whatever the number of reports: {messages:?}");
        deliver(&mut nodes, messages, lost);
        // Peer 0 has started round 0, so that the first round without the lost peer is round 1.
        assert_eq!(nodes[0].exclusions(), [(lost, 1)]);
        assert_eq!(nodes[1].exclusions(), [(lost, 1)]);
    }
}
