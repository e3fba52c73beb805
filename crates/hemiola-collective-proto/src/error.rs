//! Errors of the protocols, with their facts in fields.
//!
//! **Invariant:** recovery code calls [`Error::kind`] and never reads the text.

use crate::Compression;
use crate::compress::CollectiveGoal;
use crate::protocol::{CallSignature, CollectiveMismatch, ElementKind, ReduceOp};
use hemiola_core::{ErrorKind, Rank};

/// Result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Formats a count: `1 peer`, `2 peers`.
fn peers_of(count: usize) -> String {
    if count == 1 { "1 peer".to_owned() } else { format!("{count} peers") }
}

/// Reason why the protocols refuse a call, a message or a value.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A communication graph with invalid edges, degree or size.
    #[error("a communication graph of {} is invalid: {problem}", peers_of(*peers))]
    InvalidGraph {
        /// Number of peers of the graph.
        peers: usize,
        /// Violated condition, as a clause for the message.
        problem: String,
    },
    /// A graph in which values of some peer never reach another.
    #[error(
        "values of peer {from} never reach peer {to} over this graph of {}; add edges until every peer can be reached from every other",
        peers_of(*peers)
    )]
    NotConnected {
        /// Number of peers of the graph.
        peers: usize,
        /// Peer whose values do not spread to `to`.
        from: Rank,
        /// Peer that cannot be reached from `from`.
        to: Rank,
    },
    /// A graph whose in-degrees differ.
    #[error(
        "peer {first} receives from {} and peer {second} from {second_degree}: averages over this graph would favour some peers; \
         use a regular graph, or weights that make up for it",
        peers_of(*first_degree)
    )]
    NotRegular {
        /// First of the two compared peers.
        first: Rank,
        /// In-degree of the first peer.
        first_degree: usize,
        /// Second of the two compared peers.
        second: Rank,
        /// In-degree of the second peer.
        second_degree: usize,
    },
    /// A peer whose out-degree differs from its in-degree.
    #[error(
        "peer {peer} sends to {} and receives from {receives}; weights that treat all peers alike need both to be equal",
        peers_of(*sends)
    )]
    NotBalanced {
        /// Peer with unequal degrees.
        peer: Rank,
        /// Out-degree of the peer.
        sends: usize,
        /// In-degree of the peer.
        receives: usize,
    },
    /// Two peers make different calls under the same tag.
    #[error("{0}")]
    CollectiveMismatch(Box<CollectiveMismatch>),
    /// A buffer whose length does not fit the collective.
    #[error("{call} needs a buffer of {expected} elements on this peer, and one of {found} was given")]
    WrongLength {
        /// Signature of the collective.
        call: Box<CallSignature>,
        /// Number of elements that the collective needs.
        expected: usize,
        /// Number of elements of the given buffer.
        found: usize,
    },
    /// A buffer whose element type differs from the one that the collective started with.
    #[error("{call} was started with elements of type {expected} and is continued with {found}")]
    WrongElementKind {
        /// Signature of the collective.
        call: Box<CallSignature>,
        /// Element type at the start.
        expected: ElementKind,
        /// Element type of the current buffer.
        found: ElementKind,
    },
    /// A root, a rank or a list of blocks that does not fit the number of peers.
    #[error("a collective among {} cannot be started: {problem}", peers_of(*peers))]
    InvalidCall {
        /// Number of peers in the job.
        peers: usize,
        /// Violated condition, as a clause for the message.
        problem: String,
    },
    /// A fused buffer whose length differs from that of the vectors to unpack into.
    #[error(
        "{found} fused elements were given for vectors of {expected} in all; unpack into vectors of the lengths that were packed"
    )]
    WrongFusedLength {
        /// Total length of the destination vectors.
        expected: usize,
        /// Length of the fused buffer.
        found: usize,
    },
    /// A ragged all-gather beyond the limit that the caller set.
    #[error(
        "peers bring {total} elements to a ragged all-gather, more than the limit of {limit}; raise the limit, or send less"
    )]
    GatherLimit {
        /// Total number of elements of all peers.
        total: u128,
        /// Limit in elements, set by the caller.
        limit: usize,
    },
    /// A message that no correct peer sends.
    #[error("invalid message from peer {from}: {problem}")]
    InvalidMessage {
        /// Sender of the message.
        from: Rank,
        /// Violated condition, as a clause for the message.
        problem: String,
    },
    /// A value that is not finite, which cannot be compressed with error feedback.
    #[error(
        "element {index} is `{value}`, which would stay in the residual forever; lower the learning rate, or send it uncompressed"
    )]
    NotFinite {
        /// Index of the element in the vector.
        index: usize,
        /// Value of the element, with the residual added.
        value: f32,
    },
    /// A vector of another peer that contains a value that is not finite.
    #[error(
        "peer {rank} has a value that is not finite and cannot be compressed; all compressors are unchanged: skip this update on all peers, or send it uncompressed"
    )]
    NotFiniteOnPeer {
        /// Rank of the peer with the value.
        rank: Rank,
    },
    /// A sum that is not finite, caused by a value of some peer or by overflow.
    #[error(
        "a value of some peer or a sum over all peers is not finite and cannot be compressed as {compression}; all compressors are unchanged: skip this update on all peers, or send it uncompressed"
    )]
    NotFiniteSum {
        /// Compression of the collective.
        compression: Compression,
    },
    /// A compressor with invalid parameters.
    #[error("a compressor of {compression} for {rows} × {columns} elements is invalid: {problem}")]
    InvalidCompressor {
        /// Compression method of the compressor.
        compression: Compression,
        /// Number of rows of the matrix.
        rows: usize,
        /// Number of columns of the matrix.
        columns: usize,
        /// Violated condition, as a clause for the message.
        problem: &'static str,
    },
    /// An operator other than sum with a compression that has error feedback.
    #[error(
        "{compression} carries a residual to the next update, which is correct for sums only; reduce by {operator} with `Compression::Plain`, `Bf16` or `F16`"
    )]
    SumRequired {
        /// Compression with error feedback.
        compression: Compression,
        /// Requested operator, `min` or `max`.
        operator: ReduceOp,
    },
    /// A collective that the compression does not support.
    #[error(
        "{compression} compresses a sum over all peers, and {goal} forms none; use `Compression::Plain`, `Bf16`, `F16`, `OneBit` or `TopK`"
    )]
    UnsupportedCompression {
        /// Compression that needs a sum.
        compression: Compression,
        /// Goal of the requested collective.
        goal: CollectiveGoal,
    },
    /// A payload that no compressor produces for this many elements.
    #[error("a compressed payload cannot be decompressed into {length} elements: {problem}")]
    CorruptPayload {
        /// Expected number of elements.
        length: usize,
        /// Violated condition, as a clause for the message.
        problem: &'static str,
    },
    /// A vector whose length differs from that of its compressor or averager.
    #[error(
        "a vector of {found} elements was given where {expected} are expected; each vector needs a compressor of its own"
    )]
    WrongVectorLength {
        /// Length that the compressor or averager was created for.
        expected: usize,
        /// Length of the given vector.
        found: usize,
    },
    /// Link speeds that are incomplete, not positive or not finite.
    #[error("link speeds of {} cannot be used: {problem}", peers_of(*peers))]
    InvalidLinkSpeeds {
        /// Number of peers of the job.
        peers: usize,
        /// Violated condition, as a clause for the message.
        problem: String,
    },
}

impl Error {
    /// Class of the error: a mistake of the caller or a bug.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::InvalidMessage { .. } | Self::CorruptPayload { .. } => ErrorKind::Bug,
            _ => ErrorKind::Usage,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_peer_is_formatted_in_the_singular() {
        let problem = "it has no edges".to_owned();
        let text = Error::InvalidGraph { peers: 1, problem: problem.clone() }.to_string();
        assert!(text.contains("graph of 1 peer is"), "{text}");
        assert!(Error::InvalidGraph { peers: 2, problem }.to_string().contains("graph of 2 peers is"));
        let text = Error::NotBalanced { peer: Rank::ROOT, sends: 1, receives: 2 }.to_string();
        assert!(text.contains("sends to 1 peer and receives from 2"), "{text}");
    }
}
