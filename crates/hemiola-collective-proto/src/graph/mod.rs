//! Communication graphs: the edges over which gossip averaging sends.
//!
//! An edge `a → b` says that `a` sends its values to `b` in every round. Each peer always keeps its
//! own value as well; that self-loop is implied and never listed. **Invariant:** edges connect
//! different peers of the graph, each at most once; lists are sorted, so two graphs with the same
//! edges are equal.
//!
//! Appendix A of the ASAP paper has the theory: averages over a graph approach the global average
//! at a rate given by the [spectral gap](Graph::spectral_gap), provided that values of every peer
//! reach every other ([`Graph::check_connected`]) and that all peers have the same influence
//! ([`Graph::check_regular`], or [`GossipWeights::balanced`]).

mod bidiagonal;
mod search;
mod spectral;
mod speeds;
mod topology;
mod weights;

pub use search::{TopologySearch, TopologySearchResult};
pub use speeds::LinkSpeeds;
pub use topology::Topology;
pub use weights::{GossipWeights, WeightRow};

use crate::{Error, Result};
use hemiola_core::Rank;
use serde::{Deserialize, Serialize};

/// Directed communication graph.
///
/// ```
/// use hemiola_collective_proto::{Graph, Topology};
/// let graph = Topology::RootExpander.graph(25)?;
/// assert_eq!(graph.max_out_degree(), 2);
/// assert!((graph.spectral_gap() - 0.1419).abs() < 1e-4);
/// # Ok::<(), hemiola_collective_proto::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "EdgeList", into = "EdgeList")]
pub struct Graph {
    receivers: Vec<Vec<Rank>>,
    senders: Vec<Vec<Rank>>,
}

/// Serialized form of a graph.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct EdgeList {
    peers: usize,
    edges: Vec<(Rank, Rank)>,
}

impl TryFrom<EdgeList> for Graph {
    type Error = Error;

    fn try_from(written: EdgeList) -> Result<Self> {
        Self::from_edges(written.peers, written.edges)
    }
}

impl From<Graph> for EdgeList {
    fn from(graph: Graph) -> Self {
        Self { peers: graph.peers(), edges: graph.edges().collect() }
    }
}

impl Graph {
    /// Creates the graph with these edges, each from sender to receiver. Duplicate edges count
    /// once.
    pub fn from_edges(peers: usize, edges: impl IntoIterator<Item = (Rank, Rank)>) -> Result<Self> {
        let bad = |problem: String| Error::InvalidGraph { peers, problem };
        if peers == 0 {
            return Err(bad("it needs at least one peer".to_owned()));
        }
        let (mut receivers, mut senders) = (vec![Vec::new(); peers], vec![Vec::new(); peers]);
        for (from, to) in edges {
            if from.index() >= peers || to.index() >= peers {
                return Err(bad(format!("edge {from} → {to} names an unknown peer; peers are numbered from 0")));
            }
            if from == to {
                return Err(bad(format!(
                    "peer {from} would send to itself; its own value is always part of its average"
                )));
            }
            receivers[from.index()].push(to);
            senders[to.index()].push(from);
        }
        for list in receivers.iter_mut().chain(&mut senders) {
            list.sort_unstable();
            list.dedup();
        }
        Ok(Self { receivers, senders })
    }

    /// Number of peers of the graph.
    #[must_use]
    pub fn peers(&self) -> usize {
        self.receivers.len()
    }

    /// Receivers of a peer, in order.
    #[must_use]
    pub fn receivers(&self, peer: Rank) -> &[Rank] {
        &self.receivers[peer.index()]
    }

    /// Senders to a peer, in order.
    #[must_use]
    pub fn senders(&self, peer: Rank) -> &[Rank] {
        &self.senders[peer.index()]
    }

    /// Iterates over all edges, from sender to receiver.
    pub fn edges(&self) -> impl Iterator<Item = (Rank, Rank)> {
        Rank::all(self.peers()).flat_map(|from| self.receivers(from).iter().map(move |&to| (from, to)))
    }

    /// Returns true if the graph has this edge.
    #[must_use]
    pub fn has_edge(&self, from: Rank, to: Rank) -> bool {
        self.receivers(from).binary_search(&to).is_ok()
    }

