//! Endpoint of a table: messages to and from other peers.
//!
//! A table has one channel. [`TableMessage`](hemiola_tables_proto::TableMessage) defines its
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

use hemiola_cluster::{PeerHandle, Result};
use hemiola_core::{ChannelId, Lane, OutgoingMessage, Payload, Purpose, Rank};
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
    waiting: VecDeque<(Rank, OutgoingMessage)>,
    closed: bool,
}

impl TableSendQueue {
    fn put(&self, to: Rank, message: OutgoingMessage) {
        self.queue.lock().waiting.push_back((to, message));
        self.wake.notify_all();
    }

    /// Next message, waiting for one at most `timeout`. The flag is true if the queue is closed and
    /// empty.
    pub(crate) fn next(&self, timeout: Duration) -> (Option<(Rank, OutgoingMessage)>, bool) {
        let mut queue = self.queue.lock();
        if queue.waiting.is_empty() && !queue.closed {
            self.wake.wait_for(&mut queue, timeout);
        }
        let next = queue.waiting.pop_front();
        let closed = next.is_none() && queue.closed;
        (next, closed)
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
}

impl TableEndpoint {
    pub(crate) fn new(peer_handle: PeerHandle, channel: ChannelId) -> Self {
        Self { peer_handle, channel, send_queue: Arc::default() }
    }

    pub(crate) fn peer_handle(&self) -> &PeerHandle {
        &self.peer_handle
    }

    pub(crate) fn channel(&self) -> ChannelId {
        self.channel
    }

    /// Sends a message to another peer. Returns its size in bytes.
    pub(crate) fn send(&self, blocking: Blocking, to: Rank, lane: Lane, payload: Payload) -> Result<usize> {
        let bytes = payload.len();
        let message = OutgoingMessage { lane, channel: self.channel, purpose: Purpose::Tables, payload };
        match blocking {
            Blocking::Full => self.peer_handle.send(to, message)?,
            Blocking::LocksOnly | Blocking::Never => {
                if let Some(message) = self.peer_handle.try_send(to, message)? {
                    self.send_queue.put(to, message);
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
