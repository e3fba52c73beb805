//! A good graph for a number of edges that one can afford, and for links that are not all alike.
//!
//! Without speeds the best graph has the largest spectral gap. With them it is the one over which disagreement shrinks a thousandfold in the least
//! time: steps needed, `ln 1000 / −ln σ₂` and at least one, times [seconds per step](LinkSpeeds::step_seconds). Candidates are circulant graphs (all of
//! them if they are few), the kinds that have a name, and random regular ones; with speeds also circulant graphs with the peers in another order,
//! each followed by the one that its link is fastest to, or slowest. Then the best is improved by crossing pairs of edges and, with
//! speeds, by exchanging two peers' places. All candidates are regular, so plain averages over the result are fair.
//!
//! The result is a function of the arguments on one machine. It uses logarithms, whose last bits differ between systems, so let one peer
//! search and send the edges to the others.

use super::kinds::{chord_offsets, circulant, halton_offsets};
use super::{Graph, LinkSpeeds, Topology, Weights, spectral};
use crate::{Error, Random, Result};
use hemiola_core::Rank;

/// Rounds of power iteration for each candidate, at most, and for each of many peers: an exact gap costs more than thousands of them.
const ROUNDS: usize = 60;
const ROUNDS_PER_PEER: usize = 4;

/// What to look for.
#[derive(Clone, Debug)]
pub struct Search<'a> {
    peers: usize,
    degree: usize,
    speeds: Option<(&'a LinkSpeeds, u64)>,
    seed: u64,
    tries: usize,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The graph: regular and connected.
    pub graph: Graph,
    /// Its spectral gap.
    pub gap: f64,
    /// With speeds, seconds for a step.
    pub step_seconds: Option<f64>,
    /// With speeds, seconds in which disagreement shrinks a thousandfold.
    pub thousandfold_seconds: Option<f64>,
}

impl<'a> Search<'a> {
    /// A search among graphs in which each of the peers sends to `degree` others.
    #[must_use]
    pub fn new(peers: usize, degree: usize) -> Self {
        Self { peers, degree, speeds: None, seed: 0, tries: 1000 }
    }

    /// Takes into account how fast links are, for messages of so many bytes. Then the degree is an upper limit.
    #[must_use]
    pub fn speeds(mut self, speeds: &'a LinkSpeeds, message: u64) -> Self {
        self.speeds = Some((speeds, message));
        self
    }

    /// Another seed for what is random in the search.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// About how many graphs are looked at; 1000 if nothing is said.
    #[must_use]
    pub fn tries(mut self, tries: usize) -> Self {
        self.tries = tries;
        self
    }

    /// Looks.
    pub fn run(&self) -> Result<Found> {
        let peers = self.peers;
        if peers == 0 || self.degree >= peers || (self.degree == 0 && peers > 1) {
            let problem = format!("a degree of {} is not between 1 and the number of other peers", self.degree);
            return Err(Error::BadGraph { peers, problem });
        }
        if let Some((speeds, _)) = self.speeds
            && speeds.peers() != peers
        {
            let problem = format!("they were measured between {} peers", speeds.peers());
            return Err(Error::BadSpeeds { peers, problem });
        }
        let mut best = Best { search: self, graph: circulant(peers, 1..=self.degree)?, cost: f64::INFINITY };
        best.cost = self.cost(&best.graph, 1.0 - best.graph.spectral_gap());
        let lowest = if self.speeds.is_some() { 1.min(self.degree) } else { self.degree };
        let mut random = Random::new(self.seed);
        for degree in lowest..=self.degree {
            if degree > 0 {
                self.try_kinds(degree, &mut random, &mut best)?;
            }
        }
        self.improve(&mut random, &mut best)?;
        Ok(self.found(best.graph))
    }

    fn found(&self, graph: Graph) -> Found {
        let gap = graph.spectral_gap();
        let step_seconds = self.speeds.map(|(speeds, message)| speeds.step_seconds(&graph, message));
        let thousandfold_seconds = step_seconds.map(|seconds| seconds * steps(1.0 - gap));
        Found { graph, gap, step_seconds, thousandfold_seconds }
    }

    /// The smaller, the better.
    fn cost(&self, graph: &Graph, second: f64) -> f64 {
        match self.speeds {
            None => second,
            Some((speeds, message)) => speeds.step_seconds(graph, message) * steps(second),
        }
    }

