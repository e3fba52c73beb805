//! What comes to a client, and what has to go for it.

use super::Client;
use super::entry::{ABSENT, Entry, INCLUDED, Older};
use crate::batch::{Batch, BatchRow};
use crate::cells::Cells;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::message::ToClient;
use crate::number::Cell;
use crate::spec::Delivery;
use crate::stream::Envelope;
use hemiola_core::WorkerId;

/// How many rows are looked at, at most, to find one to evict.
const LOOKS: usize = 128;

impl<C: Cell> Client<C> {
    /// Takes a message of the shard. Who need not wait any more is in [`Client::take_woken`].
    pub fn receive(&mut self, envelope: Envelope<ToClient<C, C::Wide>>) -> Result<()> {
        let bad = |problem: String| Error::BadMessage { table: self.spec.name.clone(), problem };
        self.stream.accept(envelope).map_err(bad)?;
        while let Some((_, body)) = self.stream.deliver() {
            match body {
                ToClient::Rows { fresh, included, reply, batch, carried } => {
                    self.check_rows(included, &batch, &carried)?;
                    self.confirm(included);
                    for (at, row) in batch.iter().enumerate() {
                        let carried =
                            if self.carries { &carried[at * self.spec.width..][..self.spec.width] } else { &[] };
                        self.take_row(&row, carried, fresh, included, reply);
                    }
                    self.fresh = self.fresh.max(fresh);
                    self.wake();
                }
                ToClient::Lease { keys } => {
                    self.check_keys(&keys)?;
                    self.take_leases(&keys);
                }
                ToClient::Recall { keys } => {
                    self.check_keys(&keys)?;
                    self.recall(&keys);
                }
            }
        }
        Ok(())
    }

    fn check_keys(&self, keys: &[u64]) -> Result<()> {
        keys.iter().try_for_each(|key| self.spec.check_row(*key))
    }

    fn check_rows(&self, included: u64, batch: &Batch<C>, carried: &[C::Wide]) -> Result<()> {
        let bad = |problem: String| Err(Error::BadMessage { table: self.spec.name.clone(), problem });
        if included > self.stream.sent() {
            return bad(format!("message {included} is included, and {} were sent", self.stream.sent()));
        }
        if carried.len() != if self.carries { batch.len() * self.spec.width } else { 0 } {
            return bad(format!("{} values came to be carried for {} rows", carried.len(), batch.len()));
        }
        for row in batch.iter() {
            self.spec.check_row(row.key)?;
            let fits = match row.cells {
                Cells::Dense(values) => !self.spec.sparse && values.len() == self.spec.width,
                Cells::Sparse { columns, .. } => {
                    let inside = columns.last().is_none_or(|last| (*last as usize) < self.spec.width);
                    self.spec.sparse && inside && columns.is_sorted_by(|one, other| one < other)
                }
            };
            if !fits {
                return bad(format!("row {} came in another form", row.key));
            }
        }
        Ok(())
    }

    /// Sums up to this message are in every copy that comes from now on.
    fn confirm(&mut self, included: u64) {
        while let Some((number, slot)) = self.unconfirmed.front().copied().filter(|(number, _)| *number <= included) {
            self.unconfirmed.pop_front();
            let entry = &self.entries[slot as usize];
            // The copy that is here may never be read: what it lacks waits for that. But not two sums.
            let mut wait = entry.behind;
            if wait && entry.log.iter().flat_map(|log| &log.parts).any(|part| part.sent == INCLUDED) {
                self.show(slot);
                wait = false;
            }
            if let Some(log) = &mut self.entries[slot as usize].log {
                for part in log.parts.iter_mut().filter(|part| part.sent == number && wait && !part.shown) {
                    part.sent = INCLUDED;
                }
                for part in log.parts.extract_if(.., |part| part.sent == number) {
                    self.spare.put(part.delta);
                }
            }
            self.drop_if_idle(slot);
        }
    }

