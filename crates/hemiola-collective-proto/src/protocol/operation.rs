//! What peers do together, what each of them has to bring, and the steps that follow.

use super::step::{How, Members, Step, Writer, cut};
use super::{ElementKind, Operator, doubling, halving, ring, tree, two_level};
use crate::Algorithm;
use crate::encode::{Encoding, Goal, Label};
use hemiola_core::Rank;
use std::fmt;
use std::ops::Range;

/// A collective. Every peer must ask for the same.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// Afterwards all have the combination of everybody's elements.
    AllReduce {
        /// How it travels.
        algorithm: Algorithm,
        /// How elements are combined.
        operator: Operator,
        /// How many each brings.
        length: usize,
    },
    /// Afterwards peer `i` has [chunk](cut) `i` combined, in its place; the rest of the buffer is undefined.
    ReduceScatter {
        /// How elements are combined.
        operator: Operator,
        /// How many each brings.
        length: usize,
    },
    /// Each brings a block; afterwards all have all blocks, by rank. The buffer is as long as all, one's own block in its place.
    AllGather {
        /// Elements of a block.
        block: usize,
    },
    /// The same with blocks of different lengths, which all peers know.
    AllGatherRagged {
        /// By rank.
        blocks: Vec<usize>,
    },
    /// The same, and only the root has all blocks afterwards; the others' buffers stay what they were.
    Gather {
        /// Who.
        root: Rank,
        /// Elements of everybody's block, by rank.
        blocks: Vec<usize>,
    },
    /// Afterwards all have what the root has.
    Broadcast {
        /// Who.
        root: Rank,
        /// How many elements.
        length: usize,
    },
    /// Afterwards the root has the combination of everybody's; the others' buffers are undefined.
    Reduce {
        /// Who.
        root: Rank,
        /// How elements are combined.
        operator: Operator,
        /// How many each brings.
        length: usize,
    },
    /// Block `j` of peer `i` becomes block `i` of peer `j`.
    AllToAll {
        /// Elements of a block.
        block: usize,
    },
    /// Nobody goes on before all have come.
    Barrier,
}

impl Operation {
    /// How many elements a peer's buffer must have.
    #[must_use]
    pub fn buffer_length(&self, peers: usize) -> usize {
        match self {
            Self::AllReduce { length, .. }
            | Self::ReduceScatter { length, .. }
            | Self::Broadcast { length, .. }
            | Self::Reduce { length, .. } => *length,
            Self::AllGather { block } | Self::AllToAll { block } => block.saturating_mul(peers),
            Self::AllGatherRagged { blocks } | Self::Gather { blocks, .. } => {
                blocks.iter().fold(0, |sum, &block| sum.saturating_add(block))
            }
            Self::Barrier => 0,
        }
    }

    /// Where a peer's result is in its buffer.
    #[must_use]
    pub fn result(&self, me: Rank, peers: usize) -> Range<usize> {
        match self {
            Self::ReduceScatter { length, .. } => cut(*length, peers, me.index()),
            Self::Reduce { root, .. } | Self::Gather { root, .. } if *root != me => 0..0,
            _ => 0..self.buffer_length(peers),
        }
    }

    /// How elements are combined, where they are.
    #[must_use]
    pub fn operator(&self) -> Option<Operator> {
        match self {
            Self::AllReduce { operator, .. } | Self::ReduceScatter { operator, .. } | Self::Reduce { operator, .. } => {
                Some(*operator)
            }
            _ => None,
        }
    }

