//! Strategies that all-reduce every variable.

use super::groups::assign_groups;
use crate::cost::CostModel;
use crate::model::{ModelSpec, VariableSpec};
use crate::node::StrategyNode;
use crate::partition::Partitioning;
use crate::resources::ResourceSpec;
use crate::strategy::VariablePlan;
use hemiola_core::Rank;

/// Plan that synchronizes a whole variable by one node.
pub(super) fn whole_variable(variable: &VariableSpec, node: StrategyNode) -> VariablePlan {
    let partitioning = Partitioning::whole(variable);
    VariablePlan { variable: variable.name.clone(), shape: variable.shape.clone(), partitioning, nodes: vec![node] }
}

/// Groups of a fixed number of variables, counted from the last variable, whose gradient comes
/// first.
pub(super) fn fixed_groups(model: &ModelSpec, chunk: usize) -> Vec<VariablePlan> {
    let last = model.variables.len().saturating_sub(1);
    let group = |index: usize| ((last - index) / chunk) as u32;
    model
        .variables
        .iter()
        .enumerate()
        .map(|(index, variable)| whole_variable(variable, StrategyNode::all_reduce(group(index))))
        .collect()
}

/// All-reduces everything, in groups whose size is derived from latency.
pub(super) fn all_reduced(model: &ModelSpec, cluster: &ResourceSpec) -> Vec<VariablePlan> {
    let replicas: Vec<Rank> = cluster.ranks().collect();
    let mut plans = fixed_groups(model, 1);
    assign_groups(&mut plans, &CostModel::new(cluster, &replicas));
    plans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_counted_from_the_end() {
        let model = ModelSpec::new((0..5).map(|index| VariableSpec::dense(index.to_string(), [1])).collect()).unwrap();
        let groups: Vec<u32> = fixed_groups(&model, 2).iter().map(|plan| plan.nodes[0].group().unwrap()).collect();
        assert_eq!(groups, [2, 1, 1, 0, 0]);
    }
}
