//! Messages of gossip averaging and their wire format: a header of 64 bytes and, in pieces, the
//! values.

use crate::{Error, Result};
use bytes::Bytes;
use hemiola_core::{Payload, Rank};

/// Bytes before the values of a piece; a multiple of 64, so that values stay aligned where bodies
/// are.
pub(super) const HEADER_BYTES: usize = 64;

/// Message of gossip averaging from one peer to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GossipMessage {
    /// Rank of the sender.
    pub from: Rank,
    /// Rank of the receiver.
    pub to: Rank,
    /// Version of the values: the round in which they were pushed.
    pub version: u64,
    /// Piece of the values, NOTIFY or ACK.
    pub body: GossipBody,
}

/// Content of a gossip message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GossipBody {
    /// Piece of the values. Travels on the bulk lane.
    Piece {
        /// Index of the piece.
        index: u32,
        /// Values of the piece in wire format.
        values: Bytes,
    },
    /// NOTIFY: all pieces have been sent. Travels on the bulk lane, or faster.
    Notify,
    /// ACK: the version was reduced and the slot may be overwritten. Travels on the control lane.
    Ack,
}

impl GossipMessage {
    /// Serializes the message without copying the values.
    #[must_use]
    pub fn to_payload(&self) -> Payload {
        let mut header = vec![0; HEADER_BYTES];
        header[0..8].copy_from_slice(&self.version.to_le_bytes());
        match &self.body {
            GossipBody::Piece { index, values } => {
                header[8..12].copy_from_slice(&index.to_le_bytes());
                Payload::from_parts([header.into(), values.clone()])
            }
            GossipBody::Notify => {
                header[12] = 1;
                header.into()
            }
            GossipBody::Ack => {
                header[12] = 2;
                header.into()
            }
        }
    }

    /// Parses a message from `from` to `to`.
    pub fn from_bytes(from: Rank, to: Rank, bytes: &Bytes) -> Result<Self> {
        let bad = |problem: &str| Error::InvalidMessage { from, problem: problem.to_owned() };
        let short = || bad("it is shorter than a header");
        let header = bytes.get(..HEADER_BYTES).ok_or_else(short)?;
        let (version, rest) = header.split_first_chunk::<8>().ok_or_else(short)?;
        let (index, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
        let body = match rest[0] {
            0 => GossipBody::Piece { index: u32::from_le_bytes(*index), values: bytes.slice(HEADER_BYTES..) },
            1 => GossipBody::Notify,
            2 => GossipBody::Ack,
            _ => return Err(bad("it is of an unknown kind")),
        };
        Ok(Self { from, to, version: u64::from_le_bytes(*version), body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_round_trip() {
        let (from, to, version) = (Rank::new(1), Rank::new(2), 1 << 40);
        for body in
            [GossipBody::Piece { index: 7, values: Bytes::from_static(b"abc") }, GossipBody::Notify, GossipBody::Ack]
        {
            let message = GossipMessage { from, to, version, body };
            assert_eq!(GossipMessage::from_bytes(from, to, &message.to_payload().into_bytes()), Ok(message));
        }
        assert!(GossipMessage::from_bytes(from, to, &Bytes::from_static(&[0; 63])).is_err());
        assert!(GossipMessage::from_bytes(from, to, &Bytes::from_static(&[9; 64])).is_err());
    }
}
