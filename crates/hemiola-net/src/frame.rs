//! Wire format: a fixed header, a payload, and the tag of the whole frame.
//!
//! ```text
//! 0      4        5     6        7      8        12        20           28
//! | magic| version| kind| purpose| flags| length | channel | header tag | payload ... | frame tag |
//! | HMLA |   u8   |  u8 |   u8   |  u8  |  u32   |   u64   |  8 bytes   | length bytes| 16 bytes  |
//! ```
//! All numbers are little-endian. The header has its own tag, so that the length can be trusted
//! before a buffer is taken for it. The tag of the frame follows the payload, so that both sides
//! compute it while the bytes pass through the cache anyway. Both tags depend on the number of the
//! frame in its direction, which both sides count: a frame that is changed, replayed, lost or out of
//! order is detected. [`frame_authentication`](crate::frame_authentication) has keys and nonces.
//! **Invariant:** no input makes [`FrameHeader::decode`] panic.

use crate::frame_authentication::{FrameKey, HEADER_TAG_BYTES};
use hemiola_core::{ChannelId, Purpose};

/// First bytes of every frame.
pub(crate) const MAGIC: [u8; 4] = *b"HMLA";
/// Version of the wire format. Peers of different versions refuse each other.
pub const PROTOCOL_VERSION: u8 = 2;
/// Number of header bytes in front of the header's tag.
pub(crate) const HEADER_FIELDS: usize = 20;
/// Number of bytes in a header.
pub const HEADER_BYTES: usize = HEADER_FIELDS + HEADER_TAG_BYTES;
/// Number of bytes behind the payload.
pub(crate) const TRAILER_BYTES: usize = 16;
const _: () = assert!(HEADER_BYTES + TRAILER_BYTES == hemiola_core::FRAME_OVERHEAD_BYTES);

/// Content of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// Step of the join handshake.
    Handshake = 1,
    /// Message for a channel.
    Data = 2,
    /// Last frame of a connection: the reason why the sender leaves.
    Goodbye = 3,
}

impl FrameKind {
    fn from_number(number: u8) -> Option<Self> {
        [Self::Handshake, Self::Data, Self::Goodbye].into_iter().find(|kind| *kind as u8 == number)
    }
}

/// Reason why bytes are not a valid frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The other side does not speak this protocol.
    #[error("not a hemiola frame: it starts with {found:02x?} instead of `HMLA`; does another program use this port?")]
    NotHemiola {
        /// First four bytes received.
        found: [u8; 4],
    },
    /// The other side runs another release.
    #[error("wire version {theirs} instead of {ours}: all peers must run the same release")]
    Version {
        /// Version of this peer.
        ours: u8,
        /// Version of the other peer.
        theirs: u8,
    },
    /// The tag of the header does not match.
    #[error("a frame header is not authentic: its bytes have changed in transit, or a frame is missing or repeated")]
    HeaderTag,
    /// The tag of the frame does not match.
    #[error("a frame is not authentic: its bytes have changed in transit")]
    FrameTag,
    /// A header field has an undefined value.
    #[error("unknown {field} {value}")]
    Unknown {
        /// Name of the header field.
        field: &'static str,
        /// Value of the header field.
        value: u8,
    },
    /// The frame exceeds the size limit.
    #[error("a frame of {length} bytes is over the limit of {limit}")]
    TooLong {
        /// Bytes announced in the header.
        length: usize,
        /// Maximum number of bytes.
        limit: usize,
    },
}

/// Fixed part at the front of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Content of the frame.
    pub kind: FrameKind,
    /// Purpose under which the bytes are counted.
    pub purpose: Purpose,
    /// Number of payload bytes.
    pub length: u32,
    /// Channel that receives the payload.
    pub channel: ChannelId,
}

