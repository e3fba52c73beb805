//! What workers say they are going to use.
//!
//! An *intent* names rows and the clocks in which they will be used. Ahead of the first of these clocks the rows are fetched, and
//! they are not evicted until the last is over; a copy that came for an intent then goes again. If a row has no other user, the shard may *lease* it to this peer:
//! the row has moved here, as it were, and its updates need not leave.
//!
//! **Leases.** A client that holds the lease of a row keeps the row's sums when their clocks close, and adds up those of clocks that
//! everybody has finished; it sends them when the shard recalls the lease, when its own intents end, or at the end of all work. The shard gives nobody else a copy of the row while
//! a lease is out, so nobody can miss the sums; updates of others are applied at the shard and pushed here as ever, and the sums are
//! added again, as open sums are. **Why nothing is lost or doubled:** a sum is either here and open, or in a message of the one ordered
//! stream; the lease ends at the shard with a `Return` that follows them in that stream; a `Recall` that crosses a `Return` finds no lease and is ignored,
//! and a later lease comes behind it in order.
//!
//! Sums are added up over clocks only before the shard's minimum, and a snapshot cannot be asked for at an earlier clock while leases are
//! out; so every sum lies on one side of every snapshot. Leases are for pushed rows of SSP and Async tables whose procedure
//! adds: under BSP the order of additions would depend on when a lease was given, and elsewhere only the shard knows what an update does.

use super::Client;
use super::entry::Part;
use crate::clock::Clock;
use crate::error::Result;
use crate::message::ToShard;
use crate::number::Cell;
use crate::spec::Delivery;
use hemiola_core::WorkerId;
use std::collections::BTreeMap;

/// Rows are fetched this many clocks before they are used.
const LEAD: u64 = 2;

/// Rows that will be used.
#[derive(Debug, Default)]
pub(super) struct Intents {
    /// Not begun: by first clock, the rows and the clock after the last.
    ahead: BTreeMap<Clock, Vec<(u64, Clock)>>,
    /// Begun: by the clock after the last.
    running: BTreeMap<Clock, Vec<u32>>,
}

impl<C: Cell> Client<C> {
    /// Says that workers of this peer are going to use rows in the clocks `from..to`. It is advice: nothing goes wrong if they do not.
    pub fn intend(&mut self, worker: WorkerId, keys: &[u64], from: Clock, to: Clock) -> Result<()> {
        self.clock_of(worker)?;
        for key in keys {
            self.spec.check_row(*key)?;
        }
        if self.clocks.min() < to && from < to {
            self.intents.ahead.entry(from).or_default().extend(keys.iter().map(|key| (*key, to)));
            self.begin_intents();
        }
        Ok(())
    }

    /// Fetches what will be used soon, and asks for leases.
    pub(super) fn begin_intents(&mut self) {
        let min = self.clocks.min();
        let (mut missing, mut wanted) = (Vec::new(), Vec::new());
        let need = self.need(min);
        while let Some(entry) = self.intents.ahead.first_entry().filter(|entry| entry.key().back(LEAD) <= min) {
            for (key, to) in entry.remove() {
                if to <= min {
                    continue;
                }
                let slot = self.ensure(key);
                self.intents.running.entry(to).or_default().push(slot);
                let entry = &mut self.entries[slot as usize];
                entry.intents += 1;
                entry.pins += 1;
                wanted.push(key);
                if !entry.is_here() && entry.asked.is_none() {
                    entry.fetched = true;
                    entry.asked = Some(need);
                    missing.push(key);
                }
            }
        }
        if !missing.is_empty() {
            self.tell_forgotten();
            self.request(need, missing);
        }
        let leases = self.spec.delivery == Delivery::Push && self.replays();
        if leases && !wanted.is_empty() {
            wanted.sort_unstable();
            wanted.dedup();
            self.send(ToShard::Intend { keys: wanted }, true);
        }
    }

    /// Everybody here has reached `min`: intents that are over end.
    pub(super) fn end_intents(&mut self, min: Clock) {
        let mut back = Vec::new();
        let mut over = Vec::new();
        while let Some(entry) = self.intents.running.first_entry().filter(|entry| *entry.key() <= min) {
            over.extend(entry.remove());
        }
        for slot in &over {
            let entry = &mut self.entries[*slot as usize];
            entry.pins -= 1;
            entry.intents -= 1;
            if entry.intents == 0 && entry.leased {
                back.push(*slot);
            }
        }
        self.give_back(&back);
        for slot in over {
            let entry = &mut self.entries[slot as usize];
            if entry.intents == 0 && std::mem::take(&mut entry.fetched) && self.may_evict(slot) {
                self.drop_copy(slot);
            }
            self.drop_if_idle(slot);
        }
    }

    /// The shard leases rows to this client.
    pub(super) fn take_leases(&mut self, keys: &[u64]) {
        if self.clocks.min() == Clock::INFINITE {
            // The shard knows by now that everything is there.
            return;
        }
        let mut back = Vec::new();
        for key in keys {
            let slot = self.ensure(*key);
            let entry = &mut self.entries[slot as usize];
            entry.leased = true;
            if entry.intents == 0 {
                back.push(slot);
            }
        }
        self.give_back(&back);
    }

    /// The shard wants leases back. Those that were given back meanwhile are on their way.
    pub(super) fn recall(&mut self, keys: &[u64]) {
        let mut slots: Vec<u32> = keys.iter().filter_map(|key| self.find(*key)).collect();
        slots.retain(|slot| self.entries[*slot as usize].leased);
        self.give_back(&slots);
    }

    /// Sends the sums of leased rows, and then the leases.
    pub(super) fn give_back(&mut self, slots: &[u32]) {
        if slots.is_empty() {
            return;
        }
        let mut keys = Vec::with_capacity(slots.len());
        let mut by_clock: BTreeMap<Clock, Vec<u32>> = BTreeMap::new();
        for slot in slots {
            let entry = &mut self.entries[*slot as usize];
            entry.leased = false;
            keys.push(entry.key);
            for part in entry.log.iter().flat_map(|log| &log.parts).filter(|part| part.sent == 0) {
                by_clock.entry(part.clock).or_default().push(*slot);
            }
        }
        for (clock, slots) in by_clock {
            self.flush(clock, slots, true);
        }
        keys.sort_unstable();
        keys.dedup();
        self.send(ToShard::Return { keys }, true);
        for slot in slots {
            self.drop_if_idle(*slot);
        }
    }

    /// Gives all leases back.
    pub(super) fn give_back_all(&mut self) {
        let leased: Vec<u32> =
            (0..self.entries.len() as u32).filter(|slot| self.entries[*slot as usize].leased).collect();
        self.give_back(&leased);
    }

    /// Adds up the sums of a leased row over clocks that no snapshot can tell apart any more.
    pub(super) fn add_up(&mut self, slot: u32) {
        self.show(slot);
        let (fresh, width, sparse) = (self.fresh, self.spec.width, self.spec.sparse);
        let Some(log) = &mut self.entries[slot as usize].log else { return };
        let settled = |part: &mut Part<C::Wide>| part.sent == 0 && part.clock < fresh;
        let mut old = log.parts.extract_if(.., settled);
        if let Some(mut sum) = old.next() {
            for part in old {
                sum.clock = sum.clock.max(part.clock);
                sum.delta.add(&part.delta.cells(), width, sparse);
            }
            let place = log.parts.iter().position(|part| part.sent == 0).unwrap_or(log.parts.len());
            log.parts.insert(place, sum);
        }
    }
}
