//! How a strategy reads.

use crate::node::{Node, Placement, Synchronizer};
use crate::strategy::{Plan, Strategy};
use hemiola_collective_proto::Encoding;
use hemiola_core::Rank;
use std::fmt::{self, Write as _};

/// `0 to 3` where ranks follow each other, all of them where they do not.
pub(crate) fn ranks(ranks: &[Rank]) -> String {
    let follow = ranks.windows(2).all(|pair| pair[1].index() == pair[0].index() + 1);
    match ranks {
        [] => "nobody".to_owned(),
        [one] => format!("peer {one}"),
        [first, .., last] if follow && ranks.len() > 2 => format!("peers {first} to {last}"),
        _ => format!("peers {}", ranks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// A node in words; `group` names a group.
pub(crate) fn node(node: &Node, group: &dyn Fn(u32) -> String) -> String {
    let place = match &node.placement {
        Placement::On(peer) => format!("peer {peer}"),
        Placement::Sharded(peers) => format!("{}, by rows", ranks(peers)),
        Placement::Replicated => String::new(),
    };
    let mut said = match &node.synchronizer {
        Synchronizer::Served => format!("served by {place}"),
        Synchronizer::ServedRows => format!("touched rows served by {place}"),
        Synchronizer::AllReduce { algorithm: None, group: number } => format!("all-reduce {}", group(*number)),
        Synchronizer::AllReduce { algorithm: Some(algorithm), group: number } => {
            format!("all-reduce by {algorithm} {}", group(*number))
        }
        Synchronizer::Factors => "factors to everybody".to_owned(),
        Synchronizer::Mix(topology) => format!("mixed over {topology:?}"),
    };
    if !matches!(node.encoding, Encoding::Plain | Encoding::SufficientFactors { .. }) {
        write!(said, ", as {}", node.encoding).expect("a string takes all");
    }
    if node.staleness > 0 {
        write!(said, ", at most {} steps old", node.staleness).expect("a string takes all");
    }
    said
}

/// A plan in words. Shards that are alike are told once.
pub(crate) fn plan(plan: &Plan, group: &dyn Fn(u32) -> String) -> String {
    let mut told: Vec<(String, usize)> = Vec::new();
    for said in plan.nodes.iter().map(|each| node(each, group)) {
        match told.last_mut().filter(|(last, _)| *last == said) {
            Some((_, count)) => *count += 1,
            None => told.push((said, 1)),
        }
    }
    if plan.nodes.len() == 1 {
        return told.remove(0).0;
    }
    let each = |(said, count): (String, usize)| if count == 1 { said } else { format!("{count} shards {said}") };
    let told: Vec<String> = told.into_iter().map(each).collect();
    // A shard on each of many peers is one thing to say, not many.
    let served: Option<Vec<Rank>> = plan
        .nodes
        .iter()
        .map(|node| match (&node.placement, &node.synchronizer, node.encoding, node.staleness) {
            (Placement::On(peer), Synchronizer::Served, Encoding::Plain, 0) => Some(*peer),
            _ => None,
        })
        .collect();
    match served {
        Some(peers) => format!("{} shards ({}) served by {}", peers.len(), plan.partitioning, distinct(&peers)),
        None => format!("cut {}: {}", plan.partitioning, told.join("; ")),
    }
}

fn distinct(peers: &[Rank]) -> String {
    let mut peers = peers.to_vec();
    peers.sort_unstable();
    peers.dedup();
    ranks(&peers)
}

impl fmt::Display for Strategy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "trained on {}", ranks(&self.replicas))?;
        let width = self.plans.iter().map(|plan| plan.variable.chars().count()).max().unwrap_or(0);
        for each in &self.plans {
            let said = plan(each, &|group| format!("in group {group}"));
            writeln!(formatter, "  {:width$}  {said}", each.variable)?;
        }
        Ok(())
    }
}
