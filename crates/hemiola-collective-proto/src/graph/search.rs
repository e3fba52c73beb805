//! Search for a good communication graph of limited degree, optionally for links of unequal speed.
//!
//! Without speeds the best graph has the largest spectral gap. With speeds it is the one over which
//! disagreement shrinks a thousandfold in the least time: the number of rounds, `ln 1000 / −ln σ₂`
//! and at least one, times the [seconds per round](LinkSpeeds::step_seconds). Candidates are
//! circulant graphs (all of them if they are few), the named topologies, and random regular ones;
//! with speeds also circulant graphs with permuted peers, each followed by the one that its link is
//! fastest to, or slowest. Then the best is improved by crossing pairs of edges and, with speeds,
//! by swapping two peers. All candidates are regular, so plain averages over the result treat all
//! peers alike.
//!
//! The result is a function of the arguments on one machine. It uses logarithms, whose last bits
//! differ between systems, so let one peer search and send the edges to the others.

use super::topology::{chord_offsets, circulant, halton_offsets};
use super::{GossipWeights, Graph, LinkSpeeds, Topology, spectral};
use crate::{Error, Result};
use hemiola_core::Rank;
use hemiola_core::rng::SplitMix64;

/// Maximum rounds of power iteration per candidate, and rounds per peer for many peers: an exact
/// gap costs more than thousands of them.
const ROUNDS: usize = 60;
const ROUNDS_PER_PEER: usize = 4;

/// Search for a communication graph.
#[derive(Clone, Debug)]
pub struct TopologySearch<'a> {
    peers: usize,
    degree: usize,
    speeds: Option<(&'a LinkSpeeds, u64)>,
    seed: u64,
    tries: usize,
}

/// Result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct TopologySearchResult {
    /// Best graph: regular and connected.
    pub graph: Graph,
    /// Spectral gap of the graph.
    pub gap: f64,
    /// Seconds per round, if speeds were given.
    pub step_seconds: Option<f64>,
    /// Seconds in which disagreement shrinks a thousandfold, if speeds were given.
    pub thousandfold_seconds: Option<f64>,
}

impl<'a> TopologySearch<'a> {
    /// Creates a search among graphs in which each of the peers sends to `degree` others.
    #[must_use]
    pub fn new(peers: usize, degree: usize) -> Self {
        Self { peers, degree, speeds: None, seed: 0, tries: 1000 }
    }

    /// Takes link speeds into account, for messages of so many bytes. The degree becomes an upper
    /// bound.
    #[must_use]
    pub fn speeds(mut self, speeds: &'a LinkSpeeds, message: u64) -> Self {
        self.speeds = Some((speeds, message));
        self
    }

    /// Sets the random seed of the search; 0 by default.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the approximate number of candidates; 1000 by default.
    #[must_use]
    pub fn tries(mut self, tries: usize) -> Self {
        self.tries = tries;
        self
    }

    /// Runs the search and returns the best graph.
    pub fn run(&self) -> Result<TopologySearchResult> {
        let peers = self.peers;
        if peers == 0 || self.degree >= peers || (self.degree == 0 && peers > 1) {
            let problem = format!("a degree of {} is not between 1 and the number of other peers", self.degree);
            return Err(Error::InvalidGraph { peers, problem });
        }
        if let Some((speeds, _)) = self.speeds
            && speeds.peers() != peers
        {
            let problem = format!("they were measured between {} peers", speeds.peers());
            return Err(Error::InvalidLinkSpeeds { peers, problem });
        }
        let mut best = BestCandidate { search: self, graph: circulant(peers, 1..=self.degree)?, cost: f64::INFINITY };
        best.cost = self.cost(&best.graph, 1.0 - best.graph.spectral_gap());
        let lowest = if self.speeds.is_some() { 1.min(self.degree) } else { self.degree };
        let mut random = SplitMix64::new(self.seed);
        for degree in lowest..=self.degree {
            if degree > 0 {
                self.try_topologies(degree, &mut random, &mut best)?;
            }
        }
        self.improve(&mut random, &mut best)?;
        Ok(self.result(best.graph))
    }

    fn result(&self, graph: Graph) -> TopologySearchResult {
        let gap = graph.spectral_gap();
        let step_seconds = self.speeds.map(|(speeds, message)| speeds.step_seconds(&graph, message));
        let thousandfold_seconds = step_seconds.map(|seconds| seconds * steps_to_converge(1.0 - gap));
        TopologySearchResult { graph, gap, step_seconds, thousandfold_seconds }
    }

    /// Cost of a graph with this second singular value; lower is better.
    fn cost(&self, graph: &Graph, second: f64) -> f64 {
        match self.speeds {
            None => second,
            Some((speeds, message)) => speeds.step_seconds(graph, message) * steps_to_converge(second),
        }
    }

