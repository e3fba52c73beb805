//! Who waits for whom, when nothing can happen any more.

use hemiola_core::Rank;
use std::collections::BTreeMap;
use std::fmt;

/// Somebody waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Who, on its peer: `worker 2`, `shard 0`.
    pub who: String,
    /// For what: `row 7 at clock 3`.
    pub what: String,
    /// For whom, if that is known.
    pub on: Vec<Rank>,
}

impl Wait {
    /// Somebody waits for something that these peers would have to do.
    #[must_use]
    pub fn new(who: impl Into<String>, what: impl Into<String>, on: Vec<Rank>) -> Self {
        Self { who: who.into(), what: what.into(), on }
    }
}

/// Everybody who waits, by peer, and the circle in it if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitGraph {
    /// Those who wait.
    pub waits: Vec<(Rank, Wait)>,
    /// Peers that wait for each other in a circle.
    pub cycle: Option<Vec<Rank>>,
}

/// More lines than this are counted and not shown.
const SHOWN: usize = 40;

impl WaitGraph {
    /// The graph of these waits.
    #[must_use]
    pub fn new(waits: Vec<(Rank, Wait)>) -> Self {
        let mut edges: BTreeMap<Rank, Vec<Rank>> = BTreeMap::new();
        for (peer, wait) in &waits {
            edges.entry(*peer).or_default().extend(&wait.on);
        }
        // A peer may well wait for itself, a worker for a shard of its own peer; a circle of several says more.
        let mut between = edges.clone();
        for (peer, on) in &mut between {
            on.retain(|other| other != peer);
        }
        let cycle = cycle(&between).or_else(|| cycle(&edges));
        Self { waits, cycle }
    }
}

/// A circle, found by walking until a peer comes again.
fn cycle(edges: &BTreeMap<Rank, Vec<Rank>>) -> Option<Vec<Rank>> {
    let mut done: BTreeMap<Rank, bool> = BTreeMap::new();
    for &start in edges.keys() {
        // Peers of the current walk, each with the number of its edges that were followed.
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
            if let Some(place) = walk.iter().position(|(known, _)| *known == next) {
                return Some(walk[place..].iter().map(|(peer, _)| *peer).collect());
            }
            walk.push((next, 0));
        }
    }
    None
}

impl fmt::Display for WaitGraph {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (peer, wait) in self.waits.iter().take(SHOWN) {
            write!(formatter, "\n  peer {peer}, {} waits for {}", wait.who, wait.what)?;
            let on: Vec<String> = wait.on.iter().map(|peer| format!("peer {peer}")).collect();
            if !on.is_empty() {
                write!(formatter, " <- {}", on.join(", "))?;
            }
        }
        if self.waits.len() > SHOWN {
            write!(formatter, "\n  and {} more", self.waits.len() - SHOWN)?;
        }
        if let Some(cycle) = &self.cycle {
            let around: Vec<String> = cycle.iter().chain(cycle.first()).map(ToString::to_string).collect();
            write!(formatter, "\n  in a circle: peers {}", around.join(" -> "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(u32, u32)]) -> WaitGraph {
        let wait = |&(from, to): &(u32, u32)| {
            (Rank::new(from), Wait::new("driver", format!("a word of {to}"), vec![Rank::new(to)]))
        };
        WaitGraph::new(edges.iter().map(wait).collect())
    }

    #[test]
    fn a_circle_is_found_where_there_is_one() {
        let found = graph(&[(0, 1), (1, 2), (2, 4), (3, 1), (4, 1)]);
        assert_eq!(found.cycle, Some([1, 2, 4].map(Rank::new).to_vec()));
        assert!(found.to_string().ends_with("in a circle: peers 1 -> 2 -> 4 -> 1"));
        assert_eq!(graph(&[(0, 1), (1, 2), (3, 2), (0, 2)]).cycle, None);
        assert_eq!(graph(&[(5, 5)]).cycle, Some(vec![Rank::new(5)]));
        assert_eq!(graph(&[(0, 0), (0, 1), (1, 0)]).cycle, Some([0, 1].map(Rank::new).to_vec()));
    }

    #[test]
    fn it_says_who_waits_for_what() {
        assert_eq!(graph(&[(0, 1)]).to_string(), "\n  peer 0, driver waits for a word of 1 <- peer 1");
    }
}
