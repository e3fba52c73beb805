//! What leaves a client.

use super::entry::{ABSENT, Entry, Part};
use super::{Client, FromClient};
use crate::batch::Batch;
use crate::budget::Pacer;
use crate::clock::Clock;
use crate::message::ToShard;
use crate::number::{Cell, Number};
use crate::random::Random;
use crate::wire;
use hemiola_core::Moment;
use std::collections::BTreeMap;
use std::vec::IntoIter;

/// Sparse rows that are asked for at once.
const SPARSE_KEYS: usize = 1024;

impl<C: Cell> Client<C> {
    pub(super) fn send(&mut self, body: ToShard<C::Wide>, urgent: bool) {
        let envelope = self.stream.send(body);
        self.out.push(FromClient { envelope, urgent });
    }

    /// Asks for rows, in pieces that are answered one by one: the first come while the shard gathers the next.
    pub(super) fn request(&mut self, need: Clock, keys: Vec<u64>) {
        let at_once = if self.spec.sparse {
            SPARSE_KEYS
        } else {
            (self.spec.message_bytes / (self.spec.width * C::BYTES).max(1)).max(1)
        };
        if keys.len() <= at_once {
            return self.send(ToShard::Get { need, keys }, true);
        }
        for keys in keys.chunks(at_once) {
            self.send(ToShard::Get { need, keys: keys.to_vec() }, true);
        }
    }

    /// Goes on with what has to leave when a clock closes: makes one message of sums or, once all have left, says that the clock has closed. Returns
    /// whether there is more to do. For a driver to call, and to send what it makes in between: nobody has to wait for all of it to be made.
    pub fn close_some(&mut self) -> bool {
        let Some(min) = self.closing else { return false };
        if self.leaving.1.len() == 0
            && let Some(entry) = self.open.first_entry().filter(|entry| *entry.key() < min)
        {
            let (clock, mut slots) = entry.remove_entry();
            for leased in slots.extract_if(.., |slot| self.entries[*slot as usize].leased).collect::<Vec<_>>() {
                self.add_up(leased);
            }
            self.put_in_order(&mut slots);
            self.leaving = (clock, slots.into_iter());
        }
        let (clock, mut slots) = std::mem::take(&mut self.leaving);
        if slots.len() > 0 {
            self.flush_message(clock, &mut slots, true);
        }
        self.leaving = (clock, slots);
        let more = self.leaving.1.len() > 0 || self.open.first_key_value().is_some_and(|(clock, _)| *clock < min);
        if !more {
            self.closing = None;
            self.close(min);
        }
        more
    }

    /// All sums of clocks before `min` have left.
    fn close(&mut self, min: Clock) {
        self.closed = min;
        while let Some(entry) = self.aging.first_entry().filter(|entry| *entry.key() <= min) {
            for slot in entry.remove() {
                self.age(slot, min);
            }
        }
        self.end_intents(min);
        if min == Clock::INFINITE {
            self.give_back_all();
            self.let_go();
        }
        self.tell_forgotten();
        self.tell_released();
        self.send(ToShard::Clock(min), true);
        if min != Clock::INFINITE {
            self.begin_intents();
        }
    }

    /// Under BSP rows leave in the order of their keys, so that the order in which they begin to exist, too, does not depend on who was first.
    fn put_in_order(&self, slots: &mut [u32]) {
        if self.lanes() {
            slots.sort_unstable_by_key(|slot| (self.entries[*slot as usize].key, *slot));
        }
    }

    /// Sends the open sums of one clock of some rows.
    pub(super) fn flush(&mut self, clock: Clock, mut slots: Vec<u32>, urgent: bool) {
        self.put_in_order(&mut slots);
        let mut slots = slots.into_iter();
        while slots.len() > 0 {
            self.flush_message(clock, &mut slots, urgent);
        }
    }

    /// The same, as far as a message holds.
    fn flush_message(&mut self, clock: Clock, slots: &mut IntoIter<u32>, urgent: bool) {
        // Sums are kept only where they are added to newer copies.
        let keep = self.replays();
        let (width, sparse) = (self.spec.width, self.spec.sparse);
        let rows = slots.len().min(self.spec.message_bytes / (width * size_of::<C::Wide>()).max(1) + 1);
        let mut batch = Batch::with_room(rows, if sparse { 0 } else { rows * width });
        let (mut carried, mut bytes, mut parts) = (Vec::new(), 0, Vec::new());
        let number = self.stream.sent() + 1;
        while bytes < self.spec.message_bytes
            && let Some(slot) = slots.next()
        {
            let open = |part: &&Part<C::Wide>| part.sent == 0 && part.clock == clock;
            let log = self.entries[slot as usize].log.as_ref().filter(|log| log.parts.len() > 1);
            if log.is_some_and(|log| log.parts.iter().filter(open).count() > 1) {
                // Two may become one below, which is shown or is not.
                self.show(slot);
            }
            let entry = &mut self.entries[slot as usize];
            take_open(entry, clock, width, sparse, &mut parts);
            for mut part in parts.drain(..) {
                bytes += Batch::row_bytes(&part.delta.cells()) + size_of_val(&part.carried[..]);
                batch.push(entry.key, part.version, &part.delta.cells());
                carried.append(&mut part.carried);
                if keep {
                    part.sent = number;
                    let log = entry.log.get_or_insert_default();
                    let place = log.parts.iter().position(|part| part.sent == 0).unwrap_or(log.parts.len());
                    log.parts.insert(place, part);
                    self.unconfirmed.push_back((number, slot));
                } else {
                    self.spare.put(part.delta);
                }
            }
            if let Some(log) = &mut entry.log
                && log.parts.iter().all(|part| part.sent != 0)
            {
                log.importance = 0.0;
                if let Some(pool) = &mut self.pool {
                    pool.remove(slot);
                }
            }
            self.drop_if_idle(slot);
        }
        if !batch.is_empty() {
            self.send(ToShard::Update { clock, batch, carried }, urgent);
        }
    }

