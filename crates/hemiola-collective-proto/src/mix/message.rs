//! What mixers say to each other, and its bytes: a header of 64 bytes and, in pieces, the values as they are.

use crate::{Error, Result};
use bytes::Bytes;
use hemiola_core::{Payload, Rank};

/// Bytes before the values of a piece; a multiple of 64, so that values stay aligned where bodies are.
pub(super) const HEADER_BYTES: usize = 64;

/// A message from one peer to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who sends it.
    pub from: Rank,
    /// Who is to have it.
    pub to: Rank,
    /// The version it is about: the round in which it was pushed.
    pub version: u64,
    /// What it says.
    pub body: Body,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Part of the values. Travels on the bulk lane.
    Piece {
        /// Which part.
        index: u32,
        /// The values.
        values: Bytes,
    },
    /// All parts have been sent. Travels on the bulk lane, or faster.
    Notify,
    /// The version was reduced; the slot may be written again. Travels on the control lane.
    Ack,
}

impl Message {
    /// The bytes of the message, values not copied.
    #[must_use]
    pub fn to_payload(&self) -> Payload {
        let mut header = vec![0; HEADER_BYTES];
        header[0..8].copy_from_slice(&self.version.to_le_bytes());
        match &self.body {
            Body::Piece { index, values } => {
                header[8..12].copy_from_slice(&index.to_le_bytes());
                Payload::from_parts([header.into(), values.clone()])
            }
            Body::Notify => {
                header[12] = 1;
                header.into()
            }
            Body::Ack => {
                header[12] = 2;
                header.into()
            }
        }
    }

    /// Reads a message that came from `from` to `to`.
    pub fn from_bytes(from: Rank, to: Rank, bytes: &Bytes) -> Result<Self> {
        let bad = |problem: &str| Error::BadMessage { from, problem: problem.to_owned() };
        let short = || bad("it is shorter than a header");
        let header = bytes.get(..HEADER_BYTES).ok_or_else(short)?;
        let (version, rest) = header.split_first_chunk::<8>().ok_or_else(short)?;
        let (index, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
        let body = match rest[0] {
            0 => Body::Piece { index: u32::from_le_bytes(*index), values: bytes.slice(HEADER_BYTES..) },
            1 => Body::Notify,
            2 => Body::Ack,
            _ => return Err(bad("it is of an unknown kind")),
        };
        Ok(Self { from, to, version: u64::from_le_bytes(*version), body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_wire() {
        let (from, to, version) = (Rank::new(1), Rank::new(2), 1 << 40);
        for body in [Body::Piece { index: 7, values: Bytes::from_static(b"abc") }, Body::Notify, Body::Ack] {
            let message = Message { from, to, version, body };
            assert_eq!(Message::from_bytes(from, to, &message.to_payload().into_bytes()), Ok(message));
        }
        assert!(Message::from_bytes(from, to, &Bytes::from_static(&[0; 63])).is_err());
        assert!(Message::from_bytes(from, to, &Bytes::from_static(&[9; 64])).is_err());
    }
}
