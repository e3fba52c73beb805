//! What machines say to each other, and its bytes.
//!
//! A message is a header of [`HEADER_BYTES`] and the elements as they are. The header's length is a multiple of 64, so that elements stay aligned where
//! bodies are. It repeats what the sender is doing: that is how peers notice that they are doing different things. **Invariant:** reading
//! checks everything and allocates nothing, whatever the bytes are.

use super::operation::NAMES;
use super::{Call, ElementKind, Operator};
use crate::encode::Goal;
use crate::{Algorithm, Encoding, Error, Result};
use bytes::Bytes;
use hemiola_core::{Payload, Rank};
use std::fmt;

/// Bytes before the elements of a message.
pub const HEADER_BYTES: usize = 128;

/// Which of the collectives of a job, in the order in which all peers begin them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag(pub(super) u64);

impl Tag {
    /// The tag with this number. [`Engine`](super::Engine) counts by itself; this is for drivers that hold machines one by one.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
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

/// A message from one peer to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who sends it.
    pub from: Rank,
    /// Who is to have it.
    pub to: Rank,
    /// The collective it belongs to.
    pub tag: Tag,
    /// How many this peer sent that one before, in this collective.
    pub sequence: u32,
    /// What the sender is doing.
    pub call: Call,
    /// What it says.
    pub body: Body,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Elements.
    Elements(Bytes),
    /// The collective has failed, since two peers are doing different things.
    Failed(Disagreement),
}

/// Elements that are to be sent, where they lie.
#[derive(Clone, Copy, Debug)]
pub struct Lent<'a> {
    /// Who sends them.
    pub from: Rank,
    /// Who is to have them.
    pub to: Rank,
    /// The collective they belong to.
    pub tag: Tag,
    /// How many messages this peer sent that one before, in this collective.
    pub sequence: u32,
    /// What the sender is doing.
    pub call: Call,
    /// The elements as they travel.
    pub elements: &'a [u8],
}

impl Lent<'_> {
    /// What travels in front of the elements.
    #[must_use]
    pub fn header(&self) -> Vec<u8> {
        header(self.tag, self.sequence, &self.call)
    }

    /// The message, with a copy of the elements.
    #[must_use]
    pub fn to_message(&self) -> Message {
        let Self { from, to, tag, sequence, call, elements } = *self;
        Message { from, to, tag, sequence, call, body: Body::Elements(Bytes::copy_from_slice(elements)) }
    }
}

/// Two peers that are in different collectives at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// Which collective, by count.
    pub tag: Tag,
    /// A peer.
    pub first: Rank,
    /// What it does.
    pub first_call: Call,
    /// Another peer.
    pub second: Rank,
    /// What that does.
    pub second_call: Call,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "collective {}: peer {} does {}, peer {} does {}; all peers must make the same calls in the same order",
            self.tag, self.first, self.first_call, self.second, self.second_call
        )
    }
}

/// Bytes of a call in a header.
const CALL_BYTES: usize = 48;

impl Message {
    /// The bytes of the message, header and elements apart so that elements are not copied.
    #[must_use]
    pub fn to_payload(&self) -> Payload {
        let mut header = header(self.tag, self.sequence, &self.call);
        match &self.body {
            Body::Elements(elements) => Payload::from_parts([header.into(), elements.clone()]),
            Body::Failed(failed) => {
                header[12] = 1;
                // The peer's own call is not needed any more: both calls of the disagreement take its place and the rest.
                header[64..68].copy_from_slice(&failed.first.number().to_le_bytes());
                header[68..72].copy_from_slice(&failed.second.number().to_le_bytes());
                write_call(&failed.first_call, &mut header[16..16 + CALL_BYTES]);
                write_call(&failed.second_call, &mut header[72..72 + CALL_BYTES]);
                Payload::from(header)
            }
        }
    }

