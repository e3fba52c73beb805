//! What travels between peers.

use crate::{Lane, Purpose, Rank};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The address of a mailbox inside a peer. The layer that opens a mailbox chooses the number; both sides must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChannelId(u64);

impl ChannelId {
    /// The channel with this number. The top byte names the layer that owns it (see [`ChannelId::of`]).
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Channel `number` of the layer that owns the top byte `owner`, so that two layers never collide.
    ///
    /// # Panics
    /// If `number` does not fit into 56 bits.
    #[must_use]
    pub const fn of(owner: u8, number: u64) -> Self {
        assert!(number < 1 << 56, "channel number needs more than 56 bits");
        Self(((owner as u64) << 56) | number)
    }

    /// The number as it travels.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ChannelId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:#x}", self.0)
    }
}

/// The body of an outgoing message: slices that are sent one after the other without being copied together.
#[derive(Clone, Debug, Default)]
pub struct Payload {
    first: Bytes,
    rest: Vec<Bytes>,
}

impl Payload {
    /// A body without bytes.
    #[must_use]
    pub const fn empty() -> Self {
        Self { first: Bytes::new(), rest: Vec::new() }
    }

    /// A body made of several slices.
    #[must_use]
    pub fn from_parts(parts: impl IntoIterator<Item = Bytes>) -> Self {
        let mut parts = parts.into_iter().filter(|part| !part.is_empty());
        Self { first: parts.next().unwrap_or_default(), rest: parts.collect() }
    }

    /// Number of bytes in all parts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.first.len() + self.rest.iter().map(Bytes::len).sum::<usize>()
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first.is_empty() && self.rest.is_empty()
    }

    /// The slices in order.
    pub fn parts(&self) -> impl Iterator<Item = &Bytes> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    /// The whole body as one slice; copies only if there are several parts.
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

/// A message on its way out.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The lane it takes.
    pub lane: Lane,
    /// The mailbox it is for.
    pub channel: ChannelId,
    /// What it is counted under.
    pub purpose: Purpose,
    /// Its body.
    pub payload: Payload,
}

/// A message that has arrived.
#[derive(Clone, Debug)]
pub struct Message {
    /// Who sent it.
    pub from: Rank,
    /// The lane it came on.
    pub lane: Lane,
    /// The mailbox it is for.
    pub channel: ChannelId,
    /// What it is counted under.
    pub purpose: Purpose,
    /// Its body. Received bodies of 64 KiB and more start at an address that is a multiple of 64.
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