    fn try_topologies(&self, degree: usize, random: &mut SplitMix64, best: &mut BestCandidate<'_, 'a>) -> Result<()> {
        let peers = self.peers;
        best.offer(circulant(peers, halton_offsets(peers, degree))?);
        if chord_offsets(peers).len() == degree {
            best.offer(circulant(peers, chord_offsets(peers))?);
        }
        let orders: Vec<Vec<Rank>> = match self.speeds {
            None => vec![Rank::all(peers).collect()],
            Some((speeds, _)) => vec![
                Rank::all(peers).collect(),
                greedy_order(peers, |from, to| speeds.between(from, to)),
                greedy_order(peers, |from, to| -speeds.between(from, to)),
            ],
        };
        for offsets in offset_sets(peers, degree, self.tries, random) {
            let graph = circulant(peers, offsets)?;
            for order in &orders {
                let edges = graph.edges().map(|(from, to)| (order[from.index()], order[to.index()]));
                best.offer(Graph::from_edges(peers, edges)?);
            }
        }
        for _ in 0..self.tries / 10 {
            best.offer(Topology::RandomRegular { degree, seed: random.next_u64() }.graph(peers)?);
        }
        Ok(())
    }

    fn improve(&self, random: &mut SplitMix64, best: &mut BestCandidate<'_, 'a>) -> Result<()> {
        for _ in 0..self.tries {
            let mut edges: Vec<(Rank, Rank)> = best.graph.edges().collect();
            if edges.len() < 2 {
                return Ok(());
            }
            if self.speeds.is_some() && random.below(2) == 0 {
                let (a, b) = (Rank::new(random.below(self.peers) as u32), Rank::new(random.below(self.peers) as u32));
                let renamed = |rank: Rank| {
                    if rank == a {
                        b
                    } else if rank == b {
                        a
                    } else {
                        rank
                    }
                };
                for (from, to) in &mut edges {
                    (*from, *to) = (renamed(*from), renamed(*to));
                }
            } else {
                let (first, second) = (random.below(edges.len()), random.below(edges.len()));
                let ((a, b), (c, d)) = (edges[first], edges[second]);
                if a == d || c == b || best.graph.has_edge(a, d) || best.graph.has_edge(c, b) {
                    continue;
                }
                (edges[first], edges[second]) = ((a, d), (c, b));
            }
            let graph = Graph::from_edges(self.peers, edges)?;
            if graph.check_connected().is_ok() {
                best.offer(graph);
            }
        }
        Ok(())
    }
}

/// Best candidate so far.
struct BestCandidate<'s, 'a> {
    search: &'s TopologySearch<'a>,
    graph: Graph,
    cost: f64,
}

impl BestCandidate<'_, '_> {
    fn offer(&mut self, graph: Graph) {
        // The estimate is a lower bound: whatever it rejects is worse, and whatever passes is
        // evaluated exactly.
        let rounds = ROUNDS.max(ROUNDS_PER_PEER * graph.peers());
        let worse = |estimate: f64| self.search.cost(&graph, estimate) >= self.cost;
        if worse(spectral::estimate_second_singular_value(&GossipWeights::average(&graph), rounds, worse)) {
            return;
        }
        let cost = self.search.cost(&graph, 1.0 - graph.spectral_gap());
        if cost < self.cost {
            (self.graph, self.cost) = (graph, cost);
        }
    }
}

/// Number of rounds until disagreement has shrunk a thousandfold.
fn steps_to_converge(second: f64) -> f64 {
    (1000_f64.ln() / -second.clamp(1e-300, 1.0 - 1e-12).ln()).max(1.0)
}

/// Greedy order: all peers, each followed by the remaining one with the highest score.
fn greedy_order(peers: usize, score: impl Fn(Rank, Rank) -> f64) -> Vec<Rank> {
    let mut left: Vec<Rank> = Rank::all(peers).skip(1).collect();
    let mut order = vec![Rank::ROOT];
    while !left.is_empty() {
        let last = order[order.len() - 1];
        let next = (1..left.len())
            .fold(0, |best, index| if score(last, left[index]) > score(last, left[best]) { index } else { best });
        order.push(left.remove(next));
    }
    order
}

