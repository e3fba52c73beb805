//! Cache entry of a client: the copy of a row, if there is one, and the updates that the shard has
//! not applied yet.

use crate::cells::{Delta, RowCells};
use crate::clock::Clock;
use crate::dtype::ComputeType;
use std::sync::atomic::AtomicBool;

/// Marks an entry without a copy.
pub(crate) const ABSENT: u32 = u32::MAX;

/// Sequence number of updates that every later copy includes; only the current copy lacks them.
pub(crate) const INCLUDED: u64 = u64::MAX;

/// State of one row in a client's cache.
#[derive(Debug)]
pub(crate) struct CacheEntry<W> {
    pub(crate) key: u64,
    /// Version of the copy.
    pub(crate) version: u64,
    /// Freshness that the copy arrived with. Pushed rows are as fresh as the whole stream.
    pub(crate) fresh: Clock,
    /// Workers before this clock do not compute with the copy.
    pub(crate) used_until: Clock,
    /// The pending request: all updates of clocks before this one must be in the reply.
    pub(crate) requested: Option<Clock>,
    /// Updates that the shard has not applied, and superseded copies in use. Most rows have
    /// neither.
    pub(crate) log: Option<Box<UpdateLog<W>>>,
    /// Slot of the copy, or [`ABSENT`].
    pub(crate) copy_slot: u32,
    /// Number of times the copy's version was sent.
    pub(crate) copies: u32,
    /// Number of workers that wait for the row or were just given it.
    pub(crate) pins: u32,
    /// Number of workers' intents that name the row; each is also a pin.
    pub(crate) intents: u32,
    /// The copy was fetched for an intent.
    pub(crate) fetched_for_intent: bool,
    /// The row is leased: no other client has a copy, and its sums need not be sent.
    pub(crate) leased: bool,
    /// The copy lacks pending updates that are not marked as applied.
    pub(crate) needs_apply: bool,
    /// Reference bit of the CLOCK eviction.
    pub(crate) referenced: AtomicBool,
}

impl<W> CacheEntry<W> {
    pub(crate) fn new(key: u64) -> Self {
        Self {
            key,
            version: 0,
            fresh: Clock::ZERO,
            used_until: Clock::ZERO,
            requested: None,
            log: None,
            copy_slot: ABSENT,
            copies: 0,
            pins: 0,
            intents: 0,
            fetched_for_intent: false,
            leased: false,
            needs_apply: false,
            referenced: AtomicBool::new(false),
        }
    }

    /// Returns true if a copy is cached.
    pub(crate) fn is_cached(&self) -> bool {
        self.copy_slot != ABSENT
    }

    /// Returns true if the entry holds no information.
    pub(crate) fn is_idle(&self) -> bool {
        !self.is_cached() && self.requested.is_none() && self.pins == 0 && self.log.is_none() && !self.leased
    }

    /// Takes the log if it is empty.
    pub(crate) fn take_empty_log(&mut self) -> Option<Box<UpdateLog<W>>> {
        self.log.take_if(|log| log.pending.is_empty() && log.superseded.is_empty())
    }
}

/// Rarely used part of a cache entry.
#[derive(Debug)]
pub(crate) struct UpdateLog<W> {
    /// Updates in the order they were begun; sent ones precede unsent ones.
    pub(crate) pending: Vec<PendingUpdate<W>>,
    /// Superseded versions that workers still compute with.
    pub(crate) superseded: Vec<SupersededCopy<W>>,
    /// Importance of the unsent updates.
    pub(crate) importance: f64,
}

impl<W> Default for UpdateLog<W> {
    fn default() -> Self {
        Self { pending: Vec::new(), superseded: Vec::new(), importance: 0.0 }
    }
}

/// Free list of logs and sums, which are most of a client's allocations.
#[derive(Debug)]
pub(crate) struct UpdateFreeList<W> {
    #[expect(clippy::vec_box, reason = "the boxes are returned to entries")]
    logs: Vec<Box<UpdateLog<W>>>,
    sums: Vec<Vec<W>>,
}

/// Maximum length of each free list.
const MAX_SPARE: usize = 8192;

impl<W> Default for UpdateFreeList<W> {
    fn default() -> Self {
        Self { logs: Vec::new(), sums: Vec::new() }
    }
}

impl<W: ComputeType> UpdateFreeList<W> {
    /// Keeps the allocation of a sum.
    pub(crate) fn recycle(&mut self, delta: Delta<W>) {
        if let Delta::Dense(values) = delta
            && self.sums.len() < MAX_SPARE
        {
            self.sums.push(values);
        }
    }

    /// Keeps the allocation of an empty log.
    pub(crate) fn recycle_log(&mut self, log: Option<Box<UpdateLog<W>>>) {
        if let Some(mut log) = log
            && self.logs.len() < MAX_SPARE
        {
            log.importance = 0.0;
            self.logs.push(log);
        }
    }

    /// Creates a delta of these cells, from a recycled allocation if possible.
    pub(crate) fn delta(&mut self, cells: &RowCells<'_, W>) -> Delta<W> {
        let RowCells::Dense(values) = cells else { return Delta::new(cells) };
        let mut sum = self.sums.pop().unwrap_or_default();
        sum.clear();
        sum.extend_from_slice(values);
        Delta::Dense(sum)
    }

    /// Takes an empty log, recycled if possible.
    #[expect(clippy::unnecessary_box_returns, reason = "the allocation is what is recycled")]
    pub(crate) fn log(&mut self) -> Box<UpdateLog<W>> {
        self.logs.pop().unwrap_or_default()
    }
}

/// Sum of updates that travel together: same clock, computed from the same version.
#[derive(Debug)]
pub(crate) struct PendingUpdate<W> {
    pub(crate) clock: Clock,
    pub(crate) version: u64,
    /// Index of the worker under BSP, so that sums do not depend on timing; otherwise 0.
    pub(crate) writer: u32,
    /// Sequence number of the message that carried it; 0 if unsent, [`INCLUDED`] if every later
    /// copy includes it.
    pub(crate) sent: u64,
    /// The current copy includes it.
    pub(crate) applied: bool,
    pub(crate) delta: Delta<W>,
    pub(crate) attachment: Vec<W>,
}

/// Copy that was replaced while workers computed with it.
#[derive(Debug)]
pub(crate) struct SupersededCopy<W> {
    pub(crate) version: u64,
    pub(crate) used_until: Clock,
    pub(crate) copies: u32,
    pub(crate) attachment: Vec<W>,
}
