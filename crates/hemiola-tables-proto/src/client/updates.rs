//! Updates of a client that its shard does not have, or not for certain.
//!
//! Updates are summed by row, clock and version. A sum is *open* until it is sent; if copies
//! include the peer's own updates, it is then kept until a copy includes it ("Read-your-writes" in
//! the README).

use super::ShardClient;
use super::entry::{INCLUDED, PendingUpdate, UpdateFreeList};
use crate::cells::RowCells;
use crate::clock::Clock;
use crate::dtype::{ComputeType, StorageType};
use crate::error::{Error, Result};
use crate::priority::CandidatePool;
use crate::spec::{Consistency, NonFinitePolicy, TableSpec};
use hemiola_core::WorkerId;
use std::collections::{BTreeMap, VecDeque};
use std::vec::IntoIter;

/// Sums of a client that are not sent or not confirmed.
pub(super) struct UpdateBuffer<W: ComputeType> {
    /// Slots with open sums, by clock. May name a row twice, or one without open sums.
    pub(super) open: BTreeMap<Clock, Vec<u32>>,
    /// All sums of earlier clocks have been sent.
    pub(super) closed: Clock,
    /// Clock that all workers have reached, while sums that must precede its announcement are still
    /// unsent.
    pub(super) closing: Option<Clock>,
    /// Clock whose sums are being sent, and the rows that remain.
    pub(super) flushing: (Clock, IntoIter<u32>),
    /// Sums that were sent and are not known to be included: message number and slot.
    pub(super) unconfirmed: VecDeque<(u64, u32)>,
    /// Rows with open sums that may be sent eagerly.
    pub(super) pool: Option<CandidatePool>,
    /// Approximate size of a row's sums in a message.
    pub(super) row_bytes: usize,
    /// Number of updates dropped because they were not finite.
    pub(super) dropped: u64,
    pub(super) free_list: UpdateFreeList<W>,
}

impl<W: ComputeType> UpdateBuffer<W> {
    pub(super) fn new(spec: &TableSpec, start: Clock) -> Self {
        let eager = spec.comm_policy.filter(|_| spec.consistency != Consistency::Bsp);
        Self {
            open: BTreeMap::new(),
            closed: start,
            closing: None,
            flushing: (Clock::ZERO, Vec::new().into_iter()),
            unconfirmed: VecDeque::new(),
            pool: eager.map(CandidatePool::new),
            row_bytes: 32,
            dropped: 0,
            free_list: UpdateFreeList::default(),
        }
    }
}

impl<C: StorageType> ShardClient<C> {
    /// Adds to a row. `seen` is the version that the update was computed from; only rules with
    /// versions use it.
    pub fn update(&mut self, worker: WorkerId, key: u64, cells: &RowCells<'_, C::Compute>, seen: u64) -> Result<()> {
        let clock = self.clock_of(worker)?;
        self.spec.check_row(key)?;
        self.spec.check_cells(key, cells)?;
        if let Some(column) = cells.not_finite() {
            if self.spec.non_finite == NonFinitePolicy::Drop {
                self.updates.dropped += 1;
                return Ok(());
            }
            return Err(self.spec.not_finite(key, column, worker, self.id));
        }
        let slot = self.cache.ensure(key);
        let version = if self.versioned() { seen } else { 0 };
        let writer = if self.separates_workers() { worker.index() as u32 } else { 0 };
        let same = |update: &&mut PendingUpdate<C::Compute>| {
            update.sent == 0 && update.clock == clock && update.version == version && update.writer == writer
        };
        let (width, sparse) = (self.spec.width, self.spec.sparse);
        let entry = &mut self.cache.entries[slot as usize];
        let pending = entry.log.as_mut().map(|log| &mut log.pending);
        let applied = if let Some(update) = pending.and_then(|pending| pending.iter_mut().rev().find(same)) {
            update.delta.add(cells, width, sparse);
            update.applied
        } else {
            self.begin_update(slot, clock, version, writer, cells)?;
            self.updates.pool.is_some()
        };
        let caches_own_updates = self.caches_own_updates();
        let entry = &mut self.cache.entries[slot as usize];
        if let (Some(comm_policy), Some(pool), false) = (self.spec.comm_policy, &mut self.updates.pool, entry.leased) {
            let copy = entry.is_cached().then(|| self.cache.copies.cells(entry.copy_slot));
            let importance = comm_policy.priority.importance(cells, |column| copy.and_then(|copy| copy.get(column)));
            entry.log.get_or_insert_default().importance += importance;
            pool.insert(slot);
        }
        if caches_own_updates && entry.is_cached() {
            if applied {
                self.cache.copies.add(entry.copy_slot, cells, self.local_apply.factor(), key, 0);
            } else {
                entry.needs_apply = true;
            }
        }
        Ok(())
    }

