//! One strategy of every mode, for tests of bad conditions.

use crate::linear_model::spec;
use hemiola_collective::{Compression, GossipSync, Route, Topology};
use hemiola_core::Rank;
use hemiola_strategy::{
    GossipPlan, LinkSpec, Partitioning, ResourceSpec, Strategy, StrategyBuilder, StrategyNode, TableConsistency,
    VariablePlan, VariableSpec,
};

/// Names of all modes.
pub(crate) const MODES: [&str; 16] = [
    "all-reduce",
    "all-reduce one bit",
    "balanced",
    "poseidon",
    "routed all-reduce",
    "two-level",
    "proxies",
    "subset",
    "subset bsp",
    "uneven",
    "bsp",
    "ssp:2",
    "async",
    "notify-ack",
    "gossip-bsp",
    "gossip-async",
];

/// Modes in which a step sums over all peers, so that all copies are equal after it.
pub(crate) fn is_synchronous(mode: &str) -> bool {
    !["ssp:2", "async", "notify-ack", "gossip-bsp", "gossip-async"].contains(&mode)
}

/// Strategy of a mode for the linear model. At least two peers.
pub(crate) fn mode(name: &str, peers: usize) -> Strategy {
    let network = ResourceSpec::uniform(peers, LinkSpec::bits(1e9, 1e-4));
    let backwards: Vec<Rank> = Rank::all(peers).rev().collect();
    let groups = || Route::new(backwards.chunks(2).map(<[Rank]>::to_vec).collect());
    let last = Rank::new(peers as u32 - 1);
    let server = || StrategyNode::parameter_server(last);
    let all: Vec<Rank> = Rank::all(peers).collect();
    let trainers: Vec<Rank> = all.iter().copied().filter(|rank| *rank != last || peers == 1).collect();
    let gossip = |synchronization| StrategyNode::gossip(GossipPlan { topology: Topology::Ring, synchronization });
    let (node, replicas) = match name {
        "all-reduce one bit" => {
            (StrategyNode { compression: Compression::OneBit { block: 4 }, ..StrategyNode::all_reduce(0) }, all)
        }
        "routed all-reduce" => (StrategyNode::all_reduce(0).over(Route::direct(backwards.clone())), all),
        "two-level" => (server().over(groups()).with_proxies(groups()), all),
        "proxies" => (server().with_proxies(groups()), all),
        "subset" => (server(), trainers),
        "subset bsp" => (StrategyNode::table(last, TableConsistency::Bsp), trainers),
        "notify-ack" => (gossip(GossipSync::NotifyAck), all),
        "gossip-bsp" => (gossip(GossipSync::Barrier), all),
        "gossip-async" => (gossip(GossipSync::Asynchronous), all),
        "uneven" => {
            let mut strategy = mode("balanced", peers);
            strategy.plans[0].partitioning = Partitioning { pieces: vec![1, 2], shares: vec![1, 1] };
            strategy.plans[0].nodes = vec![StrategyNode::parameter_server(Rank::ROOT), server()];
            return strategy;
        }
        builder => return builder.parse::<StrategyBuilder>().unwrap().build(&spec(peers), &network).unwrap(),
    };
    let plan = |variable: &VariableSpec| VariablePlan {
        variable: variable.name.clone(),
        shape: variable.shape.clone(),
        partitioning: Partitioning::whole(variable),
        nodes: vec![node.clone()],
    };
    let strategy = Strategy::new(peers, replicas, spec(peers).variables.iter().map(plan).collect());
    strategy.verify(&spec(peers), &network).unwrap_or_else(|error| panic!("{name} on {peers} peers: {error}"));
    strategy
}
