//! Client of one shard: the row cache that the workers of one peer share, and their pending
//! updates.
//!
//! A read is served from the cache if the copy is fresh enough for the worker; otherwise the worker
//! [fetches](ShardClient::fetch) the row and waits. Updates are summed by row and clock. They are
//! sent when the slowest worker of the peer closes the clock, or eagerly if the rate limiter
//! allows. A peer has one client for each shard of a table, so clients share nothing and each has
//! its own lock.
//!
//! **Read-your-writes.** A cached copy is the row *including this peer's own updates*. When a newer
//! copy arrives, it replaces the old one, and the updates that it does not include (those after its
//! `included` sequence number) are added again. A number that is included once is included in every
//! later copy, because messages are in order; so the sums kept for this purpose can be dropped.
//! This work is deferred until the row is read, so a copy that is replaced unread costs nothing. In
//! tables whose rows are only added to, most copies are replaced unread. A sum that the copy lacks
//! is kept even if it is included, at most one per row. Under BSP workers must not see each other's
//! updates of the current clock, so the cache holds the bare row and a worker's own sums are added
//! on read. If only the update rule knows the effect of an update, nothing is added and the cache
//! is read-only.
//!
//! **Invariants**
//! 1. A read at clock `c` sees every update of clocks before `c - staleness`, and all of the
//!    worker's own updates.
//! 2. Sums are sent in clock order, each exactly once, before the message that closes their clock;
//!    those of leased rows are sent before the lease is returned. Eviction drops copies, never
//!    sums.
//! 3. With push delivery, a cached copy is subscribed to from the arrival of its reply on. A push
//!    that arrives while the row is requested again belongs to an older subscription and misses
//!    later changes; it is dropped.
//! 4. A request carries the need of the peer's *slowest* worker. With that of the requesting
//!    worker, a slower worker that needs the same row would wait for a clock that waits for it.
//!    With pull delivery each need has its own request.
//! 5. In a table with versions, the version that an update was computed from is kept, here and at
//!    the shard, until all workers have left the clock in which it was read. An update belongs to
//!    the clock in which its row was read.
//!
//! | file | concept |
//! |---|---|
//! | `entry` | cache entry of a row |
//! | `intents` | intents of workers, and rows leased to this peer |
//! | `sending` | outgoing messages: sums, requests, clocks, releases |
//! | `receiving` | incoming rows, and eviction |

mod entry;
mod intents;
mod receiving;
mod sending;

use crate::cells::RowCells;
use crate::clock::{Clock, VectorClock};
use crate::dtype::{ComputeType, StorageType};
use crate::error::{Error, Result};
use crate::message::{ClientMessage, ServerMessage};
use crate::priority::CandidatePool;
use crate::spec::{ClientId, Consistency, NonFinitePolicy, RowDelivery, ShardId, TableSpec};
use crate::store::{KeyIndex, RowSlab, RowStore};
use crate::stream::{OrderedStream, Sequenced};
use crate::update_rule::{LocalApply, UpdateRule};
use entry::{CacheEntry, INCLUDED, PendingUpdate, UpdateFreeList};
use hemiola_core::WorkerId;
use intents::IntentQueue;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::vec::IntoIter;

/// Outgoing message of a client.
#[derive(Debug)]
pub struct ClientOutgoing<W: StorageType> {
    /// Message with its sequence number.
    pub message: Sequenced<ClientMessage<W>>,
    /// The message is urgent: a worker or a clock waits for it. Others are already charged to the
    /// rate limiter.
    pub urgent: bool,
}

/// Row as a worker reads it from the cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CachedRow<'a, W> {
    /// Cells of the row.
    pub cells: RowCells<'a, W>,
    /// Version of the row, to be passed with updates that are computed from it.
    pub version: u64,
}

/// Rows that a worker waits for.
#[derive(Debug)]
struct RowWait {
    need: Clock,
    slots: Vec<u32>,
    /// Number of leading slots that are known to be cached and fresh.
    ready_prefix: usize,
    waiting: bool,
}

