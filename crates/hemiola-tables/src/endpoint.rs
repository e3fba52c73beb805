//! Endpoint of a table: messages to and from other peers.
//!
//! A table has one channel. A message begins with its direction and shard; the rest is encoded by
//! `hemiola_tables_proto::wire`. Clocks and other small messages take the control lane; the
//! protocol restores the order.
//!
//! **Receiving.** The network reader thread handles a message inline and answers it. This wakes no
//! other thread, and the bytes are still in the CPU cache. It must not block, so work that finds a
//! lock taken is left to the table's receiver service (`TableRuntime::deferred`).
//!
//! **Sending.** Workers send the messages they cause and block while the network is full, which is
//! the back-pressure on them. Threads that handle incoming messages must not block, or two peers
//! that send to each other would deadlock: messages that do not fit go to the *send queue*, which
//! the sender service drains. That service also sends eagerly, in tables with a bandwidth budget.

use crate::error::TableFailure;
use hemiola_cluster::{PeerHandle, Result};
use hemiola_core::{ChannelId, Lane, Message, OutgoingMessage, Payload, Purpose, Rank};
use hemiola_net::OVERHEAD_BYTES;
use hemiola_tables_proto::dtype::StorageType;
use hemiola_tables_proto::message::{ClientMessage, ServerMessage};
use hemiola_tables_proto::stream::Sequenced;
use hemiola_tables_proto::{ShardId, TableSpec, wire};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Requests up to this size take the control lane.
const SMALL_BYTES: usize = 1024;
/// Direction and shard, padded so that values stay aligned.
const HEADER_BYTES: usize = wire::ALIGNMENT;
/// Overhead around the bytes that the protocol accounts for.
pub(crate) const MESSAGE_OVERHEAD_BYTES: usize = HEADER_BYTES + OVERHEAD_BYTES;
const TO_SHARD: u8 = 0;
const TO_CLIENT: u8 = 1;
/// The shards of the sender are no longer used.
const FINISHED: u8 = 2;

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

/// Message for a state machine of this peer.
pub(crate) enum RoutedMessage<C: StorageType> {
    ToShard(ShardId, Rank, Sequenced<ClientMessage<C::Compute>>),
    ToClient(ShardId, Sequenced<ServerMessage<C, C::Compute>>),
    /// The shards of the sender are no longer used.
    Finished,
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

    /// Sends to a shard on another peer. Returns the number of bytes.
    pub(crate) fn to_shard<C: StorageType>(
        &self,
        blocking: Blocking,
        to: Rank,
        shard: ShardId,
        message: Sequenced<ClientMessage<C::Compute>>,
    ) -> Result<usize> {
        // Clock ticks and `Get` requests; the latter are small unless they name many rows.
        let small = matches!(&message.body, None | Some(ClientMessage::Clock(_) | ClientMessage::Get { .. }));
        self.send(blocking, to, small, wire::encode_to_shard::<C::Compute>(&header(TO_SHARD, shard), message))
    }

    /// Sends to a client on another peer. Returns the number of bytes.
    pub(crate) fn to_client<C: StorageType>(
        &self,
        blocking: Blocking,
        to: Rank,
        shard: ShardId,
        message: Sequenced<ServerMessage<C, C::Compute>>,
    ) -> Result<usize> {
        // A single awaited row or a clock is small; `send` checks the size.
        let small = matches!(&message.body, None | Some(ServerMessage::Recall { .. } | ServerMessage::Rows { .. }));
        self.send(blocking, to, small, wire::encode_to_client::<C>(&header(TO_CLIENT, shard), message))
    }

    /// Tells a peer that the shards of this one are no longer used.
    pub(crate) fn send_finished(&self, to: Rank) -> Result<()> {
        let payload = header(FINISHED, ShardId::new(0)).to_vec().into();
        self.send(Blocking::Full, to, true, payload).map(|_| ())
    }

    fn send(&self, blocking: Blocking, to: Rank, small: bool, payload: Payload) -> Result<usize> {
        let bytes = payload.len() + OVERHEAD_BYTES;
        let lane = if small && payload.len() <= SMALL_BYTES { Lane::Control } else { Lane::Bulk };
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

fn header(kind: u8, shard: ShardId) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[0] = kind;
    header[4..].copy_from_slice(&(shard.index() as u32).to_le_bytes());
    header
}

/// Wakes the receiver service of the table.
pub(crate) fn wake_receiver(peer_handle: &PeerHandle, channel: ChannelId) {
    let message =
        OutgoingMessage { lane: Lane::Control, channel, purpose: Purpose::Liveness, payload: Payload::empty() };
    // If this peer has left, its service has ended.
    let _ = peer_handle.send(peer_handle.rank(), message);
}

/// Decodes a message; `None` for a wake-up.
pub(crate) fn decode<C: StorageType>(
    message: &Message,
    spec: &TableSpec,
) -> Result<Option<RoutedMessage<C>>, TableFailure> {
    if message.payload.is_empty() {
        return Ok(None);
    }
    let bad = |problem: &str| hemiola_tables_proto::Error::BadMessage {
        table: spec.name.clone(),
        problem: format!("{problem}, from peer {}", message.from),
    };
    let Some(header) = message.payload.first_chunk::<HEADER_BYTES>() else {
        return Err(bad("the message is too short").into());
    };
    let body = &message.payload.slice(HEADER_BYTES..);
    let number = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
    if number as usize >= spec.shards {
        return Err(bad("it names a shard that does not exist").into());
    }
    let shard = ShardId::new(number);
    Ok(Some(match header[0] {
        TO_SHARD => RoutedMessage::ToShard(shard, message.from, wire::decode_to_shard(body, spec)?),
        TO_CLIENT => RoutedMessage::ToClient(shard, wire::decode_to_client(body, spec)?),
        FINISHED => RoutedMessage::Finished,
        _ => return Err(bad("it has an unknown direction").into()),
    }))
}
