//! Everything that can go wrong here, with the facts in fields.
//!
//! **Invariant:** recovery code asks [`Error::kind`] and never reads the text.

use crate::Encoding;
use crate::encode::Goal;
use crate::protocol::{Call, Disagreement, ElementKind, Operator, Tag};
use hemiola_core::{ErrorKind, Rank};

/// The result of everything fallible here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// `1 peer`, `2 peers`.
fn peers_of(count: usize) -> String {
    if count == 1 { "1 peer".to_owned() } else { format!("{count} peers") }
}

/// Why something was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A graph that cannot be.
    #[error("a communication graph of {} cannot be made: {problem}", peers_of(*peers))]
    BadGraph {
        /// Its peers.
        peers: usize,
        /// Why.
        problem: String,
    },
    /// Peers that would never hear of some others.
    #[error(
        "news of peer {from} never reach peer {to} over this graph of {}; add edges until every peer can be reached from every other",
        peers_of(*peers)
    )]
    NotConnected {
        /// Its peers.
        peers: usize,
        /// Who is not heard.
        from: Rank,
        /// By whom.
        to: Rank,
    },
    /// In-degrees that differ.
    #[error(
        "peer {first} receives from {} and peer {second} from {second_degree}: averages over this graph would favour some peers; \
         use a regular graph, or weights that make up for it",
        peers_of(*first_degree)
    )]
    NotRegular {
        /// A peer.
        first: Rank,
        /// Its in-degree.
        first_degree: usize,
        /// Another peer.
        second: Rank,
        /// Its in-degree.
        second_degree: usize,
    },
    /// A peer that sends to more or fewer peers than it receives from.
    #[error(
        "peer {peer} sends to {} and receives from {receives}; weights that treat all peers alike need both to be equal",
        peers_of(*sends)
    )]
    NotBalanced {
        /// The peer.
        peer: Rank,
        /// Its out-degree.
        sends: usize,
        /// Its in-degree.
        receives: usize,
    },
    /// Two peers are in different collectives.
    #[error("{0}")]
    Disagreement(Box<Disagreement>),
    /// A buffer that does not fit the collective.
    #[error("{call} needs a buffer of {expected} elements on this peer, and one of {found} was given")]
    WrongLength {
        /// The collective.
        call: Box<Call>,
        /// What it needs.
        expected: usize,
        /// What was given.
        found: usize,
    },
    /// A buffer of another type than the collective was begun with.
    #[error("{call} was begun with {expected}, and is continued with {found}")]
    WrongKind {
        /// The collective.
        call: Box<Call>,
        /// The type it was begun with.
        expected: ElementKind,
        /// The type it was continued with.
        found: ElementKind,
    },
    /// A root, or a list of blocks, that does not fit the job.
    #[error("a collective among {} cannot be begun: {problem}", peers_of(*peers))]
    BadCall {
        /// How many peers there are.
        peers: usize,
        /// Why.
        problem: String,
    },
    /// Packed vectors that do not fit the places for them.
    #[error(
        "{found} packed elements were given for vectors of {expected} in all; unpack into vectors of the lengths that were packed"
    )]
    BadFusion {
        /// What the places hold.
        expected: usize,
        /// What was given.
        found: usize,
    },
    /// A collective that is not in flight here.
    #[error("collective {tag} is not in flight on this peer: it has ended, failed, or was never begun")]
    NotInFlight {
        /// Which.
        tag: Tag,
    },
    /// More elements than the caller is ready for.
    #[error(
        "peers bring {total} elements to a ragged all-gather, more than the limit of {limit}; raise the limit, or send less"
    )]
    TooMuch {
        /// How many they bring.
        total: u128,
        /// The limit.
        limit: usize,
    },
    /// A message for a collective that has ended here.
    #[error(
        "peer {from} is still in {theirs} (collective {tag}), which has ended on this peer: the two have not made the same calls"
    )]
    Late {
        /// Which.
        tag: Tag,
        /// Who sent it.
        from: Rank,
        /// What the sender is in.
        theirs: Box<Call>,
    },
    /// A message that nobody of ours would send.
    #[error("a message from peer {from} cannot be: {problem}")]
    BadMessage {
        /// Who sent it.
        from: Rank,
        /// What is wrong with it.
        problem: String,
    },
    /// A number that cannot be encoded.
    #[error(
        "element {index} is `{value}`, which would stay in the error that is carried over for ever; lower the step, or send it unencoded"
    )]
    NotFinite {
        /// Where.
        index: usize,
        /// What.
        value: f32,
    },
    /// Another peer's number that cannot be encoded.
    #[error(
        "peer {rank} has a number that is not finite, which cannot be encoded; all encoders are as they were: leave this update out on all peers, or send it unencoded"
    )]
    NotFiniteAt {
        /// Whose.
        rank: Rank,
    },
    /// Some peer's number that cannot be encoded, or a sum beyond all numbers.
    #[error(
        "some peer has a number that is not finite, or a sum over all peers is not, so it cannot be encoded as {encoding}; all encoders are as they were: leave this update out on all peers, or send it unencoded"
    )]
    NotFiniteSum {
        /// As what.
        encoding: Encoding,
    },
    /// An encoder that cannot be.
    #[error("an encoder of {encoding} for {rows} × {columns} numbers cannot be made: {problem}")]
    BadEncoder {
        /// As what.
        encoding: Encoding,
        /// Of the matrix.
        rows: usize,
        /// Of the matrix.
        columns: usize,
        /// Why.
        problem: &'static str,
    },
    /// An operator that makes no sense of what is encoded.
    #[error(
        "{encoding} carries over what it does not tell, which only a sum makes up for; reduce by {operator} with `Encoding::Plain`, `Bf16` or `F16`"
    )]
    OnlySums {
        /// As what.
        encoding: Encoding,
        /// The operator asked for.
        operator: Operator,
    },
    /// An exchange that makes no sense of what is encoded.
    #[error(
        "{encoding} is told as parts of a sum over all peers, and {goal} forms none; use `Encoding::Plain`, `Bf16`, `F16`, `OneBit` or `TopK`"
    )]
    NotForThis {
        /// As what.
        encoding: Encoding,
        /// For what.
        goal: Goal,
    },
    /// Bytes or numbers that no encoder of ours gives for this many elements.
    #[error("what was encoded cannot be decoded into {length} elements: {problem}")]
    BadEncoding {
        /// How many were to come out.
        length: usize,
        /// What does not fit.
        problem: &'static str,
    },
    /// A vector of another length than the encoder was made for.
    #[error("an encoder for {expected} elements was given {found}; each vector needs an encoder of its own")]
    WrongVector {
        /// For how many it was made.
        expected: usize,
        /// How many were given.
        found: usize,
    },
    /// Measurements that cannot be.
    #[error("link speeds of {} cannot be used: {problem}", peers_of(*peers))]
    BadSpeeds {
        /// How many peers.
        peers: usize,
        /// Why.
        problem: String,
    },
}

impl Error {
    /// Who has to act.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::BadMessage { .. } | Self::BadEncoding { .. } => ErrorKind::Bug,
            _ => ErrorKind::Usage,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_peer_is_not_several() {
        let problem = "it has no edges".to_owned();
        let text = Error::BadGraph { peers: 1, problem: problem.clone() }.to_string();
        assert!(text.contains("graph of 1 peer cannot"), "{text}");
        assert!(Error::BadGraph { peers: 2, problem }.to_string().contains("graph of 2 peers cannot"));
        let text = Error::NotBalanced { peer: Rank::ROOT, sends: 1, receives: 2 }.to_string();
        assert!(text.contains("sends to 1 peer and receives from 2"), "{text}");
    }
}
