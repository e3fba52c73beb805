//! Who sends to whom in a reduce that does not involve everybody.
//!
//! An edge `a → b` says that `a` sends what it has to `b` in every step. Each peer always keeps its own value as well; that self-loop is implied
//! and never listed. **Invariant:** edges are between different peers of the graph, each at most once; lists are sorted, so two graphs with the
//! same edges are equal.
//!
//! The theory is in appendix A of the ASAP paper: averages over a graph approach the average of all at a rate that its [spectral
//! gap](Graph::spectral_gap) tells, provided that news of every peer reaches every other ([`Graph::check_connected`]) and that no peer counts
//! more than another ([`Graph::check_regular`], or [`Weights::balanced`]).

mod bidiagonal;
mod kinds;
mod search;
mod spectral;
mod speeds;
mod weights;

pub use kinds::Topology;
pub use search::{Found, Search};
pub use speeds::LinkSpeeds;
pub use weights::{Row, Weights};

use crate::{Error, Result};
use hemiola_core::Rank;
use serde::{Deserialize, Serialize};

/// A directed communication graph.
///
/// ```
/// use hemiola_collective_proto::{Graph, Topology};
/// let graph = Topology::RootExpander.graph(25)?;
/// assert_eq!(graph.max_out_degree(), 2);
/// assert!((graph.spectral_gap() - 0.1419).abs() < 1e-4);
/// # Ok::<(), hemiola_collective_proto::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Edges", into = "Edges")]
pub struct Graph {
    receivers: Vec<Vec<Rank>>,
    senders: Vec<Vec<Rank>>,
}

/// A graph as it is written down.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Edges {
    peers: usize,
    edges: Vec<(Rank, Rank)>,
}

impl TryFrom<Edges> for Graph {
    type Error = Error;

    fn try_from(written: Edges) -> Result<Self> {
        Self::from_edges(written.peers, written.edges)
    }
}

impl From<Graph> for Edges {
    fn from(graph: Graph) -> Self {
        Self { peers: graph.peers(), edges: graph.edges().collect() }
    }
}

impl Graph {
    /// The graph with these edges, each from sender to receiver. Edges given twice count once.
    pub fn from_edges(peers: usize, edges: impl IntoIterator<Item = (Rank, Rank)>) -> Result<Self> {
        let bad = |problem: String| Error::BadGraph { peers, problem };
        if peers == 0 {
            return Err(bad("it needs at least one peer".to_owned()));
        }
        let (mut receivers, mut senders) = (vec![Vec::new(); peers], vec![Vec::new(); peers]);
        for (from, to) in edges {
            if from.index() >= peers || to.index() >= peers {
                return Err(bad(format!(
                    "edge {from} → {to} names a peer that is not there; peers are numbered from 0"
                )));
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

    /// How many peers there are.
    #[must_use]
    pub fn peers(&self) -> usize {
        self.receivers.len()
    }

    /// To whom a peer sends, in order.
    #[must_use]
    pub fn receivers(&self, peer: Rank) -> &[Rank] {
        &self.receivers[peer.index()]
    }

    /// From whom a peer receives, in order.
    #[must_use]
    pub fn senders(&self, peer: Rank) -> &[Rank] {
        &self.senders[peer.index()]
    }

    /// All edges, from sender to receiver.
    pub fn edges(&self) -> impl Iterator<Item = (Rank, Rank)> {
        Rank::all(self.peers()).flat_map(|from| self.receivers(from).iter().map(move |&to| (from, to)))
    }

    /// Whether there is this edge.
    #[must_use]
    pub fn has_edge(&self, from: Rank, to: Rank) -> bool {
        self.receivers(from).binary_search(&to).is_ok()
    }

    /// The largest number of peers that one peer sends to.
    #[must_use]
    pub fn max_out_degree(&self) -> usize {
        self.receivers.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// The largest number of peers that one peer receives from.
    #[must_use]
    pub fn max_in_degree(&self) -> usize {
        self.senders.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Whether every peer receives from equally many: then the plain average of what a peer has and receives is also fair as long as
    /// everybody sends to equally many.
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

    /// Whether every peer sends to as many as it receives from.
    pub fn check_balanced(&self) -> Result<()> {
        for peer in Rank::all(self.peers()) {
            let (sends, receives) = (self.receivers(peer).len(), self.senders(peer).len());
            if sends != receives {
                return Err(Error::NotBalanced { peer, sends, receives });
            }
        }
        Ok(())
    }

    /// Whether news of every peer reaches every other.
    pub fn check_connected(&self) -> Result<()> {
        // Everybody is reached from the root and reaches it: then there is a way between any two.
        let peers = self.peers();
        if let Some(to) = unreached(&self.receivers) {
            return Err(Error::NotConnected { peers, from: Rank::ROOT, to });
        }
        match unreached(&self.senders) {
            Some(from) => Err(Error::NotConnected { peers, from, to: Rank::ROOT }),
            None => Ok(()),
        }
    }

    /// `1 − σ₂(P)`, where `P` is the matrix of plain averages: row `b` has `1 / (in-degree + 1)` at `b` itself and at every sender of `b`. 1 for
    /// the complete graph, and small where news travel slowly. In a regular graph it is 0 if some peers never hear of others, and disagreement shrinks by `1 − gap` or more in each step.
    ///
    /// Computed in `O(peers³)`, two seconds for a thousand peers; only the four operations and square roots are used, so every machine gets the same bits.
    #[must_use]
    pub fn spectral_gap(&self) -> f64 {
        Weights::average(self).spectral_gap()
    }

    /// What the busiest peer sends in a step in which each edge carries `message` bytes.
    #[must_use]
    pub fn bytes_per_step(&self, message: u64) -> u64 {
        (self.max_out_degree() as u64).saturating_mul(message)
    }

    /// What all peers together send in such a step.
    #[must_use]
    pub fn total_bytes_per_step(&self, message: u64) -> u64 {
        (self.receivers.iter().map(Vec::len).sum::<usize>() as u64).saturating_mul(message)
    }
}

/// The first peer that cannot be reached from the root along these lists.
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
    fn who_is_not_reached_is_named() {
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
    fn degrees_that_differ_are_named() {
        let graph = graph(3, &[(0, 1), (0, 2), (1, 2)]).unwrap();
        assert!(matches!(graph.check_regular(), Err(Error::NotRegular { first_degree: 0, second_degree: 1, .. })));
        assert!(matches!(graph.check_balanced(), Err(Error::NotBalanced { sends: 2, receives: 0, .. })));
        assert_eq!((graph.bytes_per_step(10), graph.total_bytes_per_step(10)), (20, 30));
    }
}
