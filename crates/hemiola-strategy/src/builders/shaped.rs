//! Strategies that use the shape of a cluster, or cut variables for all-reduce.
//!
//! Two levels and ordered rings follow the hosts and links of the [`ResourceSpec`]. Shards in
//! proportion follow the bandwidth or the memory of the peers that hold them. On equal peers, one
//! to a host, each is the builder without a shape. **Invariant:** a random partitioning is a
//! function of its seed, the model and the cluster.

use super::all_reduce::whole_variable;
use super::groups::assign_groups;
use super::parameter_server::{SMALL_BYTES, cut_large, longest, partitioned, served};
use crate::cost::CostModel;
use crate::model::{ModelSpec, VariableSpec};
use crate::node::StrategyNode;
use crate::partition::Partitioning;
use crate::resources::ResourceSpec;
use crate::strategy::VariablePlan;
use hemiola_collective_proto::Route;
use hemiola_core::Rank;
use hemiola_core::rng::SplitMix64;

/// Property of a peer in proportion to which it gets a share of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShareBasis {
    /// Bandwidth of its links to the others.
    Bandwidth,
    /// Memory; equal shares if that of a peer is not known.
    Memory,
}

/// Shares are stated in so many parts, so that files stay readable and repeat.
const SHARE_PARTS: f64 = 1000.0;

fn all_ranks(cluster: &ResourceSpec) -> Vec<Rank> {
    cluster.ranks().collect()
}

/// Parameter servers of large variables in shards: updates are summed on each host first, and one
/// peer of each host is the proxy of the others.
pub(super) fn two_level(model: &ModelSpec, cluster: &ResourceSpec) -> Vec<VariablePlan> {
    let mut plans = partitioned(model, cluster, cluster.size());
    if let Some(hosts) = cluster.host_route(&all_ranks(cluster)) {
        for node in plans.iter_mut().flat_map(|plan| &mut plan.nodes) {
            (node.route, node.proxies) = (Some(hosts.clone()), Some(hosts.clone()));
        }
    }
    plans
}

/// All-reduce of everything along a route, in groups.
fn all_reduced_over(model: &ModelSpec, cluster: &ResourceSpec, route: Option<&Route>) -> Vec<VariablePlan> {
    let node = || StrategyNode { route: route.cloned(), ..StrategyNode::all_reduce(0) };
    let mut plans: Vec<VariablePlan> =
        model.variables.iter().map(|variable| whole_variable(variable, node())).collect();
    assign_groups(&mut plans, &CostModel::new(cluster, &all_ranks(cluster)));
    plans
}

/// All-reduce inside each host, then over the first peers of the hosts.
pub(super) fn two_level_all_reduce(model: &ModelSpec, cluster: &ResourceSpec) -> Vec<VariablePlan> {
    let hosts = cluster.host_route(&all_ranks(cluster));
    all_reduced_over(model, cluster, hosts.as_ref())
}

/// All-reduce in the order of hosts and fast links.
pub(super) fn ordered_ring(model: &ModelSpec, cluster: &ResourceSpec) -> Vec<VariablePlan> {
    let ranks = all_ranks(cluster);
    let order = cluster.ring_order(&ranks);
    let route = (order != ranks).then(|| Route::direct(order));
    all_reduced_over(model, cluster, route.as_ref())
}

/// Plan whose shards are all-reduced, each in a group of its own.
fn all_reduced_shards(variable: &VariableSpec, partitioning: Partitioning, next_group: &mut u32) -> VariablePlan {
    let node = |_| {
        *next_group += 1;
        StrategyNode::all_reduce(*next_group - 1)
    };
    let nodes = (0..partitioning.shards()).map(node).collect();
    VariablePlan { variable: variable.name.clone(), shape: variable.shape.clone(), partitioning, nodes }
}

/// Large variables are cut along their longest dimension, and all shards are all-reduced.
pub(super) fn partitioned_all_reduce(model: &ModelSpec, most: usize) -> Vec<VariablePlan> {
    let mut group = 0;
    // Groups are numbered from the last variable, whose gradient comes first.
    let plans = model.variables.iter().rev();
    let plans = plans.map(|variable| all_reduced_shards(variable, cut_large(variable, most), &mut group));
    let mut plans: Vec<VariablePlan> = plans.collect();
    plans.reverse();
    plans
}

