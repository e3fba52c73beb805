//! Copies that a client no longer holds or needs, and what its shard must be told of them.
//!
//! **Invariant:** the version that an update was computed from is kept until all workers have left
//! the clock in which it was read (invariant 5 of the client).

use super::ShardClient;
use super::entry::SupersededCopy;
use crate::clock::Clock;
use crate::dtype::StorageType;
use crate::message::ClientMessage;
use std::collections::BTreeMap;

/// Copies that were superseded, evicted or released.
#[derive(Debug)]
pub(super) struct CopyReleases {
    /// The shard must be told which copies are released.
    pub(super) tracked: bool,
    /// Rows with superseded copies, by the clock at which they expire.
    pub(super) expiring: BTreeMap<Clock, Vec<u32>>,
    /// Evicted rows that the shard still pushes.
    pub(super) forgotten: Vec<u64>,
    /// Row, version, and number of copies to release.
    pub(super) released: Vec<(u64, u64, u32)>,
}

impl CopyReleases {
    pub(super) fn new(tracked: bool) -> Self {
        Self { tracked, expiring: BTreeMap::new(), forgotten: Vec::new(), released: Vec::new() }
    }
}

impl<C: StorageType> ShardClient<C> {
    /// Retires the current copy, which workers may compute with, before a copy of `version`
    /// replaces it.
    pub(super) fn retire_copy(&mut self, slot: u32, version: u64) {
        let entry = &mut self.cache.entries[slot as usize];
        if !(self.has_attachments || self.releases.tracked) || entry.version == version {
            return;
        }
        if entry.used_until > self.updates.closed {
            let attachment = self.cache.attachment.row(entry.copy_slot).to_vec();
            let superseded = SupersededCopy {
                version: entry.version,
                used_until: entry.used_until,
                copies: entry.copies,
                attachment,
            };
            entry.log.get_or_insert_default().superseded.push(superseded);
            self.releases.expiring.entry(entry.used_until).or_default().push(slot);
            entry.copies = 0;
        } else {
            self.release_copy(slot);
        }
        self.cache.entries[slot as usize].used_until = Clock::ZERO;
    }

    /// Releases superseded versions that no worker computes with any more.
    pub(super) fn expire_superseded(&mut self, slot: u32, min: Clock) {
        let entry = &mut self.cache.entries[slot as usize];
        if let Some(log) = &mut entry.log {
            for superseded in log.superseded.extract_if(.., |superseded| superseded.used_until <= min) {
                if self.releases.tracked {
                    self.releases.released.push((entry.key, superseded.version, superseded.copies));
                }
            }
        }
        self.drop_if_idle(slot);
    }

    /// Releases the current version of a row.
    pub(super) fn release_copy(&mut self, slot: u32) {
        let entry = &mut self.cache.entries[slot as usize];
        if self.releases.tracked && entry.copies > 0 {
            self.releases.released.push((entry.key, entry.version, std::mem::take(&mut entry.copies)));
        }
    }

    /// Tells the shard which rows were evicted. Must precede a new request for one of them.
    pub(super) fn send_forgotten(&mut self) {
        if !self.releases.forgotten.is_empty() {
            let mut keys = std::mem::take(&mut self.releases.forgotten);
            keys.sort_unstable();
            self.send(ClientMessage::Forget { keys }, true);
        }
    }

    pub(super) fn send_released(&mut self) {
        if !self.releases.released.is_empty() {
            let copies = std::mem::take(&mut self.releases.released);
            self.send(ClientMessage::Release { copies }, true);
        }
    }
}
