//! How messages leave and arrive: the one trait that in-process queues, TCP, TLS and the simulator implement.

use crate::{Lane, Message, Moment, Outgoing, Parting, Payload, PeerLost, Purpose, Rank};
use bytes::Bytes;
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// Why a message could not be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The receiver is gone.
    #[error(transparent)]
    Lost(#[from] PeerLost),
    /// The receiver has not taken earlier messages for too long.
    #[error(
        "peer {peer} has not taken {queued} queued bytes on the {lane} lane for {:.1} s: it lives but does not read",
        waited.as_secs_f64()
    )]
    Stuck {
        /// The receiver.
        peer: Rank,
        /// The lane that is full.
        lane: Lane,
        /// Bytes waiting in front of this message.
        queued: usize,
        /// How long the sender waited for room.
        waited: Duration,
    },
    /// The message is larger than a frame may be.
    #[error("a message of {length} bytes is over the limit of {limit} bytes for one frame: send it in pieces")]
    TooLarge {
        /// Bytes in the message.
        length: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// This transport has been closed.
    #[error("the transport is closed")]
    Closed,
    /// There is no such peer.
    #[error("there is no peer {peer} in a job of {size}")]
    NoSuchPeer {
        /// The rank asked for.
        peer: Rank,
        /// The number of peers.
        size: usize,
    },
}

/// Receives what a transport brings. Called on the transport's threads, or on a thread that
/// [assists](Transport::assist) it: must return quickly and never block on the transport.
pub trait Inbox: Send + Sync + 'static {
    /// A message arrived. Messages of one sender on one lane come in the order they were sent.
    fn deliver(&self, message: Message);

    /// A peer is gone. Called once per peer; no message of that peer follows.
    fn lost(&self, loss: PeerLost);
}

/// What came of lending a thread to the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assist {
    /// The awaited condition holds.
    Done,
    /// The time is up.
    TimedOut,
    /// Another thread reads already, or this transport has nothing to lend a hand with: wait to be woken.
    Decline,
}

/// Moves messages between the peers of one job.
///
/// # Contract
/// - `send` keeps the order of messages to one peer on one lane and never copies the payload. It returns when the
///   message is queued or on its way, not when it has arrived; it waits for room at most `timeout`.
/// - Delivery is exactly once while the connection lives. When it ends, [`Inbox::lost`] tells why.
/// - All methods may be called from any thread. Sending to oneself delivers directly.
pub trait Transport: Send + Sync + fmt::Debug + 'static {
    /// This peer.
    fn rank(&self) -> Rank;

    /// Number of peers in the job.
    fn size(&self) -> usize;

    /// Sends a message to peer `to`, waiting at most `timeout` for room.
    fn send(&self, to: Rank, message: Outgoing, timeout: Duration) -> Result<(), TransportError>;

    /// Sends a message whose payload is followed by `tail`, which stays the caller's: it is copied only as far as it cannot be sent at once.
    fn send_lent(&self, to: Rank, message: Outgoing, tail: &[u8], timeout: Duration) -> Result<(), TransportError> {
        let parts = message.payload.parts().cloned().chain(std::iter::once(Bytes::copy_from_slice(tail)));
        let payload = Payload::from_parts(parts);
        self.send(to, Outgoing { payload, ..message }, timeout)
    }

    /// Lends the calling thread to read from peer `from` on `lane` until `done` holds or `timeout` has passed.
    ///
    /// Without this, a message would wake a reading thread which wakes the waiting one; with it the waiting thread
    /// is the one that is woken. `done` is asked after each delivery and at least every 50 ms.
    fn assist(&self, from: Rank, lane: Lane, timeout: Duration, done: &mut dyn FnMut() -> bool) -> Assist {
        let _ = (from, lane, timeout, done);
        Assist::Decline
    }

    /// Tells the transport that `bytes` delivered from `from` on `lane` have been taken out of their mailbox.
    fn taken(&self, from: Rank, lane: Lane, bytes: usize);

    /// When `peer` was last heard of.
    fn last_heard(&self, peer: Rank) -> Moment;

    /// Where `peer` is, for people.
    fn address(&self, peer: Rank) -> String;

    /// Gives a peer up: closes its lanes and reports `loss` to the inbox unless it was reported before.
    fn sever(&self, loss: PeerLost);

    /// What has been sent and received so far.
    fn traffic(&self) -> Traffic;

    /// Sends what is queued, tells every peer why this one leaves, and closes once they have left too or `timeout`
    /// has passed.
    fn close(&self, parting: Parting, timeout: Duration);
}

/// Messages and bytes moved between this peer and one other, on one lane, for one purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TrafficLine {
    /// The other peer.
    pub peer: Rank,
    /// The lane.
    pub lane: Lane,
    /// The purpose.
    pub purpose: Purpose,
    /// Messages sent to it.
    pub messages_sent: u64,
    /// Bytes sent to it, headers included.
    pub bytes_sent: u64,
    /// Messages received from it.
    pub messages_received: u64,
    /// Bytes received from it, headers included.
    pub bytes_received: u64,
}

/// A snapshot of all counters that are not zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// One line per peer, lane and purpose, in that order.
    pub lines: Vec<TrafficLine>,
}

impl Traffic {
    /// All bytes sent.
    #[must_use]
    pub fn bytes_sent(&self) -> u64 {
        self.lines.iter().map(|line| line.bytes_sent).sum()
    }

    /// All bytes received.
    #[must_use]
    pub fn bytes_received(&self) -> u64 {
        self.lines.iter().map(|line| line.bytes_received).sum()
    }
}
