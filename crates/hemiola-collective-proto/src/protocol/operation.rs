//! Operations, their buffer lengths, and their translation into steps.

use super::step::{CollectiveStep, Members, ReceiveAction, StepBuilder, chunk_range};
use super::{CollectiveElement, ElementKind, ReduceOp, doubling, halving, ring, routed, tree, two_level};
use crate::compress::{CollectiveGoal, Compression, CompressionLabel};
use crate::{Algorithm, Route};
use hemiola_core::Rank;
use std::fmt;
use std::ops::Range;

/// Collective operation. Every peer must request the same.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// All-reduce: all peers get the combination of all peers' elements.
    AllReduce {
        /// Algorithm of the all-reduce.
        algorithm: Algorithm,
        /// Operator that combines elements.
        operator: ReduceOp,
        /// Number of elements per peer.
        length: usize,
    },
    /// Reduce-scatter: peer `i` gets [chunk](chunk_range) `i` combined, at its position; the rest
    /// of the buffer is undefined.
    ReduceScatter {
        /// Operator that combines elements.
        operator: ReduceOp,
        /// Number of elements per peer.
        length: usize,
    },
    /// All-gather: every peer contributes a block and gets all blocks by rank. The buffer holds all
    /// blocks, with the own block at its position.
    AllGather {
        /// Number of elements per block.
        block: usize,
    },
    /// All-gather of blocks of different lengths, which all peers know.
    AllGatherRagged {
        /// Number of elements per block, by rank.
        blocks: Vec<usize>,
    },
    /// Gather: only the root gets all blocks; the other buffers are unchanged. Block lengths may
    /// differ.
    Gather {
        /// Peer that receives the blocks.
        root: Rank,
        /// Number of elements per block, by rank.
        blocks: Vec<usize>,
    },
    /// Broadcast: all peers get the elements of the root.
    Broadcast {
        /// Peer that sends its elements.
        root: Rank,
        /// Number of elements of the root.
        length: usize,
    },
    /// Reduce: the root gets the combination of all peers' elements; the other buffers are
    /// undefined.
    Reduce {
        /// Peer that receives the combination.
        root: Rank,
        /// Operator that combines elements.
        operator: ReduceOp,
        /// Number of elements per peer.
        length: usize,
    },
    /// All-reduce among the members of a route: they get the combination of their elements. With
    /// several groups the algorithm is that of the stations.
    RoutedAllReduce {
        /// Members in their order, by group.
        route: Route,
        /// Algorithm of the all-reduce.
        algorithm: Algorithm,
        /// Operator that combines elements.
        operator: ReduceOp,
        /// Number of elements per peer.
        length: usize,
    },
    /// Reduce over the stations of a route: the root gets the combination of its own elements and
    /// those of all members; the other buffers are undefined.
    RoutedReduce {
        /// Members by group.
        route: Route,
        /// Peer that receives the combination.
        root: Rank,
        /// Operator that combines elements.
        operator: ReduceOp,
        /// Number of elements per peer.
        length: usize,
    },
    /// Broadcast over the stations of a route: all members get the elements of the root.
    RoutedBroadcast {
        /// Members by group.
        route: Route,
        /// Peer that sends its elements.
        root: Rank,
        /// Number of elements of the root.
        length: usize,
    },
    /// All-to-all: block `j` of peer `i` becomes block `i` of peer `j`.
    AllToAll {
        /// Number of elements per block.
        block: usize,
    },
    /// Barrier: no peer continues before all have arrived.
    Barrier,
}

impl Operation {
    /// Number of elements of a peer's buffer.
    #[must_use]
    pub fn buffer_length(&self, peers: usize) -> usize {
        match self {
            Self::AllReduce { length, .. }
            | Self::ReduceScatter { length, .. }
            | Self::Broadcast { length, .. }
            | Self::Reduce { length, .. }
            | Self::RoutedAllReduce { length, .. }
            | Self::RoutedReduce { length, .. }
            | Self::RoutedBroadcast { length, .. } => *length,
            Self::AllGather { block } | Self::AllToAll { block } => block.saturating_mul(peers),
            Self::AllGatherRagged { blocks } | Self::Gather { blocks, .. } => {
                blocks.iter().fold(0, |sum, &block| sum.saturating_add(block))
            }
            Self::Barrier => 0,
        }
    }

    /// Returns the buffer of an all-gather: the blocks of all peers, with the block of peer `me` at
    /// its position and zeros elsewhere.
    #[must_use]
    pub fn gather_buffer<T: CollectiveElement>(block: &[T], me: Rank, peers: usize) -> Vec<T> {
        let mut all = vec![T::zeroed(); block.len() * peers];
        let start = me.index() * block.len();
        all[start..start + block.len()].copy_from_slice(block);
        all
    }

