//! Messages between peers, and their payloads.

use crate::{ChannelId, Lane, Purpose, Rank};
use bytes::Bytes;

/// Number of bytes that a frame on the wire adds to its payload: header and checksum. Transports
/// account for it in their traffic counters, and protocols in their budgets.
pub const FRAME_OVERHEAD_BYTES: usize = 44;

/// Body of an outgoing message: slices that are sent one after the other without being copied
/// together.
#[derive(Clone, Debug, Default)]
pub struct Payload {
    first: Bytes,
    rest: Vec<Bytes>,
}

impl Payload {
    /// Creates an empty body.
    #[must_use]
    pub const fn empty() -> Self {
        Self { first: Bytes::new(), rest: Vec::new() }
    }

    /// Creates a body from several slices; empty slices are dropped.
    #[must_use]
    pub fn from_parts(parts: impl IntoIterator<Item = Bytes>) -> Self {
        let mut parts = parts.into_iter().filter(|part| !part.is_empty());
        Self { first: parts.next().unwrap_or_default(), rest: parts.collect() }
    }

    /// Returns the number of bytes in all parts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.first.len() + self.rest.iter().map(Bytes::len).sum::<usize>()
    }

    /// Returns true if the body has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first.is_empty() && self.rest.is_empty()
    }

    /// Returns the slices in order.
    pub fn parts(&self) -> impl Iterator<Item = &Bytes> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    /// Returns the body as one slice. Copies only if there are several parts.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        if self.rest.is_empty() {
            return self.first;
        }
        let mut whole = Vec::with_capacity(self.len());
        for part in self.parts() {
            whole.extend_from_slice(part);
        }
        whole.into()
    }
}

impl From<Bytes> for Payload {
    fn from(first: Bytes) -> Self {
        Self { first, rest: Vec::new() }
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

/// Message to be sent.
#[derive(Clone, Debug)]
pub struct OutgoingMessage {
    /// Lane that carries the message.
    pub lane: Lane,
    /// Channel of the receiving peer.
    pub channel: ChannelId,
    /// Purpose under which the bytes are counted.
    pub purpose: Purpose,
    /// Body of the message.
    pub payload: Payload,
}

/// Message that has arrived.
#[derive(Clone, Debug)]
pub struct Message {
    /// Sender of the message.
    pub from: Rank,
    /// Lane that carried the message.
    pub lane: Lane,
    /// Channel that receives the message.
    pub channel: ChannelId,
    /// Purpose under which the bytes are counted.
    pub purpose: Purpose,
    /// Body of the message. Received bodies of 64 KiB and more start at a multiple of 64.
    pub payload: Bytes,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_joined_in_order_and_empty_ones_vanish() {
        let payload =
            Payload::from_parts([Bytes::new(), Bytes::from_static(b"ab"), Bytes::new(), Bytes::from_static(b"c")]);
        assert_eq!(payload.len(), 3);
        assert_eq!(payload.parts().count(), 2);
        assert_eq!(payload.into_bytes(), "abc");
        assert!(Payload::from_parts([]).is_empty());
    }

    #[test]
    fn one_part_is_not_copied() {
        let bytes = Bytes::from(vec![1, 2, 3]);
        let address = bytes.as_ptr();
        assert_eq!(Payload::from(bytes).into_bytes().as_ptr(), address);
    }
}
