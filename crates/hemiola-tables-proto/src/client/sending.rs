//! Outgoing messages of a client.

use super::entry::{CacheEntry, PendingUpdate};
use super::{ClientOutgoing, ShardClient};
use crate::batch::RowBatch;
use crate::clock::Clock;
use crate::dtype::{ComputeType, StorageType};
use crate::message::ClientMessage;
use crate::rate_limiter::RateLimiter;
use crate::selection_rng::SelectionRng;
use crate::wire;
use hemiola_core::Moment;
use std::collections::BTreeMap;
use std::vec::IntoIter;

/// Number of sparse rows per request.
const SPARSE_KEYS: usize = 1024;

impl<C: StorageType> ShardClient<C> {
    pub(super) fn send(&mut self, body: ClientMessage<C::Compute>, urgent: bool) {
        let message = self.stream.send(body);
        self.out.push(ClientOutgoing { message, urgent });
    }

    /// Requests rows in chunks that are answered one by one: the first arrive while the shard
    /// gathers the next.
    pub(super) fn request(&mut self, need: Clock, keys: Vec<u64>) {
        let at_once = if self.spec.sparse {
            SPARSE_KEYS
        } else {
            (self.spec.message_bytes / (self.spec.width * C::BYTES).max(1)).max(1)
        };
        if keys.len() <= at_once {
            return self.send(ClientMessage::Get { need, keys }, true);
        }
        for keys in keys.chunks(at_once) {
            self.send(ClientMessage::Get { need, keys: keys.to_vec() }, true);
        }
    }

    /// Continues closing a clock: creates one message of sums or, once all are sent, announces the
    /// clock. Returns true if there is more to do. The driver sends each message before the next
    /// call, so no lock is held for all of it.
    pub fn close_some(&mut self) -> bool {
        let Some(min) = self.updates.closing else { return false };
        if self.updates.flushing.1.len() == 0
            && let Some(entry) = self.updates.open.first_entry().filter(|entry| *entry.key() < min)
        {
            let (clock, mut slots) = entry.remove_entry();
            for leased in slots.extract_if(.., |slot| self.cache.entries[*slot as usize].leased).collect::<Vec<_>>() {
                self.merge_closed(leased);
            }
            self.sort_slots(&mut slots);
            self.updates.flushing = (clock, slots.into_iter());
        }
        let (clock, mut slots) = std::mem::take(&mut self.updates.flushing);
        if slots.len() > 0 {
            self.flush_message(clock, &mut slots, true);
        }
        self.updates.flushing = (clock, slots);
        let more = self.updates.flushing.1.len() > 0
            || self.updates.open.first_key_value().is_some_and(|(clock, _)| *clock < min);
        if !more {
            self.updates.closing = None;
            self.close(min);
        }
        more
    }

    /// Announces a clock after all sums of earlier clocks have been sent.
    fn close(&mut self, min: Clock) {
        self.updates.closed = min;
        while let Some(entry) = self.releases.expiring.first_entry().filter(|entry| *entry.key() <= min) {
            for slot in entry.remove() {
                self.expire_superseded(slot, min);
            }
        }
        self.end_intents(min);
        if min == Clock::INFINITE {
            self.return_all_leases();
            self.drop_all_copies();
        }
        self.send_forgotten();
        self.send_released();
        self.send(ClientMessage::Clock(min), true);
        if min != Clock::INFINITE {
            self.begin_intents();
        }
    }

    /// Sorts rows by key under BSP, so that the order in which rows are created does not depend on
    /// timing.
    fn sort_slots(&self, slots: &mut [u32]) {
        if self.separates_workers() {
            slots.sort_unstable_by_key(|slot| (self.cache.entries[*slot as usize].key, *slot));
        }
    }

    /// Sends the open sums of one clock of some rows.
    pub(super) fn flush(&mut self, clock: Clock, mut slots: Vec<u32>, urgent: bool) {
        self.sort_slots(&mut slots);
        let mut slots = slots.into_iter();
        while slots.len() > 0 {
            self.flush_message(clock, &mut slots, urgent);
        }
    }

