//! What a client knows of a row: a copy of it, if it has one, and updates that the shard has not applied yet, if there are any.

use crate::cells::{Cells, Delta};
use crate::clock::Clock;
use crate::number::Number;
use std::sync::atomic::AtomicBool;

/// No view.
pub(crate) const ABSENT: u32 = u32::MAX;

/// Nothing but the copy that is here lacks these updates any more.
pub(crate) const INCLUDED: u64 = u64::MAX;

/// A row, as a client knows it.
#[derive(Debug)]
pub(crate) struct Entry<W> {
    pub(crate) key: u64,
    /// The version of the copy.
    pub(crate) version: u64,
    /// The freshness that the copy came with. Pushed rows are as fresh as the whole stream.
    pub(crate) fresh: Clock,
    /// Workers before this clock do not compute with the copy.
    pub(crate) used_until: Clock,
    /// The shard was asked for it, once everything before this clock is in it.
    pub(crate) asked: Option<Clock>,
    /// Updates that the shard has not applied, and copies that are not current but still in use. Most rows have none.
    pub(crate) log: Option<Box<Log<W>>>,
    /// Where the copy is, or [`ABSENT`].
    pub(crate) view: u32,
    /// How often the copy's version was sent.
    pub(crate) copies: u32,
    /// How many workers wait for it or have just been given it.
    pub(crate) pins: u32,
    /// How many intents of workers name it; each is a pin, too.
    pub(crate) intents: u32,
    /// The copy came for an intent.
    pub(crate) fetched: bool,
    /// Nobody else has a copy, and sums need not leave.
    pub(crate) leased: bool,
    /// The copy lacks sums of the log that are not marked as shown.
    pub(crate) behind: bool,
    /// Was read since the hand of the eviction passed.
    pub(crate) referenced: AtomicBool,
}

impl<W> Entry<W> {
    pub(crate) fn new(key: u64) -> Self {
        Self {
            key,
            version: 0,
            fresh: Clock::ZERO,
            used_until: Clock::ZERO,
            asked: None,
            log: None,
            view: ABSENT,
            copies: 0,
            pins: 0,
            intents: 0,
            fetched: false,
            leased: false,
            behind: false,
            referenced: AtomicBool::new(false),
        }
    }

    /// Whether there is a copy.
    pub(crate) fn is_here(&self) -> bool {
        self.view != ABSENT
    }

    /// Whether nothing is known any more.
    pub(crate) fn is_idle(&self) -> bool {
        !self.is_here() && self.asked.is_none() && self.pins == 0 && self.log.is_none() && !self.leased
    }

    /// Takes the log once it is empty.
    pub(crate) fn tidy(&mut self) -> Option<Box<Log<W>>> {
        self.log.take_if(|log| log.parts.is_empty() && log.older.is_empty())
    }
}

/// The less usual things about a row.
#[derive(Debug)]
pub(crate) struct Log<W> {
    /// Updates, in the order they were begun; those that were sent come before those that were not.
    pub(crate) parts: Vec<Part<W>>,
    /// Versions that workers still compute with.
    pub(crate) older: Vec<Older<W>>,
    /// How important it is to send what was not sent.
    pub(crate) importance: f64,
}

impl<W> Default for Log<W> {
    fn default() -> Self {
        Self { parts: Vec::new(), older: Vec::new(), importance: 0.0 }
    }
}

/// Memory of logs and sums that are over, for those that begin: most of what a client allocates.
#[derive(Debug)]
pub(crate) struct Spare<W> {
    #[expect(clippy::vec_box, reason = "they go back to entries as they are")]
    logs: Vec<Box<Log<W>>>,
    sums: Vec<Vec<W>>,
}

/// No more than this many are kept.
const SPARE: usize = 8192;

impl<W> Default for Spare<W> {
    fn default() -> Self {
        Self { logs: Vec::new(), sums: Vec::new() }
    }
}

impl<W: Number> Spare<W> {
    /// Keeps the memory of a sum.
    pub(crate) fn put(&mut self, delta: Delta<W>) {
        if let Delta::Dense(values) = delta
            && self.sums.len() < SPARE
        {
            self.sums.push(values);
        }
    }

    /// Keeps the memory of a log that is empty.
    pub(crate) fn put_log(&mut self, log: Option<Box<Log<W>>>) {
        if let Some(mut log) = log
            && self.logs.len() < SPARE
        {
            log.importance = 0.0;
            self.logs.push(log);
        }
    }

    /// What these cells add.
    pub(crate) fn delta(&mut self, cells: &Cells<'_, W>) -> Delta<W> {
        let Cells::Dense(values) = cells else { return Delta::new(cells) };
        let mut sum = self.sums.pop().unwrap_or_default();
        sum.clear();
        sum.extend_from_slice(values);
        Delta::Dense(sum)
    }

    /// An empty log.
    #[expect(clippy::unnecessary_box_returns, reason = "its memory is what this is about")]
    pub(crate) fn log(&mut self) -> Box<Log<W>> {
        self.logs.pop().unwrap_or_default()
    }
}

/// Updates that travel as one: of the same clock, computed from the same version.
#[derive(Debug)]
pub(crate) struct Part<W> {
    pub(crate) clock: Clock,
    pub(crate) version: u64,
    /// Under BSP the worker, so that sums do not depend on who was first; otherwise 0.
    pub(crate) lane: u32,
    /// The message it left in; 0 if it is open, [`INCLUDED`] if every copy that comes from now on holds it.
    pub(crate) sent: u64,
    /// The copy that is here holds it.
    pub(crate) shown: bool,
    pub(crate) delta: Delta<W>,
    pub(crate) carried: Vec<W>,
}

/// A copy that was replaced while workers computed with it.
#[derive(Debug)]
pub(crate) struct Older<W> {
    pub(crate) version: u64,
    pub(crate) used_until: Clock,
    pub(crate) copies: u32,
    pub(crate) carried: Vec<W>,
}
