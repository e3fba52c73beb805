//! Messages of collectives and their wire format.
//!
//! A message is a header of [`HEADER_BYTES`] followed by the elements. The header's length is a
//! multiple of 64, so that elements stay aligned where bodies are. The header repeats the sender's
//! call signature, which is how peers detect that they make different calls. **Invariant:** parsing
//! checks everything and allocates nothing, whatever the bytes are.

use super::operation::OPERATION_NAMES;
use super::{CallSignature, ElementKind, ReduceOp};
use crate::compress::CollectiveGoal;
use crate::{Algorithm, Compression, Error, Result};
use bytes::Bytes;
use hemiola_core::{Payload, Rank};
use std::fmt;

/// Bytes before the elements of a message.
pub const HEADER_BYTES: usize = 128;

/// Sequence number of a collective. All peers start the same collectives in the same order, so
/// equal tags mean the same collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag(pub(super) u64);

impl Tag {
    /// Creates the tag with this number. [`TagSequence`](super::TagSequence) counts them.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Number of the tag.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Message of a collective from one peer to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectiveMessage {
    /// Rank of the sender.
    pub from: Rank,
    /// Rank of the receiver.
    pub to: Rank,
    /// Tag of the collective.
    pub tag: Tag,
    /// Number of earlier messages from this sender to this receiver in this collective.
    pub sequence: u32,
    /// Call signature of the sender.
    pub call: CallSignature,
    /// Elements, or notice of a failure.
    pub body: CollectiveBody,
}

/// Content of a collective message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CollectiveBody {
    /// Elements in wire format.
    Elements(Bytes),
    /// Notice that the collective has failed, since two peers make different calls.
    Failed(CollectiveMismatch),
}

/// Message to be sent whose elements are borrowed from the caller's buffer.
#[derive(Clone, Copy, Debug)]
pub struct BorrowedMessage<'a> {
    /// Rank of the sender.
    pub from: Rank,
    /// Rank of the receiver.
    pub to: Rank,
    /// Tag of the collective.
    pub tag: Tag,
    /// Number of earlier messages from this sender to this receiver in this collective.
    pub sequence: u32,
    /// Call signature of the sender.
    pub call: CallSignature,
    /// Elements in wire format.
    pub elements: &'a [u8],
}

impl BorrowedMessage<'_> {
    /// Returns the header that precedes the elements.
    #[must_use]
    pub fn header(&self) -> Vec<u8> {
        header(self.tag, self.sequence, &self.call)
    }

    /// Size of the message in bytes, with its header and without the frame of the transport.
    #[must_use]
    pub fn wire_bytes(&self) -> usize {
        HEADER_BYTES + self.elements.len()
    }

    /// Returns an owned message with a copy of the elements.
    #[must_use]
    pub fn to_message(&self) -> CollectiveMessage {
        let Self { from, to, tag, sequence, call, elements } = *self;
        CollectiveMessage {
            from,
            to,
            tag,
            sequence,
            call,
            body: CollectiveBody::Elements(Bytes::copy_from_slice(elements)),
        }
    }
}

/// Two peers that make different calls under the same tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveMismatch {
    /// Tag of the collective.
    pub tag: Tag,
    /// First peer, the one with the lower rank.
    pub first: Rank,
    /// Call of the first peer.
    pub first_call: CallSignature,
    /// Second peer, the one with the higher rank.
    pub second: Rank,
    /// Call of the second peer.
    pub second_call: CallSignature,
}

impl fmt::Display for CollectiveMismatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "collective {}: peer {} does {}, peer {} does {}; all peers must make the same calls in the same order",
            self.tag, self.first, self.first_call, self.second, self.second_call
        )
    }
}

/// Bytes of a call signature in a header.
const CALL_BYTES: usize = 48;

impl CollectiveMessage {
    /// Size of the message in bytes, with its header and without the frame of the transport.
    #[must_use]
    pub fn wire_bytes(&self) -> usize {
        match &self.body {
            CollectiveBody::Elements(elements) => HEADER_BYTES + elements.len(),
            CollectiveBody::Failed(_) => HEADER_BYTES,
        }
    }

