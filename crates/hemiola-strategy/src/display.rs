//! Text form of a strategy.

use crate::node::{GossipPlan, ShardPlacement, StrategyNode, Synchronizer};
use crate::strategy::{Strategy, VariablePlan};
use hemiola_collective_proto::{Compression, GossipSync};
use hemiola_core::Rank;
use std::fmt::{self, Write as _};

/// Formats consecutive ranks as `0 to 3`, others as a list.
pub(crate) fn ranks(ranks: &[Rank]) -> String {
    let follow = ranks.windows(2).all(|pair| pair[1].index() == pair[0].index() + 1);
    match ranks {
        [] => "no peers".to_owned(),
        [one] => format!("peer {one}"),
        [first, .., last] if follow && ranks.len() > 2 => format!("peers {first} to {last}"),
        _ => format!("peers {}", ranks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// Describes a node; `group` names a group.
pub(crate) fn node(node: &StrategyNode, group: &dyn Fn(u32) -> String) -> String {
    let place = match &node.placement {
        ShardPlacement::On(peer) => format!("peer {peer}"),
        ShardPlacement::Sharded(peers) => format!("{}, by rows", ranks(peers)),
        ShardPlacement::Replicated => String::new(),
    };
    let mut description = match &node.synchronizer {
        Synchronizer::ParameterServer => format!("served by {place}"),
        Synchronizer::ParameterServerRows => format!("touched rows served by {place}"),
        Synchronizer::Table { consistency } => format!("table on {place}, {consistency}"),
        Synchronizer::AllReduce { algorithm: None, group: number } => format!("all-reduce {}", group(*number)),
        Synchronizer::AllReduce { algorithm: Some(algorithm), group: number } => {
            format!("all-reduce by {algorithm} {}", group(*number))
        }
        Synchronizer::SufficientFactors => "sufficient factors to all peers".to_owned(),
        Synchronizer::Gossip(GossipPlan { topology, synchronization }) => match synchronization {
            GossipSync::NotifyAck => format!("gossip over {topology:?}"),
            GossipSync::Barrier => format!("gossip over {topology:?}, BSP"),
            GossipSync::Asynchronous => format!("gossip over {topology:?}, asynchronous"),
        },
    };
    if !matches!(node.compression, Compression::Plain | Compression::SufficientFactors { .. }) {
        write!(description, ", as {}", node.compression).expect("writing to a string never fails");
    }
    if let Some(route) = &node.route {
        let kind = if route.groups().len() > 1 { "in two levels" } else { "in the order" };
        write!(description, ", {kind} {route}").expect("writing to a string never fails");
    }
    if let Some(proxies) = &node.proxies {
        write!(description, ", proxies {proxies}").expect("writing to a string never fails");
    }
    if node.staleness > 0 {
        write!(description, ", at most {} steps old", node.staleness).expect("writing to a string never fails");
    }
    description
}

/// Describes a plan. Equal consecutive shards are described once.
pub(crate) fn plan(plan: &VariablePlan, group: &dyn Fn(u32) -> String) -> String {
    let mut descriptions: Vec<(String, usize)> = Vec::new();
    for description in plan.nodes.iter().map(|each| node(each, group)) {
        match descriptions.last_mut().filter(|(last, _)| *last == description) {
            Some((_, count)) => *count += 1,
            None => descriptions.push((description, 1)),
        }
    }
    if plan.nodes.len() == 1 {
        return descriptions.remove(0).0;
    }
    let each = |(description, count): (String, usize)| {
        if count == 1 { description } else { format!("{count} shards {description}") }
    };
    let descriptions: Vec<String> = descriptions.into_iter().map(each).collect();
    // One shard on each of many peers is described as a whole.
    let first = &plan.nodes[0];
    let served: Option<Vec<Rank>> = plan
        .nodes
        .iter()
        .map(|node| match (&node.placement, &node.synchronizer, node.compression, node.staleness) {
            (
                ShardPlacement::On(peer),
                Synchronizer::ParameterServer | Synchronizer::Table { .. },
                Compression::Plain,
                0,
            ) if node.synchronizer == first.synchronizer
                && (&node.route, &node.proxies) == (&first.route, &first.proxies) =>
            {
                Some(*peer)
            }
            _ => None,
        })
        .collect();
    let mut routes = String::new();
    if let Some(route) = &first.route {
        write!(routes, ", route {route}").expect("writing to a string never fails");
    }
    if let Some(proxies) = &first.proxies {
        write!(routes, ", proxies {proxies}").expect("writing to a string never fails");
    }
    match (served, &first.synchronizer) {
        (Some(peers), Synchronizer::Table { consistency }) => {
            let (shards, owners) = (peers.len(), distinct(&peers));
            format!("{shards} shards ({}) in tables on {owners}, {consistency}", plan.partitioning)
        }
        (Some(peers), _) => {
            format!("{} shards ({}) served by {}{routes}", peers.len(), plan.partitioning, distinct(&peers))
        }
        (None, _) => format!("cut {}: {}", plan.partitioning, descriptions.join("; ")),
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
            let description = plan(each, &|group| format!("in group {group}"));
            writeln!(formatter, "  {:width$}  {description}", each.variable)?;
        }
        Ok(())
    }
}
