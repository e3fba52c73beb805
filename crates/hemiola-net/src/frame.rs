//! Wire format: a frame is a fixed header, a payload, and the checksum of the payload.
//!
//! ```text
//! 0      4        5     6        7      8        12          16     24         32       40
//! | magic| version| kind| purpose| flags| length | header sum| job  | sequence | channel | payload ... | payload sum |
//! | HMLA |   u8   |  u8 |   u8   |  u8  |  u32   |    u32    | u64  |   u64    |   u64   | length bytes|     u32     |
//! ```
//! All numbers are little-endian. The header has its own checksum, so that the length can be
//! trusted before anything is allocated for it. The checksum of the payload follows the payload, so
//! that both sides compute it while the bytes pass through the cache anyway. Sequence numbers count
//! the frames of one direction of one connection from zero: a frame that is replayed, lost or out
//! of order is detected. **Invariant:** no input makes [`FrameHeader::decode`] panic.

use crate::checksum::Checksum;
use hemiola_core::{ChannelId, JobId, Purpose};

/// First bytes of every frame.
pub(crate) const MAGIC: [u8; 4] = *b"HMLA";
/// Version of the wire format. Peers of different versions refuse each other.
pub const PROTOCOL_VERSION: u8 = 1;
/// Number of bytes in a header.
pub const HEADER_BYTES: usize = 40;
/// Number of bytes behind the payload.
pub(crate) const TRAILER_BYTES: usize = 4;
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
    /// The checksum of the header does not match.
    #[error("the header checksum does not match: bits have changed in transit")]
    HeaderChecksum,
    /// The checksum of the payload does not match.
    #[error("the payload checksum does not match: bits have changed in transit")]
    PayloadChecksum,
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
    /// The frame belongs to another job.
    #[error("job {theirs} instead of {ours}: it belongs to another run")]
    WrongJob {
        /// Job of this peer.
        ours: JobId,
        /// Job of the other peer.
        theirs: JobId,
    },
    /// The frame is replayed, or an earlier one is missing.
    #[error("frame number {found} where {expected} was expected: replayed or out of order")]
    Sequence {
        /// Sequence number that was expected.
        expected: u64,
        /// Sequence number that was received.
        found: u64,
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
    /// Job that the frame belongs to.
    pub job: JobId,
    /// Sequence number in this direction of the connection.
    pub sequence: u64,
    /// Channel that receives the payload.
    pub channel: ChannelId,
}

impl FrameHeader {
    /// Encodes the header as it is sent on the wire.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4] = PROTOCOL_VERSION;
        bytes[5] = self.kind as u8;
        bytes[6] = self.purpose.index() as u8;
        bytes[8..12].copy_from_slice(&self.length.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.job.number().to_le_bytes());
        bytes[24..32].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.channel.number().to_le_bytes());
        let sum = Checksum::of(&bytes);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Decodes a header. Checks magic and version first, so that a foreign protocol is
    /// distinguished from corrupt data.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, FrameError> {
        let found = [bytes[0], bytes[1], bytes[2], bytes[3]];
        if found != MAGIC {
            return Err(FrameError::NotHemiola { found });
        }
        if bytes[4] != PROTOCOL_VERSION {
            return Err(FrameError::Version { ours: PROTOCOL_VERSION, theirs: bytes[4] });
        }
        let mut summed = *bytes;
        summed[12..16].fill(0);
        if Checksum::of(&summed).to_le_bytes() != bytes[12..16] {
            return Err(FrameError::HeaderChecksum);
        }
        if bytes[7] != 0 {
            return Err(FrameError::Unknown { field: "flags", value: bytes[7] });
        }
        Ok(Self {
            kind: FrameKind::from_number(bytes[5]).ok_or(FrameError::Unknown { field: "kind", value: bytes[5] })?,
            purpose: Purpose::from_number(bytes[6]).ok_or(FrameError::Unknown { field: "purpose", value: bytes[6] })?,
            length: u32::from_le_bytes(four(bytes, 8)),
            job: JobId::new(u64::from_le_bytes(eight(bytes, 16))),
            sequence: u64::from_le_bytes(eight(bytes, 24)),
            channel: ChannelId::new(u64::from_le_bytes(eight(bytes, 32))),
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
        (kinds, purposes, any::<[u64; 3]>(), any::<u32>()).prop_map(
            |(kind, purpose, [job, sequence, channel], length)| FrameHeader {
                kind,
                purpose,
                length,
                job: JobId::new(job),
                sequence,
                channel: ChannelId::new(channel),
            },
        )
    }

    proptest! {
        #[test]
        fn header_round_trips(header in any_header()) {
            prop_assert_eq!(FrameHeader::decode(&header.encode()), Ok(header));
        }

        #[test]
        fn every_flipped_bit_is_noticed(header in any_header(), bit in 0..HEADER_BYTES * 8) {
            let mut bytes = header.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(FrameHeader::decode(&bytes).is_err());
        }

        #[test]
        fn no_bytes_make_decode_panic(bytes in any::<[u8; HEADER_BYTES]>()) {
            let _ = FrameHeader::decode(&bytes);
        }
    }
}