    /// Serializes the message. Header and elements are separate parts, so that elements are not
    /// copied.
    #[must_use]
    pub fn to_payload(&self) -> Payload {
        let mut header = header(self.tag, self.sequence, &self.call);
        match &self.body {
            CollectiveBody::Elements(elements) => Payload::from_parts([header.into(), elements.clone()]),
            CollectiveBody::Failed(failed) => {
                header[12] = 1;
                // The sender's own call is redundant here: the two calls of the mismatch use its
                // space.
                header[64..68].copy_from_slice(&failed.first.number().to_le_bytes());
                header[68..72].copy_from_slice(&failed.second.number().to_le_bytes());
                write_call(&failed.first_call, &mut header[16..16 + CALL_BYTES]);
                write_call(&failed.second_call, &mut header[72..72 + CALL_BYTES]);
                Payload::from(header)
            }
        }
    }

    /// Parses a message from `from` to `to`.
    pub fn from_bytes(from: Rank, to: Rank, bytes: &Bytes) -> Result<Self> {
        let bad = |problem: &str| Error::InvalidMessage { from, problem: problem.to_owned() };
        let header = bytes.get(..HEADER_BYTES).ok_or_else(|| bad("it is shorter than a header"))?;
        let tag = Tag(number(&header[0..8]));
        let sequence = number(&header[8..12]) as u32;
        let read =
            |offset: usize| read_call(&header[offset..offset + CALL_BYTES]).ok_or_else(|| bad("its call is unknown"));
        let call = read(16)?;
        let body = match header[12] {
            0 => CollectiveBody::Elements(bytes.slice(HEADER_BYTES..)),
            1 => CollectiveBody::Failed(CollectiveMismatch {
                tag,
                first: Rank::new(number(&header[64..68]) as u32),
                first_call: call,
                second: Rank::new(number(&header[68..72]) as u32),
                second_call: read(72)?,
            }),
            _ => return Err(bad("its body is of an unknown kind")),
        };
        Ok(Self { from, to, tag, sequence, call, body })
    }
}

fn header(tag: Tag, sequence: u32, call: &CallSignature) -> Vec<u8> {
    let mut header = vec![0; HEADER_BYTES];
    header[0..8].copy_from_slice(&tag.0.to_le_bytes());
    header[8..12].copy_from_slice(&sequence.to_le_bytes());
    write_call(call, &mut header[16..16 + CALL_BYTES]);
    header
}

/// Reads a little-endian number of up to 8 bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn write_call(call: &CallSignature, bytes: &mut [u8]) {
    bytes[0] = call.code;
    bytes[1] = call.kind.code();
    bytes[2] = match call.operator {
        None => 0,
        Some(ReduceOp::Sum) => 1,
        Some(ReduceOp::Min) => 2,
        Some(ReduceOp::Max) => 3,
    };
    let (algorithm, group) = match call.algorithm {
        None => (0, 0),
        Some(Algorithm::Ring) => (1, 0),
        Some(Algorithm::Tree) => (2, 0),
        Some(Algorithm::HalvingDoubling) => (3, 0),
        Some(Algorithm::TwoLevel { group }) => (4, group as u64),
        Some(Algorithm::Doubling) => (5, 0),
    };
    bytes[3] = algorithm;
    bytes[4..8].copy_from_slice(&call.root.to_le_bytes());
    bytes[8..16].copy_from_slice(&group.to_le_bytes());
    bytes[16..24].copy_from_slice(&call.length.to_le_bytes());
    bytes[24..32].copy_from_slice(&call.digest.to_le_bytes());
    bytes[32..40].copy_from_slice(&call.segment.to_le_bytes());
    let (compressed, parameter) = call.compressed.map_or((0, 0), |(compression, goal)| {
        let (compression, parameter) = compression.code();
        (compression | goal.code() << 4, parameter)
    });
    bytes[40] = compressed;
    bytes[41..48].copy_from_slice(&parameter.to_le_bytes()[..7]);
}