/// Sets of offsets that include 1: all of them, if there are no more than `limit`, otherwise that
/// many random ones.
fn offset_sets(peers: usize, degree: usize, limit: usize, random: &mut SplitMix64) -> Vec<Vec<usize>> {
    // Choose degree − 1 of 2..peers.
    let (choices, chosen) = (peers - 2, degree - 1);
    let mut count = 1_usize;
    for k in 0..chosen {
        count = count.saturating_mul(choices - k) / (k + 1);
        if count > limit {
            let mut rest: Vec<usize> = (2..peers).collect();
            let draw = |_| {
                random.shuffle(&mut rest);
                std::iter::once(1).chain(rest[..chosen].iter().copied()).collect()
            };
            return (0..limit).map(draw).collect();
        }
    }
    let mut sets = vec![vec![1]];
    for _ in 0..chosen {
        let longer = |set: &Vec<usize>| {
            let (set, last) = (set.clone(), set[set.len() - 1]);
            (last + 1..peers).map(move |next| set.iter().copied().chain([next]).collect())
        };
        sets = sets.iter().flat_map(longer).collect();
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_offset_sets_are_found_when_they_are_few() {
        let mut random = SplitMix64::new(0);
        assert_eq!(offset_sets(5, 2, 100, &mut random), [[1, 2], [1, 3], [1, 4]]);
        assert_eq!(offset_sets(7, 4, 100, &mut random).len(), 10);
        assert_eq!(offset_sets(2, 1, 100, &mut random), [[1]]);
        let some = offset_sets(40, 5, 7, &mut random);
        assert!(some.len() == 7 && some.iter().all(|set| set.len() == 5 && set[0] == 1));
    }

    #[test]
    fn the_search_is_at_least_as_good_as_the_named_kinds() {
        for (peers, degree) in [(2, 1), (6, 2), (8, 2), (9, 3), (16, 4), (25, 2)] {
            let found = TopologySearch::new(peers, degree).tries(200).run().unwrap();
            assert_eq!(found.graph.max_out_degree(), degree);
            assert!(found.graph.check_regular().is_ok() && found.graph.check_connected().is_ok());
            let mut named = vec![Topology::Halton { degree: Some(degree) }];
            if degree == 2 {
                named.push(Topology::RootExpander);
            }
            for kind in named {
                let gap = kind.graph(peers).unwrap().spectral_gap();
                assert!(found.gap >= gap - 1e-6, "{kind:?} of {peers}: {gap}, found {}", found.gap);
            }
        }
        let one = TopologySearch::new(1, 0).run().unwrap();
        assert_eq!(one.graph.peers(), 1);
        assert!(TopologySearch::new(4, 4).run().is_err() && TopologySearch::new(4, 0).run().is_err());
    }

    #[test]
    fn the_same_arguments_find_the_same_graph() {
        let search = TopologySearch::new(12, 3).tries(100).seed(5);
        assert_eq!(search.run().unwrap(), search.run().unwrap());
    }

    #[test]
    fn slow_links_are_avoided() {
        // The link from each peer to the next is a thousand times slower: every named graph of this
        // degree has those edges.
        let slow = |from: Rank, to: Rank| to.index() == (from.index() + 1) % 8;
        let speeds = LinkSpeeds::from_fn(8, |from, to| if slow(from, to) { 1e6 } else { 1e9 }).unwrap();
        let found = TopologySearch::new(8, 2).speeds(&speeds, 1_000_000).run().unwrap();
        let time =
            |graph: &Graph| speeds.step_seconds(graph, 1_000_000) * steps_to_converge(1.0 - graph.spectral_gap());
        assert!(found.graph.check_connected().is_ok() && found.graph.check_regular().is_ok());
        assert!(found.graph.edges().all(|(from, to)| !slow(from, to)));
        assert!(100.0 * time(&found.graph) < time(&Topology::RootExpander.graph(8).unwrap()));
        assert!((found.thousandfold_seconds.unwrap() - time(&found.graph)).abs() < 1e-9);
        assert!(TopologySearch::new(7, 2).speeds(&speeds, 1).run().is_err());
    }

    #[test]
    fn knowing_speeds_never_makes_it_slower() {
        // Scattered hosts, with a hundredth of the speed between them.
        for hosts in [2, 3, 4] {
            let host = |peer: Rank| SplitMix64::new(peer.index() as u64).below(hosts);
            let speeds = LinkSpeeds::from_fn(12, |a, b| if host(a) == host(b) { 1e9 } else { 1e7 }).unwrap();
            let found = TopologySearch::new(12, 3).tries(100).speeds(&speeds, 1_000_000).run().unwrap();
            let plain = TopologySearch::new(12, 3).tries(100).run().unwrap().graph;
            let time = speeds.step_seconds(&plain, 1_000_000) * steps_to_converge(1.0 - plain.spectral_gap());
            assert!(found.thousandfold_seconds.unwrap() <= time * 1.0001, "{hosts} hosts: {found:?} and {time}");
        }
    }
}