    /// Sends open sums up to the size of one message.
    fn flush_message(&mut self, clock: Clock, slots: &mut IntoIter<u32>, urgent: bool) {
        // Sums are kept only where they are added to newer copies.
        let keep = self.caches_own_updates();
        let (width, sparse) = (self.spec.width, self.spec.sparse);
        let rows = slots.len().min(self.spec.message_bytes / (width * size_of::<C::Compute>()).max(1) + 1);
        let mut batch = RowBatch::with_capacity(rows, if sparse { 0 } else { rows * width });
        let (mut attachment, mut bytes, mut pending) = (Vec::new(), 0, Vec::new());
        let number = self.stream.sent() + 1;
        while bytes < self.spec.message_bytes
            && let Some(slot) = slots.next()
        {
            let open = |update: &&PendingUpdate<C::Compute>| update.sent == 0 && update.clock == clock;
            let log = self.cache.entries[slot as usize].log.as_ref().filter(|log| log.pending.len() > 1);
            if log.is_some_and(|log| log.pending.iter().filter(open).count() > 1) {
                // Two sums may be merged below, so both must be applied.
                self.apply_pending(slot);
            }
            let entry = &mut self.cache.entries[slot as usize];
            take_open(entry, clock, width, sparse, &mut pending);
            for mut update in pending.drain(..) {
                bytes += RowBatch::row_bytes(&update.delta.cells()) + size_of_val(&update.attachment[..]);
                batch.push(entry.key, update.version, &update.delta.cells());
                attachment.append(&mut update.attachment);
                if keep {
                    update.sent = number;
                    let log = entry.log.get_or_insert_default();
                    let position = log.pending.iter().position(|update| update.sent == 0).unwrap_or(log.pending.len());
                    log.pending.insert(position, update);
                    self.updates.unconfirmed.push_back((number, slot));
                } else {
                    self.updates.free_list.recycle(update.delta);
                }
            }
            if let Some(log) = &mut entry.log
                && log.pending.iter().all(|update| update.sent != 0)
            {
                log.importance = 0.0;
                if let Some(pool) = &mut self.updates.pool {
                    pool.remove(slot);
                }
            }
            self.drop_if_idle(slot);
        }
        if !batch.is_empty() {
            self.send(ClientMessage::Update { clock, batch, attachment }, urgent);
        }
    }

    /// Sends sums eagerly, the most important rows first, as far as the rate limiter allows.
    /// `stream` is the number of this stream at the limiter.
    pub fn send_eagerly(&mut self, now: Moment, limiter: &mut RateLimiter, stream: u64, random: &mut SelectionRng) {
        limiter.acknowledged(stream, self.stream.acknowledged());
        self.send_forgotten();
        self.send_released();
        let Some(pool) = &mut self.updates.pool else { return };
        let allowance = limiter.allowance(now).min(self.spec.message_bytes);
        if allowance <= wire::ROWS_HEAD_BYTES {
            return;
        }
        let entries = &self.cache.entries;
        let importance = |slot: u32| entries[slot as usize].log.as_ref().map_or(0.0, |log| log.importance);
        let chosen = pool.choose(allowance / self.updates.row_bytes + 1, random, |_| true, importance);
        let mut by_clock: BTreeMap<Clock, Vec<u32>> = BTreeMap::new();
        let mut bytes = 0;
        for slot in chosen {
            let pending =
                entries[slot as usize].log.iter().flat_map(|log| &log.pending).filter(|update| update.sent == 0);
            let mut row = 0;
            for update in pending.clone() {
                row += RowBatch::row_bytes(&update.delta.cells()) + size_of_val(&update.attachment[..]);
                row += if by_clock.contains_key(&update.clock) { 0 } else { wire::ROWS_HEAD_BYTES };
            }
            if bytes + row > allowance {
                break;
            }
            bytes += row;
            self.updates.row_bytes = row;
            for update in pending {
                by_clock.entry(update.clock).or_default().push(slot);
            }
        }
        for (clock, slots) in by_clock {
            let before = self.out.len();
            self.flush(clock, slots, false);
            for sent in &self.out[before..] {
                let message = &sent.message;
                if let Some(ClientMessage::Update { clock, batch, attachment }) = &message.body {
                    let bytes = wire::update_bytes(message.number, message.acknowledged, *clock, batch, attachment);
                    limiter.spend(now, stream, message.number, bytes);
                }
            }
        }
    }

    /// Acknowledges messages that no outgoing message has acknowledged. For a driver to call when
    /// it is idle.
    pub fn acknowledge(&mut self) {
        if let Some(message) = self.stream.acknowledge() {
            self.out.push(ClientOutgoing { message, urgent: true });
        }
    }

    /// Returns true if a tick of the node would send something: sums wait that may be sent eagerly,
    /// or messages are not acknowledged.
    #[must_use]
    pub fn needs_tick(&self) -> bool {
        self.updates.pool.as_ref().is_some_and(|pool| !pool.members().is_empty()) || self.stream.owes_acknowledgement()
    }
}

/// Takes the open sums of a clock out of an entry, merged by version.
fn take_open<W: ComputeType>(
    entry: &mut CacheEntry<W>,
    clock: Clock,
    width: usize,
    sparse: bool,
    taken: &mut Vec<PendingUpdate<W>>,
) {
    let Some(log) = &mut entry.log else { return };
    let open = |update: &PendingUpdate<W>| update.sent == 0 && update.clock == clock;
    // Usually there is just one.
    if log.pending.len() == 1 {
        taken.extend(log.pending.pop_if(|update| open(update)));
        return;
    }
    let mut pending: Vec<PendingUpdate<W>> = log.pending.extract_if(.., |update| open(update)).collect();
    pending.sort_by_key(|update| update.writer);
    for update in pending {
        match taken.iter_mut().find(|other| other.version == update.version) {
            Some(other) => other.delta.add(&update.delta.cells(), width, sparse),
            None => taken.push(update),
        }
    }
}
