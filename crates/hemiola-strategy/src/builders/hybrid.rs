//! Strategies that treat variables by their gradients.

use super::collective::whole;
use super::groups::put_together;
use super::served::{cut_large, dealt};
use crate::cluster::Cluster;
use crate::cost::Costs;
use crate::model::{Gradient, Model, Variable};
use crate::node::Node;
use crate::strategy::Plan;
use hemiola_collective_proto::cost::{MatrixUpdate, Scheme};
use hemiola_core::Rank;

/// Algorithm 2 of the Poseidon thesis, variable by variable: factors where they are fewer numbers than the matrix through servers; else servers, large variables in shards.
pub(super) fn poseidon(model: &Model, cluster: &Cluster) -> Vec<Plan> {
    let peers = cluster.size();
    let factors = |variable: &Variable| match variable.gradient {
        Gradient::Product { pairs } => {
            let (rows, columns) = variable.matrix();
            let update = MatrixUpdate {
                rows: rows as u64,
                columns: columns as u64,
                factors: Some(pairs),
                workers: peers as u64,
                servers: peers as u64,
            };
            (update.best_scheme() == Scheme::SufficientFactors).then(|| whole(variable, Node::factors(pairs)))
        }
        _ => None,
    };
    let by_factors: Vec<Option<Plan>> = model.variables.iter().map(factors).collect();
    let rest: Vec<Variable> = model
        .variables
        .iter()
        .zip(&by_factors)
        .filter(|(_, plan)| plan.is_none())
        .map(|(variable, _)| variable.clone())
        .collect();
    let mut rest = dealt(&Model { variables: rest }, cluster, |variable| cut_large(variable, peers)).into_iter();
    by_factors
        .into_iter()
        .map(|plan| plan.unwrap_or_else(|| rest.next().expect("one for each that has no factors")))
        .collect()
}

/// How rows are served: by all peers, as far as there are rows.
pub(super) fn rows(variable: &Variable, cluster: &Cluster) -> Plan {
    let servers = cluster.size().min(variable.shape[0]);
    whole(variable, Node::served_rows(Rank::all(servers).collect()))
}

pub(super) fn parallax(model: &Model, cluster: &Cluster) -> Vec<Plan> {
    let each = model.variables.iter().map(|variable| match variable.gradient {
        Gradient::Rows { .. } => rows(variable, cluster),
        _ => whole(variable, Node::all_reduce(0)),
    });
    let (mut plans, replicas): (Vec<Plan>, Vec<Rank>) = (each.collect(), cluster.ranks().collect());
    put_together(&mut plans, &Costs::new(cluster, &replicas));
    plans
}
