//! Transport of messages: the trait that in-process queues and TCP, plain or with TLS, implement.

use crate::{GoodbyeReason, Lane, Message, Moment, OutgoingMessage, Payload, PeerLost, Purpose, Rank};
use bytes::Bytes;
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// Error of sending a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The receiver is lost.
    #[error(transparent)]
    Lost(#[from] PeerLost),
    /// The receiver has not consumed earlier messages within the timeout.
    #[error(
        "peer {peer} has not read {queued} queued bytes on the {lane} lane for {:.1} s, although it is alive",
        waited.as_secs_f64()
    )]
    SendTimeout {
        /// Peer that does not read.
        peer: Rank,
        /// Lane whose send queue is full.
        lane: Lane,
        /// Bytes queued ahead of this message.
        queued: usize,
        /// Time that the sender waited for room.
        waited: Duration,
    },
    /// The message exceeds the maximum frame size.
    #[error("a message of {length} bytes is over the frame limit of {limit} bytes: send it in several messages")]
    TooLarge {
        /// Bytes in the message.
        length: usize,
        /// Maximum bytes per message.
        limit: usize,
    },
    /// The transport has been closed.
    #[error("the transport is closed")]
    Closed,
    /// The rank is outside of the job.
    #[error("there is no peer {peer} in a job of {size}")]
    NoSuchPeer {
        /// Rank of the intended receiver.
        peer: Rank,
        /// Number of peers in the job.
        size: usize,
    },
}

/// Receiver of everything that a transport delivers. Called on the transport's threads, or on a
/// thread that [assists](Transport::assist) it: it must return quickly and never block on the
/// transport.
pub trait MessageSink: Send + Sync + 'static {
    /// Accepts a message. Messages of one sender on one lane arrive in the order they were sent.
    fn deliver(&self, message: Message);

    /// Reports the loss of a peer. Called once per peer; no message of that peer follows.
    fn peer_lost(&self, loss: PeerLost);
}

/// Result of a call of [`Transport::assist`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssistOutcome {
    /// The awaited condition holds.
    Done,
    /// The timeout has passed.
    TimedOut,
    /// Another thread already reads, or this transport does not support assistance: wait to be
    /// woken.
    Declined,
}

/// Moves messages between the peers of one job.
///
/// # Contract
/// - `send` keeps the order of messages to one peer on one lane and never copies the payload. It
///   returns when the message is queued or written, not when it has arrived; it waits for room at
///   most `timeout`.
/// - Delivery is exactly once while the connection lives. When the connection ends,
///   [`MessageSink::peer_lost`] reports the cause.
/// - All methods may be called from any thread. A message to the own rank is delivered directly.
pub trait Transport: Send + Sync + fmt::Debug + 'static {
    /// Returns the rank of this peer.
    fn rank(&self) -> Rank;

    /// Returns the number of peers in the job.
    fn size(&self) -> usize;

    /// Sends a message to peer `to`. Waits at most `timeout` for room in the send queue.
    fn send(&self, to: Rank, message: OutgoingMessage, timeout: Duration) -> Result<(), TransportError>;

    /// Sends a message whose payload is followed by the borrowed `tail`. Only the part of the tail
    /// that cannot be written at once is copied.
    fn send_borrowed(
        &self,
        to: Rank,
        message: OutgoingMessage,
        tail: &[u8],
        timeout: Duration,
    ) -> Result<(), TransportError> {
        let parts = message.payload.parts().cloned().chain(std::iter::once(Bytes::copy_from_slice(tail)));
        let payload = Payload::from_parts(parts);
        self.send(to, OutgoingMessage { payload, ..message }, timeout)
    }

    /// Lends the calling thread to the transport: reads from peer `from` on `lane` until `done`
    /// returns true or `timeout` has passed.
    ///
    /// Without assistance, a message wakes a reader thread, which then wakes the waiting thread;
    /// with it, the message wakes the waiting thread directly. `done` is called after each delivery
    /// and at least every 50 ms.
    fn assist(&self, from: Rank, lane: Lane, timeout: Duration, done: &mut dyn FnMut() -> bool) -> AssistOutcome {
        let _ = (from, lane, timeout, done);
        AssistOutcome::Declined
    }

    /// Reports that the receiver of a channel has consumed `bytes` from `from` on `lane` (flow
    /// control).
    fn consumed(&self, from: Rank, lane: Lane, bytes: usize);

    /// Returns the time of the last sign of life of `peer`.
    fn last_heard(&self, peer: Rank) -> Moment;

    /// Returns a printable address of `peer`.
    fn address(&self, peer: Rank) -> String;

    /// Disconnects from a peer: closes its lanes and reports `loss` to the sink unless a loss was
    /// reported before.
    fn disconnect(&self, loss: PeerLost);

    /// Returns the traffic counters.
    fn traffic(&self) -> Traffic;

    /// Sends all queued messages and a goodbye to every peer. Closes when the others have left too,
    /// or after `timeout`.
    fn close(&self, goodbye: GoodbyeReason, timeout: Duration);
}

/// Traffic between this peer and one other, on one lane, for one purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TrafficLine {
    /// Rank of the other peer.
    pub peer: Rank,
    /// Lane that carried the messages.
    pub lane: Lane,
    /// Purpose of the messages.
    pub purpose: Purpose,
    /// Messages sent to the other peer.
    pub messages_sent: u64,
    /// Bytes sent to the other peer, headers included.
    pub bytes_sent: u64,
    /// Messages received from the other peer.
    pub messages_received: u64,
    /// Bytes received from the other peer, headers included.
    pub bytes_received: u64,
}

/// Snapshot of all traffic counters that are not zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Counters per peer, lane and purpose, in that order.
    pub lines: Vec<TrafficLine>,
}

impl Traffic {
    /// Returns the total number of bytes sent.
    #[must_use]
    pub fn bytes_sent(&self) -> u64 {
        self.lines.iter().map(|line| line.bytes_sent).sum()
    }

    /// Returns the total number of bytes received.
    #[must_use]
    pub fn bytes_received(&self) -> u64 {
        self.lines.iter().map(|line| line.bytes_received).sum()
    }
}
