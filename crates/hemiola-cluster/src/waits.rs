//! Who waits for what, so that a stall can be explained.
//!
//! Every wait of a driver or worker stands in a slot of its own while it lasts. The monitor reads the slots once a
//! second, sends them to the other peers in heartbeats and shows those that last too long.

use hemiola_core::{Env, Moment, Rank, WaitSummary, Waiter, WorkerId};
use parking_lot::Mutex;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// What a thread waits for. Small and made without allocation, because most waits end at once.
#[derive(Clone, Copy, Debug)]
pub struct Reason {
    /// What, in words.
    pub what: &'static str,
    /// Which one of several.
    pub number: Option<u64>,
    /// Where in the program.
    pub site: Option<&'static Location<'static>>,
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.what)?;
        if let Some(number) = self.number {
            write!(formatter, " #{number}")?;
        }
        if let Some(site) = self.site {
            write!(formatter, " at {}:{}", site.file(), site.line())?;
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
struct Wait {
    reason: Reason,
    peer: Option<Rank>,
    since: Moment,
}

/// The waits of one peer. Slot 0 is the driver's, slot `w + 1` worker `w`'s.
#[derive(Debug)]
pub struct Waits {
    slots: Vec<Mutex<Option<Wait>>>,
    env: Arc<dyn Env>,
}

impl Waits {
    pub(crate) fn new(workers: usize, env: Arc<dyn Env>) -> Arc<Self> {
        Arc::new(Self { slots: (0..=workers).map(|_| Mutex::new(None)).collect(), env })
    }

    /// Marks `waiter` as waiting until the guard is dropped.
    pub fn enter(&self, waiter: Waiter, reason: Reason, peer: Option<Rank>) -> WaitGuard<'_> {
        let slot = &self.slots[match waiter {
            Waiter::Driver => 0,
            Waiter::Worker(id) => id.index() + 1,
        }];
        let outer = slot.lock().replace(Wait { reason, peer, since: self.env.now() });
        WaitGuard { slot, outer }
    }

    /// All present waits, longest first.
    pub(crate) fn summary(&self) -> Vec<WaitSummary> {
        let now = self.env.now();
        let mut waits: Vec<WaitSummary> = self
            .slots
            .iter()
            .enumerate()
            .filter_map(|(slot, wait)| {
                let Wait { reason, peer, since } = (*wait.lock())?;
                let waiter = if slot == 0 { Waiter::Driver } else { Waiter::Worker(WorkerId::new(slot as u32 - 1)) };
                Some(WaitSummary { waiter, reason: reason.to_string(), peer, waited: now - since })
            })
            .collect();
        waits.sort_by_key(|wait| std::cmp::Reverse(wait.waited));
        waits
    }
}

/// A wait that is going on.
#[must_use = "the wait ends when this is dropped"]
#[derive(Debug)]
pub struct WaitGuard<'a> {
    slot: &'a Mutex<Option<Wait>>,
    /// The wait this one is part of.
    outer: Option<Wait>,
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        *self.slot.lock() = self.outer;
    }
}
