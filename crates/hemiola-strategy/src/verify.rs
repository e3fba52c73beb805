//! Verification of a strategy for a model and a cluster.
//!
//! All problems are reported, each with the variable and the reason. A verified strategy keeps
//! copies equal (or, with gossip, close): every update reaches every copy by exactly one path.

use crate::error::{Error, Result, StrategyProblem};
use crate::model::{GradientKind, ModelSpec, VariableSpec};
use crate::node::{ShardPlacement, StrategyNode, Synchronizer};
use crate::partition::VariableShard;
use crate::resources::ResourceSpec;
use crate::strategy::{Strategy, VariablePlan};
use hemiola_collective_proto::{Algorithm, Compression, Route};
use hemiola_core::Rank;
use std::collections::{BTreeMap, BTreeSet};

impl Strategy {
    /// Rejects a strategy that cannot work for this model on this cluster, with all reasons.
    pub fn verify(&self, model: &ModelSpec, cluster: &ResourceSpec) -> Result<()> {
        cluster.check()?;
        let mut problems = Vec::new();
        self.check_cluster(cluster, &mut problems);
        self.check_model(model, &mut problems);
        for plan in &self.plans {
            if let Some(variable) = model.find(&plan.variable).filter(|variable| variable.shape == plan.shape) {
                check_plan(plan, variable, self, &mut problems);
            }
        }
        self.check_groups(&mut problems);
        if problems.is_empty() { Ok(()) } else { Err(Error::Strategy(problems)) }
    }

    fn check_cluster(&self, cluster: &ResourceSpec, problems: &mut Vec<StrategyProblem>) {
        let mut whole = |reason: String| problems.push(StrategyProblem { variable: None, shard: None, reason });
        if self.peers != cluster.size() {
            whole(format!("it was made for {} peers, and the cluster has {}", self.peers, cluster.size()));
        }
        if self.replicas.is_empty() {
            whole("it names no replicas, so no peer trains".into());
        }
        let mut seen = BTreeSet::new();
        for rank in &self.replicas {
            if !seen.insert(*rank) {
                whole(format!("peer {rank} is named twice among the replicas"));
            }
            if rank.index() >= self.peers {
                whole(format!("peer {rank} trains, and there are {} peers", self.peers));
            }
        }
    }

    fn check_model(&self, model: &ModelSpec, problems: &mut Vec<StrategyProblem>) {
        let mut planned = BTreeSet::new();
        for plan in &self.plans {
            let mut of = |reason: String| {
                problems.push(StrategyProblem { variable: Some(plan.variable.clone()), shard: None, reason });
            };
            if !planned.insert(&plan.variable) {
                of("it has two plans".into());
            }
            match model.find(&plan.variable) {
                None => of("the model has no such variable: the strategy may have been made for another".into()),
                Some(variable) if variable.shape != plan.shape => {
                    let (theirs, ours) = (&plan.shape, &variable.shape);
                    of(format!("the strategy was made for the shape {theirs:?}, and the model has {ours:?}"));
                }
                Some(_) => {}
            }
        }
        for variable in model.variables.iter().filter(|variable| !planned.contains(&variable.name)) {
            let reason = "it has no plan, so its copies would drift apart".to_owned();
            problems.push(StrategyProblem { variable: Some(variable.name.clone()), shard: None, reason });
        }
    }

    /// Checks that the shards of a group share algorithm, compression and route, since they travel in
    /// one message.
    fn check_groups(&self, problems: &mut Vec<StrategyProblem>) {
        type GroupMembers<'a> = Vec<(&'a str, Option<Algorithm>, &'a StrategyNode)>;
        let mut groups: BTreeMap<u32, GroupMembers<'_>> = BTreeMap::new();
        for (plan, node) in self.plans.iter().flat_map(|plan| plan.nodes.iter().map(move |node| (plan, node))) {
            if let Synchronizer::AllReduce { algorithm, group } = node.synchronizer {
                groups.entry(group).or_default().push((&plan.variable, algorithm, node));
            }
        }
        for (group, members) in groups {
            let (first, algorithm, node) = members[0];
            let mut of = |variable: &str, reason: String| {
                problems.push(StrategyProblem { variable: Some(variable.to_owned()), shard: None, reason });
            };
            for (variable, other_algorithm, other) in &members[1..] {
                if (*other_algorithm, other.compression) != (algorithm, node.compression) {
                    of(
                        variable,
                        format!(
                            "it is in group {group} with {first}, whose algorithm or compression differs: give it a group of its own"
                        ),
                    );
                } else if other.route != node.route {
                    of(
                        variable,
                        format!("it is in group {group} with {first}, whose route differs: give it a group of its own"),
                    );
                }
            }
            if members.len() > 1 && matches!(node.compression, Compression::LowRank { .. }) {
                of(first, format!("a matrix of low rank cannot share group {group}: give it a group of its own"));
            }
        }
    }
}