/// Client of one shard: cache and pending updates of one peer.
pub struct ShardClient<C: StorageType> {
    spec: Arc<TableSpec>,
    id: ClientId,
    shard: ShardId,
    local_apply: LocalApply<C::Compute>,
    /// Rows arrive with attachments that updates return.
    has_attachments: bool,
    /// The shard must be told which copies are released.
    releases: bool,
    /// Clocks of the peer's workers.
    clocks: VectorClock,
    stream: OrderedStream<ServerMessage<C, C::Compute>>,
    /// Every pushed copy includes the updates of earlier clocks.
    fresh: Clock,
    index: KeyIndex,
    entries: Vec<CacheEntry<C::Compute>>,
    idle: Vec<u32>,
    copies: RowStore<C::Compute>,
    /// Attachments of the copies, in the same slots.
    attachment: RowSlab<C::Compute>,
    /// Scratch row with a worker's own updates added; used under BSP only.
    overlay: RowStore<C::Compute>,
    /// Slots with open sums, by clock. May name a row twice, or one without open sums.
    open: BTreeMap<Clock, Vec<u32>>,
    /// All sums of earlier clocks have been sent.
    closed: Clock,
    /// Clock that all workers have reached, while sums that must precede its announcement are still
    /// unsent.
    closing: Option<Clock>,
    /// Clock whose sums are being sent, and the rows that remain.
    flushing: (Clock, IntoIter<u32>),
    /// Sums that were sent and are not known to be included: message number and slot.
    unconfirmed: VecDeque<(u64, u32)>,
    /// Rows with superseded copies, by the clock at which they expire.
    expiring: BTreeMap<Clock, Vec<u32>>,
    /// Rows with open sums that may be sent eagerly.
    pool: Option<CandidatePool>,
    waits: Vec<RowWait>,
    woken: Vec<WorkerId>,
    /// Approximate size of a row's sums in a message.
    row_bytes: usize,
    /// Number of cached copies.
    copy_count: usize,
    /// Hand of the CLOCK eviction: the entry to look at next.
    clock_hand: usize,
    forgotten: Vec<u64>,
    released: Vec<(u64, u64, u32)>,
    intents: IntentQueue,
    /// Number of updates dropped because they were not finite.
    dropped: u64,
    free_list: UpdateFreeList<C::Compute>,
    out: Vec<ClientOutgoing<C::Compute>>,
}

impl<C: StorageType> fmt::Debug for ShardClient<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = &self.spec.name;
        formatter.debug_struct("ShardClient").field("table", table).field("shard", &self.shard).finish_non_exhaustive()
    }
}

impl<C: StorageType> ShardClient<C> {
    /// Creates an empty cache for `workers` workers that begin at the same clock. The rule must
    /// equal that of the shard.
    ///
    /// # Panics
    /// If there are no workers.
    #[must_use]
    pub fn new(
        spec: Arc<TableSpec>,
        id: ClientId,
        shard: ShardId,
        rule: &dyn UpdateRule<C::Compute>,
        workers: usize,
        start: Clock,
    ) -> Self {
        assert!(workers > 0, "a client needs at least one worker");
        let has_attachments = !rule.attachment(&vec![C::Compute::ZERO; rule.state_width(spec.width)]).is_empty();
        let mut overlay = RowStore::new(&spec);
        overlay.take();
        let bsp = spec.consistency == Consistency::Bsp;
        let wait = || RowWait { need: Clock::ZERO, slots: Vec::new(), ready_prefix: 0, waiting: false };
        Self {
            local_apply: rule.local_apply(),
            has_attachments,
            releases: rule.tracks_copies(),
            clocks: VectorClock::new(workers, start),
            stream: OrderedStream::default(),
            fresh: start,
            index: KeyIndex::for_client(&spec),
            entries: Vec::new(),
            idle: Vec::new(),
            copies: RowStore::new(&spec),
            attachment: RowSlab::new(if has_attachments { spec.width } else { 0 }),
            overlay,
            open: BTreeMap::new(),
            closed: start,
            closing: None,
            flushing: (Clock::ZERO, Vec::new().into_iter()),
            unconfirmed: VecDeque::new(),
            expiring: BTreeMap::new(),
            pool: spec.comm_policy.filter(|_| !bsp).map(CandidatePool::new),
            waits: (0..workers).map(|_| wait()).collect(),
            woken: Vec::new(),
            row_bytes: 32,
            copy_count: 0,
            clock_hand: 0,
            forgotten: Vec::new(),
            released: Vec::new(),
            intents: IntentQueue::default(),
            dropped: 0,
            free_list: UpdateFreeList::default(),
            out: Vec::new(),
            spec,
            id,
            shard,
        }
    }

    fn clock_of(&self, worker: WorkerId) -> Result<Clock> {
        match self.clocks.clock_of(worker.index()) {
            Clock::INFINITE => Err(Error::Finished { table: self.spec.name.clone(), worker }),
            clock => Ok(clock),
        }
    }

