//! Incoming messages of a client, and cache eviction.

use super::ShardClient;
use super::entry::{ABSENT, CacheEntry, INCLUDED, SupersededCopy};
use crate::batch::{BatchRow, RowBatch};
use crate::cells::RowCells;
use crate::clock::Clock;
use crate::dtype::StorageType;
use crate::error::{Error, Result};
use crate::message::ServerMessage;
use crate::spec::RowDelivery;
use crate::stream::Sequenced;
use hemiola_core::WorkerId;

/// Maximum number of entries that one eviction looks at.
const EVICTION_PROBES: usize = 128;

impl<C: StorageType> ShardClient<C> {
    /// Handles a message of the shard. [`ShardClient::take_ready_workers`] then names the workers
    /// that need not wait any longer.
    pub fn receive(&mut self, message: Sequenced<ServerMessage<C, C::Compute>>) -> Result<()> {
        let bad = |problem: String| Error::BadMessage { table: self.spec.name.clone(), problem };
        self.stream.accept(message).map_err(bad)?;
        while let Some((_, body)) = self.stream.deliver() {
            match body {
                ServerMessage::Rows { fresh, included, reply, batch, attachment } => {
                    self.check_rows(included, &batch, &attachment)?;
                    self.confirm(included);
                    for (at, row) in batch.iter().enumerate() {
                        let attachment = if self.has_attachments {
                            &attachment[at * self.spec.width..][..self.spec.width]
                        } else {
                            &[]
                        };
                        self.take_row(&row, attachment, fresh, included, reply);
                    }
                    self.fresh = self.fresh.max(fresh);
                    self.wake();
                }
                ServerMessage::Lease { keys } => {
                    self.check_keys(&keys)?;
                    self.accept_leases(&keys);
                }
                ServerMessage::Recall { keys } => {
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

    fn check_rows(&self, included: u64, batch: &RowBatch<C>, attachment: &[C::Compute]) -> Result<()> {
        let bad = |problem: String| Err(Error::BadMessage { table: self.spec.name.clone(), problem });
        if included > self.stream.sent() {
            return bad(format!("message {included} is included, but only {} were sent", self.stream.sent()));
        }
        if attachment.len() != if self.has_attachments { batch.len() * self.spec.width } else { 0 } {
            return bad(format!("{} attachment values arrived for {} rows", attachment.len(), batch.len()));
        }
        for row in batch.iter() {
            self.spec.check_row(row.key)?;
            let fits = match row.cells {
                RowCells::Dense(values) => !self.spec.sparse && values.len() == self.spec.width,
                RowCells::Sparse { columns, .. } => {
                    let inside = columns.last().is_none_or(|last| (*last as usize) < self.spec.width);
                    self.spec.sparse && inside && columns.is_sorted_by(|one, other| one < other)
                }
            };
            if !fits {
                return bad(format!("row {} has the wrong shape", row.key));
            }
        }
        Ok(())
    }

    /// Records that every later copy includes the sums up to this message.
    fn confirm(&mut self, included: u64) {
        while let Some((number, slot)) = self.unconfirmed.front().copied().filter(|(number, _)| *number <= included) {
            self.unconfirmed.pop_front();
            let entry = &self.entries[slot as usize];
            // The current copy may never be read, so what it lacks is applied lazily, but for at
            // most one sum.
            let mut wait = entry.needs_apply;
            if wait && entry.log.iter().flat_map(|log| &log.pending).any(|update| update.sent == INCLUDED) {
                self.apply_pending(slot);
                wait = false;
            }
            if let Some(log) = &mut self.entries[slot as usize].log {
                for update in log.pending.iter_mut().filter(|update| update.sent == number && wait && !update.applied) {
                    update.sent = INCLUDED;
                }
                for update in log.pending.extract_if(.., |update| update.sent == number) {
                    self.free_list.recycle(update.delta);
                }
            }
            self.drop_if_idle(slot);
        }
    }

    fn take_row(&mut self, row: &BatchRow<'_, C>, attachment: &[C::Compute], fresh: Clock, included: u64, reply: bool) {
        let wanted = |entry: &CacheEntry<C::Compute>| entry.is_cached() || (reply && entry.requested.is_some());
        let slot = self.find(row.key).filter(|slot| wanted(&self.entries[*slot as usize]));
        let Some(slot) = slot else {
            // The row was evicted meanwhile, or the push belongs to an ended subscription.
            if self.releases {
                self.released.push((row.key, row.version, 1));
            }
            return;
        };
        if self.entries[slot as usize].is_cached() {
            self.retire_copy(slot, row.version);
        } else {
            let copy = self.copies.take();
            let attachment_slot = self.attachment.take();
            debug_assert_eq!(attachment_slot, copy, "an attachment has the slot of its copy");
            self.entries[slot as usize].copy_slot = copy;
            self.copy_count += 1;
        }
        let (caches_own_updates, lazy) = (self.caches_own_updates(), self.pool.is_none());
        let entry = &mut self.entries[slot as usize];
        (entry.version, entry.fresh) = (row.version, fresh);
        entry.copies += u32::from(self.releases);
        if reply {
            entry.requested = None;
        }
        self.copies.set(entry.copy_slot, &row.cells);
        self.attachment.row_mut(entry.copy_slot).copy_from_slice(attachment);
        if let Some(log) = entry.log.as_mut().filter(|_| caches_own_updates) {
            for update in log.pending.extract_if(.., |update| update.sent == INCLUDED) {
                self.free_list.recycle(update.delta);
            }
            for update in log.pending.iter_mut().filter(|update| update.sent == 0 || update.sent > included) {
                update.applied = false;
            }
            entry.needs_apply = log.pending.iter().any(|update| !update.applied);
            self.free_list.recycle_log(entry.take_empty_log());
            if !lazy {
                self.apply_pending(slot);
            }
        }
        self.evict();
    }

    /// Retires the current copy, which workers may compute with, before a copy of `version`
    /// replaces it.
    fn retire_copy(&mut self, slot: u32, version: u64) {
        let entry = &mut self.entries[slot as usize];
        if !(self.has_attachments || self.releases) || entry.version == version {
            return;
        }
        if entry.used_until > self.closed {
            let attachment = self.attachment.row(entry.copy_slot).to_vec();
            let superseded = SupersededCopy {
                version: entry.version,
                used_until: entry.used_until,
                copies: entry.copies,
                attachment,
            };
            entry.log.get_or_insert_default().superseded.push(superseded);
            self.expiring.entry(entry.used_until).or_default().push(slot);
            entry.copies = 0;
        } else {
            self.release_copy(slot);
        }
        self.entries[slot as usize].used_until = Clock::ZERO;
    }

    /// Evicts copies that were not read for a while (CLOCK), until the cache is within its
    /// capacity. Copies that a worker waits for or computes with stay.
    fn evict(&mut self) {
        let mut probes = 0;
        while self.copy_count > self.spec.cache_rows && probes < EVICTION_PROBES {
            probes += 1;
            self.clock_hand = (self.clock_hand + 1) % self.entries.len();
            let slot = self.clock_hand as u32;
            if self.may_evict(slot) && !std::mem::take(self.entries[self.clock_hand].referenced.get_mut()) {
                self.drop_copy(slot);
            }
        }
    }

    /// Returns true if no worker waits for, needs or computes with the copy.
    pub(super) fn may_evict(&self, slot: u32) -> bool {
        let entry = &self.entries[slot as usize];
        let in_use = (self.has_attachments || self.releases) && entry.used_until > self.closed;
        entry.is_cached() && entry.pins == 0 && entry.requested.is_none() && !entry.leased && !in_use
    }

    /// Removes a copy from the cache.
    pub(super) fn drop_copy(&mut self, slot: u32) {
        let entry = &mut self.entries[slot as usize];
        let copy = std::mem::replace(&mut entry.copy_slot, ABSENT);
        entry.needs_apply = false;
        if let Some(log) = &mut entry.log {
            for update in log.pending.extract_if(.., |update| update.sent == INCLUDED) {
                self.free_list.recycle(update.delta);
            }
        }
        if self.spec.delivery == RowDelivery::Push {
            self.forgotten.push(entry.key);
        }
        self.copies.free(copy);
        self.attachment.free(copy);
        self.copy_count -= 1;
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
