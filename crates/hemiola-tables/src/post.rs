//! Messages to and from other peers.
//!
//! A table has one channel. In front of a message stand its direction and its shard; the rest is `hemiola_tables_proto::wire`. Clocks and
//! other small things take the control lane: the machines put messages back in order.
//!
//! **Who handles.** Whoever reads a message from the network handles it there and then, and answers it: that wakes nobody, and the bytes are still
//! in the processor's cache. It must not wait, so what it finds locked it leaves to a service of the table (`Hub::deferred`).
//!
//! **Who sends.** Workers send what they cause and wait for room, which is how the network slows them down. Those who handle messages
//! must not wait, or two peers that send to each other would wait for ever: what does not fit goes to the *outbox*, which another service
//! empties. That service also sends ahead of need, in tables with a budget.

use crate::error::Failure;
use hemiola_cluster::{Link, Result};
use hemiola_core::{ChannelId, Lane, Message, Outgoing, Payload, Purpose, Rank};
use hemiola_net::OVERHEAD_BYTES;
use hemiola_tables_proto::message::{ToClient, ToShard};
use hemiola_tables_proto::number::Cell;
use hemiola_tables_proto::stream::Envelope;
use hemiola_tables_proto::{ShardId, Spec, wire};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Requests of this size still take the control lane.
const SMALL_BYTES: usize = 1024;
/// Direction and shard, and as much more as keeps numbers aligned.
const HEAD_BYTES: usize = wire::ALIGNMENT;
/// What stands around the bytes that the machines know of.
pub(crate) const FRONT_BYTES: usize = HEAD_BYTES + OVERHEAD_BYTES;
const TO_SHARD: u8 = 0;
const TO_CLIENT: u8 = 1;
/// Nobody uses the sender's shards any more.
const OVER: u8 = 2;

/// Who acts, and so what it may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// A worker: waits for locks and for room.
    Patient,
    /// A service: waits for locks, and leaves what finds no room to the outbox.
    Hurried,
    /// A thread that reads from the network: waits for nothing, and leaves what is locked to a service.
    Passing,
}

/// What came from another peer.
pub(crate) enum Parcel<C: Cell> {
    ToShard(ShardId, Rank, Envelope<ToShard<C::Wide>>),
    ToClient(ShardId, Envelope<ToClient<C, C::Wide>>),
    /// Nobody uses the sender's shards any more.
    Over,
}

/// Messages that wait for room.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    queue: Mutex<Queue>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<(Rank, Outgoing)>,
    closed: bool,
}

impl Outbox {
    fn put(&self, to: Rank, message: Outgoing) {
        self.queue.lock().waiting.push_back((to, message));
        self.wake.notify_all();
    }

    /// The next message, waiting for one no longer than `timeout`. The flag says that there will be none any more.
    pub(crate) fn next(&self, timeout: Duration) -> (Option<(Rank, Outgoing)>, bool) {
        let mut queue = self.queue.lock();
        if queue.waiting.is_empty() && !queue.closed {
            self.wake.wait_for(&mut queue, timeout);
        }
        let next = queue.waiting.pop_front();
        let over = next.is_none() && queue.closed;
        (next, over)
    }

    /// Nothing more is put in.
    pub(crate) fn close(&self) {
        self.queue.lock().closed = true;
        self.wake.notify_all();
    }
}

/// A table's way to other peers.
#[derive(Debug)]
pub(crate) struct Post {
    link: Link,
    channel: ChannelId,
    pub(crate) outbox: Arc<Outbox>,
}

impl Post {
    pub(crate) fn new(link: Link, channel: ChannelId) -> Self {
        Self { link, channel, outbox: Arc::default() }
    }

    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    pub(crate) fn channel(&self) -> ChannelId {
        self.channel
    }

    /// Sends to a shard of another peer; how many bytes that was.
    pub(crate) fn to_shard<C: Cell>(
        &self,
        way: Way,
        to: Rank,
        shard: ShardId,
        envelope: Envelope<ToShard<C::Wide>>,
    ) -> Result<usize> {
        // A clock, or a request, which is as short as what it asks for is little.
        let small = matches!(&envelope.body, None | Some(ToShard::Clock(_) | ToShard::Get { .. }));
        self.send(way, to, small, wire::encode_to_shard::<C::Wide>(&head(TO_SHARD, shard), envelope))
    }

    /// Sends to a client of another peer; how many bytes that was.
    pub(crate) fn to_client<C: Cell>(
        &self,
        way: Way,
        to: Rank,
        shard: ShardId,
        envelope: Envelope<ToClient<C, C::Wide>>,
    ) -> Result<usize> {
        // A single row that somebody waits for, or a clock that has moved, is small; all rows together are not.
        let small = matches!(&envelope.body, None | Some(ToClient::Recall { .. } | ToClient::Rows { .. }));
        self.send(way, to, small, wire::encode_to_client::<C>(&head(TO_CLIENT, shard), envelope))
    }

    /// Tells a peer that nobody uses the shards of this one any more.
    pub(crate) fn over(&self, to: Rank) -> Result<()> {
        let payload = head(OVER, ShardId::new(0)).to_vec().into();
        self.send(Way::Patient, to, true, payload).map(|_| ())
    }

    fn send(&self, way: Way, to: Rank, small: bool, payload: Payload) -> Result<usize> {
        let bytes = payload.len() + OVERHEAD_BYTES;
        let lane = if small && payload.len() <= SMALL_BYTES { Lane::Control } else { Lane::Bulk };
        let message = Outgoing { lane, channel: self.channel, purpose: Purpose::Tables, payload };
        match way {
            Way::Patient => self.link.send(to, message)?,
            Way::Hurried | Way::Passing => {
                if let Some(message) = self.link.try_send(to, message)? {
                    self.outbox.put(to, message);
                }
            }
        }
        Ok(bytes)
    }
}

fn head(kind: u8, shard: ShardId) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[0] = kind;
    head[4..].copy_from_slice(&(shard.index() as u32).to_le_bytes());
    head
}

/// Makes the service that takes messages in look around.
pub(crate) fn wake_up(link: &Link, channel: ChannelId) {
    let message = Outgoing { lane: Lane::Control, channel, purpose: Purpose::Liveness, payload: Payload::empty() };
    // If this peer has left, its service knows.
    let _ = link.send(link.rank(), message);
}

/// What a message says; nothing if it is there to wake.
pub(crate) fn decode<C: Cell>(message: &Message, spec: &Spec) -> Result<Option<Parcel<C>>, Failure> {
    if message.payload.is_empty() {
        return Ok(None);
    }
    let bad = |problem: &str| hemiola_tables_proto::Error::BadMessage {
        table: spec.name.clone(),
        problem: format!("{problem}, from peer {}", message.from),
    };
    let Some(head) = message.payload.first_chunk::<HEAD_BYTES>() else {
        return Err(bad("it is too short").into());
    };
    let body = &message.payload.slice(HEAD_BYTES..);
    let number = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
    if number as usize >= spec.shards {
        return Err(bad("it names a shard that is not").into());
    }
    let shard = ShardId::new(number);
    Ok(Some(match head[0] {
        TO_SHARD => Parcel::ToShard(shard, message.from, wire::decode_to_shard(body, spec)?),
        TO_CLIENT => Parcel::ToClient(shard, wire::decode_to_client(body, spec)?),
        OVER => Parcel::Over,
        _ => return Err(bad("it has no direction").into()),
    }))
}
