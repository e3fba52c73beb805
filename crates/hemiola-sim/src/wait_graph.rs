//! Wait-for graph of a simulation without further events.

use hemiola_core::Rank;
use std::collections::BTreeMap;
use std::fmt;

/// A condition that a component of a peer waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingWait {
    /// Waiting component of the peer: `worker 2`, `shard 0`.
    pub who: String,
    /// Condition: `row 7 at clock 3`.
    pub what: String,
    /// Peers that can fulfil the condition, if known.
    pub on: Vec<Rank>,
}

impl PendingWait {
    /// Creates a wait of `who` for `what`, which the peers in `on` can fulfil.
    #[must_use]
    pub fn new(who: impl Into<String>, what: impl Into<String>, on: Vec<Rank>) -> Self {
        Self { who: who.into(), what: what.into(), on }
    }
}

/// All pending waits, and a cycle among them if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitGraph {
    /// Pending waits with their peers.
    pub waits: Vec<(Rank, PendingWait)>,
    /// Peers that wait for each other in a cycle.
    pub cycle: Option<Vec<Rank>>,
}

/// Maximum number of waits in the formatted graph.
const MAX_SHOWN: usize = 40;

impl WaitGraph {
    /// Builds the graph of these waits.
    #[must_use]
    pub fn new(waits: Vec<(Rank, PendingWait)>) -> Self {
        let mut edges: BTreeMap<Rank, Vec<Rank>> = BTreeMap::new();
        for (peer, wait) in &waits {
            edges.entry(*peer).or_default().extend(&wait.on);
        }
        // A peer may wait for itself (a worker for a shard of its own peer). A cycle of several
        // peers is more informative.
        let mut between = edges.clone();
        for (peer, on) in &mut between {
            on.retain(|other| other != peer);
        }
        let cycle = cycle(&between).or_else(|| cycle(&edges));
        Self { waits, cycle }
    }
}

/// Finds a cycle by depth-first search.
fn cycle(edges: &BTreeMap<Rank, Vec<Rank>>) -> Option<Vec<Rank>> {
    let mut done: BTreeMap<Rank, bool> = BTreeMap::new();
    for &start in edges.keys() {
        // Peers of the current path, each with the number of followed edges.
        let mut walk: Vec<(Rank, usize)> = vec![(start, 0)];
        while let Some((peer, followed)) = walk.last_mut() {
            let (peer, at) = (*peer, *followed);
            *followed += 1;
            if done.get(&peer) == Some(&true) {
                walk.pop();
                continue;
            }
            let Some(&next) = edges.get(&peer).and_then(|to| to.get(at)) else {
                done.insert(peer, true);
                walk.pop();
                continue;
            };
            if let Some(start) = walk.iter().position(|(known, _)| *known == next) {
                return Some(walk[start..].iter().map(|(peer, _)| *peer).collect());
            }
            walk.push((next, 0));
        }
    }
    None
}

impl fmt::Display for WaitGraph {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (peer, wait) in self.waits.iter().take(MAX_SHOWN) {
            write!(formatter, "\n  peer {peer}, {} waits for {}", wait.who, wait.what)?;
            let on: Vec<String> = wait.on.iter().map(|peer| format!("peer {peer}")).collect();
            if !on.is_empty() {
                write!(formatter, " <- {}", on.join(", "))?;
            }
        }
        if self.waits.len() > MAX_SHOWN {
            write!(formatter, "\n  and {} more", self.waits.len() - MAX_SHOWN)?;
        }
        if let Some(cycle) = &self.cycle {
            let path: Vec<String> = cycle.iter().chain(cycle.first()).map(ToString::to_string).collect();
            write!(formatter, "\n  cycle: peers {}", path.join(" -> "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(u32, u32)]) -> WaitGraph {
        let wait = |&(from, to): &(u32, u32)| {
            (Rank::new(from), PendingWait::new("driver", format!("a message of {to}"), vec![Rank::new(to)]))
        };
        WaitGraph::new(edges.iter().map(wait).collect())
    }

    #[test]
    fn a_cycle_is_found() {
        let found = graph(&[(0, 1), (1, 2), (2, 4), (3, 1), (4, 1)]);
        assert_eq!(found.cycle, Some([1, 2, 4].map(Rank::new).to_vec()));
        assert!(found.to_string().ends_with("cycle: peers 1 -> 2 -> 4 -> 1"));
        assert_eq!(graph(&[(0, 1), (1, 2), (3, 2), (0, 2)]).cycle, None);
        assert_eq!(graph(&[(5, 5)]).cycle, Some(vec![Rank::new(5)]));
        assert_eq!(graph(&[(0, 0), (0, 1), (1, 0)]).cycle, Some([0, 1].map(Rank::new).to_vec()));
    }

    #[test]
    fn the_graph_lists_waits() {
        assert_eq!(graph(&[(0, 1)]).to_string(), "\n  peer 0, driver waits for a message of 1 <- peer 1");
    }
}