    /// Sends sums ahead of need, the most important rows first, as far as the budget allows. `stream` tells the pacer which of its
    /// streams this is.
    pub fn send_ahead(&mut self, now: Moment, pacer: &mut Pacer, stream: u64, random: &mut Random) {
        pacer.acknowledged(stream, self.stream.acknowledged());
        self.tell_forgotten();
        self.tell_released();
        let Some(pool) = &mut self.pool else { return };
        let allowance = pacer.allowance(now).min(self.spec.message_bytes);
        if allowance <= wire::ROWS_HEAD_BYTES {
            return;
        }
        let entries = &self.entries;
        let importance = |slot: u32| entries[slot as usize].log.as_ref().map_or(0.0, |log| log.importance);
        let chosen = pool.choose(allowance / self.row_bytes + 1, random, |_| true, importance);
        let mut by_clock: BTreeMap<Clock, Vec<u32>> = BTreeMap::new();
        let mut bytes = 0;
        for slot in chosen {
            let parts = entries[slot as usize].log.iter().flat_map(|log| &log.parts).filter(|part| part.sent == 0);
            let mut row = 0;
            for part in parts.clone() {
                row += Batch::row_bytes(&part.delta.cells()) + size_of_val(&part.carried[..]);
                row += if by_clock.contains_key(&part.clock) { 0 } else { wire::ROWS_HEAD_BYTES };
            }
            if bytes + row > allowance {
                break;
            }
            bytes += row;
            self.row_bytes = row;
            for part in parts {
                by_clock.entry(part.clock).or_default().push(slot);
            }
        }
        for (clock, slots) in by_clock {
            let before = self.out.len();
            self.flush(clock, slots, false);
            for sent in &self.out[before..] {
                let envelope = &sent.envelope;
                if let Some(ToShard::Update { clock, batch, carried }) = &envelope.body {
                    let bytes = wire::update_bytes(envelope.number, envelope.acknowledged, *clock, batch, carried);
                    pacer.spend(now, stream, envelope.number, bytes);
                }
            }
        }
    }

    /// Acknowledges what no message has acknowledged yet. For a driver to call when it is idle.
    pub fn acknowledge(&mut self) {
        if let Some(envelope) = self.stream.acknowledge() {
            self.out.push(FromClient { envelope, urgent: true });
        }
    }

    /// Whether sums wait that may be sent ahead of need.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.pool.as_ref().is_some_and(|pool| !pool.members().is_empty())
    }

    /// Tells the shard which rows are not here any more. Must come before a request for one of them.
    pub(super) fn tell_forgotten(&mut self) {
        if !self.forgotten.is_empty() {
            let mut keys = std::mem::take(&mut self.forgotten);
            keys.sort_unstable();
            self.send(ToShard::Forget { keys }, true);
        }
    }

    pub(super) fn tell_released(&mut self) {
        if !self.released.is_empty() {
            let copies = std::mem::take(&mut self.released);
            self.send(ToShard::Release { copies }, true);
        }
    }

    /// Lets go of versions of a row that no worker computes with any more.
    fn age(&mut self, slot: u32, min: Clock) {
        let entry = &mut self.entries[slot as usize];
        if let Some(log) = &mut entry.log {
            for older in log.older.extract_if(.., |older| older.used_until <= min) {
                if self.releases {
                    self.released.push((entry.key, older.version, older.copies));
                }
            }
        }
        self.drop_if_idle(slot);
    }

    /// Nobody reads any more: copies go, and those that are still on their way will not be taken.
    fn let_go(&mut self) {
        self.unconfirmed.clear();
        for slot in 0..self.entries.len() as u32 {
            self.release_copy(slot);
            let entry = &mut self.entries[slot as usize];
            (entry.asked, entry.log) = (None, None);
            if entry.is_here() {
                let view = std::mem::replace(&mut entry.view, ABSENT);
                self.views.free(view);
                self.carried.free(view);
                self.here -= 1;
            }
            self.drop_if_idle(slot);
        }
    }

    /// Lets go of the current version of a row.
    pub(super) fn release_copy(&mut self, slot: u32) {
        let entry = &mut self.entries[slot as usize];
        if self.releases && entry.copies > 0 {
            self.released.push((entry.key, entry.version, std::mem::take(&mut entry.copies)));
        }
    }
}

/// Takes the sums of a clock out of an entry, those of the same version in one.
fn take_open<W: Number>(entry: &mut Entry<W>, clock: Clock, width: usize, sparse: bool, taken: &mut Vec<Part<W>>) {
    let Some(log) = &mut entry.log else { return };
    let open = |part: &Part<W>| part.sent == 0 && part.clock == clock;
    // Usually there is just one.
    if log.parts.len() == 1 {
        taken.extend(log.parts.pop_if(|part| open(part)));
        return;
    }
    let mut parts: Vec<Part<W>> = log.parts.extract_if(.., |part| open(part)).collect();
    parts.sort_by_key(|part| part.lane);
    for part in parts {
        match taken.iter_mut().find(|other| other.version == part.version) {
            Some(other) => other.delta.add(&part.delta.cells(), width, sparse),
            None => taken.push(part),
        }
    }
}
