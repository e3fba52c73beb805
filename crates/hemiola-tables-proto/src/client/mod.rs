//! Client of one shard: the row cache that the workers of one peer share, and their pending
//! updates.
//!
//! A read is served from the cache if the copy is fresh enough for the worker; otherwise the worker
//! [fetches](ShardClient::fetch) the row and waits. Updates are summed by row and clock. They are
//! sent when the slowest worker of the peer closes the clock, or eagerly if the rate limiter
//! allows. A peer has one client for each shard of a table, so clients share nothing and each has
//! its own lock.
//!
//! **Read-your-writes** (section of that name in the README of this crate). A cached copy is the
//! row *including this peer's own updates*; those that a newer copy lacks are added again. This is
//! deferred until the row is read, so a copy that is replaced unread costs nothing. In tables whose
//! rows are only added to, most copies are replaced unread. A sum that the copy lacks is kept even
//! if it is included, at most one per row. Under BSP the cache holds the bare row, and a worker's
//! own sums are added on read.
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
//! 4. A request carries the need of the peer's *slowest* worker; with pull delivery each need has
//!    its own request ("Freshness" in the README).
//! 5. In a table with versions, the version that an update was computed from is kept, here and at
//!    the shard, until all workers have left the clock in which it was read. An update belongs to
//!    the clock in which its row was read.
//!
//! | file | concept |
//! |---|---|
//! | `cache` | copies of rows, and their eviction |
//! | `entry` | cache entry of a row |
//! | `updates` | sums of updates that the shard does not have, or not for certain |
//! | `waits` | rows that workers wait for |
//! | `releases` | superseded copies, and what the shard must be told of dropped ones |
//! | `intents` | intents of workers, and rows leased to this peer |
//! | `sending` | outgoing messages: sums, requests, clocks, releases |
//! | `receiving` | incoming messages |

mod cache;
mod entry;
mod intents;
mod receiving;
mod releases;
mod sending;
mod updates;
mod waits;

use crate::cells::RowCells;
use crate::clock::{Clock, VectorClock};
use crate::dtype::{ComputeType, StorageType};
use crate::error::{Error, Result};
use crate::message::{ClientMessage, ServerMessage};
use crate::spec::{ClientId, Consistency, RowDelivery, ShardId, TableSpec};
use crate::stream::{OrderedStream, Sequenced};
use crate::update_rule::{LocalApply, UpdateRule};
use cache::CopyCache;
use entry::PendingUpdate;
use hemiola_core::WorkerId;
use intents::IntentQueue;
use releases::CopyReleases;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use updates::UpdateBuffer;
use waits::RowWaits;

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

/// Client of one shard: cache and pending updates of one peer.
pub struct ShardClient<C: StorageType> {
    spec: Arc<TableSpec>,
    id: ClientId,
    shard: ShardId,
    local_apply: LocalApply<C::Compute>,
    /// Rows arrive with attachments that updates return.
    has_attachments: bool,
    /// Clocks of the peer's workers.
    clocks: VectorClock,
    stream: OrderedStream<ServerMessage<C, C::Compute>>,
    /// Every pushed copy includes the updates of earlier clocks.
    fresh: Clock,
    cache: CopyCache<C::Compute>,
    updates: UpdateBuffer<C::Compute>,
    waits: RowWaits,
    releases: CopyReleases,
    intents: IntentQueue,
    /// Size of the rows that arrived since the last acknowledgement.
    unacknowledged: usize,
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
        Self {
            local_apply: rule.local_apply(),
            has_attachments,
            clocks: VectorClock::new(workers, start),
            stream: OrderedStream::default(),
            fresh: start,
            cache: CopyCache::new(&spec, has_attachments),
            updates: UpdateBuffer::new(&spec, start),
            waits: RowWaits::new(workers),
            releases: CopyReleases::new(rule.tracks_copies()),
            intents: IntentQueue::default(),
            unacknowledged: 0,
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

    fn readable(&self, slot: u32, need: Clock) -> bool {
        let entry = &self.cache.entries[slot as usize];
        entry.is_cached() && need <= if self.spec.delivery == RowDelivery::Push { self.fresh } else { entry.fresh }
    }

    fn need(&self, clock: Clock) -> Clock {
        clock.saturating_sub(self.spec.consistency.staleness())
    }

    /// Returns true if updates of different versions are kept apart.
    fn versioned(&self) -> bool {
        self.has_attachments || self.releases.tracked
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
        let Some(slot) = self.cache.find(key).filter(|slot| self.readable(*slot, self.need(clock))) else {
            self.spec.check_row(key)?;
            return Ok(None);
        };
        let entry = &self.cache.entries[slot as usize];
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
        Ok(Some(CachedRow { cells: self.cache.copies.cells(entry.copy_slot), version: entry.version }))
    }

    /// Returns the row if it is cached and fresh enough for this worker. Sends nothing; see
    /// [`ShardClient::fetch`].
    pub fn get(&mut self, worker: WorkerId, key: u64) -> Result<Option<CachedRow<'_, C::Compute>>> {
        let clock = self.clock_of(worker)?;
        let Some(slot) = self.cache.find(key).filter(|slot| self.readable(*slot, self.need(clock))) else {
            self.spec.check_row(key)?;
            return Ok(None);
        };
        let overlaid = self.separates_workers() && self.reads_own_updates();
        self.apply_pending(slot);
        let entry = &mut self.cache.entries[slot as usize];
        *entry.referenced.get_mut() = true;
        entry.used_until = entry.used_until.max(clock.next());
        let mut cells = self.cache.copies.cells(entry.copy_slot);
        if let Some(log) = entry.log.as_ref().filter(|_| overlaid) {
            let mine = |update: &&PendingUpdate<C::Compute>| {
                update.writer == worker.index() as u32 && update.clock == clock && update.sent == 0
            };
            if let Some(update) = log.pending.iter().find(mine) {
                self.cache.overlay.set(0, &cells);
                self.cache.overlay.add(0, &update.delta.cells(), self.local_apply.factor(), key, 0);
                cells = self.cache.overlay.cells(0);
            }
        }
        Ok(Some(CachedRow { cells, version: entry.version }))
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
        self.updates.closing = moved.or(self.updates.closing);
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

    /// Messages to be sent, in order.
    #[must_use]
    pub fn take_outgoing(&mut self) -> Vec<ClientOutgoing<C::Compute>> {
        std::mem::take(&mut self.out)
    }

    /// Number of rows leased to this client.
    #[must_use]
    pub fn leases(&self) -> usize {
        self.cache.entries.iter().filter(|entry| entry.leased).count()
    }

    /// Number of sums that were sent and are kept until the shard confirms them.
    #[must_use]
    pub fn unconfirmed_sums(&self) -> usize {
        self.updates.unconfirmed.len()
    }

    /// Number of copies in the cache.
    #[must_use]
    pub fn copies(&self) -> usize {
        self.cache.copy_count
    }
}