    fn find(&self, key: u64) -> Option<u32> {
        self.index.find(key, |slot| self.entries[slot as usize].key)
    }

    fn ensure(&mut self, key: u64) -> u32 {
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

    /// Removes the entry of a row that holds no information.
    fn drop_if_idle(&mut self, slot: u32) {
        let entry = &mut self.entries[slot as usize];
        self.free_list.recycle_log(entry.take_empty_log());
        if entry.is_idle() && self.index.find(entry.key, |slot| self.entries[slot as usize].key) == Some(slot) {
            let key = self.entries[slot as usize].key;
            self.index.remove(key, |slot| self.entries[slot as usize].key);
            self.idle.push(slot);
        }
    }

    fn readable(&self, slot: u32, need: Clock) -> bool {
        let entry = &self.entries[slot as usize];
        entry.is_cached() && need <= if self.spec.delivery == RowDelivery::Push { self.fresh } else { entry.fresh }
    }

    fn need(&self, clock: Clock) -> Clock {
        clock.saturating_sub(self.spec.consistency.staleness())
    }

    /// Returns true if updates of different versions are kept apart.
    fn versioned(&self) -> bool {
        self.has_attachments || self.releases
    }

    /// Returns true if each worker's updates are kept apart.
    fn separates_workers(&self) -> bool {
        self.spec.consistency == Consistency::Bsp
    }

    /// Returns true if a worker sees its own updates before the shard has applied them.
    fn reads_own_updates(&self) -> bool {
        self.local_apply != LocalApply::Never
    }

    /// Returns true if cached copies include this peer's own updates.
    fn caches_own_updates(&self) -> bool {
        !self.separates_workers() && self.reads_own_updates()
    }

    /// Reads a row like [`get`](Self::get), but without changing the client. Returns `None` if the
    /// row is not cached, is not fresh enough, or if the read must be recorded.
    pub fn peek(&self, worker: WorkerId, key: u64) -> Result<Option<CachedRow<'_, C::Compute>>> {
        let clock = self.clock_of(worker)?;
        let Some(slot) = self.find(key).filter(|slot| self.readable(*slot, self.need(clock))) else {
            self.spec.check_row(key)?;
            return Ok(None);
        };
        let entry = &self.entries[slot as usize];
        if self.versioned()
            || entry.needs_apply
            || (entry.log.is_some() && self.separates_workers() && self.reads_own_updates())
        {
            return Ok(None);
        }
        if !entry.referenced.load(Ordering::Relaxed) {
            // A hint for the eviction, which holds the only reference when it reads the bit.
            entry.referenced.store(true, Ordering::Relaxed);
        }
        Ok(Some(CachedRow { cells: self.copies.cells(entry.copy_slot), version: entry.version }))
    }

