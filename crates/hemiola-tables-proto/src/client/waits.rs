//! Rows that the workers of a peer wait for.
//!
//! A worker has at most one request at a time. Its rows are pinned until it fetches others or ends
//! its clock, so a row that has arrived stays while others are awaited.

use super::ShardClient;
use crate::clock::Clock;
use crate::dtype::StorageType;
use crate::error::Result;
use crate::spec::RowDelivery;
use hemiola_core::WorkerId;

/// Rows that a worker waits for.
#[derive(Debug)]
pub(super) struct RowWait {
    pub(super) need: Clock,
    pub(super) slots: Vec<u32>,
    /// Number of leading slots that are known to be cached and fresh.
    pub(super) ready_prefix: usize,
    pub(super) waiting: bool,
}

/// Waits of the workers of a peer.
#[derive(Debug)]
pub(super) struct RowWaits {
    pub(super) by_worker: Vec<RowWait>,
    /// Workers whose wait has ended.
    pub(super) woken: Vec<WorkerId>,
}

impl RowWaits {
    pub(super) fn new(workers: usize) -> Self {
        let wait = || RowWait { need: Clock::ZERO, slots: Vec::new(), ready_prefix: 0, waiting: false };
        Self { by_worker: (0..workers).map(|_| wait()).collect(), woken: Vec::new() }
    }
}

impl<C: StorageType> ShardClient<C> {
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
        let slots: Vec<u32> = keys.iter().map(|key| self.cache.ensure(*key)).collect();
        let mut missing = Vec::new();
        for slot in &slots {
            self.cache.entries[*slot as usize].pins += 1;
            let here = self.readable(*slot, need);
            let entry = &mut self.cache.entries[*slot as usize];
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
        self.waits.by_worker[worker.index()] = RowWait { need, slots, ready_prefix: 0, waiting: false };
        if !missing.is_empty() {
            self.send_forgotten();
            self.request(request, missing);
        }
        let ready = self.is_ready(worker);
        self.waits.by_worker[worker.index()].waiting = !ready;
        Ok(ready)
    }

    /// Requests rows anew, even if copies are cached and fresh enough. The reply contains all
    /// updates that this client has sent, as messages are handled in order; so it is the newest
    /// state of a table without a bound. For tables with pull delivery; otherwise as
    /// [`fetch`](Self::fetch).
    pub fn refresh(&mut self, worker: WorkerId, keys: &[u64]) -> Result<bool> {
        self.clock_of(worker)?;
        self.unpin(worker);
        for key in keys {
            if let Some(slot) = self.cache.find(*key).filter(|slot| self.may_evict(*slot)) {
                self.drop_copy(slot);
            }
        }
        self.fetch(worker, keys)
    }

    /// Returns true if all rows that a worker fetched are cached and fresh enough.
    pub(super) fn is_ready(&mut self, worker: WorkerId) -> bool {
        let RowWait { need, mut ready_prefix, .. } = self.waits.by_worker[worker.index()];
        let slots = std::mem::take(&mut self.waits.by_worker[worker.index()].slots);
        while slots.get(ready_prefix).is_some_and(|slot| self.readable(*slot, need)) {
            ready_prefix += 1;
        }
        let ready = ready_prefix == slots.len();
        let wait = &mut self.waits.by_worker[worker.index()];
        (wait.slots, wait.ready_prefix) = (slots, ready_prefix);
        ready
    }

    pub(super) fn unpin(&mut self, worker: WorkerId) {
        self.waits.by_worker[worker.index()].waiting = false;
        for slot in std::mem::take(&mut self.waits.by_worker[worker.index()].slots) {
            self.cache.entries[slot as usize].pins -= 1;
            self.drop_if_idle(slot);
        }
    }

    pub(super) fn wake(&mut self) {
        for worker in 0..self.waits.by_worker.len() {
            let id = WorkerId::new(worker as u32);
            if self.waits.by_worker[worker].waiting && self.is_ready(id) {
                self.waits.by_worker[worker].waiting = false;
                self.waits.woken.push(id);
            }
        }
    }

    /// Workers whose wait has ended since the last call.
    #[must_use]
    pub fn take_ready_workers(&mut self) -> Vec<WorkerId> {
        std::mem::take(&mut self.waits.woken)
    }
}
