//! One peer's side of a reduce over a graph. See the [module](super) for what holds and why.
//!
//! A round is [`Mixer::push`], messages, [`Mixer::reduce`]. A driver that may not push yet (an ACK is missing) or not reduce yet (a NOTIFY is) waits for messages;
//! [`Mixer::waits`] says from whom.

use super::message::{Body, Message};
use super::slot::{Slot, State};
use crate::graph::{Row, Weights};
use crate::protocol::{Element, to_bytes};
use crate::{Error, Result};
use bytes::Bytes;
use half::{bf16, f16};
use hemiola_core::Rank;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What peers wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Synchronization {
    /// For their neighbours, each edge by itself.
    NotifyAck,
    /// For everybody: between push and reduce the driver runs a barrier. What has arrived by then is reduced.
    Barrier,
    /// For nobody.
    Asynchronous,
}

/// A number that can be averaged: `f32`, `f64`, and for half the bytes `bf16`, `f16`. Means are computed in `f64` and rounded once.
pub trait Mixed: Element {
    /// The same number.
    fn to_f64(self) -> f64;
    /// The nearest.
    fn from_f64(value: f64) -> Self;
}

impl Mixed for f32 {
    fn to_f64(self) -> f64 {
        self.into()
    }

    fn from_f64(value: f64) -> Self {
        value as f32
    }
}

impl Mixed for f64 {
    fn to_f64(self) -> f64 {
        self
    }

    fn from_f64(value: f64) -> Self {
        value
    }
}

impl Mixed for bf16 {
    fn to_f64(self) -> f64 {
        self.into()
    }

    fn from_f64(value: f64) -> Self {
        Self::from_f64(value)
    }
}

impl Mixed for f16 {
    fn to_f64(self) -> f64 {
        self.into()
    }

    fn from_f64(value: f64) -> Self {
        Self::from_f64(value)
    }
}

/// What a reduce found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reduced {
    /// The round, from 0.
    pub round: u64,
    /// How many senders there are.
    pub senders: usize,
    /// Of how many a whole, unread version was there.
    pub used: usize,
    /// How many slots held parts of different versions, or of an unfinished one.
    pub torn: usize,
    /// How many used versions were of earlier rounds of their senders than this one.
    pub stale: usize,
}

/// Rounds with the same weights.
#[derive(Clone, Debug)]
struct Era {
    /// The first of them.
    from: u64,
    weights: Arc<Weights>,
    /// Those whose rows the peer is in.
    receivers: Vec<Rank>,
}

impl Era {
    fn new(from: u64, weights: Arc<Weights>, me: Rank) -> Self {
        let takes = |to: Rank| weights.row(to).units().binary_search_by_key(&me, |&(from, _)| from).is_ok();
        let receivers = Rank::all(weights.peers()).filter(|&to| to != me && takes(to)).collect();
        Self { from, weights, receivers }
    }
}

/// A peer's mixer.
#[derive(Clone, Debug)]
pub struct Mixer<T> {
    me: Rank,
    length: usize,
    /// Values in a piece.
    piece: usize,
    synchronization: Synchronization,
    /// By their first rounds, ascending.
    eras: Vec<Era>,
    gone: BTreeSet<Rank>,
    /// Rounds completed.
    round: u64,
    /// Whether this round's values have been pushed.
    pushed: bool,
    /// The version sent to each and not acknowledged.
    unacknowledged: BTreeMap<Rank, u64>,
    slots: BTreeMap<Rank, Slot<T>>,
    /// Of this round's senders, those before this place are not waited for (any more). With NOTIFY-ACK alone.
    there: usize,
}

impl<T: Mixed> Mixer<T> {
    /// The mixer of one peer, for so many values, sent in pieces of up to `piece`. All peers must say the same. Mixers of one process may share their weights.
    pub fn new(
        me: Rank,
        weights: impl Into<Arc<Weights>>,
        length: usize,
        piece: usize,
        synchronization: Synchronization,
    ) -> Result<Self> {
        let weights = weights.into();
        if me.index() >= weights.peers() {
            return Err(Error::BadCall { peers: weights.peers(), problem: format!("peer {me} is not one of them") });
        }
        let piece = piece.max(length.div_ceil(u32::MAX as usize)).max(1);
        Ok(Self {
            me,
            length,
            piece,
            synchronization,
            eras: vec![Era::new(0, weights, me)],
            gone: BTreeSet::new(),
            round: 0,
            pushed: false,
            unacknowledged: BTreeMap::new(),
            slots: BTreeMap::new(),
            there: 0,
        })
    }