/// As [`partitioned_all_reduce`], along a random dimension into a random number of shards
/// (`AutoDist`'s `RandomAxisPartitionAR`).
pub(super) fn random_axis(model: &ModelSpec, most: usize, seed: u64) -> Vec<VariablePlan> {
    let (mut group, mut random) = (0, SplitMix64::new(seed));
    let cut = |variable: &VariableSpec, random: &mut SplitMix64| {
        let extents = variable.shape.iter().enumerate();
        let axes: Vec<usize> = extents.filter(|(_, extent)| **extent > 1).map(|(dimension, _)| dimension).collect();
        if axes.is_empty() || variable.bytes() < SMALL_BYTES {
            return Partitioning::whole(variable);
        }
        let axis = axes[random.below(axes.len())];
        Partitioning::along(variable, axis, 2 + random.below(most.max(2) - 1))
    };
    model
        .variables
        .iter()
        .map(|variable| {
            let partitioning = cut(variable, &mut random);
            all_reduced_shards(variable, partitioning, &mut group)
        })
        .collect()
}

/// Large variables are cut along their longest dimension, and each peer serves a share in
/// proportion to its bandwidth or memory. Small variables are served whole, by the peer that is the
/// furthest below its share.
pub(super) fn proportional(model: &ModelSpec, cluster: &ResourceSpec, by: ShareBasis) -> Vec<VariablePlan> {
    let weights = weights(cluster, by);
    let mut bytes = vec![0.0; cluster.size()];
    let ranks = all_ranks(cluster);
    let mut plans: Vec<Option<VariablePlan>> = vec![None; model.variables.len()];
    let mut order: Vec<usize> = (0..model.variables.len()).collect();
    order.sort_by_key(|index| (std::cmp::Reverse(model.variables[*index].bytes()), *index));
    for index in order {
        let variable = &model.variables[index];
        let large = variable.bytes() >= SMALL_BYTES && cluster.size() > 1;
        let cut = large.then(|| Partitioning::in_shares(variable, longest(variable), &weights)).flatten();
        let (partitioning, owners) = if let Some(partitioning) = cut {
            (partitioning, ranks.clone())
        } else {
            let load = |peer: &Rank| bytes[peer.index()] / weights[peer.index()] as f64;
            let owner = ranks.iter().copied().min_by(|one, other| load(one).total_cmp(&load(other)));
            (Partitioning::whole(variable), vec![owner.unwrap_or(Rank::ROOT)])
        };
        for (shard, owner) in partitioning.cut(&variable.shape).iter().zip(&owners) {
            bytes[owner.index()] += 4.0 * shard.elements() as f64;
        }
        plans[index] = Some(served(variable, partitioning, owners));
    }
    plans.into_iter().flatten().collect()
}

