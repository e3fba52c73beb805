//! Weights of gossip averaging.
//!
//! A row says how a peer's next value is composed: units of its own and of its senders' values, out
//! of a denominator. **Invariant:** units are whole numbers and those of a row add up to its
//! denominator exactly. So "doubly stochastic" (columns add up as well: all peers have the same
//! influence, and the global average never moves) is a property of integers and not of tolerances.
//!
//! When a peer is lost, its neighbours are joined: the shares that it would have received go
//! straight to those that would have received from it ([`GossipWeights::without`]). Rows and
//! columns of the others add up as before. The roads not taken: giving the missing share to the
//! receiver itself spoils its column; the exact average "as if it forwarded everything at once" is
//! fair as well, but makes d² edges of 2d.

use super::{Graph, spectral};
use crate::Result;
use hemiola_core::Rank;
use serde::{Deserialize, Serialize};

/// Composition of one peer's next value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeightRow {
    denominator: u32,
    /// Units by sender, ascending, including the peer itself.
    units: Vec<(Rank, u32)>,
}

impl WeightRow {
    /// Units of each value, by sender.
    #[must_use]
    pub fn units(&self) -> &[(Rank, u32)] {
        &self.units
    }

    /// Total number of units of the row.
    #[must_use]
    pub fn denominator(&self) -> u32 {
        self.denominator
    }

    /// Iterates over the share of each value, by sender.
    pub fn terms(&self) -> impl Iterator<Item = (Rank, f64)> {
        self.units.iter().map(|&(from, units)| (from, f64::from(units) / f64::from(self.denominator)))
    }

    fn add(&mut self, from: Rank, units: u32) {
        match self.units.binary_search_by_key(&from, |&(rank, _)| rank) {
            Ok(index) => self.units[index].1 += units,
            Err(index) => self.units.insert(index, (from, units)),
        }
    }

    fn units_from(&self, from: Rank) -> u32 {
        self.units.binary_search_by_key(&from, |&(rank, _)| rank).map_or(0, |index| self.units[index].1)
    }
}

/// Weights of gossip averaging for all peers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GossipWeights {
    /// One row per peer; empty for a lost peer.
    rows: Vec<WeightRow>,
}

impl GossipWeights {
    /// Plain average: each peer takes the mean of its own value and those it receives, as in the
    /// paper. Treats all peers alike only in regular graphs.
    #[must_use]
    pub fn average(graph: &Graph) -> Self {
        Self::with_denominators(graph, |peer| graph.senders(peer).len() as u32 + 1)
    }

    /// Balanced weights: each edge carries the same share, and peers with fewer edges keep more of
    /// their own value. Doubly stochastic in every graph in which in-degree and out-degree of each
    /// peer are equal, such as a star; equal to [`GossipWeights::average`] in regular ones.
    pub fn balanced(graph: &Graph) -> Result<Self> {
        graph.check_balanced()?;
        let denominator = graph.max_in_degree() as u32 + 1;
        Ok(Self::with_denominators(graph, |_| denominator))
    }

    fn with_denominators(graph: &Graph, denominator: impl Fn(Rank) -> u32) -> Self {
        let row = |peer: Rank| {
            let senders = graph.senders(peer);
            let mut row =
                WeightRow { denominator: denominator(peer), units: senders.iter().map(|&from| (from, 1)).collect() };
            row.add(peer, row.denominator - senders.len() as u32);
            row
        };
        Self { rows: Rank::all(graph.peers()).map(row).collect() }
    }

    /// Number of peers, including lost ones.
    #[must_use]
    pub fn peers(&self) -> usize {
        self.rows.len()
    }

    /// Row of a peer. Empty if the peer is lost.
    #[must_use]
    pub fn row(&self, peer: Rank) -> &WeightRow {
        &self.rows[peer.index()]
    }

    /// Returns true if a peer has not been removed.
    #[must_use]
    pub fn contains(&self, peer: Rank) -> bool {
        self.row(peer).denominator > 0
    }

    /// Returns the communication graph of the weights.
    pub fn graph(&self) -> Result<Graph> {
        let edges = Rank::all(self.peers())
            .flat_map(|to| self.row(to).units.iter().map(move |&(from, _)| (from, to)).filter(|(from, to)| from != to));
        Graph::from_edges(self.peers(), edges)
    }

    /// Returns true if all rows have one denominator and all columns add up to it.
    #[must_use]
    pub fn is_doubly_stochastic(&self) -> bool {
        let mut sums = vec![0; self.peers()];
        for row in &self.rows {
            row.units.iter().for_each(|&(from, units)| sums[from.index()] += units);
        }
        let denominator = self.rows.iter().map(|row| row.denominator).max().unwrap_or(0);
        let fits = |value: u32| value == 0 || value == denominator;
        self.rows.iter().zip(&sums).all(|(row, &sum)| fits(row.denominator) && sum == row.denominator)
    }

