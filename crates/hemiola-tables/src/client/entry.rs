//! What a client knows of a row: a copy of it, if it has one, and updates that the shard has not applied yet, if there are any.

use crate::cells::Delta;
use crate::clock::Clock;

/// No view.
pub(crate) const ABSENT: u32 = u32::MAX;

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
    /// Was read since the hand of the eviction passed.
    pub(crate) referenced: bool,
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
            referenced: false,
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

    /// Drops the log once it is empty.
    pub(crate) fn tidy(&mut self) {
        if self.log.as_ref().is_some_and(|log| log.parts.is_empty() && log.older.is_empty()) {
            self.log = None;
        }
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

/// Updates that travel as one: of the same clock, computed from the same version.
#[derive(Debug)]
pub(crate) struct Part<W> {
    pub(crate) clock: Clock,
    pub(crate) version: u64,
    /// Under BSP the worker, so that sums do not depend on who was first; otherwise 0.
    pub(crate) lane: u32,
    /// The message it left in; 0 if it is open.
    pub(crate) sent: u64,
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
