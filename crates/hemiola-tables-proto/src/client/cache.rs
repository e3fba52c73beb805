//! Copies of rows in a client's cache, and their eviction.
//!
//! An entry holds what the client knows about a row; its copy, if there is one, lies in a store of
//! its own. **Invariant:** an entry without information is removed, so the index holds only rows
//! that are cached, requested, pinned, leased or have updates.

use super::ShardClient;
use super::entry::{ABSENT, CacheEntry, INCLUDED};
use crate::dtype::StorageType;
use crate::spec::{RowDelivery, TableSpec};
use crate::store::{KeyIndex, RowSlab, RowStore};

/// Maximum number of entries that one eviction looks at.
const EVICTION_PROBES: usize = 128;

/// Cached copies of a client, by row.
pub(super) struct CopyCache<W: StorageType> {
    pub(super) index: KeyIndex,
    pub(super) entries: Vec<CacheEntry<W>>,
    /// Slots of removed entries.
    pub(super) idle: Vec<u32>,
    pub(super) copies: RowStore<W>,
    /// Attachments of the copies, in the same slots.
    pub(super) attachment: RowSlab<W>,
    /// Scratch row with a worker's own updates added; used under BSP only.
    pub(super) overlay: RowStore<W>,
    /// Number of cached copies.
    pub(super) copy_count: usize,
    /// Hand of the CLOCK eviction: the entry to look at next.
    pub(super) clock_hand: usize,
}

impl<W: StorageType> CopyCache<W> {
    pub(super) fn new(spec: &TableSpec, has_attachments: bool) -> Self {
        let mut overlay = RowStore::new(spec);
        overlay.take();
        Self {
            index: KeyIndex::for_client(spec),
            entries: Vec::new(),
            idle: Vec::new(),
            copies: RowStore::new(spec),
            attachment: RowSlab::new(if has_attachments { spec.width } else { 0 }),
            overlay,
            copy_count: 0,
            clock_hand: 0,
        }
    }

    pub(super) fn find(&self, key: u64) -> Option<u32> {
        self.index.find(key, |slot| self.entries[slot as usize].key)
    }

    pub(super) fn ensure(&mut self, key: u64) -> u32 {
        if let Some(slot) = self.find(key) {
            return slot;
        }
        let slot = self.idle.pop().unwrap_or_else(|| {
            self.entries.push(CacheEntry::new(key));
            (self.entries.len() - 1) as u32
        });
        self.entries[slot as usize] = CacheEntry::new(key);
        self.index.insert(key, slot, |slot| self.entries[slot as usize].key);
        slot
    }
}

impl<C: StorageType> ShardClient<C> {
    /// Removes the entry of a row that holds no information.
    pub(super) fn drop_if_idle(&mut self, slot: u32) {
        let entry = &mut self.cache.entries[slot as usize];
        self.updates.free_list.recycle_log(entry.take_empty_log());
        if entry.is_idle()
            && self.cache.index.find(entry.key, |slot| self.cache.entries[slot as usize].key) == Some(slot)
        {
            let key = self.cache.entries[slot as usize].key;
            self.cache.index.remove(key, |slot| self.cache.entries[slot as usize].key);
            self.cache.idle.push(slot);
        }
    }

    /// Evicts copies that were not read for a while (CLOCK), until the cache is within its
    /// capacity. Copies that a worker waits for or computes with stay.
    pub(super) fn evict(&mut self) {
        let mut probes = 0;
        while self.cache.copy_count > self.spec.cache_rows && probes < EVICTION_PROBES {
            probes += 1;
            self.cache.clock_hand = (self.cache.clock_hand + 1) % self.cache.entries.len();
            let slot = self.cache.clock_hand as u32;
            if self.may_evict(slot) && !std::mem::take(self.cache.entries[self.cache.clock_hand].referenced.get_mut()) {
                self.drop_copy(slot);
            }
        }
    }

    /// Returns true if no worker waits for, needs or computes with the copy.
    pub(super) fn may_evict(&self, slot: u32) -> bool {
        let entry = &self.cache.entries[slot as usize];
        let in_use = (self.has_attachments || self.releases.tracked) && entry.used_until > self.updates.closed;
        entry.is_cached() && entry.pins == 0 && entry.requested.is_none() && !entry.leased && !in_use
    }

    /// Removes a copy from the cache.
    pub(super) fn drop_copy(&mut self, slot: u32) {
        let entry = &mut self.cache.entries[slot as usize];
        let copy = std::mem::replace(&mut entry.copy_slot, ABSENT);
        entry.needs_apply = false;
        if let Some(log) = &mut entry.log {
            for update in log.pending.extract_if(.., |update| update.sent == INCLUDED) {
                self.updates.free_list.recycle(update.delta);
            }
        }
        if self.spec.delivery == RowDelivery::Push {
            self.releases.forgotten.push(entry.key);
        }
        self.cache.copies.free(copy);
        self.cache.attachment.free(copy);
        self.cache.copy_count -= 1;
        self.release_copy(slot);
        self.drop_if_idle(slot);
    }

    /// Drops all copies when no worker reads any more; copies still on their way will be ignored.
    pub(super) fn drop_all_copies(&mut self) {
        self.updates.unconfirmed.clear();
        for slot in 0..self.cache.entries.len() as u32 {
            self.release_copy(slot);
            let entry = &mut self.cache.entries[slot as usize];
            (entry.requested, entry.log) = (None, None);
            if entry.is_cached() {
                let copy = std::mem::replace(&mut entry.copy_slot, ABSENT);
                self.cache.copies.free(copy);
                self.cache.attachment.free(copy);
                self.cache.copy_count -= 1;
            }
            self.drop_if_idle(slot);
        }
    }
}