    /// Adds the pending updates that a copy lacks.
    pub(super) fn apply_pending(&mut self, slot: u32) {
        let entry = &mut self.cache.entries[slot as usize];
        if !std::mem::take(&mut entry.needs_apply) {
            return;
        }
        let log = entry.log.as_mut().expect("updates that a copy lacks are in the log");
        for update in log.pending.iter_mut().filter(|update| !update.applied) {
            self.cache.copies.add(entry.copy_slot, &update.delta.cells(), self.local_apply.factor(), entry.key, 0);
            update.applied = true;
        }
        for update in log.pending.extract_if(.., |update| update.sent == INCLUDED) {
            self.updates.free_list.recycle(update.delta);
        }
        self.updates.free_list.recycle_log(entry.take_empty_log());
    }

    pub(super) fn begin_update(
        &mut self,
        slot: u32,
        clock: Clock,
        version: u64,
        writer: u32,
        cells: &RowCells<'_, C::Compute>,
    ) -> Result<()> {
        let attachment = if self.versioned() { self.attachment_of(slot, version) } else { Ok(Vec::new()) };
        let attachment = attachment.inspect_err(|_| self.drop_if_idle(slot))?;
        let log = self.cache.entries[slot as usize].log.get_or_insert_with(|| self.updates.free_list.log());
        if !log.pending.iter().any(|update| update.sent == 0 && update.clock == clock) {
            self.updates.open.entry(clock).or_default().push(slot);
        }
        let applied = self.updates.pool.is_some();
        log.pending.push(PendingUpdate {
            clock,
            version,
            writer,
            sent: 0,
            applied,
            delta: self.updates.free_list.delta(cells),
            attachment,
        });
        Ok(())
    }

    /// Attachment of a version of a row; an error if that version is not kept.
    pub(super) fn attachment_of(&self, slot: u32, version: u64) -> Result<Vec<C::Compute>> {
        let entry = &self.cache.entries[slot as usize];
        if entry.is_cached() && entry.version == version {
            return Ok(self.cache.attachment.row(entry.copy_slot).to_vec());
        }
        let superseded =
            entry.log.iter().flat_map(|log| &log.superseded).find(|superseded| superseded.version == version);
        match superseded {
            Some(superseded) => Ok(superseded.attachment.clone()),
            // Nothing was applied to version 0, so its attachment is zero.
            None if version == 0 => Ok(vec![C::Compute::ZERO; self.cache.attachment.width()]),
            None => Err(Error::UnknownVersion { table: self.spec.name.clone(), row: entry.key, version }),
        }
    }

    /// Records that every later copy includes the sums up to this message.
    pub(super) fn confirm(&mut self, included: u64) {
        while let Some((number, slot)) =
            self.updates.unconfirmed.front().copied().filter(|(number, _)| *number <= included)
        {
            self.updates.unconfirmed.pop_front();
            let entry = &self.cache.entries[slot as usize];
            // The current copy may never be read, so what it lacks is applied lazily, but for at
            // most one sum.
            let mut wait = entry.needs_apply;
            if wait && entry.log.iter().flat_map(|log| &log.pending).any(|update| update.sent == INCLUDED) {
                self.apply_pending(slot);
                wait = false;
            }
            if let Some(log) = &mut self.cache.entries[slot as usize].log {
                for update in log.pending.iter_mut().filter(|update| update.sent == number && wait && !update.applied) {
                    update.sent = INCLUDED;
                }
                for update in log.pending.extract_if(.., |update| update.sent == number) {
                    self.updates.free_list.recycle(update.delta);
                }
            }
            self.drop_if_idle(slot);
        }
    }

    /// Number of updates dropped because they were not finite.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.updates.dropped
    }
}