/// Weight of each peer, of at least 1, so that every peer can hold an element.
fn weights(cluster: &ResourceSpec, by: ShareBasis) -> Vec<u64> {
    let of = |rank: Rank| match by {
        ShareBasis::Bandwidth => Some(cluster.serving_bandwidth(rank)),
        ShareBasis::Memory => cluster.peers[rank.index()].memory.map(|bytes| bytes as f64),
    };
    let known: Option<Vec<f64>> = cluster.ranks().map(of).collect();
    let known = known.unwrap_or_else(|| vec![1.0; cluster.size()]);
    let sum: f64 = known.iter().sum();
    let parts = |weight: &f64| ((SHARE_PARTS * weight / sum.max(f64::MIN_POSITIVE)).round() as u64).max(1);
    known.iter().map(parts).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::ShardPlacement;
    use crate::resources::{LinkOverride, LinkSpec, PeerSpec};
    use crate::{StrategyBuilder, Synchronizer};

    fn model() -> ModelSpec {
        let shapes: [&[usize]; 4] = [&[600, 1000], &[64, 32, 3, 3], &[64], &[3, 40_000]];
        let variables =
            shapes.iter().enumerate().map(|(index, shape)| VariableSpec::dense(format!("v{index}"), *shape));
        ModelSpec::new(variables.collect()).unwrap()
    }

    fn two_hosts() -> ResourceSpec {
        let mut cluster = ResourceSpec::uniform(5, LinkSpec::bits(1e9, 1e-4));
        cluster.within_host = LinkSpec::bits(4e10, 5e-6);
        cluster.peers = ["a", "a", "a", "b", "b"].map(PeerSpec::on).to_vec();
        cluster
    }

    #[test]
    fn two_levels_follow_hosts_and_are_cheaper_there() {
        let (model, cluster) = (model(), two_hosts());
        let ranks: Vec<Rank> = cluster.ranks().collect();
        let seconds = |builder: StrategyBuilder, cluster: &ResourceSpec| {
            CostModel::new(cluster, &ranks).strategy(&model, &builder.build(&model, cluster).unwrap()).seconds()
        };
        let strategy = StrategyBuilder::TwoLevel.build(&model, &cluster).unwrap();
        let nodes: Vec<&StrategyNode> = strategy.plans.iter().flat_map(|plan| &plan.nodes).collect();
        assert!(nodes.iter().all(|node| node.route.as_ref().unwrap().to_string() == "0 1 2 | 3 4"));
        for (two_level, flat) in [
            (StrategyBuilder::TwoLevel, StrategyBuilder::Partitioned { most: None }),
            (StrategyBuilder::TwoLevelAllReduce, StrategyBuilder::AllReduce { chunk: None }),
        ] {
            assert!(seconds(two_level, &cluster) < 0.8 * seconds(flat, &cluster), "{two_level}");
            let alone = ResourceSpec::uniform(5, LinkSpec::bits(1e9, 1e-4));
            assert_eq!(two_level.build(&model, &alone), flat.build(&model, &alone), "one peer on each host");
        }
        // The default builder takes two levels where they are cheaper.
        assert!(seconds(StrategyBuilder::Cheapest, &cluster) <= 1.02 * seconds(StrategyBuilder::TwoLevel, &cluster));
    }

    #[test]
    fn a_ring_avoids_slow_links() {
        let mut cluster = ResourceSpec::uniform(4, LinkSpec::bits(1e9, 1e-4));
        cluster.pairs = vec![LinkOverride { one: Rank::new(0), other: Rank::new(1), link: LinkSpec::bits(1e7, 1e-4) }];
        let strategy = StrategyBuilder::OrderedRing.build(&model(), &cluster).unwrap();
        let route = strategy.plans[0].nodes[0].route.clone().unwrap();
        assert_eq!(route.to_string(), "0 2 1 3");
    }

    #[test]
    fn shares_follow_bandwidth_and_memory() {
        let mut cluster = ResourceSpec::uniform(3, LinkSpec::bits(1e9, 1e-4));
        let shares = |cluster: &ResourceSpec, by| {
            let strategy = StrategyBuilder::Proportional { by }.build(&model(), cluster).unwrap();
            let mut bytes = [0; 3];
            for (shard, node) in strategy.plans.iter().flat_map(VariablePlan::shards) {
                let ShardPlacement::On(owner) = node.placement else { panic!("{node:?}") };
                bytes[owner.index()] += shard.elements();
            }
            let all: u64 = bytes.iter().sum();
            bytes.map(|bytes| (200 * bytes + all) / (2 * all))
        };
        assert_eq!(shares(&cluster, ShareBasis::Bandwidth), [33, 33, 33]);
        assert_eq!(shares(&cluster, ShareBasis::Memory), [33, 33, 33], "unknown memory");
        for (peer, memory) in cluster.peers.iter_mut().zip([2_u64 << 30, 2 << 30, 4 << 30]) {
            peer.memory = Some(memory);
        }
        assert_eq!(shares(&cluster, ShareBasis::Memory), [25, 25, 50]);
        for other in [1, 2] {
            let link = LinkSpec::bits(1e8, 1e-4);
            cluster.pairs.push(LinkOverride { one: Rank::ROOT, other: Rank::new(other), link });
        }
        // Peer 0 has a tenth of a gigabit, each of the others 0.55 on the mean.
        assert_eq!(shares(&cluster, ShareBasis::Bandwidth), [8, 46, 46]);
    }

    #[test]
    fn random_axes_depend_on_the_seed_only() {
        let cluster = ResourceSpec::uniform(4, LinkSpec::bits(1e9, 1e-4));
        let build = |seed| StrategyBuilder::RandomAxis { seed }.build(&model(), &cluster).unwrap();
        assert_eq!(build(3), build(3));
        let cuts: Vec<Vec<usize>> = (0..20).map(|seed| build(seed).plans[1].partitioning.pieces.clone()).collect();
        for axis in 0..4 {
            assert!(cuts.iter().any(|cut| cut[axis] > 1), "dimension {axis} is cut for some seed: {cuts:?}");
        }
        let nodes = build(0).plans.into_iter().flat_map(|plan| plan.nodes);
        assert!(nodes.into_iter().all(|node| matches!(node.synchronizer, Synchronizer::AllReduce { .. })));
    }
}
