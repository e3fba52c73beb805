//! State machine of gossip averaging on one peer. The [module](super) states the guarantees and
//! proves them.
//!
//! A round is [`GossipAverager::push`], messages, [`GossipAverager::reduce`]. A driver that cannot
//! push yet (an ACK is missing) or cannot reduce yet (a NOTIFY is missing) waits for messages;
//! [`GossipAverager::waits`] names their senders.

use super::message::{GossipBody, GossipMessage};
use super::slot::{ReceiveSlot, SlotState};
use crate::graph::{GossipWeights, WeightRow};
use crate::protocol::{CollectiveElement, to_bytes};
use crate::{Error, Result};
use bytes::Bytes;
use half::{bf16, f16};
use hemiola_core::Rank;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Synchronization of gossip averaging.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GossipSync {
    /// Wait for neighbours, each edge on its own.
    NotifyAck,
    /// Wait for all peers: between push and reduce the driver runs a barrier. The reduce uses the
    /// values that have arrived by then.
    Barrier,
    /// Wait for no peer: the reduce uses whatever has arrived.
    Asynchronous,
}

/// Element type that can be averaged: `f32`, `f64`, and for half the bytes `bf16`, `f16`. Means are
/// computed in `f64` and rounded once.
pub trait GossipElement: CollectiveElement {
    /// Converts the value exactly.
    fn to_f64(self) -> f64;
    /// Rounds to the nearest value.
    fn from_f64(value: f64) -> Self;
}

impl GossipElement for f32 {
    fn to_f64(self) -> f64 {
        self.into()
    }

    fn from_f64(value: f64) -> Self {
        value as f32
    }
}

impl GossipElement for f64 {
    fn to_f64(self) -> f64 {
        self
    }

    fn from_f64(value: f64) -> Self {
        value
    }
}

impl GossipElement for bf16 {
    fn to_f64(self) -> f64 {
        self.into()
    }

    fn from_f64(value: f64) -> Self {
        Self::from_f64(value)
    }
}

impl GossipElement for f16 {
    fn to_f64(self) -> f64 {
        self.into()
    }

    fn from_f64(value: f64) -> Self {
        Self::from_f64(value)
    }
}

/// Result of one reduce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GossipRound {
    /// Number of the round, from 0.
    pub round: u64,
    /// Number of senders of this peer.
    pub senders: usize,
    /// Number of senders with a complete, unread version.
    pub used: usize,
    /// Number of slots with parts of different versions, or of an incomplete one.
    pub torn: usize,
    /// Number of used versions from an earlier round than this one.
    pub stale: usize,
}

/// Consecutive rounds with the same weights.
#[derive(Clone, Debug)]
struct WeightPeriod {
    /// First round of the period.
    first_round: u64,
    weights: Arc<GossipWeights>,
    /// Peers whose weights include this peer.
    receivers: Vec<Rank>,
}

impl WeightPeriod {
    fn new(first_round: u64, weights: Arc<GossipWeights>, me: Rank) -> Self {
        let takes = |to: Rank| weights.row(to).units().binary_search_by_key(&me, |&(from, _)| from).is_ok();
        let receivers = Rank::all(weights.peers()).filter(|&to| to != me && takes(to)).collect();
        Self { first_round, weights, receivers }
    }
}

/// Averager of one peer.
#[derive(Clone, Debug)]
pub struct GossipAverager<T> {
    me: Rank,
    length: usize,
    /// Number of values per piece.
    piece: usize,
    synchronization: GossipSync,
    /// Weight periods by first round, ascending.
    periods: Vec<WeightPeriod>,
    excluded: BTreeSet<Rank>,
    /// Number of completed rounds.
    round: u64,
    /// True between push and reduce of the current round.
    pushed: bool,
    /// Version sent to each receiver and not yet acknowledged.
    unacknowledged: BTreeMap<Rank, u64>,
    slots: BTreeMap<Rank, ReceiveSlot<T>>,
    /// Length of the prefix of this round's senders that need not be waited for (any more). Used
    /// with NOTIFY-ACK only.
    ready_senders: usize,
}

