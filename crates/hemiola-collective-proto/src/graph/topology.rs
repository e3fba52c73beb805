//! Named communication graphs.
//!
//! Most are *circulant*: peer `i` sends to `i + o` (modulo the number of peers) for each of a few
//! offsets `o`. Those are regular by construction, and connected if one of the offsets is 1.

use super::Graph;
use crate::{Error, Result};
use hemiola_core::Rank;
use hemiola_core::rng::SplitMix64;
use serde::{Deserialize, Serialize};

/// Named communication graph; [`Topology::graph`] instantiates it for a number of peers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Topology {
    /// Every peer sends to every other.
    Complete,
    /// Each peer sends to the next, the last to the first.
    Ring,
    /// Each peer sends to the next, the last to none: values spread one way only. For comparison,
    /// as in the paper.
    Chain,
    /// All peers send to the root and the root to all peers.
    Star,
    /// Each peer sends to the next and to the one `⌊√peers⌋` further.
    RootExpander,
    /// Each peer sends to `degree` others (`⌊log₂ peers⌋` by default), at offsets given by the
    /// Halton sequence of base 2.
    Halton {
        /// Out-degree of every peer.
        degree: Option<usize>,
    },
    /// Each peer sends to the peers half of the way round, a quarter, an eighth, ... and to the
    /// next.
    Chord,
    /// Random graph in which all peers have this in-degree and out-degree.
    RandomRegular {
        /// In-degree and out-degree of every peer.
        degree: usize,
        /// Random seed. The same seed gives the same graph.
        seed: u64,
    },
    /// Groups of `group` consecutive peers (hosts): each peer sends to all of its own group, and to
    /// the peers with its index in those groups that a root expander of groups would name.
    TwoLevel {
        /// Number of peers per group.
        group: usize,
    },
    /// Circulant graph with explicit offsets.
    Circulant {
        /// Offsets: each peer `i` sends to `i + offset`.
        offsets: Vec<usize>,
    },
    /// Graph with explicit edges.
    Edges {
        /// Pairs of sender and receiver.
        edges: Vec<(Rank, Rank)>,
    },
}

impl Topology {
    /// Returns the graph for this many peers.
    pub fn graph(&self, peers: usize) -> Result<Graph> {
        let bad = |problem: String| Error::InvalidGraph { peers, problem };
        match self {
            Self::Complete => circulant(peers, 1..peers),
            Self::Ring => circulant(peers, [1]),
            Self::Chain => Graph::from_edges(peers, to_ranks((1..peers).map(|next| (next - 1, next)))),
            Self::Star => Graph::from_edges(peers, to_ranks((1..peers).flat_map(|peer| [(0, peer), (peer, 0)]))),
            Self::RootExpander => circulant(peers, [1, peers.isqrt()]),
            Self::Halton { degree } => {
                let degree = degree.unwrap_or_else(|| (peers.max(1).ilog2() as usize).min(peers.saturating_sub(1)));
                check_degree(peers, degree)?;
                circulant(peers, halton_offsets(peers, degree))
            }
            Self::Chord => circulant(peers, chord_offsets(peers)),
            Self::RandomRegular { degree, seed } => {
                check_degree(peers, *degree)?;
                random_regular(peers, *degree, *seed)
            }
            Self::TwoLevel { group } => {
                if *group == 0 || !peers.is_multiple_of(*group) {
                    return Err(bad(format!("groups of {group} do not divide them evenly")));
                }
                two_level(peers, *group)
            }
            Self::Circulant { offsets } => circulant(peers, offsets.iter().copied()),
            Self::Edges { edges } => Graph::from_edges(peers, edges.iter().copied()),
        }
    }
}

fn check_degree(peers: usize, degree: usize) -> Result<()> {
    if degree < peers && (degree > 0 || peers == 1) {
        return Ok(());
    }
    let problem = format!("a degree of {degree} is not between 1 and the number of other peers");
    Err(Error::InvalidGraph { peers, problem })
}

fn to_ranks(edges: impl Iterator<Item = (usize, usize)>) -> impl Iterator<Item = (Rank, Rank)> {
    edges.map(|(from, to)| (Rank::new(from as u32), Rank::new(to as u32)))
}

/// Circulant graph. Offsets that are multiples of the number of peers are left out: a ring of one
/// peer has no edges.
pub(super) fn circulant(peers: usize, offsets: impl IntoIterator<Item = usize>) -> Result<Graph> {
    let offsets = offsets.into_iter().filter(|offset| peers > 0 && offset % peers != 0);
    let edges = offsets.flat_map(|offset| (0..peers).map(move |from| (from, (from + offset) % peers)));
    Graph::from_edges(peers, to_ranks(edges))
}

/// Offsets `1 + peers × h`, with h from 0, 1/2, 1/4, 3/4, 1/8, 5/8, ...: the shift makes 1 the
/// first offset, without which some graphs are disconnected.
pub(super) fn halton_offsets(peers: usize, degree: usize) -> Vec<usize> {
    let mut offsets = Vec::with_capacity(degree);
    let mut index = 0_u64;
    while offsets.len() < degree {
        // The reversed bits are the fraction, in units of 2⁻⁶⁴.
        let fraction = u128::from(index.reverse_bits());
        let offset = (1 + ((fraction * peers as u128) >> 64) as usize) % peers;
        if offset != 0 && !offsets.contains(&offset) {
            offsets.push(offset);
        }
        index += 1;
    }
    offsets
}