    /// What one of the peers does. Messages have up to `segment` elements.
    ///
    /// # Panics
    /// If `me` or the root is not one of the peers, or blocks are given for more or fewer than there are.
    #[must_use]
    pub fn steps(&self, me: Rank, peers: usize, segment: usize) -> Vec<Step> {
        assert!(me.index() < peers, "peer {me} is not one of {peers}");
        let ranks: Vec<Rank> = Rank::all(peers).collect();
        let members = Members { ranks: &ranks, me: me.index() };
        let mut writer = Writer { steps: Vec::new(), segment };
        match self {
            Self::AllReduce { algorithm, length, .. } => match *algorithm {
                Algorithm::Ring => ring::all_reduce(&mut writer, members, *length),
                Algorithm::Tree => {
                    tree::reduce(&mut writer, members, 0, 0..*length);
                    tree::broadcast(&mut writer, members, 0, 0..*length);
                }
                Algorithm::HalvingDoubling => halving::all_reduce(&mut writer, members, *length),
                Algorithm::Doubling => doubling::all_reduce(&mut writer, members, *length),
                Algorithm::TwoLevel { group } => two_level::all_reduce(&mut writer, members, group, *length),
            },
            Self::ReduceScatter { length, .. } => ring::reduce_scatter(&mut writer, members, *length),
            Self::AllGather { block } => {
                ring::all_gather(&mut writer, members, &|member| member * block..(member + 1) * block);
            }
            Self::AllGatherRagged { blocks } => {
                assert_eq!(blocks.len(), peers, "there must be a block for each peer");
                let ranges = ranges(blocks);
                ring::all_gather(&mut writer, members, &|member| ranges[member].clone());
            }
            Self::Gather { root, blocks } => {
                assert_eq!(blocks.len(), peers, "there must be a block for each peer");
                gather(&mut writer, members, *root, &ranges(blocks));
            }
            Self::Broadcast { root, length } => tree::broadcast(&mut writer, members, root.index(), 0..*length),
            Self::Reduce { root, length, .. } => tree::reduce(&mut writer, members, root.index(), 0..*length),
            Self::AllToAll { block } => all_to_all(&mut writer, members, *block),
            Self::Barrier => barrier(&mut writer, members),
        }
        writer.steps
    }
}

/// Blocks one after the other.
fn ranges(blocks: &[usize]) -> Vec<Range<usize>> {
    let mut end = 0;
    let next = |&block: &usize| {
        let start = end;
        end += block;
        start..end
    };
    blocks.iter().map(next).collect()
}

/// Peers `a` and `b` meet in round `a + b` (modulo their number): in each round everybody has one partner at most, and what one
/// gives away is where what one gets belongs, so the buffer is its own destination.
fn all_to_all(writer: &mut Writer, members: Members<'_>, block: usize) {
    let count = members.count();
    for round in 0..count {
        let partner = (round + count - members.me) % count;
        if partner != members.me {
            // A piece is sent before the one that takes its place is received.
            let pieces: Vec<Range<usize>> = writer.pieces(partner * block..(partner + 1) * block).collect();
            let receives: Vec<(Range<usize>, How)> = pieces.iter().map(|piece| (piece.clone(), How::Replace)).collect();
            let partner = members.ranks[partner];
            writer.stream((partner, &pieces), (partner, &receives), pieces.len());
        }
    }
}

/// Each sends its block to the root, which takes them by rank.
fn gather(writer: &mut Writer, members: Members<'_>, root: Rank, ranges: &[Range<usize>]) {
    let me = members.ranks[members.me];
    if me != root {
        return writer.send(root, ranges[members.me].clone());
    }
    for (&from, range) in members.ranks.iter().zip(ranges).filter(|(from, _)| **from != root) {
        writer.receive(from, range.clone(), How::Replace);
    }
}

/// Dissemination: in round `k` each tells the one `2ᵏ` further that it, and all whom it has heard of, have come.
fn barrier(writer: &mut Writer, members: Members<'_>) {
    let mut distance = 1;
    while distance < members.count() {
        writer.send(members.after(distance), 0..0);
        writer.receive(members.before(distance), 0..0, How::Replace);
        distance *= 2;
    }
}

/// What a peer asked for, in few words: told with every message, so that peers who ask for different things find out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    pub(super) code: u8,
    pub(super) kind: ElementKind,
    pub(super) operator: Option<Operator>,
    pub(super) algorithm: Option<Algorithm>,
    pub(super) root: u32,
    /// Elements; of what is encoded, the elements before.
    pub(super) length: u64,
    /// Of lengths that differ by peer, or of what an encoder and its like on other peers must have in common.
    pub(super) digest: u64,
    pub(super) segment: u64,
    /// Of the encoded collective that this is a part of, and which that is.
    pub(super) encoded: Option<(Encoding, Goal)>,
}