impl<T: GossipElement> GossipAverager<T> {
    /// Creates the averager of one peer for `length` values, sent in pieces of up to `piece`
    /// values. All peers must pass the same. Averagers of one process may share their weights.
    pub fn new(
        me: Rank,
        weights: impl Into<Arc<GossipWeights>>,
        length: usize,
        piece: usize,
        synchronization: GossipSync,
    ) -> Result<Self> {
        let weights = weights.into();
        if me.index() >= weights.peers() {
            return Err(Error::InvalidCall {
                peers: weights.peers(),
                problem: format!("peer {me} is not one of them"),
            });
        }
        let piece = piece.max(length.div_ceil(u32::MAX as usize)).max(1);
        Ok(Self {
            me,
            length,
            piece,
            synchronization,
            periods: vec![WeightPeriod::new(0, weights, me)],
            excluded: BTreeSet::new(),
            round: 0,
            pushed: false,
            unacknowledged: BTreeMap::new(),
            slots: BTreeMap::new(),
            ready_senders: 0,
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
        self.round + u64::from(self.pushed)
    }

    /// Returns true if the next round can start: the last one has been reduced here and, with
    /// NOTIFY-ACK, by all receivers.
    #[must_use]
    pub fn can_push(&self) -> bool {
        !self.pushed && self.unacknowledged.is_empty()
    }

    /// Starts a round: sends the values to all receivers.
    pub fn push(&mut self, values: &[T], out: &mut Vec<GossipMessage>) -> Result<()> {
        if values.len() != self.length {
            return Err(Error::WrongVectorLength { expected: self.length, found: values.len() });
        }
        if !self.can_push() {
            let problem =
                format!("round {} cannot start before the last one has ended here and at all receivers", self.round);
            return Err(Error::InvalidCall { peers: self.peers(), problem });
        }
        let pieces: Vec<Bytes> = (0..self.pieces())
            .map(|index| {
                let start = index * self.piece;
                to_bytes(&values[start..(start + self.piece).min(self.length)]).into()
            })
            .collect();
        self.pushed = true;
        let receivers = self.current().receivers.iter().copied().filter(|to| !self.excluded.contains(to));
        for to in receivers.collect::<Vec<_>>() {
            self.send(to, &pieces, out);
        }
        self.advance_ready();
        Ok(())
    }

    /// Accepts a message of a neighbour.
    pub fn receive(&mut self, message: GossipMessage) -> Result<()> {
        let GossipMessage { from, version, body, .. } = message;
        if self.excluded.contains(&from) {
            return Ok(());
        }
        let bad = |problem: String| Err(Error::InvalidMessage { from, problem });
        if from == self.me || from.index() >= self.peers() {
            return bad("it is not from another peer of the graph".to_owned());
        }
        if body == GossipBody::Ack {
            if self.unacknowledged.get(&from) != Some(&version) {
                return bad(format!(
                    "it acknowledges version {version}, which was not sent or is already acknowledged"
                ));
            }
            self.unacknowledged.remove(&from);
            return Ok(());
        }
        let (length, pieces, piece) = (self.length, self.pieces(), self.piece);
        let slot = self.slots.entry(from).or_insert_with(|| ReceiveSlot::new(length, pieces));
        if self.synchronization == GossipSync::NotifyAck && (version < self.round || slot.would_overwrite(version)) {
            return bad(format!("version {version} came before the previous one was acknowledged"));
        }
        match body {
            GossipBody::Piece { index, values } => {
                if slot.write(version, index as usize, piece, &values).is_err() {
                    return bad(format!("piece {index} of {} bytes does not fit {length} values", values.len()));
                }
            }
            GossipBody::Notify | GossipBody::Ack => slot.notify(version),
        }
        self.advance_ready();
        Ok(())
    }

    /// Returns true if [`GossipAverager::reduce`] can be called: with NOTIFY-ACK, when the values
    /// of all senders have arrived.
    #[must_use]
    pub fn can_reduce(&self) -> bool {
        self.pushed && (self.synchronization != GossipSync::NotifyAck || self.ready_senders == self.row().units().len())
    }

    /// Completes the round: `values` become the weighted mean of themselves and those in the slots,
    /// and senders learn that their slots are free.
    ///
    /// Terms are added in the order of ranks, in `f64`, and rounded once. With NOTIFY-ACK `values`
    /// should be the pushed values; then results are a function of the values that all peers
    /// pushed.
    pub fn reduce(&mut self, values: &mut [T], out: &mut Vec<GossipMessage>) -> Result<GossipRound> {
        if values.len() != self.length {
            return Err(Error::WrongVectorLength { expected: self.length, found: values.len() });
        }
        if !self.can_reduce() {
            let problem = format!("round {} still waits for other peers", self.round);
            return Err(Error::InvalidCall { peers: self.peers(), problem });
        }
        let strict = self.synchronization == GossipSync::NotifyAck;
        let row = self.row().clone();
        let senders = row.units().len() - usize::from(row.units().iter().any(|&(from, _)| from == self.me));
        let mut reduced = GossipRound { round: self.round, senders, used: 0, torn: 0, stale: 0 };
        let (mut sums, mut denominator) = (vec![0.0; self.length], 0.0);
        for &(from, units) in row.units() {
            let weight = f64::from(units);
            let slot = self.slots.get(&from);
            let source = match slot.map_or(SlotState::Empty, ReceiveSlot::state) {
                _ if from == self.me => Some(&*values),
                SlotState::Complete(version) if !strict || version == self.round => {
                    reduced.used += 1;
                    reduced.stale += usize::from(version < self.round);
                    slot.map(ReceiveSlot::values)
                }
                state => {
                    reduced.torn += usize::from(state == SlotState::Torn && !self.excluded.contains(&from));
                    // A lost peer is replaced by the receiver's own values; the values of a late
                    // peer are unknown, and the other weights are scaled up.
                    strict.then_some(&*values)
                }
            };
            if let Some(source) = source {
                denominator += weight;
                sums.iter_mut().zip(source).for_each(|(sum, value)| *sum += weight * value.to_f64());
            }
        }
        for (value, sum) in values.iter_mut().zip(sums) {
            *value = T::from_f64(sum / denominator);
        }
        self.free_slots(&row, strict, out);
        self.round += 1;
        (self.pushed, self.ready_senders) = (false, 0);
        self.advance_ready();
        Ok(reduced)
    }

    /// Excludes a peer from round `from_round` on; earlier rounds do not wait for it. All remaining
    /// peers must pass the same round, and none may have started it: let all stop pushing, and take
    /// the largest [`GossipAverager::next_round`].
    pub fn exclude(&mut self, lost: Rank, from_round: u64) -> Result<()> {
        if from_round < self.next_round() || lost == self.me {
            let problem = format!(
                "peer {lost} cannot be excluded from round {from_round} on, since {} comes next",
                self.next_round()
            );
            return Err(Error::InvalidCall { peers: self.peers(), problem });
        }
        self.excluded.insert(lost);
        self.unacknowledged.remove(&lost);
        let last = &self.periods[self.periods.len() - 1].weights;
        if last.contains(lost) {
            let without = Arc::new(last.without(lost));
            // The peer that was furthest ahead may be the lost one, so this round can precede one
            // that an earlier loss named. No remaining peer has started either.
            self.periods.retain(|period| period.first_round < from_round);
            self.periods.push(WeightPeriod::new(from_round, without, self.me));
        }
        // The weights of this round may have changed, and a sender among them may no longer be
        // waited for.
        self.ready_senders = 0;
        self.advance_ready();
        Ok(())
    }

    /// Returns the peers whose ACK is missing for a push, and those whose NOTIFY is missing for a
    /// reduce, for stall reports.
    #[must_use]
    pub fn waits(&self) -> (Vec<Rank>, Vec<Rank>) {
        match (self.synchronization, self.pushed) {
            (GossipSync::NotifyAck, true) => (Vec::new(), self.missing().collect()),
            (GossipSync::NotifyAck, false) => (self.unacknowledged.keys().copied().collect(), Vec::new()),
            _ => (Vec::new(), Vec::new()),
        }
    }

    fn pieces(&self) -> usize {
        self.length.div_ceil(self.piece).max(1)
    }

    /// Initial number of peers.
    fn peers(&self) -> usize {
        self.periods[0].weights.peers()
    }

    /// Weight period of the current round.
    fn current(&self) -> &WeightPeriod {
        let index = self.periods.partition_point(|period| period.first_round <= self.round);
        &self.periods[index - 1]
    }

    fn row(&self) -> &WeightRow {
        self.current().weights.row(self.me)
    }

    /// Extends the prefix of ready senders. Values that have arrived stay until they are reduced,
    /// so each sender is found once.
    fn advance_ready(&mut self) {
        if self.synchronization != GossipSync::NotifyAck {
            return;
        }
        let units = self.row().units();
        let ready = |&(from, _): &(Rank, u32)| !self.waits_for(from);
        self.ready_senders += units[self.ready_senders..].iter().take_while(|one| ready(one)).count();
    }

    /// Returns true if a sender's values of this round are still missing.
    fn waits_for(&self, from: Rank) -> bool {
        let arrived = || self.slots.get(&from).is_some_and(|slot| slot.state() == SlotState::Complete(self.round));
        from != self.me && !self.excluded.contains(&from) && !arrived()
    }

    /// Senders whose values of this round have not arrived.
    fn missing(&self) -> impl Iterator<Item = Rank> {
        self.row().units().iter().map(|&(from, _)| from).filter(|from| self.waits_for(*from))
    }

    fn send(&mut self, to: Rank, pieces: &[Bytes], out: &mut Vec<GossipMessage>) {
        let (from, version) = (self.me, self.round);
        let pieces = pieces.iter().enumerate();
        let bodies = pieces.map(|(index, values)| GossipBody::Piece { index: index as u32, values: values.clone() });
        out.extend(bodies.chain([GossipBody::Notify]).map(|body| GossipMessage { from, to, version, body }));
        if self.synchronization == GossipSync::NotifyAck {
            self.unacknowledged.insert(to, version);
        }
    }

    fn free_slots(&mut self, row: &WeightRow, strict: bool, out: &mut Vec<GossipMessage>) {
        for &(to, _) in row.units() {
            let Some(slot) = self.slots.get_mut(&to) else { continue };
            let SlotState::Complete(version) = slot.state() else { continue };
            if strict && version != self.round {
                continue;
            }
            slot.mark_read(version);
            if strict && !self.excluded.contains(&to) {
                out.push(GossipMessage { from: self.me, to, version, body: GossipBody::Ack });
            }
        }
    }
}
