//! For each variable what is predicted to take the least time.
//!
//! Variables are decided one after the other, the largest first: each takes the candidate with which everything decided so far takes the least time, or of equals the one that is the cheapest by
//! itself. Then those that are summed are [put together](super::groups).

use super::collective::whole;
use super::groups::put_together;
use super::hybrid::rows;
use super::served::cut_large;
use crate::cluster::Cluster;
use crate::cost::{Costs, Load};
use crate::model::{Gradient, Model, Variable};
use crate::node::Node;
use crate::strategy::Plan;
use hemiola_core::Rank;

/// Every way that is considered for a variable: all of them keep copies exactly equal.
pub(crate) fn candidates(variable: &Variable, cluster: &Cluster) -> Vec<Plan> {
    let peers = cluster.size();
    let mut plans = vec![whole(variable, Node::all_reduce(0))];
    match variable.gradient {
        Gradient::Product { pairs } => plans.push(whole(variable, Node::factors(pairs))),
        Gradient::Rows { .. } => plans.push(rows(variable, cluster)),
        Gradient::Dense => {}
    }
    let partitioning = cut_large(variable, peers);
    if !partitioning.is_whole() {
        let nodes = Rank::all(partitioning.shards()).map(Node::served).collect();
        plans.push(Plan { variable: variable.name.clone(), shape: variable.shape.clone(), partitioning, nodes });
    }
    plans.extend(Rank::all(peers).map(|peer| whole(variable, Node::served(peer))));
    plans
}

/// What a plan costs by itself.
pub(crate) fn price(costs: &Costs<'_>, variable: &Variable, plan: &Plan) -> Load {
    let shards = plan.shards().map(|(shard, node)| costs.node(variable, &shard, node));
    shards.fold(costs.nothing(), |sum, load| costs.together(&sum, &load))
}

pub(super) fn build(model: &Model, cluster: &Cluster) -> Vec<Plan> {
    let replicas: Vec<Rank> = cluster.ranks().collect();
    let costs = Costs::new(cluster, &replicas);
    let mut order: Vec<usize> = (0..model.variables.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(model.variables[*at].bytes()));
    let mut plans: Vec<Option<Plan>> = vec![None; model.variables.len()];
    let mut so_far = costs.nothing();
    for at in order {
        let variable = &model.variables[at];
        let priced = candidates(variable, cluster).into_iter().map(|plan| {
            let alone = price(&costs, variable, &plan);
            let both = costs.together(&so_far, &alone);
            (both.seconds(), alone.seconds(), both, plan)
        });
        let best = priced.min_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
        let (_, _, both, plan) = best.expect("a variable can always be summed");
        so_far = both;
        plans[at] = Some(plan);
    }
    let mut plans: Vec<Plan> = plans.into_iter().map(|plan| plan.expect("all are decided")).collect();
    put_together(&mut plans, &costs);
    plans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Builder;
    use crate::cluster::Link;
    use crate::node::Synchronizer;

    /// Variables of VGG-19: sixteen convolutions and three linear layers.
    fn vgg(batch: u64) -> Model {
        let channels = [3, 64, 64, 128, 128, 256, 256, 256, 256, 512, 512, 512, 512, 512, 512, 512, 512];
        let mut variables: Vec<Variable> =
            (0..16).map(|at| Variable::dense(format!("conv{at}"), [channels[at + 1], channels[at], 3, 3])).collect();
        for (at, (rows, columns)) in [(25_088, 4096), (4096, 4096), (4096, 1000)].into_iter().enumerate() {
            variables.push(Variable::linear(format!("linear{at}"), rows, columns, batch));
        }
        Model::new(variables).unwrap()
    }

    #[test]
    fn large_linear_layers_go_by_factors_and_the_rest_does_not() {
        let cluster = Cluster::uniform(8, Link::bits(1e10, 5e-5));
        let plans = build(&vgg(32), &cluster);
        let by_factors: Vec<&str> = plans
            .iter()
            .filter(|plan| plan.nodes[0].synchronizer == Synchronizer::Factors)
            .map(|plan| plan.variable.as_str())
            .collect();
        assert_eq!(by_factors, ["linear0", "linear1", "linear2"]);
        assert!(plans[..16].iter().all(|plan| plan.partitioning.is_whole() || plan.nodes.len() == 8));
        // With many pairs the matrices are cheaper.
        assert!(build(&vgg(4096), &cluster).iter().all(|plan| plan.nodes[0].synchronizer != Synchronizer::Factors));
    }

    #[test]
    fn no_builder_is_cheaper() {
        let link = Link::bits(1e9, 1e-4);
        let wide = Model::new(vec![
            Variable::embedding("users", 100_000, 64, 512),
            Variable::embedding("items", 20_000, 64, 512),
            Variable::linear("hidden", 128, 256, 512),
            Variable::dense("bias", [256]),
        ])
        .unwrap();
        for (name, model) in [("vgg", vgg(32)), ("wide", wide)] {
            for peers in [2, 4, 8] {
                let cluster = Cluster::uniform(peers, link);
                let replicas: Vec<Rank> = cluster.ranks().collect();
                let costs = Costs::new(&cluster, &replicas);
                let seconds =
                    |builder: Builder| costs.strategy(&model, &builder.build(&model, &cluster).unwrap()).seconds();
                let cheapest = seconds(Builder::Cheapest);
                for builder in Builder::ALL {
                    let other = seconds(builder);
                    assert!(cheapest <= 1.02 * other, "{name} on {peers}: cheapest {cheapest}, {builder} {other}");
                }
            }
        }
    }
}
