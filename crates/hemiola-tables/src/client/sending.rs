//! What leaves a client.

use super::entry::{ABSENT, Entry, Part};
use super::{Client, FromClient};
use crate::batch::Batch;
use crate::budget::Pacer;
use crate::clock::Clock;
use crate::message::ToShard;
use crate::number::Cell;
use crate::random::Random;
use crate::server::MESSAGE_BYTES;
use crate::wire;
use hemiola_core::Moment;
use std::collections::BTreeMap;

/// Sparse rows that are asked for at once.
const SPARSE_KEYS: usize = 1024;

impl<C: Cell> Client<C> {
    pub(super) fn send(&mut self, body: ToShard<C::Wide>, urgent: bool) {
        let envelope = self.stream.send(body);
        self.out.push(FromClient { envelope, urgent });
    }

    /// Asks for rows, in pieces that are answered one by one: the first come while the shard gathers the next.
    pub(super) fn request(&mut self, need: Clock, mut keys: Vec<u64>) {
        keys.sort_unstable();
        let at_once =
            if self.spec.sparse { SPARSE_KEYS } else { (MESSAGE_BYTES / (self.spec.width * C::BYTES).max(1)).max(1) };
        if keys.len() <= at_once {
            return self.send(ToShard::Get { need, keys }, true);
        }
        for keys in keys.chunks(at_once) {
            self.send(ToShard::Get { need, keys: keys.to_vec() }, true);
        }
    }

    /// All workers have reached `min`: sends what they added before, and says so.
    pub(super) fn close(&mut self, min: Clock) {
        while let Some(entry) = self.open.first_entry().filter(|entry| *entry.key() < min) {
            let (clock, mut slots) = entry.remove_entry();
            for leased in slots.extract_if(.., |slot| self.entries[*slot as usize].leased).collect::<Vec<_>>() {
                self.add_up(leased);
            }
            self.flush(clock, &mut slots, true);
        }
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

    /// Sends the open sums of one clock of some rows.
    pub(super) fn flush(&mut self, clock: Clock, slots: &mut Vec<u32>, urgent: bool) {
        slots.sort_unstable_by_key(|slot| (self.entries[*slot as usize].key, *slot));
        slots.dedup();
        let (mut batch, mut carried, mut bytes) = (Batch::new(), Vec::new(), 0);
        // Sums are kept only where they are added to newer copies.
        let keep = !self.lanes() && self.shows_own();
        let (width, sparse) = (self.spec.width, self.spec.sparse);
        for slot in slots.iter().copied() {
            let number = self.stream.sent() + 1;
            let entry = &mut self.entries[slot as usize];
            let parts = take_open(entry, clock, width, sparse);
            for mut part in parts {
                bytes += Batch::row_bytes(&part.delta.cells()) + size_of_val(&part.carried[..]);
                batch.push(entry.key, part.version, &part.delta.cells());
                carried.append(&mut part.carried);
                if keep {
                    part.sent = number;
                    let log = entry.log.get_or_insert_default();
                    let place = log.parts.iter().position(|part| part.sent == 0).unwrap_or(log.parts.len());
                    log.parts.insert(place, part);
                    self.unconfirmed.push_back((number, slot));
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
            if bytes >= MESSAGE_BYTES {
                let (batch, carried) = (std::mem::take(&mut batch), std::mem::take(&mut carried));
                self.send(ToShard::Update { clock, batch, carried }, urgent);
                bytes = 0;
            }
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
        let allowance = pacer.allowance(now).min(MESSAGE_BYTES);
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
        for (clock, mut slots) in by_clock {
            let before = self.out.len();
            self.flush(clock, &mut slots, false);
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

/// Takes the open sums of one clock out of a row's log. Those of different workers become one for each version, in the order of workers.
fn take_open<W: crate::number::Number>(entry: &mut Entry<W>, clock: Clock, width: usize, sparse: bool) -> Vec<Part<W>> {
    let Some(log) = &mut entry.log else { return Vec::new() };
    let mut parts: Vec<Part<W>> = log.parts.extract_if(.., |part| part.sent == 0 && part.clock == clock).collect();
    parts.sort_by_key(|part| part.lane);
    let mut merged: Vec<Part<W>> = Vec::with_capacity(parts.len());
    for part in parts {
        match merged.iter_mut().find(|other| other.version == part.version) {
            Some(other) => other.delta.add(&part.delta.cells(), width, sparse),
            None => merged.push(part),
        }
    }
    merged
}
