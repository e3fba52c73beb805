//! Intent signaling and leases, after `AdaPM` (Renz-Wieland et al., CIKM 2023); "Leases" in the
//! README of this crate.
//!
//! An *intent* names rows and the clocks in which workers will use them. The rows are fetched
//! before the first of these clocks and are not evicted until the last one has ended; a copy that
//! was fetched for an intent is then dropped. If a row has no other user, the shard may *lease* it
//! to this client: the row is relocated, in effect, and its updates need not be sent.
//!
//! **Leases.** A client that holds the lease of a row keeps the row's sums when their clocks close,
//! and merges those of clocks that all clients have finished. It sends them when the shard recalls
//! the lease, when its own intents end, or at the end of all work. The shard gives no other client
//! a copy while a lease is out, so no reader misses the sums. Updates of other clients are applied
//! at the shard and pushed here as usual, and the kept sums are added again, as open sums are.
//!
//! **No sum is lost or applied twice:** a sum is either here and open, or in a message of the one
//! ordered stream. The lease ends at the shard with a `Return` that follows the sums in that
//! stream. A `Recall` that crosses a `Return` finds no lease and is ignored, and a later lease
//! comes behind it in order.
//!
//! Sums are merged over clocks only before the shard's minimum, and no snapshot can be requested
//! for an earlier clock while leases are out; so every sum lies on one side of every snapshot.
//! Leases exist only for pushed rows of SSP and asynchronous tables whose update rule adds. Under
//! BSP the order of additions would depend on the moment of the lease, and with other rules only
//! the shard knows the effect of an update.

use super::ShardClient;
use super::entry::PendingUpdate;
use crate::clock::Clock;
use crate::dtype::StorageType;
use crate::error::Result;
use crate::message::ClientMessage;
use crate::spec::RowDelivery;
use hemiola_core::WorkerId;
use std::collections::BTreeMap;

/// Rows are fetched this many clocks before they are used.
const INTENT_LEAD_CLOCKS: u64 = 2;

/// Intents of the peer's workers, by clock.
#[derive(Debug, Default)]
pub(super) struct IntentQueue {
    /// Intents not begun: by first clock, the keys and the clock after the last.
    upcoming: BTreeMap<Clock, Vec<(u64, Clock)>>,
    /// Active intents: slots by the clock after the last.
    active: BTreeMap<Clock, Vec<u32>>,
}

impl<C: StorageType> ShardClient<C> {
    /// Signals that workers of this peer will use rows in the clocks `from..to`. It is advice:
    /// unused rows do no harm.
    pub fn intend(&mut self, worker: WorkerId, keys: &[u64], from: Clock, to: Clock) -> Result<()> {
        self.clock_of(worker)?;
        for key in keys {
            self.spec.check_row(*key)?;
        }
        if self.clocks.min() < to && from < to {
            self.intents.upcoming.entry(from).or_default().extend(keys.iter().map(|key| (*key, to)));
            self.begin_intents();
        }
        Ok(())
    }

    /// Fetches rows that will be used soon, and asks for leases.
    pub(super) fn begin_intents(&mut self) {
        let min = self.clocks.min();
        let (mut missing, mut wanted) = (Vec::new(), Vec::new());
        let need = self.need(min);
        while let Some(entry) =
            self.intents.upcoming.first_entry().filter(|entry| entry.key().saturating_sub(INTENT_LEAD_CLOCKS) <= min)
        {
            for (key, to) in entry.remove() {
                if to <= min {
                    continue;
                }
                let slot = self.cache.ensure(key);
                self.intents.active.entry(to).or_default().push(slot);
                let entry = &mut self.cache.entries[slot as usize];
                entry.intents += 1;
                entry.pins += 1;
                wanted.push(key);
                if !entry.is_cached() && entry.requested.is_none() {
                    entry.fetched_for_intent = true;
                    entry.requested = Some(need);
                    missing.push(key);
                }
            }
        }
        if !missing.is_empty() {
            self.send_forgotten();
            self.request(need, missing);
        }
        let leases = self.spec.delivery == RowDelivery::Push && self.caches_own_updates();
        if leases && !wanted.is_empty() {
            wanted.sort_unstable();
            wanted.dedup();
            self.send(ClientMessage::Intend { keys: wanted }, true);
        }
    }