    fn take_row(&mut self, row: &BatchRow<'_, C>, carried: &[C::Wide], fresh: Clock, included: u64, reply: bool) {
        let wanted = |entry: &Entry<C::Wide>| entry.is_here() || (reply && entry.asked.is_some());
        let slot = self.find(row.key).filter(|slot| wanted(&self.entries[*slot as usize]));
        let Some(slot) = slot else {
            // It was evicted meanwhile, or the push belongs to a subscription that has ended.
            if self.releases {
                self.released.push((row.key, row.version, 1));
            }
            return;
        };
        if self.entries[slot as usize].is_here() {
            self.retire_copy(slot, row.version);
        } else {
            let view = self.views.take();
            let place = self.carried.take();
            debug_assert_eq!(place, view, "what is carried lies in the slot of its view");
            self.entries[slot as usize].view = view;
            self.here += 1;
        }
        let (replays, lazy) = (self.replays(), self.pool.is_none());
        let entry = &mut self.entries[slot as usize];
        (entry.version, entry.fresh) = (row.version, fresh);
        entry.copies += u32::from(self.releases);
        if reply {
            entry.asked = None;
        }
        self.views.set(entry.view, &row.cells);
        self.carried.row_mut(entry.view).copy_from_slice(carried);
        if let Some(log) = entry.log.as_mut().filter(|_| replays) {
            for part in log.parts.extract_if(.., |part| part.sent == INCLUDED) {
                self.spare.put(part.delta);
            }
            for part in log.parts.iter_mut().filter(|part| part.sent == 0 || part.sent > included) {
                part.shown = false;
            }
            entry.behind = log.parts.iter().any(|part| !part.shown);
            self.spare.put_log(entry.tidy());
            if !lazy {
                self.show(slot);
            }
        }
        self.evict();
    }

    /// A copy of `version` replaces the one that is here, which some worker may compute with.
    fn retire_copy(&mut self, slot: u32, version: u64) {
        let entry = &mut self.entries[slot as usize];
        if !(self.carries || self.releases) || entry.version == version {
            return;
        }
        if entry.used_until > self.closed {
            let carried = self.carried.row(entry.view).to_vec();
            let older = Older { version: entry.version, used_until: entry.used_until, copies: entry.copies, carried };
            entry.log.get_or_insert_default().older.push(older);
            self.aging.entry(entry.used_until).or_default().push(slot);
            entry.copies = 0;
        } else {
            self.release_copy(slot);
        }
        self.entries[slot as usize].used_until = Clock::ZERO;
    }

    /// Makes room: takes copies that were not read for a while, until no more are here than may be. Copies that somebody waits for or
    /// computes with stay.
    fn evict(&mut self) {
        let mut looks = 0;
        while self.here > self.spec.cache_rows && looks < LOOKS {
            looks += 1;
            self.hand = (self.hand + 1) % self.entries.len();
            let slot = self.hand as u32;
            if self.may_evict(slot) && !std::mem::take(self.entries[self.hand].referenced.get_mut()) {
                self.drop_copy(slot);
            }
        }
    }

    /// Whether nobody waits for a copy, needs it or computes with it.
    pub(super) fn may_evict(&self, slot: u32) -> bool {
        let entry = &self.entries[slot as usize];
        let in_use = (self.carries || self.releases) && entry.used_until > self.closed;
        entry.is_here() && entry.pins == 0 && entry.asked.is_none() && !entry.leased && !in_use
    }

    /// Takes a copy out of the cache.
    pub(super) fn drop_copy(&mut self, slot: u32) {
        let entry = &mut self.entries[slot as usize];
        let view = std::mem::replace(&mut entry.view, ABSENT);
        entry.behind = false;
        if let Some(log) = &mut entry.log {
            for part in log.parts.extract_if(.., |part| part.sent == INCLUDED) {
                self.spare.put(part.delta);
            }
        }
        if self.spec.delivery == Delivery::Push {
            self.forgotten.push(entry.key);
        }
        self.views.free(view);
        self.carried.free(view);
        self.here -= 1;
        self.release_copy(slot);
        self.drop_if_idle(slot);
    }

    fn wake(&mut self) {
        for worker in 0..self.waits.len() {
            let id = WorkerId::new(worker as u32);
            if self.waits[worker].waiting && self.is_ready(id) {
                self.waits[worker].waiting = false;
                self.woken.push(id);
            }
        }
    }
}
