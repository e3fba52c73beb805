//! Registry of waits, so that a stall can be explained.
//!
//! Every wait of a driver or worker occupies a slot of its own while it lasts. The monitor reads
//! the slots once per heartbeat, sends them to the other peers, and reports those that last too
//! long.

use hemiola_core::{Env, Moment, Rank, WaitSummary, Waiter, WorkerId};
use parking_lot::Mutex;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// Reason of a wait. Small and created without allocation, because most waits end at once.
#[derive(Clone, Copy, Debug)]
pub struct WaitReason {
    /// Awaited operation, such as `barrier`.
    pub operation: &'static str,
    /// Number of the operation, if it is one of several.
    pub number: Option<u64>,
    /// Call site in the program.
    pub site: Option<&'static Location<'static>>,
}

impl fmt::Display for WaitReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.operation)?;
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
struct WaitRecord {
    reason: WaitReason,
    peer: Option<Rank>,
    since: Moment,
}

/// Wait of one thread, and the number of its waits that have ended.
#[derive(Debug, Default)]
struct WaitSlot {
    current: Option<WaitRecord>,
    ended: u64,
}

/// Waits of one peer. Slot 0 belongs to the driver, slot `w + 1` to worker `w`.
#[derive(Debug)]
pub struct WaitRegistry {
    slots: Vec<Mutex<WaitSlot>>,
    env: Arc<dyn Env>,
}

impl WaitRegistry {
    pub(crate) fn new(workers: usize, env: Arc<dyn Env>) -> Arc<Self> {
        Arc::new(Self { slots: (0..=workers).map(|_| Mutex::default()).collect(), env })
    }

    /// Marks `waiter` as waiting until the guard is dropped.
    pub fn enter(&self, waiter: Waiter, reason: WaitReason, peer: Option<Rank>) -> WaitGuard<'_> {
        let slot = &self.slots[match waiter {
            Waiter::Driver => 0,
            Waiter::Worker(id) => id.index() + 1,
        }];
        let outer = slot.lock().current.replace(WaitRecord { reason, peer, since: self.env.now() });
        WaitGuard { slot, outer }
    }

    /// Returns all current waits, longest first.
    pub(crate) fn summary(&self) -> Vec<WaitSummary> {
        let now = self.env.now();
        let mut waits: Vec<WaitSummary> = self
            .slots
            .iter()
            .enumerate()
            .filter_map(|(slot, wait)| {
                let WaitRecord { reason, peer, since } = wait.lock().current?;
                let waiter = if slot == 0 { Waiter::Driver } else { Waiter::Worker(WorkerId::new(slot as u32 - 1)) };
                Some(WaitSummary { waiter, reason: reason.to_string(), peer, waited: now - since })
            })
            .collect();
        waits.sort_by_key(|wait| std::cmp::Reverse(wait.waited));
        waits
    }
}

impl WaitRegistry {
    /// Returns the number of waits that have ended so far.
    pub(crate) fn ended(&self) -> u64 {
        self.slots.iter().fold(0, |sum, slot| sum.wrapping_add(slot.lock().ended))
    }
}

/// Guard of a wait in progress.
#[must_use = "the wait ends when this is dropped"]
#[derive(Debug)]
pub struct WaitGuard<'a> {
    slot: &'a Mutex<WaitSlot>,
    /// Outer wait that this one is part of.
    outer: Option<WaitRecord>,
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        let mut slot = self.slot.lock();
        slot.current = self.outer;
        slot.ended = slot.ended.wrapping_add(1);
    }
}