fn read_call(bytes: &[u8]) -> Option<CallSignature> {
    let operator = match bytes[2] {
        0 => None,
        1 => Some(ReduceOp::Sum),
        2 => Some(ReduceOp::Min),
        3 => Some(ReduceOp::Max),
        _ => return None,
    };
    let algorithm = match bytes[3] {
        0 => None,
        1 => Some(Algorithm::Ring),
        2 => Some(Algorithm::Tree),
        3 => Some(Algorithm::HalvingDoubling),
        4 => Some(Algorithm::TwoLevel { group: usize::try_from(number(&bytes[8..16])).ok()? }),
        5 => Some(Algorithm::Doubling),
        _ => return None,
    };
    let root = number(&bytes[4..8]) as u32;
    Some(CallSignature {
        code: Some(bytes[0]).filter(|&code| usize::from(code) < OPERATION_NAMES.len())?,
        kind: ElementKind::from_code(bytes[1])?,
        operator,
        algorithm,
        root,
        length: number(&bytes[16..24]),
        digest: number(&bytes[24..32]),
        segment: number(&bytes[32..40]),
        compressed: match bytes[40] {
            0 => None,
            code => {
                let compression = Compression::from_code(code & 15, number(&bytes[41..48]))?;
                Some((compression, CollectiveGoal::from_code(code >> 4, Rank::new(root))?))
            }
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Operation;
    use crate::compress::CompressionLabel;
    use hemiola_core::rng::SplitMix64;

    fn calls() -> Vec<CallSignature> {
        let (operator, length) = (ReduceOp::Max, 1 << 40);
        let operations = [
            Operation::AllReduce { algorithm: Algorithm::TwoLevel { group: 8 }, operator: ReduceOp::Sum, length },
            Operation::AllReduce { algorithm: Algorithm::HalvingDoubling, operator, length },
            Operation::AllGatherRagged { blocks: vec![1, 2, 3] },
            Operation::Reduce { root: Rank::new(7), operator, length },
            Operation::Barrier,
            Operation::AllReduce { algorithm: Algorithm::Doubling, operator, length },
            Operation::Gather { root: Rank::new(2), blocks: vec![3, 2, 1] },
        ];
        let mut calls: Vec<CallSignature> =
            operations.iter().map(|operation| CallSignature::new(operation, ElementKind::Bf16, 1 << 16)).collect();
        for compression in [
            Compression::F16,
            Compression::OneBit { block: 1 << 40 },
            Compression::TopK { keep: 3 },
            Compression::LowRank { rank: 4 },
            Compression::SufficientFactors { pairs: 0 },
        ] {
            let label = CompressionLabel {
                compression,
                goal: CollectiveGoal::AllReduce,
                operator: Some(ReduceOp::Sum),
                length: 7,
                digest: 9,
            };
            calls.push(calls[0].with_label(&label));
        }
        for goal in CollectiveGoal::all(Rank::new(5)) {
            let label = CompressionLabel { compression: Compression::Bf16, goal, operator: None, length: 7, digest: 0 };
            calls.push(calls[4].with_label(&label));
        }
        calls
    }

    #[test]
    fn messages_round_trip() {
        let (from, to, tag) = (Rank::new(3), Rank::new(4), Tag(1 << 50));
        for call in calls() {
            for second_call in calls() {
                let mismatch =
                    CollectiveMismatch { tag, first: Rank::new(1), first_call: call, second: to, second_call };
                for body in [CollectiveBody::Elements(Bytes::from_static(b"abcd")), CollectiveBody::Failed(mismatch)] {
                    let message = CollectiveMessage { from, to, tag, sequence: 9, call, body };
                    assert_eq!(
                        CollectiveMessage::from_bytes(from, to, &message.to_payload().into_bytes()),
                        Ok(message)
                    );
                }
            }
        }
    }

    #[test]
    fn parsing_never_panics() {
        let mut random = SplitMix64::new(8);
        let call = calls()[0];
        let (from, to) = (Rank::new(0), Rank::new(1));
        let good = CollectiveMessage {
            from,
            to,
            tag: Tag(1),
            sequence: 0,
            call,
            body: CollectiveBody::Elements(Bytes::new()),
        };
        let good = good.to_payload().into_bytes();
        let mut refused = 0;
        for _ in 0..20_000 {
            let mut bytes = good.to_vec();
            for _ in 0..=random.below(3) {
                let offset = random.below(bytes.len());
                bytes[offset] = random.next_u64() as u8;
            }
            bytes.truncate(random.below(2 * bytes.len()));
            refused += usize::from(CollectiveMessage::from_bytes(from, to, &bytes.into()).is_err());
        }
        assert!(refused > 5_000, "{refused}");
    }

    #[test]
    fn a_mismatch_names_both_peers() {
        let [first_call, second_call] = [calls()[0], calls()[3]];
        let text =
            CollectiveMismatch { tag: Tag(5), first: Rank::new(1), first_call, second: Rank::new(2), second_call }
                .to_string();
        assert!(
            text.contains("peer 1 does all-reduce (two-level, groups of 8) of 1099511627776 bf16 by sum"),
            "{text}"
        );
        assert!(text.contains("peer 2 does reduce of 1099511627776 bf16 by max with root 7"), "{text}");
        let text = calls()[8].to_string();
        assert!(
            text.contains("for an all-reduce of 7 f32 by sum compressed as one bit, blocks of 1099511627776"),
            "{text}"
        );
    }
}