    /// Returns the row if it is cached and fresh enough for this worker. Sends nothing; see
    /// [`ShardClient::fetch`].
    pub fn get(&mut self, worker: WorkerId, key: u64) -> Result<Option<CachedRow<'_, C::Compute>>> {
        let clock = self.clock_of(worker)?;
        let Some(slot) = self.find(key).filter(|slot| self.readable(*slot, self.need(clock))) else {
            self.spec.check_row(key)?;
            return Ok(None);
        };
        let overlaid = self.separates_workers() && self.reads_own_updates();
        self.apply_pending(slot);
        let entry = &mut self.entries[slot as usize];
        *entry.referenced.get_mut() = true;
        entry.used_until = entry.used_until.max(clock.next());
        let mut cells = self.copies.cells(entry.copy_slot);
        if let Some(log) = entry.log.as_ref().filter(|_| overlaid) {
            let mine = |update: &&PendingUpdate<C::Compute>| {
                update.writer == worker.index() as u32 && update.clock == clock && update.sent == 0
            };
            if let Some(update) = log.pending.iter().find(mine) {
                self.overlay.set(0, &cells);
                self.overlay.add(0, &update.delta.cells(), self.local_apply.factor(), key, 0);
                cells = self.overlay.cells(0);
            }
        }
        Ok(Some(CachedRow { cells, version: entry.version }))
    }

    /// Requests rows that this worker will [`get`](ShardClient::get). Returns true if all are
    /// cached and fresh enough; otherwise [`take_ready_workers`](ShardClient::take_ready_workers)
    /// names the worker once they are. The rows stay cached until the worker fetches others or ends
    /// its clock.
    pub fn fetch(&mut self, worker: WorkerId, keys: &[u64]) -> Result<bool> {
        let clock = self.clock_of(worker)?;
        for key in keys {
            self.spec.check_row(*key)?;
        }
        let need = self.need(clock);
        // Invariant 4 of the module.
        let request = if self.spec.delivery == RowDelivery::Push { self.need(self.clocks.min()) } else { need };
        let slots: Vec<u32> = keys.iter().map(|key| self.ensure(*key)).collect();
        let mut missing = Vec::new();
        for slot in &slots {
            self.entries[*slot as usize].pins += 1;
            let here = self.readable(*slot, need);
            let entry = &mut self.entries[*slot as usize];
            let ask = match self.spec.delivery {
                RowDelivery::Push => !entry.is_cached() && entry.requested.is_none(),
                // The reply to a request with another need may come too early or too late for this
                // worker.
                RowDelivery::Pull => !here && entry.requested != Some(request),
            };
            if ask {
                entry.requested = Some(request);
                missing.push(entry.key);
            }
        }
        self.unpin(worker);
        self.waits[worker.index()] = RowWait { need, slots, ready_prefix: 0, waiting: false };
        if !missing.is_empty() {
            self.send_forgotten();
            self.request(request, missing);
        }
        let ready = self.is_ready(worker);
        self.waits[worker.index()].waiting = !ready;
        Ok(ready)
    }

    /// Returns true if all rows that a worker fetched are cached and fresh enough.
    fn is_ready(&mut self, worker: WorkerId) -> bool {
        let RowWait { need, mut ready_prefix, .. } = self.waits[worker.index()];
        let slots = std::mem::take(&mut self.waits[worker.index()].slots);
        while slots.get(ready_prefix).is_some_and(|slot| self.readable(*slot, need)) {
            ready_prefix += 1;
        }
        let ready = ready_prefix == slots.len();
        let wait = &mut self.waits[worker.index()];
        (wait.slots, wait.ready_prefix) = (slots, ready_prefix);
        ready
    }

    fn unpin(&mut self, worker: WorkerId) {
        self.waits[worker.index()].waiting = false;
        for slot in std::mem::take(&mut self.waits[worker.index()].slots) {
            self.entries[slot as usize].pins -= 1;
            self.drop_if_idle(slot);
        }
    }

    /// Adds to a row. `seen` is the version that the update was computed from; only rules with
    /// versions use it.
    pub fn update(&mut self, worker: WorkerId, key: u64, cells: &RowCells<'_, C::Compute>, seen: u64) -> Result<()> {
        let clock = self.clock_of(worker)?;
        self.spec.check_row(key)?;
        self.spec.check_cells(key, cells)?;
        if let Some(column) = cells.not_finite() {
            if self.spec.non_finite == NonFinitePolicy::Drop {
                self.dropped += 1;
                return Ok(());
            }
            return Err(self.spec.not_finite(key, column, worker, self.id));
        }
        let slot = self.ensure(key);
        let version = if self.versioned() { seen } else { 0 };
        let writer = if self.separates_workers() { worker.index() as u32 } else { 0 };
        let same = |update: &&mut PendingUpdate<C::Compute>| {
            update.sent == 0 && update.clock == clock && update.version == version && update.writer == writer
        };
        let (width, sparse) = (self.spec.width, self.spec.sparse);
        let entry = &mut self.entries[slot as usize];
        let pending = entry.log.as_mut().map(|log| &mut log.pending);
        let applied = if let Some(update) = pending.and_then(|pending| pending.iter_mut().rev().find(same)) {
            update.delta.add(cells, width, sparse);
            update.applied
        } else {
            self.begin_update(slot, clock, version, writer, cells)?;
            self.pool.is_some()
        };
        let caches_own_updates = self.caches_own_updates();
        let entry = &mut self.entries[slot as usize];
        if let (Some(comm_policy), Some(pool), false) = (self.spec.comm_policy, &mut self.pool, entry.leased) {
            let copy = entry.is_cached().then(|| self.copies.cells(entry.copy_slot));
            let importance = comm_policy.priority.importance(cells, |column| copy.and_then(|copy| copy.get(column)));
            entry.log.get_or_insert_default().importance += importance;
            pool.insert(slot);
        }
        if caches_own_updates && entry.is_cached() {
            if applied {
                self.copies.add(entry.copy_slot, cells, self.local_apply.factor(), key, 0);
            } else {
                entry.needs_apply = true;
            }
        }
        Ok(())
    }

    /// Adds the pending updates that a copy lacks.
    fn apply_pending(&mut self, slot: u32) {
        let entry = &mut self.entries[slot as usize];
        if !std::mem::take(&mut entry.needs_apply) {
            return;
        }
        let log = entry.log.as_mut().expect("updates that a copy lacks are in the log");
        for update in log.pending.iter_mut().filter(|update| !update.applied) {
            self.copies.add(entry.copy_slot, &update.delta.cells(), self.local_apply.factor(), entry.key, 0);
            update.applied = true;
        }
        for update in log.pending.extract_if(.., |update| update.sent == INCLUDED) {
            self.free_list.recycle(update.delta);
        }
        self.free_list.recycle_log(entry.take_empty_log());
    }

    fn begin_update(
        &mut self,
        slot: u32,
        clock: Clock,
        version: u64,
        writer: u32,
        cells: &RowCells<'_, C::Compute>,
    ) -> Result<()> {
        let attachment = if self.versioned() { self.attachment_of(slot, version) } else { Ok(Vec::new()) };
        let attachment = attachment.inspect_err(|_| self.drop_if_idle(slot))?;
        let log = self.entries[slot as usize].log.get_or_insert_with(|| self.free_list.log());
        if !log.pending.iter().any(|update| update.sent == 0 && update.clock == clock) {
            self.open.entry(clock).or_default().push(slot);
        }
        let applied = self.pool.is_some();
        log.pending.push(PendingUpdate {
            clock,
            version,
            writer,
            sent: 0,
            applied,
            delta: self.free_list.delta(cells),
            attachment,
        });
        Ok(())
    }

    /// Attachment of a version of a row; an error if that version is not kept.
    fn attachment_of(&self, slot: u32, version: u64) -> Result<Vec<C::Compute>> {
        let entry = &self.entries[slot as usize];
        if entry.is_cached() && entry.version == version {
            return Ok(self.attachment.row(entry.copy_slot).to_vec());
        }
        let superseded =
            entry.log.iter().flat_map(|log| &log.superseded).find(|superseded| superseded.version == version);
        match superseded {
            Some(superseded) => Ok(superseded.attachment.clone()),
            // Nothing was applied to version 0, so its attachment is zero.
            None if version == 0 => Ok(vec![C::Compute::ZERO; self.attachment.width()]),
            None => Err(Error::UnknownVersion { table: self.spec.name.clone(), row: entry.key, version }),
        }
    }

    /// Ends the worker's clock. [`close_some`](Self::close_some) then creates the messages that
    /// this requires.
    pub fn clock(&mut self, worker: WorkerId) -> Result<()> {
        let clock = self.clock_of(worker)?;
        self.advance(worker, clock.next());
        Ok(())
    }

    /// Ends the worker's work. It no longer holds others back.
    pub fn finish(&mut self, worker: WorkerId) -> Result<()> {
        self.clock_of(worker)?;
        self.advance(worker, Clock::INFINITE);
        Ok(())
    }

    fn advance(&mut self, worker: WorkerId, to: Clock) {
        self.unpin(worker);
        let moved = self.clocks.advance(worker.index(), to).expect("the next clock is later than the current one");
        // If an earlier clock is still closing, both close together.
        self.closing = moved.or(self.closing);
    }

    /// Clock of a worker.
    #[must_use]
    pub fn clock_at(&self, worker: WorkerId) -> Clock {
        self.clocks.clock_of(worker.index())
    }

    /// Every pushed copy includes the updates of clocks before this one.
    #[must_use]
    pub fn fresh(&self) -> Clock {
        self.fresh
    }

    /// Workers whose wait has ended since the last call.
    #[must_use]
    pub fn take_ready_workers(&mut self) -> Vec<WorkerId> {
        std::mem::take(&mut self.woken)
    }

    /// Messages to be sent, in order.
    #[must_use]
    pub fn take_outgoing(&mut self) -> Vec<ClientOutgoing<C::Compute>> {
        std::mem::take(&mut self.out)
    }

    /// Number of updates dropped because they were not finite.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Number of rows leased to this client.
    #[must_use]
    pub fn leases(&self) -> usize {
        self.entries.iter().filter(|entry| entry.leased).count()
    }

    /// Number of copies in the cache.
    #[must_use]
    pub fn copies(&self) -> usize {
        self.copy_count
    }
}