    fn try_kinds(&self, degree: usize, random: &mut Random, best: &mut Best<'_, 'a>) -> Result<()> {
        let peers = self.peers;
        best.offer(circulant(peers, halton_offsets(peers, degree))?);
        if chord_offsets(peers).len() == degree {
            best.offer(circulant(peers, chord_offsets(peers))?);
        }
        let orders: Vec<Vec<Rank>> = match self.speeds {
            None => vec![Rank::all(peers).collect()],
            Some((speeds, _)) => vec![
                Rank::all(peers).collect(),
                chain(peers, |from, to| speeds.between(from, to)),
                chain(peers, |from, to| -speeds.between(from, to)),
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
            best.offer(Topology::RandomRegular { degree, seed: random.bits() }.graph(peers)?);
        }
        Ok(())
    }

    fn improve(&self, random: &mut Random, best: &mut Best<'_, 'a>) -> Result<()> {
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

/// The best so far.
struct Best<'s, 'a> {
    search: &'s Search<'a>,
    graph: Graph,
    cost: f64,
}

impl Best<'_, '_> {
    fn offer(&mut self, graph: Graph) {
        // The estimate is too good, never too bad: what it rejects is worse, and what it lets pass is looked at exactly.
        let rounds = ROUNDS.max(ROUNDS_PER_PEER * graph.peers());
        let worse = |estimate: f64| self.search.cost(&graph, estimate) >= self.cost;
        if worse(spectral::estimate_second(&Weights::average(&graph), rounds, worse)) {
            return;
        }
        let cost = self.search.cost(&graph, 1.0 - graph.spectral_gap());
        if cost < self.cost {
            (self.graph, self.cost) = (graph, cost);
        }
    }
}

/// Steps until disagreement has shrunk a thousandfold.
fn steps(second: f64) -> f64 {
    (1000_f64.ln() / -second.clamp(1e-300, 1.0 - 1e-12).ln()).max(1.0)
}

/// All peers, each followed by the one of those left that it has the highest score with.
fn chain(peers: usize, score: impl Fn(Rank, Rank) -> f64) -> Vec<Rank> {
    let mut left: Vec<Rank> = Rank::all(peers).skip(1).collect();
    let mut order = vec![Rank::ROOT];
    while !left.is_empty() {
        let last = order[order.len() - 1];
        let next = (1..left.len())
            .fold(0, |best, place| if score(last, left[place]) > score(last, left[best]) { place } else { best });
        order.push(left.remove(next));
    }
    order
}

/// Sets of offsets with 1 among them: all, if there are no more than `limit`, otherwise that many random ones.
fn offset_sets(peers: usize, degree: usize, limit: usize, random: &mut Random) -> Vec<Vec<usize>> {
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
        let mut random = Random::new(0);
        assert_eq!(offset_sets(5, 2, 100, &mut random), [[1, 2], [1, 3], [1, 4]]);
        assert_eq!(offset_sets(7, 4, 100, &mut random).len(), 10);
        assert_eq!(offset_sets(2, 1, 100, &mut random), [[1]]);
        let some = offset_sets(40, 5, 7, &mut random);
        assert!(some.len() == 7 && some.iter().all(|set| set.len() == 5 && set[0] == 1));
    }

    #[test]
    fn the_search_is_at_least_as_good_as_the_named_kinds() {
        for (peers, degree) in [(2, 1), (6, 2), (8, 2), (9, 3), (16, 4), (25, 2)] {
            let found = Search::new(peers, degree).tries(200).run().unwrap();
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
        let one = Search::new(1, 0).run().unwrap();
        assert_eq!(one.graph.peers(), 1);
        assert!(Search::new(4, 4).run().is_err() && Search::new(4, 0).run().is_err());
    }

    #[test]
    fn the_same_arguments_find_the_same_graph() {
        let search = Search::new(12, 3).tries(100).seed(5);
        assert_eq!(search.run().unwrap(), search.run().unwrap());
    }

    #[test]
    fn slow_links_are_avoided() {
        // From each peer to the next it takes a thousand times as long: every named graph of this degree has those edges.
        let slow = |from: Rank, to: Rank| to.index() == (from.index() + 1) % 8;
        let speeds = LinkSpeeds::from_fn(8, |from, to| if slow(from, to) { 1e6 } else { 1e9 }).unwrap();
        let found = Search::new(8, 2).speeds(&speeds, 1_000_000).run().unwrap();
        let time = |graph: &Graph| speeds.step_seconds(graph, 1_000_000) * steps(1.0 - graph.spectral_gap());
        assert!(found.graph.check_connected().is_ok() && found.graph.check_regular().is_ok());
        assert!(found.graph.edges().all(|(from, to)| !slow(from, to)));
        assert!(100.0 * time(&found.graph) < time(&Topology::RootExpander.graph(8).unwrap()));
        assert!((found.thousandfold_seconds.unwrap() - time(&found.graph)).abs() < 1e-9);
        assert!(Search::new(7, 2).speeds(&speeds, 1).run().is_err());
    }

    #[test]
    fn knowing_speeds_never_makes_it_slower() {
        // Hosts of which the peers are scattered, with a hundredth of the speed between them.
        for hosts in [2, 3, 4] {
            let host = |peer: Rank| Random::new(peer.index() as u64).below(hosts);
            let speeds = LinkSpeeds::from_fn(12, |a, b| if host(a) == host(b) { 1e9 } else { 1e7 }).unwrap();
            let found = Search::new(12, 3).tries(100).speeds(&speeds, 1_000_000).run().unwrap();
            let plain = Search::new(12, 3).tries(100).run().unwrap().graph;
            let time = speeds.step_seconds(&plain, 1_000_000) * steps(1.0 - plain.spectral_gap());
            assert!(found.thousandfold_seconds.unwrap() <= time * 1.0001, "{hosts} hosts: {found:?} and {time}");
        }
    }
}