    /// Which peer this is.
    #[must_use]
    pub fn me(&self) -> Rank {
        self.me
    }

    /// The first round that this peer has not begun.
    #[must_use]
    pub fn next_round(&self) -> u64 {
        self.round + u64::from(self.pushed)
    }

    /// Whether the next round can begin: the last has been reduced here and, with NOTIFY-ACK, by all receivers.
    #[must_use]
    pub fn can_push(&self) -> bool {
        !self.pushed && self.unacknowledged.is_empty()
    }

    /// Begins a round: sends these values to all receivers.
    pub fn push(&mut self, values: &[T], out: &mut Vec<Message>) -> Result<()> {
        if values.len() != self.length {
            return Err(Error::WrongVector { expected: self.length, found: values.len() });
        }
        if !self.can_push() {
            let problem =
                format!("round {} cannot begin before the last has ended here and at all receivers", self.round);
            return Err(Error::BadCall { peers: self.peers(), problem });
        }
        let pieces: Vec<Bytes> = (0..self.pieces())
            .map(|index| {
                let start = index * self.piece;
                to_bytes(&values[start..(start + self.piece).min(self.length)]).into()
            })
            .collect();
        self.pushed = true;
        let receivers = self.current().receivers.iter().copied().filter(|to| !self.gone.contains(to));
        for to in receivers.collect::<Vec<_>>() {
            self.send(to, &pieces, out);
        }
        self.look();
        Ok(())
    }

    /// Takes a message in.
    pub fn receive(&mut self, message: Message) -> Result<()> {
        let Message { from, version, body, .. } = message;
        if self.gone.contains(&from) {
            return Ok(());
        }
        let bad = |problem: String| Err(Error::BadMessage { from, problem });
        if from == self.me || from.index() >= self.peers() {
            return bad("it is not from another peer of the graph".to_owned());
        }
        if body == Body::Ack {
            if self.unacknowledged.get(&from) != Some(&version) {
                return bad(format!("it acknowledges version {version}, which it was not sent or has acknowledged"));
            }
            self.unacknowledged.remove(&from);
            return Ok(());
        }
        let (length, pieces, piece) = (self.length, self.pieces(), self.piece);
        let slot = self.slots.entry(from).or_insert_with(|| Slot::new(length, pieces));
        if self.synchronization == Synchronization::NotifyAck && (version < self.round || slot.would_overwrite(version))
        {
            return bad(format!("version {version} came before the one before it was acknowledged"));
        }
        match body {
            Body::Piece { index, values } => {
                if slot.write(version, index as usize, piece, &values).is_err() {
                    return bad(format!("piece {index} of {} bytes does not fit {length} values", values.len()));
                }
            }
            Body::Notify | Body::Ack => slot.notify(version),
        }
        self.look();
        Ok(())
    }

    /// Whether [`Mixer::reduce`] can be called: with NOTIFY-ACK, when all senders' values are there.
    #[must_use]
    pub fn can_reduce(&self) -> bool {
        self.pushed && (self.synchronization != Synchronization::NotifyAck || self.there == self.row().units().len())
    }