fn check_plan(plan: &VariablePlan, variable: &VariableSpec, strategy: &Strategy, problems: &mut Vec<StrategyProblem>) {
    let whole = |reason: String| StrategyProblem { variable: Some(plan.variable.clone()), shard: None, reason };
    if let Some(reason) = plan.partitioning.problem(variable) {
        problems.push(whole(reason));
        return;
    }
    let shards = plan.partitioning.shards();
    if plan.nodes.len() != shards {
        problems.push(whole(format!("it is cut into {shards} shards, and {} nodes are given", plan.nodes.len())));
        return;
    }
    for (index, (shard, node)) in plan.shards().enumerate() {
        for reason in node_problems(node, &shard, variable, shards, strategy) {
            let shard = (shards > 1).then_some(index);
            problems.push(StrategyProblem { variable: Some(plan.variable.clone()), shard, reason });
        }
    }
}

fn node_problems(
    node: &StrategyNode,
    shard: &VariableShard,
    variable: &VariableSpec,
    shards: usize,
    strategy: &Strategy,
) -> Vec<String> {
    let mut reasons = Vec::new();
    match &node.placement {
        ShardPlacement::On(peer) if peer.index() >= strategy.peers => {
            reasons.push(format!("it is placed on peer {peer}, and there are {} peers", strategy.peers));
        }
        ShardPlacement::Sharded(peers) => reasons.extend(sharding_problem(peers, shard, strategy.peers)),
        _ => {}
    }
    let replicated = node.placement == ShardPlacement::Replicated;
    let served = matches!(
        node.synchronizer,
        Synchronizer::ParameterServer | Synchronizer::ParameterServerRows | Synchronizer::Table { .. }
    );
    if served && replicated {
        reasons.push("it is served and placed on every peer: place it on one peer, or shard it".into());
    }
    if !served && !replicated {
        reasons.push(
            "its copies synchronize among themselves, and it is placed on a server: place it as replicated, or serve it"
                .into(),
        );
    }
    if node.staleness > 0 && !served {
        reasons.push(format!("a staleness of {} needs a parameter server: serve it, or set it to 0", node.staleness));
    }
    if matches!((&node.synchronizer, &node.placement), (Synchronizer::Table { .. }, ShardPlacement::Sharded(_))) {
        reasons.push("a shard in a table is one row: cut the variable, and place each shard on one peer".into());
    }
    reasons.extend(route_problems(node, strategy));
    reasons.extend(compression_problem(node));
    reasons.extend(gradient_problem(node, variable, shards));
    if let Synchronizer::Gossip(plan) = &node.synchronizer
        && let Err(error) =
            plan.topology.graph(strategy.replicas.len().max(1)).and_then(|graph| graph.check_connected())
    {
        reasons.push(format!("its gossip graph is invalid: {error}"));
    }
    reasons
}

/// Returns the reasons why the routes of a node cannot be used.
fn route_problems(node: &StrategyNode, strategy: &Strategy) -> Vec<String> {
    let mut reasons = Vec::new();
    let is_server = node.synchronizer == Synchronizer::ParameterServer;
    if let Some(route) = &node.route {
        if !is_server && !matches!(node.synchronizer, Synchronizer::AllReduce { .. }) {
            reasons.push("a route is for all-reduce and for reduce and broadcast only: remove it".to_owned());
        }
        if node.compression != Compression::Plain {
            let compression = node.compression;
            reasons.push(format!("updates along a route cannot be compressed as {compression}: use `plain`"));
        }
        reasons.extend(members_problem("route", route, strategy));
    }
    if let Some(proxies) = &node.proxies {
        if !is_server {
            reasons.push(
                "proxies are for reduce and broadcast only, where an owner sends new values: remove them".to_owned(),
            );
        }
        reasons.extend(members_problem("proxies", proxies, strategy));
    }
    if matches!(node.synchronizer, Synchronizer::Gossip(_)) && strategy.replicas.len() < strategy.peers {
        reasons.push("gossip averages the copies of all peers, and some do not train: let all peers train".to_owned());
    }
    reasons
}