pub(super) const NAMES: [&str; 9] = [
    "all-reduce",
    "reduce-scatter",
    "all-gather",
    "ragged all-gather",
    "broadcast",
    "reduce",
    "all-to-all",
    "barrier",
    "gather",
];

impl Call {
    /// What kind of collective it is, in a word.
    #[must_use]
    pub fn name(&self) -> &'static str {
        if let Some((_, goal)) = self.encoded {
            return goal.encoded_name();
        }
        NAMES[usize::from(self.code)]
    }

    pub(super) fn new(operation: &Operation, kind: ElementKind, segment: usize) -> Self {
        let (code, length) = match operation {
            Operation::AllReduce { length, .. } => (0, *length),
            Operation::ReduceScatter { length, .. } => (1, *length),
            Operation::AllGather { block } => (2, *block),
            Operation::AllGatherRagged { blocks } => (3, operation.buffer_length(blocks.len())),
            Operation::Broadcast { length, .. } => (4, *length),
            Operation::Reduce { length, .. } => (5, *length),
            Operation::AllToAll { block } => (6, *block),
            Operation::Barrier => (7, 0),
            Operation::Gather { blocks, .. } => (8, operation.buffer_length(blocks.len())),
        };
        let digest = match operation {
            Operation::AllGatherRagged { blocks } | Operation::Gather { blocks, .. } => {
                digest(blocks.iter().map(|&block| block as u64))
            }
            _ => 0,
        };
        let (algorithm, root) = match operation {
            Operation::AllReduce { algorithm, .. } => (Some(*algorithm), 0),
            Operation::Broadcast { root, .. } | Operation::Reduce { root, .. } | Operation::Gather { root, .. } => {
                (None, root.number())
            }
            _ => (None, 0),
        };
        let operator = operation.operator();
        let (length, segment) = (length as u64, segment as u64);
        Self { code, kind, operator, algorithm, root, length, digest, segment, encoded: None }
    }

    /// The same as a part of an encoded collective, which says more than its parts do.
    pub(super) fn labelled(mut self, label: &Label) -> Self {
        self.length = label.length as u64;
        self.operator = label.operator;
        self.encoded = Some((label.encoding, label.goal));
        self.root = label.goal.root().map_or(0, Rank::number);
        if self.digest == 0 {
            self.digest = label.digest;
        }
        self
    }
}

/// FNV-1a over numbers.
pub(crate) fn digest(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers
        .into_iter()
        .flat_map(u64::to_le_bytes)
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

impl fmt::Display for Call {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(NAMES[usize::from(self.code)])?;
        if let Some(algorithm) = self.algorithm {
            write!(formatter, " ({algorithm})")?;
        }
        match self.code {
            _ if let Some((_, goal)) = self.encoded => {
                write!(formatter, " for {} of {} f32", goal.with_article(), self.length)?;
            }
            2 | 6 => write!(formatter, " of blocks of {} {}", self.length, self.kind)?,
            7 => {}
            _ => write!(formatter, " of {} {}", self.length, self.kind)?,
        }
        if let Some(operator) = self.operator {
            write!(formatter, " by {operator}")?;
        }
        let rooted = match self.encoded {
            Some((_, goal)) => goal.root().is_some(),
            None => [4, 5, 8].contains(&self.code),
        };
        if rooted {
            write!(formatter, " with root {}", self.root)?;
        }
        if let Some((encoding, _)) = self.encoded {
            write!(formatter, " encoded as {encoding}")?;
        }
        if self.digest != 0 {
            let what = if self.code == 3 || self.code == 8 { "lengths" } else { "shape and state" };
            write!(formatter, ", {what} {:016x}", self.digest)?;
        }
        write!(formatter, " in messages of up to {}", self.segment)
    }
}
