//! How much of whose value goes into whose average.
//!
//! A row says of what a peer's next value is made: units of its own and of its senders' values, out of a denominator. **Invariant:** units are whole
//! numbers and those of a row add up to its denominator exactly. So "doubly stochastic" (columns add up, too: everybody counts the same, and the
//! average of all never moves) is a matter of integers and not of tolerances.
//!
//! When a peer dies, its neighbours are joined: what it would have received goes straight to those who would have received from it
//! ([`Weights::without`]). Rows and columns of the others add up as before. The roads not taken: giving the missing
//! share to the receiver itself spoils its column; computing the exact "as if it passed everything on at once" average is fair as well, but
//! makes d² edges of 2d.

use super::{Graph, spectral};
use crate::Result;
use hemiola_core::Rank;
use serde::{Deserialize, Serialize};

/// What one peer's next value is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    denominator: u32,
    /// By sender, ascending, the peer itself among them.
    units: Vec<(Rank, u32)>,
}

impl Row {
    /// Units of each value, by sender.
    #[must_use]
    pub fn units(&self) -> &[(Rank, u32)] {
        &self.units
    }

    /// Of how many.
    #[must_use]
    pub fn denominator(&self) -> u32 {
        self.denominator
    }

    /// The share of each value, by sender.
    pub fn terms(&self) -> impl Iterator<Item = (Rank, f64)> {
        self.units.iter().map(|&(from, units)| (from, f64::from(units) / f64::from(self.denominator)))
    }

    fn add(&mut self, from: Rank, units: u32) {
        match self.units.binary_search_by_key(&from, |&(rank, _)| rank) {
            Ok(place) => self.units[place].1 += units,
            Err(place) => self.units.insert(place, (from, units)),
        }
    }

    fn of(&self, from: Rank) -> u32 {
        self.units.binary_search_by_key(&from, |&(rank, _)| rank).map_or(0, |place| self.units[place].1)
    }
}

/// Mixing weights of all peers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weights {
    /// A row per peer; none for a peer that is gone.
    rows: Vec<Row>,
}

impl Weights {
    /// Each takes the plain average of its own value and those it receives, as in the paper. Fair to all only in regular graphs.
    #[must_use]
    pub fn average(graph: &Graph) -> Self {
        Self::with_denominators(graph, |peer| graph.senders(peer).len() as u32 + 1)
    }

    /// Each edge carries the same share, and peers with fewer edges keep more of their own value. Doubly stochastic in every graph in which each
    /// sends to as many as it receives from, such as a star; the same as [`Weights::average`] in regular ones.
    pub fn balanced(graph: &Graph) -> Result<Self> {
        graph.check_balanced()?;
        let denominator = graph.max_in_degree() as u32 + 1;
        Ok(Self::with_denominators(graph, |_| denominator))
    }

    fn with_denominators(graph: &Graph, denominator: impl Fn(Rank) -> u32) -> Self {
        let row = |peer: Rank| {
            let senders = graph.senders(peer);
            let mut row =
                Row { denominator: denominator(peer), units: senders.iter().map(|&from| (from, 1)).collect() };
            row.add(peer, row.denominator - senders.len() as u32);
            row
        };
        Self { rows: Rank::all(graph.peers()).map(row).collect() }
    }

    /// How many peers there are, those that are gone included.
    #[must_use]
    pub fn peers(&self) -> usize {
        self.rows.len()
    }

    /// The row of a peer. Empty if it is gone.
    #[must_use]
    pub fn row(&self, peer: Rank) -> &Row {
        &self.rows[peer.index()]
    }

    /// Whether a peer is part of it.
    #[must_use]
    pub fn has(&self, peer: Rank) -> bool {
        self.row(peer).denominator > 0
    }

    /// Who sends to whom.
    pub fn graph(&self) -> Result<Graph> {
        let edges = Rank::all(self.peers())
            .flat_map(|to| self.row(to).units.iter().map(move |&(from, _)| (from, to)).filter(|(from, to)| from != to));
        Graph::from_edges(self.peers(), edges)
    }

    /// Whether all rows have one denominator and all columns add up to it.
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