    /// Ends the round: `values` become the weighted mean of themselves and those in the slots, and senders are told that their slots are free.
    ///
    /// Terms are added in the order of ranks, in `f64`, and rounded once. With NOTIFY-ACK `values` should be what was pushed; then results are
    /// a function of what all peers pushed.
    pub fn reduce(&mut self, values: &mut [T], out: &mut Vec<Message>) -> Result<Reduced> {
        if values.len() != self.length {
            return Err(Error::WrongVector { expected: self.length, found: values.len() });
        }
        if !self.can_reduce() {
            let problem = format!("round {} still waits for others", self.round);
            return Err(Error::BadCall { peers: self.peers(), problem });
        }
        let strict = self.synchronization == Synchronization::NotifyAck;
        let row = self.row().clone();
        let senders = row.units().len() - usize::from(row.units().iter().any(|&(from, _)| from == self.me));
        let mut reduced = Reduced { round: self.round, senders, used: 0, torn: 0, stale: 0 };
        let (mut sums, mut denominator) = (vec![0.0; self.length], 0.0);
        for &(from, units) in row.units() {
            let weight = f64::from(units);
            let slot = self.slots.get(&from);
            let source = match slot.map_or(State::Empty, Slot::state) {
                _ if from == self.me => Some(&*values),
                State::Whole(version) if !strict || version == self.round => {
                    reduced.used += 1;
                    reduced.stale += usize::from(version < self.round);
                    slot.map(Slot::values)
                }
                state => {
                    reduced.torn += usize::from(state == State::Torn && !self.gone.contains(&from));
                    // A peer that is gone is stood in for by oneself; of one that is late nothing is known, and the others count for more.
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
        (self.pushed, self.there) = (false, 0);
        self.look();
        Ok(reduced)
    }

    /// From `from_round` on, does without a peer; in rounds before, does not wait for it. All who are left must say the same round, and none may have begun it: let all
    /// stop pushing, and take the largest [`Mixer::next_round`].
    pub fn lose(&mut self, gone: Rank, from_round: u64) -> Result<()> {
        if from_round < self.next_round() || gone == self.me {
            let problem = format!(
                "peer {gone} cannot be left out from round {from_round} on, since {} comes next",
                self.next_round()
            );
            return Err(Error::BadCall { peers: self.peers(), problem });
        }
        self.gone.insert(gone);
        self.unacknowledged.remove(&gone);
        let last = &self.eras[self.eras.len() - 1].weights;
        if last.has(gone) {
            let without = Arc::new(last.without(gone));
            // Whoever was ahead may be gone now, so this round can be before one that an earlier loss named. Nobody left has begun either.
            self.eras.retain(|era| era.from < from_round);
            self.eras.push(Era::new(from_round, without, self.me));
        }
        // The row of this round may be another, and one in it may not be waited for any more.
        self.there = 0;
        self.look();
        Ok(())
    }

    /// Whose ACK this peer waits for before it can push, and whose NOTIFY before it can reduce, for stall reports.
    #[must_use]
    pub fn waits(&self) -> (Vec<Rank>, Vec<Rank>) {
        match (self.synchronization, self.pushed) {
            (Synchronization::NotifyAck, true) => (Vec::new(), self.missing().collect()),
            (Synchronization::NotifyAck, false) => (self.unacknowledged.keys().copied().collect(), Vec::new()),
            _ => (Vec::new(), Vec::new()),
        }
    }

    fn pieces(&self) -> usize {
        self.length.div_ceil(self.piece).max(1)
    }

    /// How many peers there were in the beginning.
    fn peers(&self) -> usize {
        self.eras[0].weights.peers()
    }

    /// What holds in the current round.
    fn current(&self) -> &Era {
        let place = self.eras.partition_point(|era| era.from <= self.round);
        &self.eras[place - 1]
    }

    fn row(&self) -> &Row {
        self.current().weights.row(self.me)
    }

    /// Looks how far this round's values are there. What is there stays until it is reduced, so each sender is found once.
    fn look(&mut self) {
        if self.synchronization != Synchronization::NotifyAck {
            return;
        }
        let units = self.row().units();
        let there = |&(from, _): &(Rank, u32)| !self.waits_for(from);
        self.there += units[self.there..].iter().take_while(|one| there(one)).count();
    }

    /// Whether a sender's values of this round are to come.
    fn waits_for(&self, from: Rank) -> bool {
        let there = || self.slots.get(&from).is_some_and(|slot| slot.state() == State::Whole(self.round));
        from != self.me && !self.gone.contains(&from) && !there()
    }

    /// Senders whose values of this round are not there.
    fn missing(&self) -> impl Iterator<Item = Rank> {
        self.row().units().iter().map(|&(from, _)| from).filter(|from| self.waits_for(*from))
    }

    fn send(&mut self, to: Rank, pieces: &[Bytes], out: &mut Vec<Message>) {
        let (from, version) = (self.me, self.round);
        let pieces = pieces.iter().enumerate();
        let bodies = pieces.map(|(index, values)| Body::Piece { index: index as u32, values: values.clone() });
        out.extend(bodies.chain([Body::Notify]).map(|body| Message { from, to, version, body }));
        if self.synchronization == Synchronization::NotifyAck {
            self.unacknowledged.insert(to, version);
        }
    }

    fn free_slots(&mut self, row: &Row, strict: bool, out: &mut Vec<Message>) {
        for &(to, _) in row.units() {
            let Some(slot) = self.slots.get_mut(&to) else { continue };
            let State::Whole(version) = slot.state() else { continue };
            if strict && version != self.round {
                continue;
            }
            slot.mark_read(version);
            if strict && !self.gone.contains(&to) {
                out.push(Message { from: self.me, to, version, body: Body::Ack });
            }
        }
    }
}