    /// Reads a message that came from `from` to `to`.
    pub fn from_bytes(from: Rank, to: Rank, bytes: &Bytes) -> Result<Self> {
        let bad = |problem: &str| Error::BadMessage { from, problem: problem.to_owned() };
        let header = bytes.get(..HEADER_BYTES).ok_or_else(|| bad("it is shorter than a header"))?;
        let tag = Tag(number(&header[0..8]));
        let sequence = number(&header[8..12]) as u32;
        let read =
            |place: usize| read_call(&header[place..place + CALL_BYTES]).ok_or_else(|| bad("its call is unknown"));
        let call = read(16)?;
        let body = match header[12] {
            0 => Body::Elements(bytes.slice(HEADER_BYTES..)),
            1 => Body::Failed(Disagreement {
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

fn header(tag: Tag, sequence: u32, call: &Call) -> Vec<u8> {
    let mut header = vec![0; HEADER_BYTES];
    header[0..8].copy_from_slice(&tag.0.to_le_bytes());
    header[8..12].copy_from_slice(&sequence.to_le_bytes());
    write_call(call, &mut header[16..16 + CALL_BYTES]);
    header
}

/// A little-endian number of up to 8 bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn write_call(call: &Call, bytes: &mut [u8]) {
    bytes[0] = call.code;
    bytes[1] = call.kind.code();
    bytes[2] = match call.operator {
        None => 0,
        Some(Operator::Sum) => 1,
        Some(Operator::Min) => 2,
        Some(Operator::Max) => 3,
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
    let (encoded, parameter) = call.encoded.map_or((0, 0), |(encoding, goal)| {
        let (encoding, parameter) = encoding.code();
        (encoding | goal.code() << 4, parameter)
    });
    bytes[40] = encoded;
    bytes[41..48].copy_from_slice(&parameter.to_le_bytes()[..7]);
}

fn read_call(bytes: &[u8]) -> Option<Call> {
    let operator = match bytes[2] {
        0 => None,
        1 => Some(Operator::Sum),
        2 => Some(Operator::Min),
        3 => Some(Operator::Max),
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
    Some(Call {
        code: Some(bytes[0]).filter(|&code| usize::from(code) < NAMES.len())?,
        kind: ElementKind::from_code(bytes[1])?,
        operator,
        algorithm,
        root,
        length: number(&bytes[16..24]),
        digest: number(&bytes[24..32]),
        segment: number(&bytes[32..40]),
        encoded: match bytes[40] {
            0 => None,
            code => {
                let encoding = Encoding::from_code(code & 15, number(&bytes[41..48]))?;
                Some((encoding, Goal::from_code(code >> 4, Rank::new(root))?))
            }
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::Label;
    use crate::{Operation, Random};

    fn calls() -> Vec<Call> {
        let (operator, length) = (Operator::Max, 1 << 40);
        let operations = [
            Operation::AllReduce { algorithm: Algorithm::TwoLevel { group: 8 }, operator: Operator::Sum, length },
            Operation::AllReduce { algorithm: Algorithm::HalvingDoubling, operator, length },
            Operation::AllGatherRagged { blocks: vec![1, 2, 3] },
            Operation::Reduce { root: Rank::new(7), operator, length },
            Operation::Barrier,
            Operation::AllReduce { algorithm: Algorithm::Doubling, operator, length },
            Operation::Gather { root: Rank::new(2), blocks: vec![3, 2, 1] },
        ];
        let mut calls: Vec<Call> =
            operations.iter().map(|operation| Call::new(operation, ElementKind::Bf16, 1 << 16)).collect();
        for encoding in [
            Encoding::F16,
            Encoding::OneBit { block: 1 << 40 },
            Encoding::TopK { keep: 3 },
            Encoding::LowRank { rank: 4 },
            Encoding::SufficientFactors { pairs: 0 },
        ] {
            let label = Label { encoding, goal: Goal::AllReduce, operator: Some(Operator::Sum), length: 7, digest: 9 };
            calls.push(calls[0].labelled(&label));
        }
        for goal in Goal::all(Rank::new(5)) {
            let label = Label { encoding: Encoding::Bf16, goal, operator: None, length: 7, digest: 0 };
            calls.push(calls[4].labelled(&label));
        }
        calls
    }

    #[test]
    fn messages_survive_the_wire() {
        let (from, to, tag) = (Rank::new(3), Rank::new(4), Tag(1 << 50));
        for call in calls() {
            for second_call in calls() {
                let disagreement = Disagreement { tag, first: Rank::new(1), first_call: call, second: to, second_call };
                for body in [Body::Elements(Bytes::from_static(b"abcd")), Body::Failed(disagreement)] {
                    let message = Message { from, to, tag, sequence: 9, call, body };
                    assert_eq!(Message::from_bytes(from, to, &message.to_payload().into_bytes()), Ok(message));
                }
            }
        }
    }

    #[test]
    fn no_bytes_make_reading_panic() {
        let mut random = Random::new(8);
        let call = calls()[0];
        let (from, to) = (Rank::new(0), Rank::new(1));
        let good = Message { from, to, tag: Tag(1), sequence: 0, call, body: Body::Elements(Bytes::new()) };
        let good = good.to_payload().into_bytes();
        let mut refused = 0;
        for _ in 0..20_000 {
            let mut bytes = good.to_vec();
            for _ in 0..=random.below(3) {
                let place = random.below(bytes.len());
                bytes[place] = random.bits() as u8;
            }
            bytes.truncate(random.below(2 * bytes.len()));
            refused += usize::from(Message::from_bytes(from, to, &bytes.into()).is_err());
        }
        assert!(refused > 5_000, "{refused}");
    }

    #[test]
    fn a_disagreement_names_both() {
        let [first_call, second_call] = [calls()[0], calls()[3]];
        let text = Disagreement { tag: Tag(5), first: Rank::new(1), first_call, second: Rank::new(2), second_call }
            .to_string();
        assert!(
            text.contains("peer 1 does all-reduce (two-level, groups of 8) of 1099511627776 bf16 by sum"),
            "{text}"
        );
        assert!(text.contains("peer 2 does reduce of 1099511627776 bf16 by max with root 7"), "{text}");
        let text = calls()[8].to_string();
        assert!(
            text.contains("for an all-reduce of 7 f32 by sum encoded as one bit, blocks of 1099511627776"),
            "{text}"
        );
    }
}
