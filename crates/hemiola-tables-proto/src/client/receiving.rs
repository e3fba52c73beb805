//! Incoming messages of a client.

use super::ShardClient;
use super::entry::{CacheEntry, INCLUDED};
use crate::batch::{BatchRow, RowBatch};
use crate::cells::RowCells;
use crate::clock::Clock;
use crate::dtype::StorageType;
use crate::error::{Error, Result};
use crate::message::ServerMessage;
use crate::server::send_window::window_cost;
use crate::stream::Sequenced;

impl<C: StorageType> ShardClient<C> {
    /// Handles a message of the shard. [`ShardClient::take_ready_workers`] then names the workers
    /// that need not wait any longer.
    pub fn receive(&mut self, message: Sequenced<ServerMessage<C, C::Compute>>) -> Result<()> {
        let bad = |problem: String| Error::BadMessage { table: self.spec.name.clone(), problem };
        if !self.stream.owes_acknowledgement() {
            self.unacknowledged = 0;
        }
        self.stream.accept(message).map_err(bad)?;
        while let Some((_, body)) = self.stream.deliver() {
            match body {
                ServerMessage::Rows { fresh, included, reply, batch, attachment } => {
                    self.check_rows(included, &batch, &attachment)?;
                    self.unacknowledged += window_cost(&batch, &attachment);
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
        self.open_window();
        Ok(())
    }

    /// Acknowledges once a quarter of the shard's send window has arrived. After the end the shard
    /// sends nothing more and may be gone.
    fn open_window(&mut self) {
        if self.unacknowledged >= self.spec.window_bytes / 4 && self.updates.closed != Clock::INFINITE {
            self.unacknowledged = 0;
            self.acknowledge();
        }
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

    fn take_row(&mut self, row: &BatchRow<'_, C>, attachment: &[C::Compute], fresh: Clock, included: u64, reply: bool) {
        let wanted = |entry: &CacheEntry<C::Compute>| entry.is_cached() || (reply && entry.requested.is_some());
        let slot = self.cache.find(row.key).filter(|slot| wanted(&self.cache.entries[*slot as usize]));
        let Some(slot) = slot else {
            // The row was evicted meanwhile, or the push belongs to an ended subscription.
            if self.releases.tracked {
                self.releases.released.push((row.key, row.version, 1));
            }
            return;
        };
        if self.cache.entries[slot as usize].is_cached() {
            self.retire_copy(slot, row.version);
        } else {
            let copy = self.cache.copies.take();
            let attachment_slot = self.cache.attachment.take();
            debug_assert_eq!(attachment_slot, copy, "an attachment has the slot of its copy");
            self.cache.entries[slot as usize].copy_slot = copy;
            self.cache.copy_count += 1;
        }
        let (caches_own_updates, lazy) = (self.caches_own_updates(), self.updates.pool.is_none());
        let entry = &mut self.cache.entries[slot as usize];
        (entry.version, entry.fresh) = (row.version, fresh);
        entry.copies += u32::from(self.releases.tracked);
        if reply {
            entry.requested = None;
        }
        self.cache.copies.set(entry.copy_slot, &row.cells);
        self.cache.attachment.row_mut(entry.copy_slot).copy_from_slice(attachment);
        if let Some(log) = entry.log.as_mut().filter(|_| caches_own_updates) {
            for update in log.pending.extract_if(.., |update| update.sent == INCLUDED) {
                self.updates.free_list.recycle(update.delta);
            }
            for update in log.pending.iter_mut().filter(|update| update.sent == 0 || update.sent > included) {
                update.applied = false;
            }
            entry.needs_apply = log.pending.iter().any(|update| !update.applied);
            self.updates.free_list.recycle_log(entry.take_empty_log());
            if !lazy {
                self.apply_pending(slot);
            }
        }
        self.evict();
    }
}