    /// Range of a peer's result in its buffer.
    #[must_use]
    pub fn result(&self, me: Rank, peers: usize) -> Range<usize> {
        match self {
            Self::ReduceScatter { length, .. } => chunk_range(*length, peers, me.index()),
            Self::Reduce { root, .. } | Self::Gather { root, .. } | Self::RoutedReduce { root, .. } if *root != me => {
                0..0
            }
            Self::RoutedAllReduce { route, .. } if !route.contains(me) => 0..0,
            Self::RoutedBroadcast { route, root, .. } if *root != me && !route.contains(me) => 0..0,
            _ => 0..self.buffer_length(peers),
        }
    }

    /// Operator that combines elements, if the operation combines any.
    #[must_use]
    pub fn operator(&self) -> Option<ReduceOp> {
        match self {
            Self::AllReduce { operator, .. }
            | Self::ReduceScatter { operator, .. }
            | Self::Reduce { operator, .. }
            | Self::RoutedAllReduce { operator, .. }
            | Self::RoutedReduce { operator, .. } => Some(*operator),
            _ => None,
        }
    }

    /// Returns the steps of one peer. Messages have up to `segment` elements.
    ///
    /// # Panics
    /// If `me` or the root is not one of the peers, or blocks are given for more or fewer than there are.
    #[must_use]
    pub fn steps(&self, me: Rank, peers: usize, segment: usize) -> Vec<CollectiveStep> {
        assert!(me.index() < peers, "peer {me} is not one of {peers}");
        let ranks: Vec<Rank> = Rank::all(peers).collect();
        let members = Members { ranks: &ranks, me: me.index() };
        let mut writer = StepBuilder { steps: Vec::new(), segment };
        match self {
            Self::AllReduce { algorithm, length, .. } => all_reduce(&mut writer, members, *algorithm, *length),
            Self::RoutedAllReduce { route, algorithm, length, .. } => {
                routed::all_reduce(&mut writer, route, me, *algorithm, *length);
            }
            Self::RoutedReduce { route, root, length, .. } => routed::reduce(&mut writer, route, *root, me, *length),
            Self::RoutedBroadcast { route, root, length } => {
                routed::broadcast(&mut writer, route, *root, me, *length);
            }
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

/// All-reduce of members by an algorithm.
pub(super) fn all_reduce(writer: &mut StepBuilder, members: Members<'_>, algorithm: Algorithm, length: usize) {
    match algorithm {
        Algorithm::Ring => ring::all_reduce(writer, members, length),
        Algorithm::Tree => {
            tree::reduce(writer, members, 0, 0..length);
            tree::broadcast(writer, members, 0, 0..length);
        }
        Algorithm::HalvingDoubling => halving::all_reduce(writer, members, length),
        Algorithm::Doubling => doubling::all_reduce(writer, members, length),
        Algorithm::TwoLevel { group } => two_level::all_reduce(writer, members, group, length),
    }
}

/// Ranges of consecutive blocks.
fn ranges(blocks: &[usize]) -> Vec<Range<usize>> {
    let mut end = 0;
    let next = |&block: &usize| {
        let start = end;
        end += block;
        start..end
    };
    blocks.iter().map(next).collect()
}

/// All-to-all in rounds: peers `a` and `b` exchange in round `a + b` (modulo their number). Each
/// peer has at most one partner per round, and the block it sends is where the block it receives
/// belongs, so the buffer is its own destination.
fn all_to_all(writer: &mut StepBuilder, members: Members<'_>, block: usize) {
    let count = members.count();
    for round in 0..count {
        let partner = (round + count - members.me) % count;
        if partner != members.me {
            // A piece is sent before the piece that replaces it is received.
            let pieces: Vec<Range<usize>> = writer.pieces(partner * block..(partner + 1) * block).collect();
            let receives: Vec<(Range<usize>, ReceiveAction)> =
                pieces.iter().map(|piece| (piece.clone(), ReceiveAction::Replace)).collect();
            let partner = members.ranks[partner];
            writer.stream((partner, &pieces), (partner, &receives), pieces.len());
        }
    }
}

/// Sends the block to the root, which receives blocks by rank.
fn gather(writer: &mut StepBuilder, members: Members<'_>, root: Rank, ranges: &[Range<usize>]) {
    let me = members.ranks[members.me];
    if me != root {
        return writer.send(root, ranges[members.me].clone());
    }
    for (&from, range) in members.ranks.iter().zip(ranges).filter(|(from, _)| **from != root) {
        writer.receive(from, range.clone(), ReceiveAction::Replace);
    }
}

/// Dissemination barrier: in round `k` each peer tells the one `2ᵏ` further that it, and every peer
/// it has heard of, has arrived.
fn barrier(writer: &mut StepBuilder, members: Members<'_>) {
    let mut distance = 1;
    while distance < members.count() {
        writer.send(members.after(distance), 0..0);
        writer.receive(members.before(distance), 0..0, ReceiveAction::Replace);
        distance *= 2;
    }
}

/// Compact description of a requested collective. It is part of every message, so that peers that
/// make different calls detect it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSignature {
    pub(super) code: u8,
    pub(super) kind: ElementKind,
    pub(super) operator: Option<ReduceOp>,
    pub(super) algorithm: Option<Algorithm>,
    pub(super) root: u32,
    /// Number of elements; for a compressed collective, before compression.
    pub(super) length: u64,
    /// Hash of block lengths that differ by peer, of a route, or of compressor state that all peers
    /// must share.
    pub(super) digest: u64,
    pub(super) segment: u64,
    /// Compression and goal of the compressed collective that this is a stage of.
    pub(super) compressed: Option<(Compression, CollectiveGoal)>,
}

pub(super) const OPERATION_NAMES: [&str; 12] = [
    "all-reduce",
    "reduce-scatter",
    "all-gather",
    "ragged all-gather",
    "broadcast",
    "reduce",
    "all-to-all",
    "barrier",
    "gather",
    "routed all-reduce",
    "routed reduce",
    "routed broadcast",
];

impl CallSignature {
    /// Returns the name of the collective, such as `all-reduce`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        if let Some((_, goal)) = self.compressed {
            return goal.compressed_name();
        }
        OPERATION_NAMES[usize::from(self.code)]
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
            Operation::RoutedAllReduce { length, .. } => (9, *length),
            Operation::RoutedReduce { length, .. } => (10, *length),
            Operation::RoutedBroadcast { length, .. } => (11, *length),
        };
        let digest = match operation {
            Operation::AllGatherRagged { blocks } | Operation::Gather { blocks, .. } => {
                digest(blocks.iter().map(|&block| block as u64))
            }
            Operation::RoutedAllReduce { route, .. }
            | Operation::RoutedReduce { route, .. }
            | Operation::RoutedBroadcast { route, .. } => route.digest(),
            _ => 0,
        };
        let (algorithm, root) = match operation {
            Operation::AllReduce { algorithm, .. } | Operation::RoutedAllReduce { algorithm, .. } => {
                (Some(*algorithm), 0)
            }
            Operation::Broadcast { root, .. }
            | Operation::Reduce { root, .. }
            | Operation::Gather { root, .. }
            | Operation::RoutedReduce { root, .. }
            | Operation::RoutedBroadcast { root, .. } => (None, root.number()),
            _ => (None, 0),
        };
        let operator = operation.operator();
        let (length, segment) = (length as u64, segment as u64);
        Self { code, kind, operator, algorithm, root, length, digest, segment, compressed: None }
    }

    /// Marks the call as a stage of a compressed collective, whose label replaces length and
    /// operator.
    pub(super) fn with_label(mut self, label: &CompressionLabel) -> Self {
        self.length = label.length as u64;
        self.operator = label.operator;
        self.compressed = Some((label.compression, label.goal));
        self.root = label.goal.root().map_or(0, Rank::number);
        if self.digest == 0 {
            self.digest = label.digest;
        }
        self
    }
}

