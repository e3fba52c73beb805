//! Send window of one client at a shard: rows on their way, and rows that wait for room.
//!
//! A shard sends rows to a client until [`TableSpec::window_bytes`](crate::TableSpec) of them are
//! not acknowledged. After that a changed row stays dirty and a request stays queued. Both are
//! copied when the client acknowledges, so a row that changed several times meanwhile is sent once,
//! with its latest values. This is what merges superseded rows for a slow receiver: **invariant:**
//! the rows of a shard that are on their way to one client never exceed the window by more than
//! one message, however fast the table changes and however slow the network is. Waiting work is a
//! list of slots and keys, at most one for each row that the client caches or requests.
//!
//! The same holds upwards: a client keeps the sums of its updates until the shard confirms them.
//! Most are confirmed with the next rows, and otherwise after a quarter of the window.
//!
//! The client acknowledges at the latest when a quarter of the window has arrived
//! (`client/receiving.rs`), so a full window always opens again.

use crate::batch::RowBatch;
use crate::clock::Clock;
use crate::dtype::StorageType;
use std::collections::VecDeque;

/// Size of the header and number of a message of rows, and of the key and version of a row.
const HEAD_BYTES: usize = 32;

/// Size of a message of rows as both ends count it.
pub(crate) fn window_cost<C: StorageType, W: StorageType>(batch: &RowBatch<C>, attachment: &[W]) -> usize {
    let columns = size_of_val(&batch.columns[..]);
    HEAD_BYTES * (1 + batch.len()) + columns + size_of_val(&batch.values[..]) + size_of_val(attachment)
}

/// Push that waits for room: the rows that were dirty when the minimum moved.
#[derive(Debug)]
pub(super) struct PendingPush {
    /// Rows that are not sent yet; some may be clean by now.
    pub(super) slots: Vec<u32>,
    /// Freshness of the client once all of them are sent.
    pub(super) fresh: Clock,
}

/// Rows on their way to one client, and work that waits for room.
#[derive(Debug)]
pub(super) struct SendWindow {
    limit: usize,
    /// Number and size of messages that are not acknowledged.
    in_flight: VecDeque<(u64, usize)>,
    bytes: usize,
    /// Keys of requests that wait for room.
    pub(super) requests: VecDeque<Vec<u64>>,
    /// Push that is not finished.
    pub(super) push: Option<PendingPush>,
    /// The minimum moved again since that push began.
    pub(super) moved: bool,
    /// Size of the client's updates that were applied since it was last sent rows.
    pub(super) unconfirmed: usize,
}

impl SendWindow {
    pub(super) fn new(limit: usize) -> Self {
        let (in_flight, requests) = (VecDeque::new(), VecDeque::new());
        Self { limit, in_flight, bytes: 0, requests, push: None, moved: false, unconfirmed: 0 }
    }

    /// Returns true if another message may be sent.
    pub(super) fn has_room(&self) -> bool {
        self.bytes < self.limit
    }

    /// Returns true if rows of closed clocks wait for room.
    pub(super) fn owes_push(&self) -> bool {
        self.push.is_some() || self.moved
    }

    /// Returns true if work waits and there is room for it.
    pub(super) fn can_resume(&self) -> bool {
        self.has_room() && (self.owes_push() || !self.requests.is_empty())
    }

    /// Returns true if the client should learn that its updates are applied.
    pub(super) fn owes_confirmation(&self) -> bool {
        self.has_room() && self.unconfirmed >= (self.limit / 4).max(1)
    }

    pub(super) fn sent(&mut self, number: u64, bytes: usize) {
        self.unconfirmed = 0;
        self.in_flight.push_back((number, bytes));
        self.bytes += bytes;
    }

    /// Records that the client has all messages up to this number.
    pub(super) fn acknowledged(&mut self, number: u64) {
        while let Some((_, bytes)) = self.in_flight.pop_front_if(|(sent, _)| *sent <= number) {
            self.bytes -= bytes;
        }
    }

    /// Drops work that waits, because the client has finished.
    pub(super) fn abandon(&mut self) {
        self.requests.clear();
        (self.push, self.moved) = (None, false);
    }

    /// Bytes that are not acknowledged.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_window_opens_with_the_acknowledgement() {
        let mut window = SendWindow::new(100);
        window.sent(1, 60);
        assert!(window.has_room());
        window.sent(3, 60);
        assert!(!window.has_room());
        window.acknowledged(2);
        assert!(window.has_room() && !window.can_resume());
        window.requests.push_back(vec![1]);
        assert!(window.can_resume());
        window.abandon();
        assert!(!window.can_resume());
        window.acknowledged(3);
        assert_eq!(window.bytes(), 0);
    }
}
