//! Everything that can go wrong here, with the facts in fields.
//!
//! **Invariant:** recovery code asks [`Error::kind`] and never reads the text.

use hemiola_core::{ErrorKind, Rank};

/// The result of everything fallible here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A graph that cannot be.
    #[error("a communication graph of {peers} peers cannot be made: {problem}")]
    BadGraph {
        /// Its peers.
        peers: usize,
        /// Why.
        problem: String,
    },
    /// Peers that would never hear of some others.
    #[error(
        "news of peer {from} never reach peer {to} over this graph of {peers} peers; add edges until every peer can be reached from every other"
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
        "peer {first} receives from {first_degree} peers and peer {second} from {second_degree}: averages over this graph would favour some peers; \
         use a regular graph, or weights that make up for it"
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
        "peer {peer} sends to {sends} peers and receives from {receives}; weights that treat all peers alike need both to be equal"
    )]
    NotBalanced {
        /// The peer.
        peer: Rank,
        /// Its out-degree.
        sends: usize,
        /// Its in-degree.
        receives: usize,
    },
    /// Measurements that cannot be.
    #[error("link speeds of {peers} peers cannot be used: {problem}")]
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
        ErrorKind::Usage
    }
}