/// FNV-1a hash of numbers.
pub(crate) fn digest(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers
        .into_iter()
        .flat_map(u64::to_le_bytes)
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

impl fmt::Display for CallSignature {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(OPERATION_NAMES[usize::from(self.code)])?;
        if let Some(algorithm) = self.algorithm {
            write!(formatter, " ({algorithm})")?;
        }
        match self.code {
            _ if let Some((_, goal)) = self.compressed => {
                write!(formatter, " for {} of {} f32", goal.with_article(), self.length)?;
            }
            2 | 6 => write!(formatter, " of blocks of {} {}", self.length, self.kind)?,
            7 => {}
            _ => write!(formatter, " of {} {}", self.length, self.kind)?,
        }
        if let Some(operator) = self.operator {
            write!(formatter, " by {operator}")?;
        }
        let rooted = match self.compressed {
            Some((_, goal)) => goal.root().is_some(),
            None => [4, 5, 8, 10, 11].contains(&self.code),
        };
        if rooted {
            write!(formatter, " with root {}", self.root)?;
        }
        if let Some((compression, _)) = self.compressed {
            write!(formatter, " compressed as {compression}")?;
        }
        if self.digest != 0 {
            let what = match self.code {
                3 | 8 => "lengths",
                9..=11 => "route",
                _ => "shape and state",
            };
            write!(formatter, ", {what} {:016x}", self.digest)?;
        }
        write!(formatter, " in messages of up to {}", self.segment)
    }
}
