//! Whether a strategy can work for a model on a cluster.
//!
//! All problems are found, each with the variable and the reason. What passes keeps copies equal (or, for graph mixing, close): every update reaches every copy in one way.

use crate::cluster::Cluster;
use crate::error::{Error, Problem, Result};
use crate::model::{Gradient, Model, Variable};
use crate::node::{Node, Placement, Synchronizer};
use crate::partition::Shard;
use crate::strategy::{Plan, Strategy};
use hemiola_collective_proto::{Algorithm, Encoding};
use hemiola_core::Rank;
use std::collections::{BTreeMap, BTreeSet};

impl Strategy {
    /// Refuses a strategy that cannot work for this model on this cluster, with every reason there is.
    pub fn verify(&self, model: &Model, cluster: &Cluster) -> Result<()> {
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

    fn check_cluster(&self, cluster: &Cluster, problems: &mut Vec<Problem>) {
        let mut whole = |reason: String| problems.push(Problem { variable: None, shard: None, reason });
        if self.peers != cluster.size() {
            whole(format!("it was made for {} peers, and the cluster has {}", self.peers, cluster.size()));
        }
        if self.replicas.is_empty() {
            whole("nobody trains: it names no replicas".into());
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

    fn check_model(&self, model: &Model, problems: &mut Vec<Problem>) {
        let mut planned = BTreeSet::new();
        for plan in &self.plans {
            let mut of = |reason: String| {
                problems.push(Problem { variable: Some(plan.variable.clone()), shard: None, reason });
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
            problems.push(Problem { variable: Some(variable.name.clone()), shard: None, reason });
        }
    }

    /// What travels in one message must travel in one way.
    fn check_groups(&self, problems: &mut Vec<Problem>) {
        type Members<'a> = Vec<(&'a str, Option<Algorithm>, Encoding)>;
        let mut groups: BTreeMap<u32, Members<'_>> = BTreeMap::new();
        for (plan, node) in self.plans.iter().flat_map(|plan| plan.nodes.iter().map(move |node| (plan, node))) {
            if let Synchronizer::AllReduce { algorithm, group } = node.synchronizer {
                groups.entry(group).or_default().push((&plan.variable, algorithm, node.encoding));
            }
        }
        for (group, members) in groups {
            let (first, algorithm, encoding) = members[0];
            let mut of = |variable: &str, reason: String| {
                problems.push(Problem { variable: Some(variable.to_owned()), shard: None, reason });
            };
            for (variable, other_algorithm, other_encoding) in &members[1..] {
                if (*other_algorithm, *other_encoding) != (algorithm, encoding) {
                    of(
                        variable,
                        format!(
                            "it is in group {group} with {first}, whose algorithm or encoding is another: give it a group of its own"
                        ),
                    );
                }
            }
            if members.len() > 1 && matches!(encoding, Encoding::LowRank { .. }) {
                of(first, format!("a matrix of low rank cannot share group {group}: give it a group of its own"));
            }
        }
    }
}

fn check_plan(plan: &Plan, variable: &Variable, strategy: &Strategy, problems: &mut Vec<Problem>) {
    let whole = |reason: String| Problem { variable: Some(plan.variable.clone()), shard: None, reason };
    if let Some(reason) = plan.partitioning.problem(variable) {
        problems.push(whole(reason));
        return;
    }
    let shards = plan.partitioning.shards();
    if plan.nodes.len() != shards {
        problems.push(whole(format!("it is cut into {shards} shards, and {} nodes are given", plan.nodes.len())));
        return;
    }
    for (at, (shard, node)) in plan.shards().enumerate() {
        for reason in node_problems(node, &shard, variable, shards, strategy) {
            let shard = (shards > 1).then_some(at);
            problems.push(Problem { variable: Some(plan.variable.clone()), shard, reason });
        }
    }
}

fn node_problems(node: &Node, shard: &Shard, variable: &Variable, shards: usize, strategy: &Strategy) -> Vec<String> {
    let mut reasons = Vec::new();
    match &node.placement {
        Placement::On(peer) if peer.index() >= strategy.peers => {
            reasons.push(format!("it is placed on peer {peer}, and there are {} peers", strategy.peers));
        }
        Placement::Sharded(peers) => reasons.extend(sharding_problem(peers, shard, strategy.peers)),
        _ => {}
    }
    let replicated = node.placement == Placement::Replicated;
    let served = matches!(node.synchronizer, Synchronizer::Served | Synchronizer::ServedRows);
    if served && replicated {
        reasons.push("who serves it? it is served, and placed on every peer: place it on one, or shard it".into());
    }
    if !served && !replicated {
        reasons.push(
            "its copies agree among themselves, and it is placed on a server: place it as replicated, or serve it"
                .into(),
        );
    }
    if node.staleness > 0 && !served {
        reasons.push(format!(
            "a staleness of {} needs a server that keeps what is late: serve it, or make it 0",
            node.staleness
        ));
    }
    reasons.extend(encoding_problem(node));
    reasons.extend(gradient_problem(node, shard, variable, shards));
    if let Synchronizer::Mix(topology) = &node.synchronizer
        && let Err(error) = topology.graph(strategy.replicas.len().max(1)).and_then(|graph| graph.check_connected())
    {
        reasons.push(format!("the graph it is mixed over cannot be: {error}"));
    }
    reasons
}

/// Why an update cannot travel in this form in this way, if so.
fn encoding_problem(node: &Node) -> Option<String> {
    use Encoding::{Bf16, F16, Plain, SufficientFactors};
    match (&node.synchronizer, node.encoding) {
        (Synchronizer::Served, Plain | Bf16 | F16)
        | (Synchronizer::ServedRows | Synchronizer::Mix(_), Plain)
        | (Synchronizer::Factors, SufficientFactors { .. }) => None,
        (Synchronizer::Served | Synchronizer::ServedRows, encoding) => {
            Some(format!("what is served cannot travel as {encoding}"))
        }
        (Synchronizer::Mix(_), _) => Some("models that are mixed travel as they are".into()),
        (Synchronizer::Factors, encoding) => {
            Some(format!("factors cannot travel as {encoding}: name sufficient factors"))
        }
        (Synchronizer::AllReduce { .. }, SufficientFactors { .. }) => {
            Some("its update travels as factors, and no factors are broadcast: name factors as its synchronizer".into())
        }
        (Synchronizer::AllReduce { .. }, _) => None,
    }
}

/// Why the gradient is not what this way sends, if so.
fn gradient_problem(node: &Node, shard: &Shard, variable: &Variable, shards: usize) -> Option<String> {
    match (&node.synchronizer, variable.gradient, node.encoding) {
        (Synchronizer::ServedRows, Gradient::Rows { .. }, _) => {
            let cut = shard.ranges.iter().zip(&variable.shape).skip(1).any(|(range, extent)| range.len() < *extent);
            cut.then(|| "rows are served whole: cut it along its first dimension alone".to_owned())
        }
        (Synchronizer::ServedRows, ..) => Some("its gradient is not made of rows: serve it whole".into()),
        (Synchronizer::Factors, Gradient::Product { .. }, _) if shards > 1 => {
            Some("factors are those of the whole matrix: do not cut it".into())
        }
        (Synchronizer::Factors, Gradient::Product { pairs }, Encoding::SufficientFactors { pairs: named }) => {
            (named as u64 != pairs)
                .then(|| format!("a batch has {pairs} pairs of factors, and its encoding names {named}"))
        }
        (Synchronizer::Factors, Gradient::Product { .. }, _) => None,
        (Synchronizer::Factors, ..) => Some("its gradient is not a sum of products: it has no factors to send".into()),
        _ => None,
    }
}

fn sharding_problem(peers: &[Rank], shard: &Shard, size: usize) -> Option<String> {
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