    /// Ends the intents that are over when all workers here have reached `min`.
    pub(super) fn end_intents(&mut self, min: Clock) {
        let mut back = Vec::new();
        let mut over = Vec::new();
        while let Some(entry) = self.intents.active.first_entry().filter(|entry| *entry.key() <= min) {
            over.extend(entry.remove());
        }
        for slot in &over {
            let entry = &mut self.cache.entries[*slot as usize];
            entry.pins -= 1;
            entry.intents -= 1;
            if entry.intents == 0 && entry.leased {
                back.push(*slot);
            }
        }
        self.return_leases(&back);
        for slot in over {
            let entry = &mut self.cache.entries[slot as usize];
            if entry.intents == 0 && std::mem::take(&mut entry.fetched_for_intent) && self.may_evict(slot) {
                self.drop_copy(slot);
            }
            self.drop_if_idle(slot);
        }
    }

    /// Accepts leases from the shard.
    pub(super) fn accept_leases(&mut self, keys: &[u64]) {
        if self.clocks.min() == Clock::INFINITE {
            // The shard already knows that all updates have arrived.
            return;
        }
        let mut back = Vec::new();
        for key in keys {
            let slot = self.cache.ensure(*key);
            let entry = &mut self.cache.entries[slot as usize];
            entry.leased = true;
            if entry.intents == 0 {
                back.push(slot);
            }
        }
        self.return_leases(&back);
    }

    /// Returns recalled leases. Those that were returned meanwhile are on their way.
    pub(super) fn recall(&mut self, keys: &[u64]) {
        let mut slots: Vec<u32> = keys.iter().filter_map(|key| self.cache.find(*key)).collect();
        slots.retain(|slot| self.cache.entries[*slot as usize].leased);
        self.return_leases(&slots);
    }

    /// Sends the sums of leased rows, and then returns the leases.
    pub(super) fn return_leases(&mut self, slots: &[u32]) {
        if slots.is_empty() {
            return;
        }
        let mut keys = Vec::with_capacity(slots.len());
        let mut by_clock: BTreeMap<Clock, Vec<u32>> = BTreeMap::new();
        for slot in slots {
            let entry = &mut self.cache.entries[*slot as usize];
            entry.leased = false;
            keys.push(entry.key);
            for update in entry.log.iter().flat_map(|log| &log.pending).filter(|update| update.sent == 0) {
                by_clock.entry(update.clock).or_default().push(*slot);
            }
        }
        for (clock, slots) in by_clock {
            self.flush(clock, slots, true);
        }
        keys.sort_unstable();
        keys.dedup();
        self.send(ClientMessage::Return { keys }, true);
        for slot in slots {
            self.drop_if_idle(*slot);
        }
    }

    /// Returns all leases to the shard.
    pub(super) fn return_all_leases(&mut self) {
        let leased: Vec<u32> =
            (0..self.cache.entries.len() as u32).filter(|slot| self.cache.entries[*slot as usize].leased).collect();
        self.return_leases(&leased);
    }

    /// Merges the sums of a leased row over clocks that no snapshot can tell apart any more.
    pub(super) fn merge_closed(&mut self, slot: u32) {
        self.apply_pending(slot);
        let (fresh, width, sparse) = (self.fresh, self.spec.width, self.spec.sparse);
        let Some(log) = &mut self.cache.entries[slot as usize].log else { return };
        let closed = |update: &mut PendingUpdate<C::Compute>| update.sent == 0 && update.clock < fresh;
        let mut old = log.pending.extract_if(.., closed);
        if let Some(mut sum) = old.next() {
            for update in old {
                sum.clock = sum.clock.max(update.clock);
                sum.delta.add(&update.delta.cells(), width, sparse);
            }
            let position = log.pending.iter().position(|update| update.sent == 0).unwrap_or(log.pending.len());
            log.pending.insert(position, sum);
        }
    }
}