pub(super) fn chord_offsets(peers: usize) -> Vec<usize> {
    std::iter::successors(Some(peers / 2), |&offset| Some(offset / 2)).take_while(|&offset| offset > 0).collect()
}

fn two_level(peers: usize, group: usize) -> Result<Graph> {
    let groups = peers / group;
    let inside = (0..peers).flat_map(|from| {
        let first = from - from % group;
        (first..first + group).filter(move |&to| to != from).map(move |to| (from, to))
    });
    let between = [1, groups.isqrt()]
        .into_iter()
        .filter(|offset| offset % groups != 0)
        .flat_map(|offset| (0..peers).map(move |from| (from, (from + offset * group) % peers)));
    Graph::from_edges(peers, to_ranks(inside.chain(between)))
}

/// Random regular graph: a circulant graph with permuted ranks, in which random pairs of edges are
/// crossed (`a → b, c → d` becomes `a → d, c → b`), which keeps all degrees.
fn random_regular(peers: usize, degree: usize, seed: u64) -> Result<Graph> {
    let mut random = SplitMix64::new(seed);
    let mut names: Vec<usize> = (0..peers).collect();
    random.shuffle(&mut names);
    let mut edges: Vec<(usize, usize)> =
        (1..=degree).flat_map(|offset| (0..peers).map(move |from| (from, (from + offset) % peers))).collect();
    for (from, to) in &mut edges {
        (*from, *to) = (names[*from], names[*to]);
    }
    // A ring with permuted ranks is as random as a connected graph of degree 1 can be.
    let crossings = if degree == 1 { 0 } else { edges.len() * 8 };
    loop {
        let mut present = vec![false; peers * peers];
        for &(from, to) in &edges {
            present[from * peers + to] = true;
        }
        for _ in 0..crossings {
            let (first, second) = (random.below(edges.len()), random.below(edges.len()));
            let ((a, b), (c, d)) = (edges[first], edges[second]);
            if a == d || c == b || present[a * peers + d] || present[c * peers + b] {
                continue;
            }
            (present[a * peers + b], present[c * peers + d]) = (false, false);
            (present[a * peers + d], present[c * peers + b]) = (true, true);
            (edges[first], edges[second]) = ((a, d), (c, b));
        }
        let graph = Graph::from_edges(peers, to_ranks(edges.iter().copied()))?;
        if graph.check_connected().is_ok() {
            return Ok(graph);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn everything(peers: usize) -> Vec<Topology> {
        let mut kinds = vec![
            Topology::Complete,
            Topology::Ring,
            Topology::Star,
            Topology::RootExpander,
            Topology::Halton { degree: None },
            Topology::Chord,
            Topology::RandomRegular { degree: 1.min(peers - 1), seed: 5 },
            Topology::RandomRegular { degree: 3.min(peers - 1), seed: 6 },
        ];
        kinds
            .extend((1..=peers).filter(|group| peers.is_multiple_of(*group)).map(|group| Topology::TwoLevel { group }));
        kinds
    }

    #[test]
    fn all_but_the_chain_are_connected_and_balanced_and_all_but_the_star_regular() {
        for peers in 1..=40 {
            for kind in everything(peers) {
                let graph = kind.graph(peers).unwrap();
                assert!(graph.check_connected().is_ok(), "{kind:?} of {peers}");
                assert!(graph.check_balanced().is_ok(), "{kind:?} of {peers}");
                assert!(graph.check_regular().is_ok() || (kind == Topology::Star && peers > 2), "{kind:?} of {peers}");
            }
        }
        let chain = Topology::Chain.graph(6).unwrap();
        assert!(chain.check_connected().is_err() && chain.check_regular().is_err());
    }

    #[test]
    fn offsets_are_those_of_the_definitions() {
        assert_eq!(halton_offsets(16, 4), [1, 9, 5, 13]);
        assert_eq!(halton_offsets(2, 1), [1]);
        assert_eq!(chord_offsets(25), [12, 6, 3, 1]);
        assert!(chord_offsets(1).is_empty());
        let graph = Topology::RootExpander.graph(25).unwrap();
        assert_eq!(graph.receivers(Rank::new(24)), [Rank::new(0), Rank::new(4)]);
        // With 2 or 3 peers the root is 1, and both edges coincide.
        assert_eq!(Topology::RootExpander.graph(3).unwrap(), Topology::Ring.graph(3).unwrap());
    }

    #[test]
    fn random_graphs_repeat_by_seed_and_have_every_degree() {
        for degree in 1..9 {
            let kind = |seed| Topology::RandomRegular { degree, seed }.graph(9).unwrap();
            assert_eq!(kind(1), kind(1));
            assert_eq!(kind(1).max_out_degree(), degree);
            assert!(degree == 8 || kind(1) != kind(2));
        }
        assert!(Topology::RandomRegular { degree: 9, seed: 0 }.graph(9).is_err());
        assert!(Topology::RandomRegular { degree: 0, seed: 0 }.graph(9).is_err());
        assert!(Topology::TwoLevel { group: 4 }.graph(9).is_err());
    }
}
