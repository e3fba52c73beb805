//! Strategies that choose by the structure of gradients.

use super::all_reduce::whole_variable;
use super::groups::assign_groups;
use super::parameter_server::{assign_shards, cut_large};
use crate::cost::CostModel;
use crate::model::{GradientKind, ModelSpec, VariableSpec};
use crate::node::{GossipPlan, StrategyNode};
use crate::resources::ResourceSpec;
use crate::strategy::VariablePlan;
use hemiola_collective_proto::cost::{MatrixUpdate, Scheme};
use hemiola_collective_proto::{GossipSync, Topology};
use hemiola_core::Rank;

/// Algorithm 2 of the Poseidon thesis, variable by variable: sufficient factors where they are
/// fewer numbers than the matrix through parameter servers; otherwise servers, with large variables
/// in shards.
pub(super) fn poseidon(model: &ModelSpec, cluster: &ResourceSpec) -> Vec<VariablePlan> {
    let peers = cluster.size();
    let factors = |variable: &VariableSpec| match variable.gradient {
        GradientKind::Product { pairs } => {
            let (rows, columns) = variable.matrix();
            let update = MatrixUpdate {
                rows: rows as u64,
                columns: columns as u64,
                factors: Some(pairs),
                workers: peers as u64,
                servers: peers as u64,
            };
            (update.best_scheme() == Scheme::SufficientFactors)
                .then(|| whole_variable(variable, StrategyNode::sufficient_factors(pairs)))
        }
        _ => None,
    };
    let by_factors: Vec<Option<VariablePlan>> = model.variables.iter().map(factors).collect();
    let rest: Vec<VariableSpec> = model
        .variables
        .iter()
        .zip(&by_factors)
        .filter(|(_, plan)| plan.is_none())
        .map(|(variable, _)| variable.clone())
        .collect();
    let mut rest =
        assign_shards(&ModelSpec { variables: rest }, cluster, |variable| cut_large(variable, peers)).into_iter();
    by_factors
        .into_iter()
        .map(|plan| plan.unwrap_or_else(|| rest.next().expect("one plan for each variable without factors")))
        .collect()
}

/// Plan whose rows are served by all peers, or as many as there are rows.
pub(super) fn rows(variable: &VariableSpec, cluster: &ResourceSpec) -> VariablePlan {
    let servers = cluster.size().min(variable.shape[0]);
    whole_variable(variable, StrategyNode::parameter_server_rows(Rank::all(servers).collect()))
}

/// Every variable whole, averaged with neighbours in the root expander, the sparsest graph with a
/// good spectral gap (Li et al., ASAP, section 4.2).
pub(super) fn gossip(model: &ModelSpec, synchronization: GossipSync) -> Vec<VariablePlan> {
    let plan = GossipPlan { topology: Topology::RootExpander, synchronization };
    model.variables.iter().map(|variable| whole_variable(variable, StrategyNode::gossip(plan.clone()))).collect()
}

pub(super) fn parallax(model: &ModelSpec, cluster: &ResourceSpec) -> Vec<VariablePlan> {
    let each = model.variables.iter().map(|variable| match variable.gradient {
        GradientKind::Rows { .. } => rows(variable, cluster),
        _ => whole_variable(variable, StrategyNode::all_reduce(0)),
    });
    let (mut plans, replicas): (Vec<VariablePlan>, Vec<Rank>) = (each.collect(), cluster.ranks().collect());
    assign_groups(&mut plans, &CostModel::new(cluster, &replicas));
    plans
}