    /// Largest out-degree of all peers.
    #[must_use]
    pub fn max_out_degree(&self) -> usize {
        self.receivers.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Largest in-degree of all peers.
    #[must_use]
    pub fn max_in_degree(&self) -> usize {
        self.senders.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Checks that all in-degrees are equal. Then the plain average of own and received values
    /// treats all peers alike, as long as all out-degrees are equal too.
    pub fn check_regular(&self) -> Result<()> {
        let first_degree = self.senders[0].len();
        match self.senders.iter().position(|list| list.len() != first_degree) {
            None => Ok(()),
            Some(other) => Err(Error::NotRegular {
                first: Rank::ROOT,
                first_degree,
                second: Rank::new(other as u32),
                second_degree: self.senders[other].len(),
            }),
        }
    }

    /// Checks that the out-degree of every peer equals its in-degree.
    pub fn check_balanced(&self) -> Result<()> {
        for peer in Rank::all(self.peers()) {
            let (sends, receives) = (self.receivers(peer).len(), self.senders(peer).len());
            if sends != receives {
                return Err(Error::NotBalanced { peer, sends, receives });
            }
        }
        Ok(())
    }

    /// Checks that values of every peer reach every other (strong connectivity).
    pub fn check_connected(&self) -> Result<()> {
        // Every peer is reachable from the root and reaches it: then there is a path between any
        // two.
        let peers = self.peers();
        if let Some(to) = unreached(&self.receivers) {
            return Err(Error::NotConnected { peers, from: Rank::ROOT, to });
        }
        match unreached(&self.senders) {
            Some(from) => Err(Error::NotConnected { peers, from, to: Rank::ROOT }),
            None => Ok(()),
        }
    }

    /// Spectral gap `1 − σ₂(P)`, where `P` is the matrix of plain averages: row `b` has
    /// `1 / (in-degree + 1)` at `b` itself and at every sender of `b`. It is 1 for the complete
    /// graph, and small where values spread slowly. In a regular graph it is 0 if values of some
    /// peers never reach others, and disagreement shrinks at least by the factor `1 − gap` in each
    /// step.
    ///
    /// Computed in `O(peers³)`, two seconds for a thousand peers. Only the four basic operations
    /// and square roots are used, so every machine gets the same bits.
    #[must_use]
    pub fn spectral_gap(&self) -> f64 {
        GossipWeights::average(self).spectral_gap()
    }

    /// Bytes that the busiest peer sends in a round in which each edge carries `message` bytes.
    #[must_use]
    pub fn bytes_per_step(&self, message: u64) -> u64 {
        (self.max_out_degree() as u64).saturating_mul(message)
    }

    /// Bytes that all peers together send in such a round.
    #[must_use]
    pub fn total_bytes_per_step(&self, message: u64) -> u64 {
        (self.receivers.iter().map(Vec::len).sum::<usize>() as u64).saturating_mul(message)
    }
}

/// Returns the first peer that cannot be reached from the root along these lists.
fn unreached(lists: &[Vec<Rank>]) -> Option<Rank> {
    let mut seen = vec![false; lists.len()];
    seen[0] = true;
    let mut open = vec![Rank::ROOT];
    while let Some(peer) = open.pop() {
        for &next in &lists[peer.index()] {
            if !std::mem::replace(&mut seen[next.index()], true) {
                open.push(next);
            }
        }
    }
    seen.iter().position(|&reached| !reached).map(|index| Rank::new(index as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(peers: usize, edges: &[(u32, u32)]) -> Result<Graph> {
        Graph::from_edges(peers, edges.iter().map(|&(from, to)| (Rank::new(from), Rank::new(to))))
    }

    #[test]
    fn bad_edges_are_refused() {
        assert!(graph(0, &[]).is_err());
        assert!(graph(2, &[(0, 2)]).unwrap_err().to_string().contains("0 → 2"));
        assert!(graph(2, &[(1, 1)]).unwrap_err().to_string().contains("itself"));
        assert_eq!(graph(2, &[(0, 1), (0, 1)]), graph(2, &[(0, 1)]));
    }

    #[test]
    fn unreachable_peers_are_named() {
        assert!(graph(3, &[(0, 1), (1, 2), (2, 0)]).unwrap().check_connected().is_ok());
        let one_way = graph(3, &[(0, 1), (1, 2)]).unwrap();
        assert_eq!(
            one_way.check_connected(),
            Err(Error::NotConnected { peers: 3, from: Rank::new(1), to: Rank::ROOT })
        );
        let apart = graph(4, &[(0, 1), (1, 0), (2, 3), (3, 2)]).unwrap();
        assert_eq!(apart.check_connected(), Err(Error::NotConnected { peers: 4, from: Rank::ROOT, to: Rank::new(2) }));
        assert!(apart.spectral_gap().abs() < 1e-12);
        assert!(graph(1, &[]).unwrap().check_connected().is_ok());
    }

    #[test]
    fn unequal_degrees_are_named() {
        let graph = graph(3, &[(0, 1), (0, 2), (1, 2)]).unwrap();
        assert!(matches!(graph.check_regular(), Err(Error::NotRegular { first_degree: 0, second_degree: 1, .. })));
        assert!(matches!(graph.check_balanced(), Err(Error::NotBalanced { sends: 2, receives: 0, .. })));
        assert_eq!((graph.bytes_per_step(10), graph.total_bytes_per_step(10)), (20, 30));
    }
}