    /// The weights of those who are left when a peer is gone.
    ///
    /// Doubly stochastic weights stay doubly stochastic: those who sent to it are joined with those who received from it, over new edges where
    /// possible. Other weights lose its share, and the rest of each row counts for more.
    #[must_use]
    pub fn without(&self, gone: Rank) -> Self {
        let fair = self.is_doubly_stochastic();
        let mut weights = self.clone();
        let lost = std::mem::replace(&mut weights.rows[gone.index()], Row { denominator: 0, units: Vec::new() });
        let mut given: Vec<(Rank, u32)> = lost.units.iter().copied().filter(|&(from, _)| from != gone).collect();
        for to in Rank::all(self.peers()).filter(|&to| to != gone) {
            let row = &mut weights.rows[to.index()];
            let missing = row.of(gone);
            row.units.retain(|&(from, _)| from != gone);
            if !fair {
                row.denominator -= missing;
                continue;
            }
            for _ in 0..missing {
                // Best is a new edge; then more of one that is there; then more of the own value.
                let rank = |&(from, units): &(Rank, u32)| match (units, from == to, row.of(from)) {
                    (0, ..) => None,
                    (_, true, _) => Some(2),
                    (_, false, 0) => Some(0),
                    (_, false, _) => Some(1),
                };
                let best = (0..given.len())
                    .filter(|&place| rank(&given[place]).is_some())
                    .min_by_key(|&place| rank(&given[place]));
                // What a fair peer receives is as much as it gives, so there is always one.
                let Some(place) = best else { break };
                given[place].1 -= 1;
                let from = given[place].0;
                row.add(from, 1);
            }
        }
        weights
    }

    /// `1 − σ₂` of the weights of those who are there.
    #[must_use]
    pub fn spectral_gap(&self) -> f64 {
        let alive: Vec<Rank> = Rank::all(self.peers()).filter(|&peer| self.has(peer)).collect();
        let dense = |&to: &Rank| {
            let mut row = vec![0.0; alive.len()];
            for (from, weight) in self.row(to).terms() {
                // Rows name peers that are there.
                row[alive.partition_point(|&peer| peer < from)] = weight;
            }
            row
        };
        1.0 - spectral::second(alive.iter().map(dense).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Random, Topology};

    #[test]
    fn plain_averages_are_fair_in_regular_graphs_only() {
        let fair = |kind: Topology| Weights::average(&kind.graph(8).unwrap()).is_doubly_stochastic();
        assert!(fair(Topology::RootExpander) && fair(Topology::Complete) && fair(Topology::TwoLevel { group: 4 }));
        assert!(!fair(Topology::Star) && !fair(Topology::Chain));
        let star = Weights::balanced(&Topology::Star.graph(8).unwrap()).unwrap();
        assert!(star.is_doubly_stochastic());
        assert!(Weights::balanced(&Topology::Chain.graph(8).unwrap()).is_err());
        let ring = Topology::Ring.graph(5).unwrap();
        assert_eq!(Weights::balanced(&ring).unwrap(), Weights::average(&ring));
    }

    #[test]
    fn fair_weights_stay_fair_and_connected_whoever_dies() {
        let mut random = Random::new(11);
        for round in 0..300 {
            let peers = 2 + random.below(12);
            let kind = match round % 5 {
                0 => Topology::RootExpander,
                1 => Topology::Star,
                2 => Topology::Chord,
                3 => Topology::Complete,
                _ => Topology::RandomRegular { degree: 1 + random.below(peers - 1), seed: round },
            };
            let mut weights = Weights::balanced(&kind.graph(peers).unwrap()).unwrap();
            let mut order: Vec<Rank> = Rank::all(peers).collect();
            random.shuffle(&mut order);
            for &gone in &order[1..] {
                weights = weights.without(gone);
                assert!(!weights.has(gone));
                assert!(weights.is_doubly_stochastic(), "{kind:?} of {peers} without {gone}");
                for peer in Rank::all(peers) {
                    let row = weights.row(peer);
                    assert_eq!(row.units().iter().map(|&(_, units)| units).sum::<u32>(), row.denominator());
                }
            }
            assert!(weights.has(order[0]));
        }
    }

    #[test]
    fn a_ring_closes_over_a_dead_peer() {
        let ring = Weights::average(&Topology::Ring.graph(5).unwrap());
        let closed = ring.without(Rank::new(2));
        assert_eq!(closed.row(Rank::new(3)).units(), [(Rank::new(1), 1), (Rank::new(3), 1)]);
        // The same gap as a ring of four.
        let four = Topology::Ring.graph(4).unwrap().spectral_gap();
        assert!((closed.spectral_gap() - four).abs() < 1e-12);
    }

    #[test]
    fn unfair_weights_share_what_is_left() {
        let star = Weights::average(&Topology::Star.graph(4).unwrap());
        let left = star.without(Rank::new(3));
        assert_eq!(left.row(Rank::ROOT).denominator(), 3);
        assert_eq!(left.row(Rank::ROOT).units().len(), 3);
    }

    #[test]
    fn weights_and_graph_agree() {
        let graph = Topology::Chord.graph(10).unwrap();
        assert_eq!(Weights::average(&graph).graph().unwrap(), graph);
    }
}
