//! Cheapest strategy: for each variable the method with the least predicted time.
//!
//! Variables are decided one after the other, the largest first: each takes the candidate that
//! minimizes the time of everything decided so far, or of equals the one that is the cheapest
//! alone. Then all-reduced variables are [grouped](super::groups).

use super::all_reduce::whole_variable;
use super::groups::assign_groups;
use super::hybrid::rows;
use super::parameter_server::{cut_large, served};
use crate::cost::{CostModel, NetworkLoad};
use crate::model::{GradientKind, ModelSpec, VariableSpec};
use crate::node::StrategyNode;
use crate::resources::ResourceSpec;
use crate::strategy::VariablePlan;
use hemiola_core::Rank;

/// All candidates for a variable; each of them keeps copies exactly equal. With several peers on a
/// host there are those in two levels, too.
pub(crate) fn candidates(variable: &VariableSpec, cluster: &ResourceSpec) -> Vec<VariablePlan> {
    let peers = cluster.size();
    let mut plans = vec![whole_variable(variable, StrategyNode::all_reduce(0))];
    let hosts = cluster.host_route(&cluster.ranks().collect::<Vec<_>>());
    if let Some(hosts) = &hosts {
        plans.push(whole_variable(variable, StrategyNode::all_reduce(0).over(hosts.clone())));
    }
    match variable.gradient {
        GradientKind::Product { pairs } => {
            plans.push(whole_variable(variable, StrategyNode::sufficient_factors(pairs)));
        }
        GradientKind::Rows { .. } => plans.push(rows(variable, cluster)),
        GradientKind::Dense => {}
    }
    let partitioning = cut_large(variable, peers);
    if !partitioning.is_whole() {
        let owners: Vec<Rank> = Rank::all(partitioning.shards()).collect();
        if let Some(hosts) = &hosts {
            let mut plan = served(variable, partitioning.clone(), owners.clone());
            for node in &mut plan.nodes {
                (node.route, node.proxies) = (Some(hosts.clone()), Some(hosts.clone()));
            }
            plans.push(plan);
        }
        plans.push(served(variable, partitioning, owners));
    }
    plans.extend(Rank::all(peers).map(|peer| whole_variable(variable, StrategyNode::parameter_server(peer))));
    plans
}

/// Load of a plan alone.
pub(crate) fn price(costs: &CostModel<'_>, variable: &VariableSpec, plan: &VariablePlan) -> NetworkLoad {
    let shards = plan.shards().map(|(shard, node)| costs.node(variable, &shard, node));
    shards.fold(costs.empty(), |sum, load| costs.combined(&sum, &load))
}

pub(super) fn build(model: &ModelSpec, cluster: &ResourceSpec) -> Vec<VariablePlan> {
    let replicas: Vec<Rank> = cluster.ranks().collect();
    let costs = CostModel::new(cluster, &replicas);
    let mut order: Vec<usize> = (0..model.variables.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(model.variables[*index].bytes()));
    let mut plans: Vec<Option<VariablePlan>> = vec![None; model.variables.len()];
    let mut so_far = costs.empty();
    for index in order {
        let variable = &model.variables[index];
        let priced = candidates(variable, cluster).into_iter().map(|plan| {
            let alone = price(&costs, variable, &plan);
            let both = costs.combined(&so_far, &alone);
            (both.seconds(), alone.seconds(), both, plan)
        });
        let best = priced.min_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
        let (_, _, both, plan) = best.expect("a variable can always be all-reduced");
        so_far = both;
        plans[index] = Some(plan);
    }
    let mut plans: Vec<VariablePlan> = plans.into_iter().map(|plan| plan.expect("every variable is decided")).collect();
    assign_groups(&mut plans, &costs);
    plans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StrategyBuilder;
    use crate::node::Synchronizer;
    use crate::resources::LinkSpec;

    /// Variables of VGG-19: sixteen convolutions and three linear layers.
    fn vgg(batch: u64) -> ModelSpec {
        let channels = [3, 64, 64, 128, 128, 256, 256, 256, 256, 512, 512, 512, 512, 512, 512, 512, 512];
        let mut variables: Vec<VariableSpec> = (0..16)
            .map(|index| VariableSpec::dense(format!("conv{index}"), [channels[index + 1], channels[index], 3, 3]))
            .collect();
        for (index, (rows, columns)) in [(25_088, 4096), (4096, 4096), (4096, 1000)].into_iter().enumerate() {
            variables.push(VariableSpec::linear(format!("linear{index}"), [rows, columns], batch));
        }
        ModelSpec::new(variables).unwrap()
    }

    #[test]
    fn large_linear_layers_go_by_factors_and_the_rest_does_not() {
        let cluster = ResourceSpec::uniform(8, LinkSpec::bits(1e10, 5e-5));
        let plans = build(&vgg(32), &cluster);
        let by_factors: Vec<&str> = plans
            .iter()
            .filter(|plan| plan.nodes[0].synchronizer == Synchronizer::SufficientFactors)
            .map(|plan| plan.variable.as_str())
            .collect();
        assert_eq!(by_factors, ["linear0", "linear1", "linear2"]);
        assert!(plans[..16].iter().all(|plan| plan.partitioning.is_whole() || plan.nodes.len() == 8));
        // With many pairs the matrices are cheaper.
        assert!(
            build(&vgg(4096), &cluster)
                .iter()
                .all(|plan| plan.nodes[0].synchronizer != Synchronizer::SufficientFactors)
        );
    }

    #[test]
    fn no_builder_is_cheaper() {
        let link = LinkSpec::bits(1e9, 1e-4);
        let wide = ModelSpec::new(vec![
            VariableSpec::embedding("users", [100_000, 64], 512),
            VariableSpec::embedding("items", [20_000, 64], 512),
            VariableSpec::linear("hidden", [128, 256], 512),
            VariableSpec::dense("bias", [256]),
        ])
        .unwrap();
        for (name, model) in [("vgg", vgg(32)), ("wide", wide)] {
            for peers in [2, 4, 8] {
                let cluster = ResourceSpec::uniform(peers, link);
                let replicas: Vec<Rank> = cluster.ranks().collect();
                let costs = CostModel::new(&cluster, &replicas);
                let seconds = |builder: StrategyBuilder| {
                    costs.strategy(&model, &builder.build(&model, &cluster).unwrap()).seconds()
                };
                let cheapest = seconds(StrategyBuilder::Cheapest);
                for builder in StrategyBuilder::ALL {
                    let other = seconds(builder);
                    assert!(cheapest <= 1.02 * other, "{name} on {peers}: cheapest {cheapest}, {builder} {other}");
                }
            }
        }
    }
}
