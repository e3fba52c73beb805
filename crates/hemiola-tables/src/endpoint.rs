//! Endpoint of a table: messages to and from other peers.
//!
//! A table has one channel. [`TableMessage`] defines its
//! messages, their lanes and their encoding.
//!
//! **Receiving.** The network reader thread handles a message inline and answers it. This wakes no
//! other thread, and the bytes are still in the CPU cache. It must not block, so work that finds a
//! lock taken is left to the table's receiver service (`TableRuntime::deferred`).
//!
//! **Sending.** Workers send the messages they cause and block while the network is full, which is
//! the back-pressure on them. Threads that handle incoming messages must not block, or two peers
//! that send to each other would deadlock: messages that do not fit go to the *send queue*, which
//! the sender service drains. That service also sends eagerly, in tables with a bandwidth budget.
//!
//! **Bounds.** Nobody waits for the send queue, so the protocol bounds it: each shard stops at the
//! send window of a client (`server/send_window.rs` of `hemiola-tables-proto`), so rows in the queue
//! are at most a window and a message for each shard here and each client. [`row_bytes_limit`]
//! computes this, and a queue beyond it fails the table instead of the machine. Other messages in
//! the queue are keys, acknowledgements and the sums of recalled leases, which were in memory
//! before. Deferred messages are bounded by `DEFERRED_BYTES` (`runtime.rs`): beyond it messages stay
//! in the channel, whose senders wait.

use crate::error::Error;
use hemiola_cluster::{PeerHandle, Result};
use hemiola_core::{ChannelId, Lane, OutgoingMessage, Payload, Purpose, Rank};
use hemiola_tables_proto::dtype::StorageType;
use hemiola_tables_proto::{TableMessage, TableSpec};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Blocking policy: what the calling thread may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocking {
    /// Waits for locks and for room in the network. For workers.
    Full,
    /// Waits for locks; messages that find no room go to the send queue. For services.
    LocksOnly,
    /// Waits for nothing; work that finds a lock taken is deferred to a service. For network
    /// threads.
    Never,
}

/// Queue of messages that wait for room in the network.
#[derive(Debug, Default)]
pub(crate) struct TableSendQueue {
    queue: Mutex<SendQueueState>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct SendQueueState {
    waiting: VecDeque<QueuedMessage>,
    /// Size of the queued rows.
    row_bytes: usize,
    closed: bool,
}

#[derive(Debug)]
struct QueuedMessage {
    to: Rank,
    message: OutgoingMessage,
    /// Size of the rows in the message; 0 for other messages.
    row_bytes: usize,
}

/// Largest number of bytes of rows that wait in the send queue of a peer, unless a shard violates
/// its windows. Twice the size at the window's prices, since those of short sparse rows are low.
pub(crate) fn row_bytes_limit<C: StorageType>(spec: &TableSpec, shards_here: usize) -> usize {
    let row = spec.width.saturating_mul(C::BYTES + size_of::<C::Compute>() + size_of::<u32>());
    let stream = spec.window_bytes.saturating_add(spec.message_bytes).saturating_add(row).saturating_mul(2);
    stream.saturating_mul(shards_here).saturating_mul(spec.clients)
}

impl TableSendQueue {
    /// Adds a message. Returns the size of all queued rows.
    fn put(&self, to: Rank, message: OutgoingMessage, row_bytes: usize) -> usize {
        let mut queue = self.queue.lock();
        queue.waiting.push_back(QueuedMessage { to, message, row_bytes });
        queue.row_bytes += row_bytes;
        self.wake.notify_all();
        queue.row_bytes
    }

    /// Next message, waiting for one at most `timeout`. The flag is true if the queue is closed and
    /// empty.
    pub(crate) fn next(&self, timeout: Duration) -> (Option<(Rank, OutgoingMessage)>, bool) {
        let mut queue = self.queue.lock();
        if queue.waiting.is_empty() && !queue.closed {
            self.wake.wait_for(&mut queue, timeout);
        }
        let next = queue.waiting.pop_front();
        queue.row_bytes -= next.as_ref().map_or(0, |next| next.row_bytes);
        let closed = next.is_none() && queue.closed;
        (next.map(|QueuedMessage { to, message, .. }| (to, message)), closed)
    }

    /// Closes the queue: no more messages are added.
    pub(crate) fn close(&self) {
        self.queue.lock().closed = true;
        self.wake.notify_all();
    }
}

/// Endpoint of a table to other peers.
#[derive(Debug)]
pub(crate) struct TableEndpoint {
    peer_handle: PeerHandle,
    channel: ChannelId,
    pub(crate) send_queue: Arc<TableSendQueue>,
    row_bytes_limit: usize,
}

impl TableEndpoint {
    pub(crate) fn new(peer_handle: PeerHandle, channel: ChannelId, row_bytes_limit: usize) -> Self {
        Self { peer_handle, channel, send_queue: Arc::default(), row_bytes_limit }
    }

    pub(crate) fn peer_handle(&self) -> &PeerHandle {
        &self.peer_handle
    }

    pub(crate) fn channel(&self) -> ChannelId {
        self.channel
    }

    /// Sends a message to another peer. Returns its size in bytes.
    pub(crate) fn send<C: StorageType>(&self, blocking: Blocking, to: Rank, message: TableMessage<C>) -> Result<usize> {
        let has_rows = message.has_rows();
        let (lane, payload) = message.encode();
        let bytes = payload.len();
        let message = OutgoingMessage { lane, channel: self.channel, purpose: Purpose::Tables, payload };
        match blocking {
            Blocking::Full => self.peer_handle.send(to, message)?,
            Blocking::LocksOnly | Blocking::Never => {
                if let Some(message) = self.peer_handle.try_send(to, message)? {
                    let queued = self.send_queue.put(to, message, if has_rows { bytes } else { 0 });
                    let limit = self.row_bytes_limit;
                    if queued > limit {
                        return Err(Error::SendQueueOverflow { rank: to, queued, limit }.into());
                    }
                }
            }
        }
        Ok(bytes)
    }
}

/// Wakes the receiver service of the table.
pub(crate) fn wake_receiver(peer_handle: &PeerHandle, channel: ChannelId) {
    let message =
        OutgoingMessage { lane: Lane::Control, channel, purpose: Purpose::Liveness, payload: Payload::empty() };
    // If this peer has left, its service has ended.
    let _ = peer_handle.send(peer_handle.rank(), message);
}
