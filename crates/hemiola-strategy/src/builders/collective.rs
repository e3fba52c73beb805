//! Strategies of collectives.

use super::groups::put_together;
use crate::cluster::Cluster;
use crate::cost::Costs;
use crate::model::{Model, Variable};
use crate::node::Node;
use crate::partition::Partitioning;
use crate::strategy::Plan;
use hemiola_core::Rank;

/// A plan by which a whole variable is kept equal by one node.
pub(super) fn whole(variable: &Variable, node: Node) -> Plan {
    let partitioning = Partitioning::whole(variable);
    Plan { variable: variable.name.clone(), shape: variable.shape.clone(), partitioning, nodes: vec![node] }
}

/// Groups of so many variables, counted from the last, whose gradients are the first to come.
pub(super) fn in_chunks(model: &Model, chunk: usize) -> Vec<Plan> {
    let last = model.variables.len().saturating_sub(1);
    let group = |at: usize| ((last - at) / chunk) as u32;
    model.variables.iter().enumerate().map(|(at, variable)| whole(variable, Node::all_reduce(group(at)))).collect()
}

/// Everything summed, as much in a message as latency asks for.
pub(super) fn summed(model: &Model, cluster: &Cluster) -> Vec<Plan> {
    let replicas: Vec<Rank> = cluster.ranks().collect();
    let mut plans = in_chunks(model, 1);
    put_together(&mut plans, &Costs::new(cluster, &replicas));
    plans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_counted_from_the_end() {
        let model = Model::new((0..5).map(|at| Variable::dense(at.to_string(), [1])).collect()).unwrap();
        let groups: Vec<u32> = in_chunks(&model, 2).iter().map(|plan| plan.nodes[0].group().unwrap()).collect();
        assert_eq!(groups, [2, 1, 1, 0, 0]);
    }
}