impl FrameHeader {
    /// Encodes the header of frame number `sequence` as it is sent on the wire.
    #[must_use]
    pub fn encode(&self, key: &FrameKey, sequence: u64) -> [u8; HEADER_BYTES] {
        let mut fields = [0; HEADER_FIELDS];
        fields[0..4].copy_from_slice(&MAGIC);
        fields[4] = PROTOCOL_VERSION;
        fields[5] = self.kind as u8;
        fields[6] = self.purpose.index() as u8;
        fields[8..12].copy_from_slice(&self.length.to_le_bytes());
        fields[12..20].copy_from_slice(&self.channel.number().to_le_bytes());
        let mut bytes = [0; HEADER_BYTES];
        bytes[..HEADER_FIELDS].copy_from_slice(&fields);
        bytes[HEADER_FIELDS..].copy_from_slice(&key.header_tag(sequence, &fields));
        bytes
    }

    /// Decodes the header of frame number `sequence`. Checks magic and version first, so that a
    /// foreign protocol is distinguished from changed data.
    pub fn decode(bytes: &[u8; HEADER_BYTES], key: &FrameKey, sequence: u64) -> Result<Self, FrameError> {
        let found = [bytes[0], bytes[1], bytes[2], bytes[3]];
        if found != MAGIC {
            return Err(FrameError::NotHemiola { found });
        }
        if bytes[4] != PROTOCOL_VERSION {
            return Err(FrameError::Version { ours: PROTOCOL_VERSION, theirs: bytes[4] });
        }
        let fields: [u8; HEADER_FIELDS] = std::array::from_fn(|index| bytes[index]);
        let expected = u64::from_le_bytes(key.header_tag(sequence, &fields));
        // A comparison of two numbers takes the same time for all values.
        if expected != u64::from_le_bytes(eight(bytes, HEADER_FIELDS)) {
            return Err(FrameError::HeaderTag);
        }
        if bytes[7] != 0 {
            return Err(FrameError::Unknown { field: "flags", value: bytes[7] });
        }
        Ok(Self {
            kind: FrameKind::from_number(bytes[5]).ok_or(FrameError::Unknown { field: "kind", value: bytes[5] })?,
            purpose: Purpose::from_number(bytes[6]).ok_or(FrameError::Unknown { field: "purpose", value: bytes[6] })?,
            length: u32::from_le_bytes(four(bytes, 8)),
            channel: ChannelId::new(u64::from_le_bytes(eight(bytes, 12))),
        })
    }
}

fn four(bytes: &[u8; HEADER_BYTES], at: usize) -> [u8; 4] {
    std::array::from_fn(|index| bytes[at + index])
}

fn eight(bytes: &[u8; HEADER_BYTES], at: usize) -> [u8; 8] {
    std::array::from_fn(|index| bytes[at + index])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_header() -> impl Strategy<Value = FrameHeader> {
        let kinds = prop::sample::select(vec![FrameKind::Handshake, FrameKind::Data, FrameKind::Goodbye]);
        let purposes = prop::sample::select(Purpose::ALL.to_vec());
        (kinds, purposes, any::<u64>(), any::<u32>()).prop_map(|(kind, purpose, channel, length)| FrameHeader {
            kind,
            purpose,
            length,
            channel: ChannelId::new(channel),
        })
    }

    proptest! {
        #[test]
        fn header_round_trips(header in any_header(), sequence in any::<u64>()) {
            let bytes = header.encode(&FrameKey::PUBLIC, sequence);
            prop_assert_eq!(FrameHeader::decode(&bytes, &FrameKey::PUBLIC, sequence), Ok(header));
        }

        #[test]
        fn every_flipped_bit_is_noticed(header in any_header(), bit in 0..HEADER_BYTES * 8) {
            let mut bytes = header.encode(&FrameKey::PUBLIC, 0);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(FrameHeader::decode(&bytes, &FrameKey::PUBLIC, 0).is_err());
        }

        #[test]
        fn a_header_is_valid_at_its_own_number_only(header in any_header(), sequence in any::<u64>(), other in any::<u64>()) {
            let bytes = header.encode(&FrameKey::PUBLIC, sequence);
            let found = FrameHeader::decode(&bytes, &FrameKey::PUBLIC, other);
            prop_assert_eq!(found.is_ok(), sequence == other);
        }

        #[test]
        fn no_bytes_make_decode_panic(bytes in any::<[u8; HEADER_BYTES]>()) {
            let _ = FrameHeader::decode(&bytes, &FrameKey::PUBLIC, 0);
        }
    }
}