/// Returns the reason why a route does not connect the peers that train, if any.
fn members_problem(name: &str, route: &Route, strategy: &Strategy) -> Option<String> {
    if let Some(problem) = route.problem(strategy.peers) {
        return Some(problem);
    }
    let members: BTreeSet<Rank> = route.members().collect();
    let replicas: BTreeSet<Rank> = strategy.replicas.iter().copied().collect();
    if let Some(missing) = replicas.difference(&members).next() {
        return Some(
            format!("its {name} leave out peer {missing}, which trains").replace("route leave", "route leaves"),
        );
    }
    let extra = members.difference(&replicas).next()?;
    Some(format!("its {name} name peer {extra}, which does not train").replace("route name", "route names"))
}

/// Returns the reason why the synchronizer does not support the compression, if any.
fn compression_problem(node: &StrategyNode) -> Option<String> {
    use Compression::{Bf16, F16, Plain, SufficientFactors};
    match (&node.synchronizer, node.compression) {
        (Synchronizer::ParameterServer, Plain | Bf16 | F16)
        | (Synchronizer::ParameterServerRows | Synchronizer::Table { .. } | Synchronizer::Gossip(_), Plain)
        | (Synchronizer::SufficientFactors, SufficientFactors { .. }) => None,
        (
            Synchronizer::ParameterServer | Synchronizer::ParameterServerRows | Synchronizer::Table { .. },
            compression,
        ) => Some(format!("a served variable cannot be compressed as {compression}")),
        (Synchronizer::Gossip(_), _) => Some("gossip sends values without compression: use `plain`".into()),
        (Synchronizer::SufficientFactors, compression) => Some(format!(
            "sufficient factors cannot be compressed as {compression}: set the compression to sufficient factors"
        )),
        (Synchronizer::AllReduce { .. }, SufficientFactors { .. }) => {
            Some("its compression is sufficient factors, but its synchronizer is not: set both".into())
        }
        (Synchronizer::AllReduce { .. }, _) => None,
    }
}

/// Returns the reason why the synchronizer does not fit the gradient, if any.
fn gradient_problem(node: &StrategyNode, variable: &VariableSpec, shards: usize) -> Option<String> {
    match (&node.synchronizer, variable.gradient, node.compression) {
        (Synchronizer::ParameterServerRows, GradientKind::Rows { .. }, _) => {
            (shards > 1).then(|| "its placement spreads the rows over peers: do not cut it".to_owned())
        }
        (Synchronizer::ParameterServerRows, ..) => Some("its gradient is not sparse by rows: serve it whole".into()),
        (Synchronizer::SufficientFactors, GradientKind::Product { .. }, _) if shards > 1 => {
            Some("factors are those of the whole matrix: do not cut it".into())
        }
        (
            Synchronizer::SufficientFactors,
            GradientKind::Product { pairs },
            Compression::SufficientFactors { pairs: named },
        ) => (named as u64 != pairs)
            .then(|| format!("a batch has {pairs} pairs of factors, and its compression names {named}")),
        (Synchronizer::SufficientFactors, GradientKind::Product { .. }, _) => None,
        (Synchronizer::SufficientFactors, ..) => {
            Some("its gradient is not a sum of products: it has no factors to send".into())
        }
        _ => None,
    }
}

fn sharding_problem(peers: &[Rank], shard: &VariableShard, size: usize) -> Option<String> {
    let distinct: BTreeSet<&Rank> = peers.iter().collect();
    let (rows, _) = shard.matrix();
    if peers.is_empty() {
        return Some("it is sharded over no peers".into());
    }
    if distinct.len() < peers.len() {
        return Some("it is sharded over a peer that is named twice".into());
    }
    if let Some(peer) = peers.iter().find(|peer| peer.index() >= size) {
        return Some(format!("it is sharded over peer {peer}, and there are {size} peers"));
    }
    (rows < peers.len()).then(|| format!("its {rows} rows cannot be sharded over {} peers", peers.len()))
}
