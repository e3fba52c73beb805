//! Messages to and from other peers.
//!
//! A table has one channel. In front of a message stand its direction and its shard; the rest is `hemiola_tables::wire`. Clocks and
//! other small things take the control lane: the machines put messages back in order.
//!
//! **Who sends.** Workers send what they cause and wait for room, which is how the network slows them down. The service that takes
//! messages in must not wait, or two peers that send to each other would wait for ever: what does not fit goes to the *outbox*, which another service
//! empties. That service also sends ahead of need, in tables with a budget.

use crate::error::Failure;
use bytes::Bytes;
use hemiola_cluster::{Link, Result};
use hemiola_core::{ChannelId, Lane, Message, Outgoing, Payload, Purpose, Rank};
use hemiola_net::OVERHEAD_BYTES;
use hemiola_tables::message::{ToClient, ToShard};
use hemiola_tables::number::Cell;
use hemiola_tables::stream::Envelope;
use hemiola_tables::{ShardId, Spec, wire};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Requests of this size still take the control lane.
const SMALL_BYTES: usize = 512;
/// Direction and shard.
const HEAD_BYTES: usize = 5;
/// What stands around the bytes that the machines know of.
pub(crate) const FRONT_BYTES: usize = HEAD_BYTES + OVERHEAD_BYTES;
const TO_SHARD: u8 = 0;
const TO_CLIENT: u8 = 1;

/// Who sends, and so whether it may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Waits for room.
    Patient,
    /// Leaves it to the outbox.
    Hurried,
}

/// What came from another peer.
pub(crate) enum Parcel<C: Cell> {
    ToShard(ShardId, Rank, Envelope<ToShard<C::Wide>>),
    ToClient(ShardId, Envelope<ToClient<C, C::Wide>>),
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
        envelope: &Envelope<ToShard<C::Wide>>,
    ) -> Result<usize> {
        let body = wire::encode_to_shard::<C::Wide>(envelope);
        let small = match &envelope.body {
            None | Some(ToShard::Clock(_)) => true,
            Some(ToShard::Get { .. }) => body.len() <= SMALL_BYTES,
            Some(_) => false,
        };
        self.send(way, to, TO_SHARD, shard, small, body)
    }

    /// Sends to a client of another peer; how many bytes that was.
    pub(crate) fn to_client<C: Cell>(
        &self,
        way: Way,
        to: Rank,
        shard: ShardId,
        envelope: &Envelope<ToClient<C, C::Wide>>,
    ) -> Result<usize> {
        let body = wire::encode_to_client::<C>(envelope);
        let small = match &envelope.body {
            None | Some(ToClient::Recall { .. }) => true,
            // A single row that somebody waits for, or a clock that has moved.
            Some(ToClient::Rows { .. }) => body.len() <= SMALL_BYTES,
            Some(_) => false,
        };
        self.send(way, to, TO_CLIENT, shard, small, body)
    }

    fn send(&self, way: Way, to: Rank, kind: u8, shard: ShardId, small: bool, body: Vec<u8>) -> Result<usize> {
        let mut head = [kind; HEAD_BYTES];
        head[1..].copy_from_slice(&(shard.index() as u32).to_le_bytes());
        let payload = Payload::from_parts([Bytes::copy_from_slice(&head), body.into()]);
        let bytes = payload.len() + OVERHEAD_BYTES;
        let lane = if small { Lane::Control } else { Lane::Bulk };
        let message = Outgoing { lane, channel: self.channel, purpose: Purpose::Tables, payload };
        match way {
            Way::Patient => self.link.send(to, message)?,
            Way::Hurried => {
                if let Some(message) = self.link.try_send(to, message)? {
                    self.outbox.put(to, message);
                }
            }
        }
        Ok(bytes)
    }
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
    let bad = |problem: &str| hemiola_tables::Error::BadMessage {
        table: spec.name.clone(),
        problem: format!("{problem}, from peer {}", message.from),
    };
    let Some((head, body)) = message.payload.split_at_checked(HEAD_BYTES) else {
        return Err(bad("it is too short").into());
    };
    let number = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
    if number as usize >= spec.shards {
        return Err(bad("it names a shard that is not").into());
    }
    let shard = ShardId::new(number);
    Ok(Some(match head[0] {
        TO_SHARD => Parcel::ToShard(shard, message.from, wire::decode_to_shard(body, spec)?),
        TO_CLIENT => Parcel::ToClient(shard, wire::decode_to_client(body, spec)?),
        _ => return Err(bad("it has no direction").into()),
    }))
}