    /// Returns the weights of the remaining peers after the loss of one.
    ///
    /// Doubly stochastic weights stay doubly stochastic: the senders of the lost peer are joined
    /// with its receivers, over new edges where possible. Other weights lose its share, and the
    /// rest of each row is scaled up.
    #[must_use]
    pub fn without(&self, lost: Rank) -> Self {
        let fair = self.is_doubly_stochastic();
        let mut weights = self.clone();
        let lost_row =
            std::mem::replace(&mut weights.rows[lost.index()], WeightRow { denominator: 0, units: Vec::new() });
        let mut given: Vec<(Rank, u32)> = lost_row.units.iter().copied().filter(|&(from, _)| from != lost).collect();
        for to in Rank::all(self.peers()).filter(|&to| to != lost) {
            let row = &mut weights.rows[to.index()];
            let missing = row.units_from(lost);
            row.units.retain(|&(from, _)| from != lost);
            if !fair {
                row.denominator -= missing;
                continue;
            }
            for _ in 0..missing {
                // A new edge is best; then more of an existing one; then more of the own value.
                let rank = |&(from, units): &(Rank, u32)| match (units, from == to, row.units_from(from)) {
                    (0, ..) => None,
                    (_, true, _) => Some(2),
                    (_, false, 0) => Some(0),
                    (_, false, _) => Some(1),
                };
                let best = (0..given.len())
                    .filter(|&index| rank(&given[index]).is_some())
                    .min_by_key(|&index| rank(&given[index]));
                // In doubly stochastic weights a peer receives as much as it gives, so there is
                // always one.
                let Some(index) = best else { break };
                given[index].1 -= 1;
                let from = given[index].0;
                row.add(from, 1);
            }
        }
        weights
    }

    /// Spectral gap `1 − σ₂` of the weights of the remaining peers.
    #[must_use]
    pub fn spectral_gap(&self) -> f64 {
        let alive: Vec<Rank> = Rank::all(self.peers()).filter(|&peer| self.contains(peer)).collect();
        let dense = |&to: &Rank| {
            let mut row = vec![0.0; alive.len()];
            for (from, weight) in self.row(to).terms() {
                // Rows name only remaining peers.
                row[alive.partition_point(|&peer| peer < from)] = weight;
            }
            row
        };
        1.0 - spectral::second_singular_value(alive.iter().map(dense).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Topology;
    use hemiola_core::rng::SplitMix64;

    #[test]
    fn plain_averages_are_fair_in_regular_graphs_only() {
        let fair = |kind: Topology| GossipWeights::average(&kind.graph(8).unwrap()).is_doubly_stochastic();
        assert!(fair(Topology::RootExpander) && fair(Topology::Complete) && fair(Topology::TwoLevel { group: 4 }));
        assert!(!fair(Topology::Star) && !fair(Topology::Chain));
        let star = GossipWeights::balanced(&Topology::Star.graph(8).unwrap()).unwrap();
        assert!(star.is_doubly_stochastic());
        assert!(GossipWeights::balanced(&Topology::Chain.graph(8).unwrap()).is_err());
        let ring = Topology::Ring.graph(5).unwrap();
        assert_eq!(GossipWeights::balanced(&ring).unwrap(), GossipWeights::average(&ring));
    }

    #[test]
    fn doubly_stochastic_weights_stay_so_after_any_loss() {
        let mut random = SplitMix64::new(11);
        for round in 0..300 {
            let peers = 2 + random.below(12);
            let kind = match round % 5 {
                0 => Topology::RootExpander,
                1 => Topology::Star,
                2 => Topology::Chord,
                3 => Topology::Complete,
                _ => Topology::RandomRegular { degree: 1 + random.below(peers - 1), seed: round },
            };
            let mut weights = GossipWeights::balanced(&kind.graph(peers).unwrap()).unwrap();
            let mut order: Vec<Rank> = Rank::all(peers).collect();
            random.shuffle(&mut order);
            for &lost in &order[1..] {
                weights = weights.without(lost);
                assert!(!weights.contains(lost));
                assert!(weights.is_doubly_stochastic(), "{kind:?} of {peers} without {lost}");
                for peer in Rank::all(peers) {
                    let row = weights.row(peer);
                    assert_eq!(row.units().iter().map(|&(_, units)| units).sum::<u32>(), row.denominator());
                }
            }
            assert!(weights.contains(order[0]));
        }
    }

    #[test]
    fn a_ring_closes_over_a_lost_peer() {
        let ring = GossipWeights::average(&Topology::Ring.graph(5).unwrap());
        let closed = ring.without(Rank::new(2));
        assert_eq!(closed.row(Rank::new(3)).units(), [(Rank::new(1), 1), (Rank::new(3), 1)]);
        // The gap of a ring of four.
        let four = Topology::Ring.graph(4).unwrap().spectral_gap();
        assert!((closed.spectral_gap() - four).abs() < 1e-12);
    }

    #[test]
    fn other_weights_are_renormalized() {
        let star = GossipWeights::average(&Topology::Star.graph(4).unwrap());
        let left = star.without(Rank::new(3));
        assert_eq!(left.row(Rank::ROOT).denominator(), 3);
        assert_eq!(left.row(Rank::ROOT).units().len(), 3);
    }

    #[test]
    fn weights_and_graph_agree() {
        let graph = Topology::Chord.graph(10).unwrap();
        assert_eq!(GossipWeights::average(&graph).graph().unwrap(), graph);
    }
}
